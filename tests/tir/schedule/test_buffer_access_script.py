"""What blocks say of their buffers; epilogues of reductions."""

import numpy as np
import pytest

import tilesmith as ts
from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import check, main_of, refused, schedule_of
from tests.tir.transform.harness import apply, arrays_for, outputs
from tilesmith import tir
from tilesmith.script import tir as T
from tilesmith.tir.schedule import ScheduleError

# --- fuse_reduction_epilogue ----------------------------------------------------------------------


@T.prim_func
def product_bias(
    A: T.Buffer((9, 11), "float32"),
    B: T.Buffer((11, 6), "float32"),
    bias: T.Buffer((6,), "float32"),
    D: T.Buffer((6, 9), "float32"),
):
    T.func_attr({"global_symbol": "main"})
    C = T.alloc_buffer((9, 6), "float32")
    for i, j, k in T.grid(9, 6, 11):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(9, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vj, vi] = bias[vj] + C[vi, vj]


@T.prim_func
def product_from_bias(
    A: T.Buffer((9, 11), "float32"),
    B: T.Buffer((11, 6), "float32"),
    bias: T.Buffer((6,), "float32"),
    D: T.Buffer((6, 9), "float32"),
):
    for i, j, k in T.grid(9, 6, 11):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.reads(bias[vj], A[vi, vk], B[vk, vj])
            T.writes(D[vj, vi])
            with T.init():
                D[vj, vi] = bias[vj]
            D[vj, vi] = D[vj, vi] + A[vi, vk] * B[vk, vj]


def fuse(sch):
    sch.fuse_reduction_epilogue(sch.get_block("C"), sch.get_block("D"))


def test_bias():
    check(product_bias, fuse, product_from_bias)


def tiled_and_fused(sch):
    i, j, k = sch.get_loops(sch.get_block("C"))
    k0, k1 = sch.split(k, [None, 3])
    sch.reorder(k0, i, j, k1)
    fuse(sch)


def test_bias_after_splits():
    check(product_bias, tiled_and_fused)


def epilogue(compute):
    """Row sums, then an epilogue."""

    @T.prim_func
    def main(
        A: T.Buffer((5, 7), "float32"), E: T.Buffer((5,), "float32"), D: T.Buffer((5,), "float32")
    ):
        C = T.alloc_buffer((5,), "float32")
        for i, k in T.grid(5, 7):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(1)
                C[vi] = A[vi, vk] + C[vi]
        for i in range(5):
            with T.block("D"):
                vi = T.axis.spatial(5, i)
                D[vi] = compute(C[vi], E[vi])

    return main


def test_difference():
    sch = check(epilogue(lambda c, e: c - e), fuse)
    assert "D[vi] = T.float32(1.0) - E[vi]" in main_of(sch).script()


def maxima(compute):
    @T.prim_func
    def main(A: T.Buffer((5, 7), "float32"), D: T.Buffer((5,), "float32")):
        C = T.alloc_buffer((5,), "float32")
        for i, k in T.grid(5, 7):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.min_value("float32")
                C[vi] = T.max(C[vi], A[vi, vk])
        for i in range(5):
            with T.block("D"):
                vi = T.axis.spatial(5, i)
                D[vi] = compute(C[vi])

    return main


def test_maximum_of_maxima():
    check(maxima(lambda c: T.max(c, T.float32(0.5))), fuse)


@pytest.mark.parametrize(
    "program, text",
    [
        (epilogue(lambda c, e: T.max(c, e)), "the epilogue computes T.max"),
        (epilogue(lambda c, e: c + c), "the epilogue computes"),
        (epilogue(lambda c, e: e - c), "the epilogue computes"),
        (maxima(lambda c: c + T.float32(1)), "combined by Max"),
        (programs.elementwise, "unknown"),
    ],
)
def test_epilogues_refused(program, text):
    if program is programs.elementwise:
        refused(
            program,
            lambda sch: sch.fuse_reduction_epilogue(sch.get_block("B"), sch.get_block("C")),
            "block 'B' is not a reduction block",
        )
        return
    refused(program, fuse, "fuse_reduction_epilogue:", text, marked='T.block("D")')


@T.prim_func
def read_twice(
    A: T.Buffer((5, 7), "float32"), D: T.Buffer((5,), "float32"), F: T.Buffer((5,), "float32")
):
    T.func_attr({"global_symbol": "main"})
    C = T.alloc_buffer((5,), "float32")
    for i, k in T.grid(5, 7):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
    for i in range(5):
        with T.block("D"):
            vi = T.axis.spatial(5, i)
            D[vi] = C[vi] + T.float32(1)
    for i in range(5):
        with T.block("F"):
            vi = T.axis.spatial(5, i)
            F[vi] = C[vi]


@T.prim_func
def bias_made_between(A: T.Buffer((5, 7), "float32"), D: T.Buffer((5,), "float32")):
    T.func_attr({"global_symbol": "main"})
    C = T.alloc_buffer((5,), "float32")
    E = T.alloc_buffer((5,), "float32")
    for i, k in T.grid(5, 7):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
    for i in range(5):
        with T.block("E"):
            vi = T.axis.spatial(5, i)
            E[vi] = A[vi, 0]
    for i in range(5):
        with T.block("D"):
            vi = T.axis.spatial(5, i)
            D[vi] = C[vi] + E[vi]


def test_dependences_of_epilogues():
    refused(read_twice, fuse, "is not the only one that reads what 'C' makes")
    refused(bias_made_between, fuse, "block 'E' uses 'E' before the epilogue")


# --- regions --------------------------------------------------------------------------------------


