"""One predicate says what is unscheduled: what is left unfused is left unscheduled, too."""

import pytest

from tilesmith.driver.schedule import schedule_function
from tilesmith.relax.analysis import FusionKind, tir_op_pattern
from tilesmith.relax.transform.reshape import has_reshape_pattern
from tilesmith.script import tir as T
from tilesmith.target import Target
from tilesmith.tir.analysis import is_unscheduled, unscheduled_blocks
from tilesmith.tir.function import PrimFunc


@T.prim_func
def plain(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func
def two_nests(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    C = T.alloc_buffer((4, 8), "float32")
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + C[vi, vj]


@T.prim_func
def unit_axis(A: T.Buffer((1, 8), "float32"), B: T.Buffer((1, 8), "float32")):
    for j in range(8):
        with T.block("B"):
            vi = T.axis.spatial(1, 0)
            vj = T.axis.spatial(8, j)
            B[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func
def without_loops(A: T.Buffer((), "float32"), B: T.Buffer((), "float32")):
    with T.block("B"):
        vi = T.axis.spatial(1, 0)
        B[()] = A[()] + T.float32(1)


@T.prim_func
def under_a_predicate(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.where(i < 6)
            B[vi] = A[vi] + T.float32(1)


@T.prim_func
def from_another_minimum(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(2, 8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)


@T.prim_func
def matched_in_a_block(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            C = T.match_buffer(A[vi : vi + 1], (1,), offset_factor=1)
            B[vi] = C[0] + T.float32(1)


@T.prim_func
def allocated_in_a_block(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            C = T.alloc_buffer((1,), "float32")
            C[0] = A[vi]
            B[vi] = C[0] + T.float32(1)


@T.prim_func
def bound_to_a_constant(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            vj = T.axis.spatial(8, 3)
            B[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func
def in_another_order(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for j, i in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func
def split(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi = T.axis.spatial(32, i * 8 + j)
            B[vi] = A[vi] + T.float32(1)


@T.prim_func
def in_vectors(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.vectorized(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)


@T.prim_func
def annotated(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.serial(8, annotations={"pragma_unroll_explicit": 1}):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)


@T.prim_func
def marked(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    T.func_attr({"tir.is_scheduled": True})
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)


@T.prim_func
def block_in_a_block(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(2):
        with T.block("outer"):
            vo = T.axis.spatial(2, i)
            for j in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(8, vo * 4 + j)
                    B[vi] = A[vi] + T.float32(1)


@pytest.mark.parametrize(
    "function, blocks",
    [(plain, ["B"]), (two_nests, ["C", "B"]), (unit_axis, ["B"]), (without_loops, ["B"])],
)
def test_unscheduled_functions_are_fused_and_scheduled(function: PrimFunc, blocks: list[str]):
    found = unscheduled_blocks(function)
    assert found is not None and [block.name_hint for block in found] == blocks
    assert tir_op_pattern(function) != FusionKind.OPAQUE
    assert schedule_function(function, Target("llvm")).attrs["tir.is_scheduled"]


@pytest.mark.parametrize(
    "function",
    [
        under_a_predicate,
        from_another_minimum,
        matched_in_a_block,
        allocated_in_a_block,
        bound_to_a_constant,
        in_another_order,
        split,
        in_vectors,
        annotated,
        marked,
        block_in_a_block,
    ],
)  # fmt: skip
def test_other_functions_are_left_to_their_authors(function: PrimFunc):
    assert not is_unscheduled(function)
    assert tir_op_pattern(function) == FusionKind.OPAQUE
    assert schedule_function(function, Target("llvm")) is function


def test_a_reshape_under_a_predicate_stays_a_kernel():
    @T.prim_func
    def copied(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                T.where(i < 6)
                B[vi] = A[vi]

    assert not has_reshape_pattern(copied)
