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
