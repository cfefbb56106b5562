"""One rewriter redirects accesses; a subclass says which and where to."""

import pytest

from tilesmith.ir import Range
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.script import tir as T
from tilesmith.tir import BufferLoad, BufferRegion, decl_buffer
from tilesmith.tir.queries import accesses, buffers
from tilesmith.tir.redirection import AccessRedirection, ViewRedirection


@T.prim_func
def copies(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    C = T.alloc_buffer((8, 8))
    for i, j in T.grid(8, 8):
        with T.block("to"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
    for i, j in T.grid(8, 8):
        with T.block("from"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = C[vi, vj]


@T.prim_func
def copies_transposed(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    C = T.alloc_buffer((8, 8), scope="shared")
    for i, j in T.grid(8, 8):
        with T.block("to"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vj, vi] = A[vi, vj]
    for i, j in T.grid(8, 8):
        with T.block("from"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = C[vj, vi]


class _Transpose(AccessRedirection):
    def __init__(self, new):
        self.new = new

    def redirected(self, buffer):
        return self.new.get(buffer)

    def indices(self, buffer, indices):
        return indices[::-1]

    def ranges(self, buffer, ranges):
        return ranges[::-1]


def allocated(func):
    return func.body.block.alloc_buffers[0]


def test_accesses_regions_and_allocations_follow():
    old, new = allocated(copies), allocated(copies_transposed)
    moved = copies.with_body(_Transpose({old: new}).visit(copies.body))
    assert old not in buffers(moved.body)
    named = moved.with_attr("global_symbol", "copies_transposed")
    assert_structural_equal(named, copies_transposed)


def test_nothing_is_rebuilt_without_a_redirection():
    assert _Transpose({}).visit(copies.body) is copies.body


class _Later(_Transpose):
    """Accesses lie one row further."""

    def indices(self, buffer, indices):
        return (indices[0] + 1, *indices[1:])

    ranges = AccessRedirection.ranges


def test_regions_follow_the_indices_unless_a_subclass_says_otherwise():
    old = allocated(copies)
    body = _Later({old: old}).visit(copies.body)
    stored = next(accesses(body, old))
    block = body.block.body[0].body.body.block
    assert str(stored.indices[0]) == "vi + 1"
    assert [str(one.min) for one in block.writes[0].region] == ["vi + 1", "vj"]


@pytest.mark.parametrize(
    "extents, indices, expected",
    [((1, 1, 4), (3,), [5, 6, 10]), ((1, 4, 4), (1, 2), [5, 7, 9])],
)
def test_accesses_of_views_go_to_what_they_show(extents, indices, expected):
    source, view = decl_buffer((8, 8, 16)), decl_buffer((4,) * len(indices))
    ranges = [Range.from_min_extent(*one) for one in zip((5, 6, 7), extents)]
    shown = ViewRedirection({view: BufferRegion(source, ranges)})
    load = shown.visit(BufferLoad(view, indices))
    assert load.buffer is source
    assert [index.value for index in load.indices] == expected
    region = shown.visit(BufferRegion.from_point(view, indices))
    assert region.buffer is source
    assert [one.min.value for one in region.region] == expected
    assert [one.extent.value for one in region.region] == [1, 1, 1]
