"""Compiles models to C, runs the compiled code here, and compares what it computes.

    model = AOTTestModel(module=mod, inputs=inputs, outputs=generate_ref_data(mod, inputs))
    compile_and_run(model, AOTTestRunner(), "c", use_unpacked_api=True)

The C code is that of ``target="c"``; this machine's C compiler compiles it. With the C interface
and the runtime "crt" the program is a process of its own, made of what a board would get; else the
code runs in this process. Projects with a board's runtime around it are not made.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy

from tilesmith.driver import relay_build
from tilesmith.driver.relay_build import as_module, build
from tilesmith.ir import IRModule
from tilesmith.ir.pass_context import PassContext
from tilesmith.relay.backend.board_module import BoardModule
from tilesmith.relay.backend.executor import Executor, Runtime
from tilesmith.relay.frontend import from_tflite
from tilesmith.runtime.devices import cpu
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ConfigError, ExecutionError, UnsupportedError
from tilesmith.support.files import write_atomically
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of
from tilesmith.testing.board_runs import main_program, run_here

__all__ = [
    "AOT_FAILURE_TOKEN", "AOT_SUCCESS_TOKEN", "AOTCompiledTestModel", "AOTDataLinkage",
    "AOTTestModel", "AOTTestRunner", "NP_TYPE_TO_C", "compile_and_run", "compile_models",
    "convert_to_relay", "create_relay_module_and_inputs_from_tflite_file", "generate_ref_data",
    "get_dtype_range", "run_and_check",
]  # fmt: skip

NP_TYPE_TO_C = {
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for bits in (8, 16, 32, 64) for sign in ("", "u")},
    "float32": "float",
    "float64": "double",
}
"""The C type of the elements of an array."""

AOT_SUCCESS_TOKEN = "AOT_TEST_SUCCESS"
AOT_FAILURE_TOKEN = "AOT_TEST_FAILURE"

_TOLERANCE = 1e-3
_CRT, _C = Runtime("crt"), "c"


class AOTTestModel(NamedTuple):
    """A model with inputs, and the outputs that it should give.

    ``output_tolerance``: the largest difference; by default integers agree exactly, floats to
    0.001.
    """

    module: IRModule
    inputs: Mapping[str, numpy.ndarray]
    outputs: Mapping[str, numpy.ndarray]
    output_tolerance: float | int | None = None
    name: str = "default"
    params: Mapping[str, Any] | None = None
    extra_memory_in_bytes: int = 0


class AOTCompiledTestModel(NamedTuple):
    """A model and what it was compiled to."""

    model: AOTTestModel
    executor_factory: Any


class AOTDataLinkage(NamedTuple):
    """The section and alignment of data in a board's memory."""

    section: str
    alignment: int


class AOTTestRunner(NamedTuple):
    """What is around a model's code: options of PassContext, and C statements before and after the
    call. A makefile and its parameters are a board's.
    """

    makefile: str = "default"
    prologue: str = ""
    epilogue: str = ""
    includes: Sequence[str] = ()
    parameters: Mapping[str, str] = {}  # nobody changes it
    pass_config: Mapping[str, Any] = {}


def convert_to_relay(
    tflite_model_buf: bytes, bind_params_by_name: bool = True
) -> tuple[IRModule, dict[str, Any]]:
    """Return the module and the weights of a model of TensorFlow Lite; with
    ``bind_params_by_name``, the weights are constants in the module, too.
    """
    mod, params = from_tflite(tflite_model_buf)
    if bind_params_by_name:
        mod["main"] = relay_build.bind_params_by_name(mod["main"], params)
    return mod, params


def create_relay_module_and_inputs_from_tflite_file(
    tflite_model_file: str, bind_params_by_name: bool = True
) -> tuple[IRModule, dict[str, numpy.ndarray], dict[str, Any]]:
    """Return the module of a file of TensorFlow Lite, random inputs for it, and its weights."""
    mod, params = from_tflite(tflite_model_file)
    random = numpy.random.default_rng(0)
    inputs = {}
    for one in mod["main"].params:
        if one.name_hint in params:
            continue
        dtype = str(one.checked_type.dtype)
        low, high = get_dtype_range(dtype)
        shape = tuple(one.checked_type.concrete_shape)
        inputs[one.name_hint] = (
            random.integers(int(low), int(high), shape, endpoint=True).astype(dtype)
            if numpy.dtype(dtype).kind in "iu"
            else random.standard_normal(shape).astype(dtype)
        )
    if bind_params_by_name:
        mod["main"] = relay_build.bind_params_by_name(mod["main"], params)
    return mod, inputs, params


