"""Whole models for C: compiled without LLVM, or given as source where there is no compiler."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilesmith as ts
from tests.codegen.harness import compile_strictly
from tilesmith import relax
from tilesmith.codegen import c_compiler
from tilesmith.codegen.c import find_compiler
from tilesmith.runtime import Executable
from tilesmith.script import relax as R
from tilesmith.support.errors import (
    CodegenError,
    MissingDependencyError,
    UnknownMemberError,
    UnsupportedError,
)

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler here")
W = np.random.default_rng(0).standard_normal((48, 32)).astype("float32")


def perceptron(rows=5):
    """A product, a bias, a softmax: kernels with tiles, vectors, functions of the C library."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((rows, 48), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.matmul(x, relax.const(W)))
            y = builder.emit(relax.op.tanh(relax.op.add(y, relax.const(W[0, :32]))))
            y = builder.emit(relax.op.nn.softmax(y))
            result = builder.emit_output(relax.op.matmul(y, relax.const(W[:32, :7])))
        builder.emit_func_output(result)
    return builder.get()


def expected(x):
    y = np.tanh(x @ W + W[0, :32])
    e = np.exp(y - y.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) @ W[:32, :7]


def sample(rows=5):
    return np.random.default_rng(1).standard_normal((rows, 48)).astype("float32")


PROGRAM = """
import sys
import numpy as np
import tilesmith as ts
from tests.driver.test_c_models import expected, perceptron, sample

executable = ts.relax.build(perceptron(2000), target="c")
x = sample(2000)
for _ in range(3):
    np.testing.assert_allclose(executable(x).numpy(), expected(x), rtol=1e-4, atol=1e-5)
executable.save(sys.argv[1])
np.testing.assert_allclose(ts.runtime.load_module(sys.argv[1])(x).numpy(), expected(x), rtol=1e-4,
                           atol=1e-5)
assert "ts_launch(" in executable.get_source()
print([name for name in sys.modules if name.split(".")[0] == "llvmlite"])
print([name for name in sys.modules if name.startswith("tilesmith.codegen.llvm.")])
"""


@needs_compiler
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_model_for_c_needs_no_llvm(tmp_path, workers):
    """Neither this process nor its workers can import llvmlite."""
    (tmp_path / "llvmlite").mkdir()
    (tmp_path / "llvmlite" / "__init__.py").write_text("raise ImportError('there is no LLVM here')")
    places = [str(tmp_path), str(Path(__file__).parents[2])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(places),
        "TILESMITH_WORKERS": workers,
        "TILESMITH_CACHE": "0",
        "TILESMITH_NUM_THREADS": "3",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "model.tsm")],
        capture_output=True, text=True, env=environment, cwd=places[1],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-2] == "[]"
    assert lines[-1] == "[]"


@needs_compiler
def test_the_source_of_a_model_is_the_whole_model():
    executable = ts.compile(perceptron(), target="c")
    source = executable.get_source()
    assert source == executable.get_source("c")
    compile_strictly(source)
    for name in ("__tvm_ffi_main", "tanhf", "expf"):
        assert name in source
    assert "def main" in executable.get_source("script")
    with pytest.raises(UnsupportedError, match="it has: c, script"):
        executable.get_source("ll")


@needs_compiler
def test_symbolic_sizes():
    builder = relax.BlockBuilder()
    n = ts.tir.SizeVar("n", "int64")
    x = relax.Var("x", R.Tensor((n, 16), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.exp(x))
            result = builder.emit_output(relax.op.sum(y, axis=1))
        builder.emit_func_output(result)
    executable = relax.build(builder.get(), target="c")
    for rows in (1, 7):
        x = sample(rows)[:, :16]
        np.testing.assert_allclose(executable(x).numpy(), np.exp(x).sum(1), rtol=1e-5)


def test_without_a_compiler_there_is_source(monkeypatch, tmp_path):
    def refuse(target):
        raise CodegenError("there is no C compiler", notes=("install gcc",))

    monkeypatch.setattr(c_compiler, "compiler_command", refuse)
    executable = relax.build(perceptron(), target="c")
    assert "int32_t __tvm_ffi_main(" in executable.get_source()
    for use in (
        lambda: executable(sample()),
        lambda: executable.save(tmp_path / "model.tsm"),
        lambda: executable.export_library(tmp_path / "model.so"),
    ):
        with pytest.raises(UnsupportedError, match=r"(?s)no object code.*get_source.*install gcc"):
            use()
    assert not list(tmp_path.iterdir())
    function = ts.te.create_prim_func([ts.te.placeholder((4,), name="A")])
    module = ts.build(function, target="c")
    with pytest.raises(UnknownMemberError, match="install gcc"):
        module["main"]


def test_a_kind_of_target_without_a_back_end_names_those_that_have_one():
    with pytest.raises(UnsupportedError, match=r"(?s)no back end.*'metal'.*c, cuda, llvm, nvptx"):
        relax.build(perceptron(), target="metal")


@needs_compiler
def test_functions_called_like_those_of_the_process():
    """The linker binds a library's own functions, not those of the C library."""
    a = ts.te.placeholder((4,), name="A")
    function = ts.te.create_prim_func([a, ts.te.compute((4,), lambda i: a[i] + 1)])
    for name in ("read", "getpid", "select"):
        assert hasattr(ctypes.CDLL(None), name)
        module = ts.build(function.with_attr("global_symbol", name), target="c")
        out = np.zeros(4, "float32")
        module[name](np.ones(4, "float32"), out)
        assert (out == 2).all()


@needs_compiler
def test_a_model_without_a_linker_says_what_is_missing(monkeypatch):
    executable = relax.build(perceptron(), target="c")
    monkeypatch.setattr("tilesmith.support.linker.find_linkers", list)
    with pytest.raises(MissingDependencyError, match="ld, gcc, clang or zig"):
        executable(sample())


def test_loaded_models_have_no_source(tmp_path):
    executable = relax.build(perceptron(), target="llvm")
    executable.save(tmp_path / "model.tsm")
    with pytest.raises(UnsupportedError, match="was it loaded"):
        Executable.load(tmp_path / "model.tsm").get_source()
