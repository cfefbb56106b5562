"""Tools that look names up in modules without asking them: pytest, pickle, inspect, editors."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest


def run(code: str, *arguments: str, folder: str | None = None) -> str:
    command = [sys.executable, *(["-c", textwrap.dedent(code)] if code else []), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


INSTALL = "from tilesmith.compat.tvm import install; install()\n"


def test_pytest_loads_the_plugin(tmp_path):
    (tmp_path / "conftest.py").write_text(INSTALL + 'pytest_plugins = ["tvm.testing.plugin"]\n')
    (tmp_path / "test_program.py").write_text(
        "import tvm.testing\n"
        "size = tvm.testing.parameter(1, 2)\n"
        '@tvm.testing.parametrize_targets("llvm", "c")\n'
        "def test_program(target, dev, size):\n"
        '    assert target in ("llvm", "c") and dev.device_type == 1\n'
    )
    options = ("-q", "-W", "error", "-p", "no:cacheprovider", "-p", "no:xdist")
    assert "4 passed" in run("", "-m", "pytest", *options, folder=str(tmp_path))
    (tmp_path / "conftest.py").unlink()
    alias = ("-m", "tilesmith.compat.tvm", "-m", "pytest", "-p", "tvm.testing.plugin")
    assert "4 passed" in run("", *alias, *options, folder=str(tmp_path))


@pytest.mark.parametrize(
    ("imported", "module", "name"),
    [
        ("tvm.te", "tvm.te", "compute"),
        ("tvm.tir", "tvm", "tir"),
        ("tvm.tir", "tvm.tir", "Var"),
        ("tvm.tir.expr", "tvm.tir.expr", "Add"),
        ("tvm.script.parser", "tvm.script.parser", "prim_func"),
        ("tvm.topi.nn.softmax", "tvm.topi.nn.softmax", "log_softmax"),
        ("tvm.topi.nn.conv2d", "tvm.topi.nn.conv2d", "conv2d_nchw"),
        ("tvm.testing.plugin", "tvm.testing.plugin", "pytest_configure"),
    ],
)
def test_static_look_up(imported, module, name):
    run(
        f"""
        {INSTALL}
        import inspect, sys
        import {imported}
        module = sys.modules["{module}"]
        assert inspect.getattr_static(module, "{name}") is getattr(module, "{name}")
        """
    )


def test_names_that_load_late_are_there_when_they_are_listed_or_used():
    run(
        f"""
        {INSTALL}
        import inspect, sys
        import tvm
        assert "tilesmith.relax" not in sys.modules and "tilesmith.tir" not in sys.modules
        assert tvm.build is inspect.getattr_static(tvm, "build")
        listed = dir(tvm.tir)
        assert {{"Schedule", "generic", "stmt_functor", "transform"}} <= set(listed)
        for name in listed:
            inspect.getattr_static(tvm.tir, name)
        """
    )


def test_a_module_does_not_hide_the_function_of_its_name():
    run(
        f"""
        {INSTALL}
        import sys
        import tvm.topi.nn.softmax
        import tvm.topi.einsum
        from tvm.topi.nn.softmax import log_softmax
        import tilesmith
        assert tvm.topi.nn.softmax is tilesmith.topi.nn.softmax
        assert tvm.topi.einsum is tilesmith.topi.einsum
        assert sys.modules["tvm.topi.nn.softmax"].log_softmax is log_softmax
        """
    )


def test_module_paths_of_operators():
    """Modules of users' programs that lie in other files here, or in one for several."""
    run(
        f"""
        {INSTALL}
        import importlib
        rows = {{
            "nn.batch_matmul": ["batch_matmul", "batch_matmul_legalize"],
            "nn.bitserial_conv2d": ["bitserial_conv2d_nchw", "bitserial_conv2d_legalize"],
            "nn.bitserial_dense": ["bitserial_dense"],
            "nn.bitserial_util": ["bitpack", "binary_op_multiplier"],
            "nn.conv2d": ["conv2d_NCHWc", "unpack_NCHWc_to_nchw", "conv2d_winograd_nhwc",
                          "Workload", "conv2d_alter_layout"],
            "nn.conv2d_transpose": ["declaration_conv2d_transpose_impl", "layout_transform"],
            "nn.conv3d": ["conv3d_winograd_weight_transform"],
            "nn.conv3d_transpose": ["conv3d_transpose_ncdhw_preprocess"],
            "nn.dense": ["dense_pack", "dense_alter_layout"],
            "nn.depthwise_conv2d": ["depthwise_conv2d_NCHWc", "Workload"],
            "nn.pooling": ["POOL_TYPE_CODE", "pool_grad"],
            "nn.qnn": ["SQNN_DTYPE_TO_CODE", "simulated_quantize", "bias_add_legalize"],
            "nn.sparse": ["sparse_dense", "sparse_dense_alter_layout"],
            "sparse.csrmm": ["csrmm", "csrmm_default"],
            "sparse.csrmv": ["csrmv"],
            "sparse.dense": ["dense_si", "dense_sw"],
            "sparse.utils": ["random_bsr_matrix"],
        }}
        for path, names in rows.items():
            module = importlib.import_module("tvm.topi." + path)
            for name in names:
                assert getattr(module, name) is not None, (path, name)
        from tvm.topi.nn import conv2d
        from tvm.topi.nn.conv2d import Workload
        from tvm.topi.nn.depthwise_conv2d import Workload as Depthwise
        assert callable(conv2d) and set(Workload._fields) - set(Depthwise._fields) == {{"groups"}}
        """
    )


def test_pickled_by_name():
    out = run(
        f"""
        {INSTALL}
        import importlib, inspect, pickle
        failed = []
        for path in ("tvm", "tvm.te", "tvm.tir", "tvm.tir.transform", "tvm.topi", "tvm.topi.nn",
                     "tvm.relax", "tvm.relax.op", "tvm.relax.op.nn", "tvm.relax.transform",
                     "tvm.ir", "tvm.runtime", "tvm.target", "tvm.script.parser.core.parser",
                     "tvm.script.tir"):
            module = importlib.import_module(path)
            values = [(name, getattr(module, name)) for name in dir(module) if name[0] != "_"]
            for name, value in values:
                if not inspect.isfunction(value) and not inspect.isclass(value):
                    continue
                try:
                    same = pickle.loads(pickle.dumps(value)) is value
                except (pickle.PicklingError, AttributeError):
                    same = False
                if not same and value.__module__ != "builtins":
                    failed.append(f"{{path}}.{{name}}")
        print(failed)
        """
    )
    assert out.strip() == "[]"