def _refuse_boards(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if value:
            raise UnsupportedError(
                f"testing.aot: '{name}' is about builds of boards, or programs that are processes "
                "of their own",
                notes=(
                    "leave it out, or compile with interface_api='c', the target 'c' and the "
                    "runtime 'crt'",
                ),
            )


def compile_models(
    models: AOTTestModel | Sequence[AOTTestModel],
    interface_api: str,
    use_unpacked_api: bool,
    workspace_byte_alignment: int = 8,
    constant_byte_alignment: int = 8,
    enable_op_fusion: bool = True,
    pass_config: Mapping[str, Any] | None = None,
    use_runtime_executor: bool = True,
    target: Any = _C,
    workspace_memory_pools: Any = None,
    constant_memory_pools: Any = None,
    schedule_name: str | None = None,
    runtime: Runtime = _CRT,
) -> list[AOTCompiledTestModel]:
    """Compile models ahead of time: for the runtime "crt" with ``interface_api="c"`` and the target
    "c" as for a board, else for this process. Alignments are at least 16.
    """
    _refuse_boards({"schedule_name": schedule_name})
    given = [models] if isinstance(models, AOTTestModel) else list(models)
    executor = Executor(
        "aot", {"interface-api": interface_api, "unpacked-api": bool(use_unpacked_api)}
    )
    disabled = [] if enable_op_fusion else ["FuseOps"]
    is_for_board = (
        runtime.name == "crt" and interface_api == "c" and back_end_of(Target(target)).is_for_boards
    )
    compiled = []
    for model in given:
        with PassContext(opt_level=3, config=dict(pass_config or {}), disabled_pass=disabled):
            factory = build(
                model.module,
                target,
                executor=executor,
                runtime=runtime if is_for_board else Runtime("cpp"),
                workspace_memory_pools=workspace_memory_pools,
                constant_memory_pools=constant_memory_pools,
                params=model.params,
                mod_name=model.name,
            )
        compiled.append(AOTCompiledTestModel(model, factory))
    return compiled


def run_and_check(
    models: Sequence[AOTCompiledTestModel],
    runner: AOTTestRunner,
    interface_api: str,
    debug_calculated_workspaces: bool = False,
    workspace_byte_alignment: int = 8,
    constant_byte_alignment: int = 8,
    data_linkage: AOTDataLinkage | None = None,
    test_dir: str | None = None,
    verbose: bool = False,
    use_workspace_io: bool = False,
    debug_last_error: bool = False,
    checker: Callable[[str], bool] | None = None,
    print_output_on_mismatch: bool = False,
) -> bool:
    """Run compiled models on their inputs; return True, or raise ExecutionError for an output that
    is too far from the expected one. ``test_dir`` gets the C code.
    """
    _refuse_boards(
        {
            "debug_calculated_workspaces": debug_calculated_workspaces,
            "data_linkage": data_linkage,
            "debug_last_error": debug_last_error,
            "makefile": runner.makefile != "default",
            "parameters": runner.parameters,
        }
    )
    around = {
        "use_workspace_io": use_workspace_io,
        "checker": checker,
        "prologue": runner.prologue,
        "epilogue": runner.epilogue,
        "includes": runner.includes,
    }
    for model, factory in models:
        library = factory.get_lib()
        if isinstance(library, BoardModule):
            if use_workspace_io and not library.memory["io"]:
                raise ConfigError(
                    f"testing.aot: inputs and outputs of '{model.name}' are not in its workspace",
                    notes=("compile it with the option tir.usmp.use_workspace_io",),
                )
            main = main_program(library, runner.includes, runner.prologue, runner.epilogue)
            given, printed = run_here(library, model.inputs, test_dir, main)
            if len(given) != len(model.outputs):
                raise ExecutionError(
                    f"the model has {len(given)} outputs, {len(model.outputs)} are named",
                    notes=(", ".join(model.outputs),),
                )
            found = OrderedDict(zip(model.outputs, given))
            _check_printed(model, printed, checker)
        else:
            _refuse_boards(around)
            if test_dir is not None:
                write_atomically(Path(test_dir) / f"{model.name}.c", library.get_source())
            found = _outputs(factory, model.inputs, list(model.outputs))
        if test_dir is not None and verbose:
            print(f"{model.name}: {test_dir}")
        for name, expected in model.outputs.items():
            _check(model, name, found[name], numpy.asarray(expected), print_output_on_mismatch)
    return True


def _check_printed(
    model: AOTTestModel, printed: str, checker: Callable[[str], bool] | None
) -> None:
    if checker is not None and not checker(printed):
        raise ExecutionError(
            f"{AOT_FAILURE_TOKEN}: the checker refuses what '{model.name}' prints", notes=(printed,)
        )


def _check(
    model: AOTTestModel, name: str, found: numpy.ndarray, expected: numpy.ndarray, is_shown: bool
) -> None:
    is_float = DataType(expected.dtype).is_float
    tolerance = model.output_tolerance
    if tolerance is None:
        tolerance = _TOLERANCE if is_float else 0
    difference: Any = "another shape"
    if found.shape == expected.shape:
        wide = numpy.float64 if is_float else object  # Python's integers do not overflow
        difference = numpy.abs(found.astype(wide) - expected.astype(wide)).max(initial=0)
        if difference <= tolerance:
            return
    raise ExecutionError(
        f"{AOT_FAILURE_TOKEN}: the output '{name}' of '{model.name}' is wrong by {difference}",
        notes=(f"got {found}", f"expected {expected}") if is_shown else (),
    )


def compile_and_run(
    models: AOTTestModel | Sequence[AOTTestModel],
    runner: AOTTestRunner,
    interface_api: str,
    use_unpacked_api: bool,
    debug_calculated_workspaces: bool = False,
    workspace_byte_alignment: int = 8,
    constant_byte_alignment: int = 8,
    enable_op_fusion: bool = True,
    data_linkage: AOTDataLinkage | None = None,
    use_runtime_executor: bool = True,
    target: str = "c",
    target_opts: Mapping[str, Any] | None = None,
    test_dir: str | None = None,
    verbose: bool = False,
    schedule_name: str | None = None,
    debug_last_error: bool = False,
    checker: Callable[[str], bool] | None = None,
    print_output_on_mismatch: bool = False,
    runtime: Runtime = _CRT,
) -> bool:
    """Compile models ahead of time, run them, and compare; see `compile_models` and
    `run_and_check`. ``target_opts`` are options of the target by name.
    """
    words = [str(target), *[f"-{name}={value}" for name, value in (target_opts or {}).items()]]
    compiled = compile_models(
        models, interface_api, use_unpacked_api, workspace_byte_alignment, constant_byte_alignment,
        enable_op_fusion, runner.pass_config, use_runtime_executor, " ".join(words),
        schedule_name=schedule_name, runtime=runtime,
    )  # fmt: skip
    return run_and_check(
        compiled, runner, interface_api, debug_calculated_workspaces, workspace_byte_alignment,
        constant_byte_alignment, data_linkage, test_dir, verbose, False, debug_last_error, checker,
        print_output_on_mismatch,
    )  # fmt: skip


def get_dtype_range(dtype: str) -> tuple[float, float]:
    """Return the least and the largest number of a dtype."""
    kind = numpy.dtype(dtype)
    info: Any = numpy.finfo(kind) if kind.kind == "f" else numpy.iinfo(kind)
    return info.min, info.max


def generate_ref_data(
    mod: Any,
    input_data: Mapping[str, Any],
    params: Mapping[str, Any] | None = None,
    target: Any = "llvm",
) -> OrderedDict[str, numpy.ndarray]:
    """Return what a model gives for inputs: "output", or "output", "output2", … of several; or by
    the names in the attribute ``output_tensor_names`` of ``main``.
    """
    module = as_module(mod)
    main: Any = module["main"]
    factory = build(module, target, params=params)
    names = main.attrs.get("output_tensor_names")
    return _outputs(factory, input_data, None if names is None else [str(one) for one in names])


def _outputs(
    factory: Any, inputs: Mapping[str, Any], names: list[str] | None
) -> OrderedDict[str, numpy.ndarray]:
    """Run a program once; return its outputs by name, in order."""
    module = factory[factory.libmod_name](cpu())
    module.set_input(inputs)
    module.run()
    count = module.get_num_outputs()
    if names is None:
        names = ["output" if place == 0 else f"output{place + 1}" for place in range(count)]
    if len(names) != count:
        raise ExecutionError(
            f"the model has {count} outputs, {len(names)} are named", notes=(", ".join(names),)
        )
    return OrderedDict((name, module.get_output(place).numpy()) for place, name in enumerate(names))
