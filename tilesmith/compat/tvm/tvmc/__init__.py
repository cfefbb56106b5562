"""``tvm.driver.tvmc``: compiles and runs models, from Python and from the command line.

model = tvmc.load("model.onnx")
package = tvmc.compile(model, target="llvm")       # a tar with mod.so, mod.json, mod.params
result = tvmc.run(package, device="cpu", fill_mode="random")
print(result.get_output("output_0"), result.format_times())

python -m tilesmith.compat.tvm -m tvm.driver.tvmc compile --target llvm -o m.tar model.onnx
python -m tilesmith.compat.tvm -m tvm.driver.tvmc run --inputs x.npz --print-time m.tar
"""

from tilesmith.support.lazy import lazy_attributes

_HERE = "tilesmith.compat.tvm.tvmc."
_MODULES = (
    "arguments", "autotuner", "compiler", "composite_target", "config_options", "fmtopt",
    "frontends", "main", "micro", "model", "pass_config", "pass_list", "registry", "result_utils",
    "runner", "shape_parser", "target", "tracker", "transform", "workspace_pools",
)  # fmt: skip

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        **{name: _HERE + name for name in _MODULES},
        "TVMCException": _HERE + "errors:TVMCException",
        "TVMCImportError": _HERE + "errors:TVMCImportError",
        "TVMCModel": _HERE + "model:TVMCModel",
        "TVMCPackage": _HERE + "model:TVMCPackage",
        "TVMCResult": _HERE + "model:TVMCResult",
        "compile": _HERE + "compiler:compile_model",
        "load": _HERE + "frontends:load_model",
        "run": _HERE + "runner:run_module",
        "tune": _HERE + "autotuner:tune_model",
    },
)
