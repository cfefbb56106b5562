"""What the constructors of tensor nodes refuse, and small questions about buffers and ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilesmith import ir, tir
from tilesmith.error import TVMError

i, n = tir.Var("i", "int32"), tir.Var("n", "int32")
x = tir.Var("x", "float32")
A = tir.decl_buffer((16, 16), "float32", "A")
body = tir.Evaluate(0)
axis = tir.IterVar((0, 16), "v", 0)
block = tir.Block([axis], [], [], "b", body)
square = tir.BufferRegion(A, [ir.Range(0, 4), ir.Range(0, 4)])


def buffer(shape: Any, dtype: str = "float32", **options: Any) -> tir.Buffer:
    return tir.decl_buffer(shape, dtype, "B", **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: tir.For(x, 0, 4, 0, body),
        lambda: tir.For("i", 0, 4, 0, body),
        lambda: tir.For(i, 0, 4, "serial", body),
        lambda: tir.For(i, 0, 4, 9, body),
        lambda: tir.For(i, 0, 4, 0, None),
        lambda: tir.For(i, 0, 4, 0, i),
        lambda: tir.IfThenElse(i < 1, None, None),
        lambda: tir.IfThenElse(i < 1, body, i),
        lambda: tir.While(i < 1, None),
        lambda: tir.AttrStmt(i, 1, 1, body),
        lambda: tir.PrimFunc([i], None),
        lambda: tir.PrimFunc([i], i),
        lambda: tir.PrimFunc([1], body),
        lambda: tir.Block([i], [], [], "b", body),
        lambda: tir.Block([axis], [], [], "b", None),
        lambda: tir.BlockRealize([], True, block),
        lambda: tir.BlockRealize([i, i], True, block),
        lambda: tir.BlockRealize([i], i, block),
        lambda: tir.BufferRegion(A, [ir.Range(0, 4)]),
        lambda: tir.BufferRegion(A, [0, 0]),
        lambda: tir.MatchBufferRegion(buffer((4, 4), "int8"), square),
        lambda: tir.MatchBufferRegion(buffer((4, 3)), square),
        lambda: tir.MatchBufferRegion(buffer((4,)), square),
        lambda: tir.MatchBufferRegion(buffer((4, 4), scope="shared"), square),
        lambda: tir.IterVar((0, 4), 5, 0),
        lambda: tir.IterVar((0, 4), "k", 12),
        lambda: tir.IterVar((0, 4), "k", "reduce"),
        lambda: buffer((1.5,)),
        lambda: buffer(("n",)),
        lambda: buffer((4,), data="p"),
        lambda: A.vload([0, 0], "int32"),
        lambda: A.access_ptr("q"),
    ],
)
def test_refused(make: Callable[[], Any]):
    with pytest.raises(TVMError) as caught:
        make()
    assert isinstance(caught.value, (TypeError, ValueError))


def test_slices_of_buffers_have_plain_extents():
    assert str(A[i : i + 4, 0:4]) == "A[i:i + 4, 0:4]"
    assert A[i : i + 4, 0:4].region[0].extent.value == 4
    assert str(A[:, n:]) == "A[0:16, n:16]"


def test_ranges_are_equal_by_value():
    assert ir.Range(0, 10) == ir.Range(0, 10) and ir.Range(0, 10) != ir.Range(0, 11)
    assert ir.Range(i, i + 4) == ir.Range(i, i + 4)
    assert ir.Range(0, 10) != (0, 10)
    assert len({ir.Range(0, 10), ir.Range(0, 10), ir.Range(1, 10)}) == 2


def test_pointers():
    wide = A.access_ptr("r", content_lanes=4)
    assert [str(arg) for arg in wide.args[2:]] == ["0", "64", "1"]
    one = A.access_ptr("rw", offset=8, extent=1, content_lanes=4)
    assert [str(arg) for arg in one.args[2:]] == ["2", "1", "3"]
    strided = buffer((16, n), strides=[n * 2, 2]).access_ptr("w")
    assert [str(arg) for arg in strided.args[2:]] == ["0", "n * 2 * 16", "2"]


def test_sequences():
    one, two = tir.Evaluate(1), tir.Evaluate(2)
    assert tir.stmt_seq(one) is one
    assert [str(s) for s in tir.stmt_seq(one, 2)] == ["T.evaluate(1)", "T.evaluate(2)"]
    nested = tir.SeqStmt([tir.SeqStmt([one, two]), one])
    assert tir.stmt_list(nested) == [one, two, one] and tir.stmt_list(one) == [one]
