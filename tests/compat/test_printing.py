"""Under the alias, printed programs import what their users know."""

from __future__ import annotations

import pytest

import tilesmith as ts
from tilesmith.compat.tvm import install, uninstall
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T


@I.ir_module
class Module:
    @T.prim_func
    def twice(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] * T.float32(2)

    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        return R.add(x, x)


@pytest.fixture
def alias():
    install()
    yield
    uninstall()


def imports(package: str) -> list[str]:
    return [
        f"# from {package}.script import {word}" for word in ("ir as I", "relax as R", "tir as T")
    ]


def head(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("# from")]


def test_modules(alias):
    import tvm

    text = Module.script()
    assert head(text) == imports("tvm") and head(str(Module)) == imports("tvm")
    assert_structural_equal(tvm.script.from_source(text), Module)
    uninstall()
    assert head(Module.script()) == imports("tilesmith")
    assert_structural_equal(ts.script.from_source(text), Module)


def test_words_of_the_header_are_read_back(alias):
    text = Module["twice"].script(tir_prefix="tensor")
    assert head(text) == ["# from tvm.script import tir as tensor"]
    assert_structural_equal(ts.script.from_source(text), Module["twice"])


def test_traces(alias):
    sch = ts.tir.Schedule(Module["twice"])
    sch.vectorize(sch.get_loops(sch.get_block("B"))[0])
    assert str(sch.trace).startswith("# from tvm import tir\n")
    uninstall()
    assert str(sch.trace).startswith("# from tilesmith import tir\n")
