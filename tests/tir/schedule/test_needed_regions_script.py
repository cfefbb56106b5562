"""compute_at makes only what conditional loads need; what is left out counts as not read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tir.schedule.harness import assert_same_results
from tilesmith import tir
from tilesmith.ir import IntImm
from tilesmith.script import from_source
from tilesmith.tir.interpreter import Options, run


def consumer(value, size=64):
    """A producer of B and a consumer that stores ``value``."""
    return from_source(
        f"""
@T.prim_func
def main(A: T.Buffer((4, {size}), "float32"), C: T.Buffer((4, 64), "float32")):
    T.func_attr({{"global_symbol": "main"}})
    B = T.alloc_buffer((4, {size}))
    for i, j in T.grid(4, {size}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(4, 64):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = {value}
"""
    )


def checked(func, sch):
    """Nothing reads what is not made, and the results are the same."""
    assert_same_results(func, sch.mod["main"])
    arrays = [ones(buffer) for buffer in func.buffers]
    run(sch.mod["main"], *arrays, options=Options(check_races=False, check_undefined=True))


def ones(buffer):
    return np.ones([int(size) for size in buffer.shape], buffer.dtype.numpy())


@pytest.mark.parametrize(
    ("value", "columns"),
    [
        ("T.if_then_else(60 <= vj, B[vi, vj], T.float32(0))", 4),
        ("T.if_then_else(60 <= vj, T.float32(0), B[vi, vj])", 60),
        ("T.if_then_else(vj < 3 or 50 < vj, T.float32(0), B[vi, vj])", 48),
        ("T.if_then_else(60 <= vj, B[vi, vj - 60], T.float32(0))", 4),
        ("T.if_then_else(60 <= vj, B[vi, vj], B[vi, 62])", 4),
        ("T.if_then_else(60 <= vj, B[vi, vj], T.float32(0)) + B[vi, 3]", 61),
        ("T.if_then_else(A[vi, vj] < T.float32(3), B[vi, vj], T.float32(0))", 64),
        ("T.Select(60 <= vj, B[vi, vj], T.float32(0))", 64),
    ],
)
def test_what_conditions_leave_of_a_producer(value, columns):
    func = consumer(value)
    sch = tir.Schedule(func, debug_mask="all")
    sch.compute_at("B", sch.get_loops("C")[0])
    assert int(sch.get(sch.get_loops("B")[-1]).extent) == columns
    checked(func, sch)


def test_branches_of_statements_narrow_as_well():
    func = from_source(
        """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((64,))
    for j in range(64):
        with T.block("B"):
            vj = T.axis.spatial(64, j)
            B[vj] = A[vj] + T.float32(1)
    for i in range(1):
        for j in range(64):
            with T.block("C"):
                vj = T.axis.spatial(64, j)
                C[vj] = T.float32(0)
                if vj < 16:
                    C[vj] = B[vj]
"""
    )
    sch = tir.Schedule(func, debug_mask="all")
    sch.compute_at("B", sch.get_loops("C")[0])
    assert int(sch.get(sch.get_loops("B")[-1]).extent) == 16
    checked(func, sch)


def test_parts_that_are_put_together_are_made_where_they_are_needed():
    func = from_source(
        """
@T.prim_func
def main(X: T.Buffer((60,), "float32"), Z: T.Buffer((60,), "float32")):
    T.func_attr({"global_symbol": "main"})
    A = T.alloc_buffer((4,))
    B = T.alloc_buffer((60,))
    Y = T.alloc_buffer((64,))
    for i in range(4):
        with T.block("A"):
            v = T.axis.spatial(4, i)
            A[v] = X[v] * T.float32(2)
    for i in range(60):
        with T.block("B"):
            v = T.axis.spatial(60, i)
            B[v] = X[v] * T.float32(3)
    for i in range(64):
        with T.block("Y"):
            v = T.axis.spatial(64, i)
            Y[v] = T.if_then_else(60 <= v, A[v - 60], B[v])
    for i in range(60):
        with T.block("Z"):
            v = T.axis.spatial(60, i)
            Z[v] = Y[v + 4]
"""
    )
    sch = tir.Schedule(func, debug_mask="all")
    loop = sch.split(sch.get_loops("Z")[0], [None, 20])[0]
    for name in ("Y", "A", "B"):
        sch.compute_at(name, loop)
    checked(func, sch)


_INDICES = ["vj", "vj - 60", "vj - 7", "63 - vj", "vj // 4", "vj % 16", "vi * 16 + vj % 16", "5"]
_CONDITIONS = [
    "60 <= vj", "vj < 7", "vj == 12", "vj % 2 == 0", "vi * 16 + vj < 40", "vi < 2", "vi + vj < 9",
    "vj // 8 == 3", "vj > vi",
]  # fmt: skip


@st.composite
def _values(draw):
    load = f"B[vi, {draw(st.sampled_from(_INDICES))}]"
    for _ in range(draw(st.integers(1, 3))):
        condition = draw(st.sampled_from(_CONDITIONS))
        other = draw(st.sampled_from(["T.float32(0)", "B[vi, vj]", "B[0, 5]"]))
        pair = [load, other] if draw(st.booleans()) else [other, load]
        load = f"T.if_then_else({condition}, {pair[0]}, {pair[1]})"
    guard = "T.if_then_else({}, {}, T.float32(0))"  # indices stay inside of the buffer
    if "vj - 60" in load:
        return guard.format("60 <= vj", load)
    return guard.format("7 <= vj", load) if "vj - 7" in load else load


@settings(max_examples=12, deadline=None)
@given(_values(), st.sampled_from([None, 4, 5, 16]), st.integers(0, 1), st.booleans())
def test_nothing_is_left_out_that_is_read(value, factor, depth, reorder):
    func = consumer(value)
    sch = tir.Schedule(func, debug_mask="all")
    loops = sch.get_loops("C")
    if factor is not None:
        loops = [loops[0], *sch.split(loops[1], [None, factor])]
    if reorder and len(loops) > 2:
        sch.reorder(loops[1], loops[0])
        loops = [loops[1], loops[0], loops[2]]
    sch.compute_at("B", loops[depth])
    checked(func, sch)
    assert isinstance(sch.get(sch.get_loops("B")[0]).extent, IntImm)
