"""Forms of scripts that published programs use."""

from __future__ import annotations

import pytest

import tilesmith as ts
from tilesmith import tir
from tilesmith.ir import Range, TupleType, assert_structural_equal
from tilesmith.ir.types import PrimType
from tilesmith.relax import (
    Call,
    DataflowVar,
    FuncStructInfo,
    PrimStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.script import from_source
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import DiagnosticError

HEAD = (
    '@T.prim_func\ndef f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((64,), "int32"), n: T.int32):\n'
)


def parsed(body: str) -> tir.PrimFunc:
    lines = [f"    {line}" for line in body.splitlines()]
    made = from_source(HEAD + "\n".join(lines))
    assert_structural_equal(from_source(made.script()), made)
    return made


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (
            "for i in range(8, annotations={'unit': 1}):\n    B[i] = 1",
            "for i in T.serial(8, annotations={'unit': 1}):\n    B[i] = 1",
        ),
        (
            "for i in range(1, 8, annotations={'unit': 1}):\n    B[i] = 1",
            "for i in T.serial(1, 8, annotations={'unit': 1}):\n    B[i] = 1",
        ),
        ("if n:\n    B[0] = 1", "if n != 0:\n    B[0] = 1"),
        ("if n % 2:\n    B[0] = 1", "if n % 2 != 0:\n    B[0] = 1"),
        ("while B[0]:\n    B[0] = 0", "while B[0] != 0:\n    B[0] = 0"),
        (
            "for at in T.grid(*A.shape):\n    A[at] = 1",
            "for i, j in T.grid(8, 8):\n    A[i, j] = 1",
        ),
        (
            "for *s, r in T.grid(8, 4):\n    B[s] = A[(*s, r)]",
            "for i, r in T.grid(8, 4):\n    B[i] = A[i, r]",
        ),
        (
            "for a, *s, b in T.grid(2, 8, 8, 4):\n    A[s] = a + b",
            "for a, i, j, b in T.grid(2, 8, 8, 4):\n    A[i, j] = a + b",
        ),
        (
            "v: T.int32x8 = B[0:8]\nB[8:16] = v",
            "v: T.int32x8 = B[T.Ramp(0, 1, 8)]\nB[T.Ramp(8, 1, 8)] = v",
        ),
        (
            "B[0:4 * T.vscale()] = B[8:8 + 4 * T.vscale()]",
            "B[T.Ramp(0, 1, 4 * T.vscale())] = B[T.Ramp(8, 1, 4 * T.vscale())]",
        ),
        (
            "B.vstore([0], B.vload([T.Ramp(8, 1, 4 * T.vscale())], dtype='int32xvscalex4'))",
            "B[T.Ramp(0, 1, 4 * T.vscale())] = B[T.Ramp(8, 1, 4 * T.vscale())]",
        ),
    ],
)
def test_forms(written, meant):
    assert_structural_equal(parsed(written), parsed(meant))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("with T.attr([A, B], 'buffer_bind_scope', 1):\n    B[0] = 1", "T.attr([A, B], "),
        ("T.attr(A, 'key', 1)\nB[0] = 1", 'T.attr(A, "key", 1)'),
        ("T.realize(A[0:8, 0:4], 'scope')\nB[0] = 1", 'T.realize(A[0:8, 0:4], "scope")'),
        ("return n + 1", "    return n + 1"),
        ("B[0] = 1\nT.ret(n)", "    return n"),
        ("if n > 0:\n    T.ret(n)", "T.ret(n)"),
    ],
)
def test_printed(body, text):
    assert text in parsed(body).script()


def test_printed_parts():
    assert str(Range(1, 5)) == "T.Range(1, 5)"
    pair = TupleType([PrimType("int32"), PrimType("float32")])
    assert str(pair) == "T.Tuple(T.int32, T.float32)"
    assert T.Tuple(T.int32, T.float32) == pair


def test_kinds_of_buffers_and_their_strides():
    @T.prim_func
    def auto(a: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (8, n), "int32", strides=["s0", "s1"], buffer_type="auto")
        A[0, 0] = 1

    buffer = auto.buffer_map[auto.params[0]]
    assert [stride.name for stride in buffer.strides] == ["s0", "s1"]
    assert buffer.buffer_type == "auto_broadcast"