def test_annotate_buffer_access():
    def steps(sch):
        block = sch.get_block("B")
        sch.annotate_buffer_access(block, 0, "read", lambda vi, vj: [(vi, vi + 1), (0, 13)])
        sch.annotate_buffer_access(block, "B", "write", lambda vi, vj: [vi, (vj, vj + 1)])
        made = sch.get(block)
        assert [str(part.extent) for part in made.reads[0].region] == ["1", "13"]
        assert made.annotations["explicit_read_region"] == (0,)
        assert made.annotations["explicit_write_region"] == (0,)

    check(programs.elementwise, steps)
    refused(
        programs.elementwise,
        lambda sch: sch.annotate_buffer_access(sch.get_block("B"), 0, "read", lambda vi, vj: [vi]),
        "gen_new_ranges gives 1 ranges, buffer 'A' has 2 dimensions",
    )


def test_unsafe_hide_buffer_access():
    sch = schedule_of(programs.matmul)
    block = sch.get_block("C")
    sch.unsafe_hide_buffer_access(block, "read", [1])
    assert [region.buffer.name for region in sch.get(block).reads] == ["A"]
    replay = schedule_of(programs.matmul)
    sch.trace.apply_to_schedule(replay, False)
    assert len(replay.get(replay.get_block("C")).reads) == 1
    with pytest.raises(ScheduleError, match="there is no number 3"):
        sch.unsafe_hide_buffer_access(block, "write", [3])
    with pytest.raises(ScheduleError, match="buf_type is 'read' or 'write', got 'both'"):
        sch.unsafe_hide_buffer_access(block, "both", [0])


# --- dtypes ---------------------------------------------------------------------------------------


def test_unsafe_set_dtype():
    sch = schedule_of(programs.elementwise)
    sch.unsafe_set_dtype(sch.get_block("B"), 0, "float16")
    after = main_of(sch)
    assert 'T.alloc_buffer((7, 13), "float16")' in after.script()
    arrays = arrays_for(programs.elementwise)
    got = outputs(after, arrays)[1]
    np.testing.assert_array_equal(
        got, (arrays[0] * 2).astype("float16").astype("float32") + np.float32(1)
    )
    replay = schedule_of(programs.elementwise)
    sch.trace.apply_to_schedule(replay, False)
    refused(
        programs.elementwise,
        lambda sch: sch.unsafe_set_dtype(sch.get_block("C"), 0, "float16"),
        "buffer 'C' is a parameter",
    )


# --- axis separators ------------------------------------------------------------------------------


@pytest.mark.parametrize("block, buffer", [("B", ("write", 0)), ("C", ("read", 0)), ("C", "B")])
def test_axis_separators_of_an_intermediate_buffer(block, buffer):
    def steps(sch):
        sch.set_axis_separator(sch.get_block(block), buffer, [1])

    sch = check(programs.elementwise, steps)
    (made,) = sch.get(sch.get_block("root")).alloc_buffers
    assert made.axis_separators == (1,)


def test_axis_separators_of_a_parameter():
    sch = check(
        programs.elementwise, lambda sch: sch.set_axis_separator(sch.get_block("C"), "C", [1])
    )
    after = main_of(sch)
    assert [buffer.axis_separators for buffer in after.buffer_map.values()] == [(), (1,)]


@T.prim_func
def four_axes(A: T.Buffer((2, 3, 4, 5), "float32"), C: T.Buffer((2, 3, 4, 5), "float32")):
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((2, 3, 4, 5), "float32")
    for i, j, k, m in T.grid(2, 3, 4, 5):
        with T.block("B"):
            vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, m])
            B[vi, vj, vk, vl] = A[vi, vj, vk, vl] * T.float32(2)
    for i, j, k, m in T.grid(2, 3, 4, 5):
        with T.block("C"):
            vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, m])
            C[vi, vj, vk, vl] = B[vi, vj, vk, vl] + T.float32(1)


@pytest.mark.parametrize("separators, rank", [([], 1), ([2], 2), ([1, 3], 3)])
def test_flattening_honours_axis_separators(separators, rank):
    sch = schedule_of(four_axes)
    sch.set_axis_separator(sch.get_block("B"), ("write", 0), separators)
    passes = [
        tir.transform.LowerInitBlock(),
        tir.transform.PlanAndUpdateBufferAllocationLocation(),
        tir.transform.ConvertBlocksToOpaque(),
        tir.transform.LowerOpaqueBlock(),
    ]
    lowered = apply(main_of(sch), *passes)
    flat = apply(lowered, tir.transform.FlattenBuffer())
    arrays = arrays_for(four_axes)
    np.testing.assert_array_equal(outputs(flat, arrays)[1], arrays[0] * 2 + np.float32(1))
    found = []
    tir.stmt_functor.post_order_visit(
        flat.body,
        lambda node: found.append(node) if isinstance(node, tir.BufferStore) else None,
    )
    (store,) = [one for one in found if one.buffer.name == "B"]
    assert len(store.indices) == rank == len(store.buffer.shape)
    assert store.buffer.axis_separators == tuple(range(1, rank))


def test_separated_axes_are_refused_in_flat_memory():
    sch = schedule_of(four_axes)
    sch.set_axis_separator(sch.get_block("B"), "B", [2])
    with pytest.raises(ts.error.TilesmithError, match="B"):
        ts.build(sch.mod, target="llvm")


@pytest.mark.parametrize("separators", [[0], [4], [2, 2], [3, 1]])
def test_axis_separators_refused(separators):
    refused(
        four_axes,
        lambda sch: sch.set_axis_separator(sch.get_block("B"), "B", separators),
        "axis separators of 'B' are increasing numbers from 1 to 3",
    )