class Scaler:
    def __init__(self, factor):
        self.factor = factor

    @T.macro
    def scale(self, A, i):
        A[i] = A[i] * T.int32(self.factor)


def test_methods_as_macros():
    three, five = Scaler(3), Scaler(5)

    @T.prim_func
    def made(A: T.Buffer((8,), "int32")):
        for i in range(8):
            three.scale(A, i)
            five.scale(A, i)

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32")):
        for i in range(8):
            A[i] = A[i] * 3
            A[i] = A[i] * 5

    assert_structural_equal(made, expected.with_attr("global_symbol", "made"))


@pytest.mark.parametrize("macro", [T.macro, R.macro])
def test_options_of_macros_have_names(macro):
    with pytest.raises(ValueError, match="a function"):
        macro(True)


def test_macros_of_graphs():
    other = R.const(2, "float32")

    @R.macro
    def twice(x):
        y = R.multiply(x, other)
        return y

    @R.macro(hygienic=False)
    def shifted(x):
        R.add(x, offset)

    @R.function
    def made(x: R.Tensor((4,), "float32")):
        offset = R.negative(x)
        y = twice(x)
        z = shifted(y)
        return z

    values = [binding.value for binding in made.body.blocks[0].bindings]
    names = [value.op.name for value in values if isinstance(value, Call)]
    assert names == ["relax.negative", "relax.multiply", "relax.add"]
    with pytest.raises(DiagnosticError, match="undefined variable 'inner'"):

        @R.function
        def leaks(x: R.Tensor((4,), "float32")):
            y = negated(x)
            return inner


def test_names_of_macros_are_not_outputs():
    """A name that a macro binds is not the output of the same name where it is called."""

    @R.macro
    def add_twice(x):
        out = R.add(x, x)
        return R.add(out, x)

    @R.function
    def made(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            out = add_twice(x)
            R.output(out)
        return out

    first, last = made.body.blocks[0].bindings
    assert isinstance(first.var, DataflowVar)
    assert not isinstance(last.var, DataflowVar) and made.body.body is last.var


@R.macro
def negated(x):
    inner = R.negative(x)
    return inner


@pytest.mark.parametrize(
    "text",
    [
        "@T.prim_func(private=True)\ndef f(n: T.int32):\n"
        '    T.func_attr({"global_symbol": "f"})\n    T.evaluate(n)\n',
        '@R.function(private=True)\ndef f(x: R.Tensor((4,), "float32")):\n'
        '    R.func_attr({"global_symbol": "f"})\n    return x\n',
    ],
)
def test_a_private_function_has_no_symbol(text):
    with pytest.raises(DiagnosticError, match="'f' is private and has"):
        from_source(text)


def test_signatures_of_tensor_functions():
    @T.prim_func
    def reads(a: T.handle, k: T.int64, B: T.Buffer((8,), "int32")) -> T.int32:
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32")
        T.ret(T.Cast("int32", A[0, 0]) + B[0] + T.Cast("int32", k))

    size = reads.buffer_map[reads.params[0]].shape[0]
    tensors = [TensorStructInfo((size, 4), "float32"), PrimStructInfo("int64")]
    tensors.append(TensorStructInfo((8,), "int32"))
    assert reads.struct_info == FuncStructInfo(tensors, PrimStructInfo("int32"), True)
    assert reads.__name__ == "reads" and tir.PrimFunc.__name__ is not None

    writes = parsed("B[0] = n")
    assert writes.struct_info.purity is False
    assert writes.struct_info.ret == TupleStructInfo([])
    assert ts.IRModule({"f": writes}).get_global_var("f").struct_info is None


def test_pointers_of_the_builder_are_buffers():
    builder = tir.ir_builder.create()
    given, made = builder.pointer("float32", name="A"), builder.allocate("float32", 8, name="B")
    for pointer in (given, made):
        assert isinstance(pointer.asobject(), tir.Buffer)
        assert pointer.asobject().access_ptr("r").dtype == "handle"


def test_words_for_struct_info_without_arguments():
    for word in (R.Object, R.Tensor, R.Shape, R.Tuple, R.Callable):
        assert word() is not None
