"""Primitives on loops: what they make, what they refuse."""

import pytest

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import check, main_of, refused, schedule_of
from tilesmith.ir import Var, assert_structural_equal
from tilesmith.script import tir as T
from tilesmith.tir import ForKind
from tilesmith.tir.schedule import ScheduleError


def loops(sch, name):
    return sch.get_loops(sch.get_block(name))


@T.prim_func
def rows(A: T.Buffer((7, 13), "float32"), B: T.Buffer((7, 13), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(7, 13):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


def test_split_with_predicate():
    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), B: T.Buffer((7, 13), "float32")):
        for i, j_0, j_1 in T.grid(7, 4, 4):
            with T.block("B"):
                vi = T.axis.spatial(7, i)
                vj = T.axis.spatial(13, j_0 * 4 + j_1)
                T.where(j_0 * 4 + j_1 < 13)
                B[vi, vj] = A[vi, vj] + T.float32(1)

    check(rows, lambda sch: sch.split(loops(sch, "B")[1], [None, 4]), expected)


def test_split_exactly():
    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), B: T.Buffer((7, 13), "float32")):
        for i_0, i_1, j in T.grid(1, 7, 13):
            with T.block("B"):
                vi = T.axis.spatial(7, i_0 * 7 + i_1)
                vj = T.axis.spatial(13, j)
                B[vi, vj] = A[vi, vj] + T.float32(1)

    check(rows, lambda sch: sch.split(loops(sch, "B")[0], [1, 7]), expected)


def test_split_64_bit():
    sch = check(programs.elementwise64, lambda sch: sch.split(loops(sch, "C")[1], [None, 4, 2]))
    for loop in loops(sch, "C"):
        assert {str(sch.get(loop).loop_var.dtype), str(sch.get(loop).extent.dtype)} == {"int64"}


@pytest.mark.parametrize("size", [1, 4, 13])
def test_split_symbolic_extent(size):
    check(
        programs.copy_symbolic, lambda sch: sch.split(loops(sch, "B")[0], [None, 4]),
        sizes={"n": size},
    )  # fmt: skip


@pytest.mark.parametrize("size", [1, 7, 16])
def test_fused_symbolic_loops_run_in_parallel(size):
    @T.prim_func
    def table(a: T.handle, b: T.handle):
        T.func_attr({"global_symbol": "main"})
        n = T.int64()
        A = T.match_buffer(a, (n, T.int64(8)), "float32")
        B = T.match_buffer(b, (n, T.int64(8)), "float32")
        for i, j in T.grid(n, T.int64(8)):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    def steps(sch):
        outer, inner = sch.split(sch.fuse(*loops(sch, "B")), [None, 16])
        sch.parallel(outer)
        sch.vectorize(inner)

    check(table, steps, sizes={"n": size})


def test_split_without_predicate_is_the_callers_word():
    sch = schedule_of(programs.copy_symbolic)
    sch.split(loops(sch, "B")[0], [None, 4], disable_predication=True)
    assert "where" not in main_of(sch).script()


def test_split_symbolic_int_factor_takes_the_loops_dtype():
    sch = schedule_of(programs.elementwise64)
    outer, inner = loops(sch, "B")
    chosen = sch.sample_perfect_tile(outer, 2, decision=[7, 1])
    for loop in sch.split(outer, chosen):
        assert str(sch.get(loop).extent.dtype) == "int64"


def test_split_of_a_parallel_loop_gives_serial_loops_inside():
    sch = schedule_of(rows)
    i, j = loops(sch, "B")
    sch.vectorize(j)
    outer, inner = sch.split(j, [None, 4])
    assert sch.get(outer).kind is ForKind.SERIAL and sch.get(inner).kind is ForKind.SERIAL


@pytest.mark.parametrize(
    "factors, reason",
    [
        ([None, None], "more than one factor is None"),
        ([0, None], "factor 0 is not positive"),
        ([2, 3], "the product of factors is not larger than or equal to the extent: 6 of 13"),
        ([], "no factors are given"),
    ],
)
def test_split_refuses_factors(factors, reason):
    refused(
        rows, lambda sch: sch.split(loops(sch, "B")[1], factors), "split: " + reason, marked="for j"
    )


def test_split_refuses_annotated_and_bound_loops():
    def annotated(sch):
        sch.annotate(loops(sch, "B")[1], "hint", 1)

    def split(sch):
        sch.split(loops(sch, "B")[1], [None, 4])

    refused(rows, [annotated, split], "loop 'j' has annotations (hint)", marked="for j")
    refused(
        rows,
        [lambda sch: sch.bind(loops(sch, "B")[1], "threadIdx.x"), split],
        "loop 'j' is bound to a thread",
    )


@T.prim_func
def from_two(A: T.Buffer((9,), "float32"), B: T.Buffer((9,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(2, 9):
        with T.block("B"):
            vi = T.axis.spatial((2, 9), i)
            B[vi] = A[vi] + T.float32(1)


@pytest.mark.parametrize("primitive", ["split", "fuse", "loop_partition"])
def test_loops_that_do_not_start_at_zero(primitive):
    def step(sch):
        (loop,) = loops(sch, "B")
        getattr(sch, primitive)(loop, *([[None, 3]] if primitive != "fuse" else []))

    refused(from_two, step, f"{primitive}: loop 'i' does not start at 0", marked="for i")


def test_loops_from_two_take_other_primitives():
    def steps(sch):
        (loop,) = loops(sch, "B")
        sch.parallel(loop)
        sch.add_unit_loop(loop)
        sch.cache_read(sch.get_block("B"), 0, "global")

    check(from_two, steps)


def test_fuse():
    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), B: T.Buffer((7, 13), "float32")):
        for i_j_fused in range(91):
            with T.block("B"):
                vi = T.axis.spatial(7, i_j_fused // 13)
                vj = T.axis.spatial(13, i_j_fused % 13)
                B[vi, vj] = A[vi, vj] + T.float32(1)

    check(rows, lambda sch: sch.fuse(*loops(sch, "B")), expected)
    check(programs.elementwise64, lambda sch: sch.fuse(*loops(sch, "B")))


def test_split_then_fuse_keeps_the_predicate():
    def steps(sch):
        i, j = loops(sch, "B")
        j0, j1 = sch.split(j, [None, 4])
        sch.fuse(i, j0)

    sch = check(rows, steps)
    assert "T.where(" in main_of(sch).script()


@pytest.mark.parametrize("first", ["parallel", "vectorize", "unroll"])
@pytest.mark.parametrize("second", ["parallel", "unroll", None])
def test_a_fused_loop_is_serial(first, second):
    def steps(sch):
        outer, inner = loops(sch, "B")
        getattr(sch, first)(outer)
        if second is not None:
            getattr(sch, second)(inner)
        assert sch.get(sch.fuse(outer, inner)).kind is ForKind.SERIAL

    check(rows, steps)


def test_reordering_nothing():
    check(rows, lambda sch: sch.reorder(), rows)


def test_fuse_refusals():
    refused(
        rows,
        lambda sch: sch.fuse(*loops(sch, "B")[::-1]),
        "fuse directly nested loops",
        marked="for i",
    )
    refused(rows, lambda sch: sch.fuse(), "fuse: no loops are given")

    @T.prim_func
    def large(A: T.Buffer((65536, 65536), "int8")):
        for i, j in T.grid(65536, 32768):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.int8(1)

    refused(large, lambda sch: sch.fuse(*loops(sch, "B")), "more than int32 counts", marked="for i")

    @T.prim_func
    def triangle(A: T.Buffer((5, 5), "float32"), B: T.Buffer((5, 5), "float32")):
        for i in range(5):
            for j in range(i + 1):
                with T.block("B"):
                    vi = T.axis.spatial(5, i)
                    vj = T.axis.spatial(5, j)
                    B[vi, vj] = A[vi, vj]

    refused(triangle, lambda sch: sch.fuse(*loops(sch, "B")), "the extent of 'j' depends on a loop")
    refused(
        triangle, lambda sch: sch.reorder(*loops(sch, "B")[::-1]), "reorder: the ", marked="for j"
    )


def test_reorder():
    @T.prim_func
    def expected(
        A: T.Buffer((9, 11), "float32"),
        B: T.Buffer((11, 6), "float32"),
        C: T.Buffer((9, 6), "float32"),
    ):
        for k, j, i in T.grid(11, 6, 9):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    def steps(sch):
        i, j, k = loops(sch, "C")
        sch.reorder(k, i)  # j stays where it is

    check(programs.matmul, steps, expected)


def test_reorder_refusals():
    refused(
        programs.scan,
        lambda sch: sch.reorder(*loops(sch, "B")),
        "iterator 'vi' of block 'B' must keep its order",
    )
    refused(
        programs.elementwise, lambda sch: sch.reorder(loops(sch, "B")[0], loops(sch, "C")[0]),
        "the loops are not nested in each other",
    )  # fmt: skip
    refused(
        rows, lambda sch: sch.reorder(*loops(sch, "B"), loops(sch, "B")[0]), "a loop is given twice"
    )

    def several(sch):
        sch.compute_at(sch.get_block("B"), loops(sch, "C")[0])

    refused(
        programs.elementwise, [several, lambda sch: sch.reorder(*loops(sch, "C")[::-1])],
        "loop 'i' has several statements", marked="for i",
    )  # fmt: skip

    @T.prim_func
    def diagonal(A: T.Buffer((5, 5), "float32"), B: T.Buffer((9,), "float32")):
        for i, j in T.grid(5, 5):
            with T.block("B"):
                vi = T.axis.spatial(9, i + j)
                B[vi] = B[vi] + A[0, 0]

    refused(
        diagonal,
        lambda sch: sch.reorder(*loops(sch, "B")[::-1]),
        "the binding of block 'B' is not affine",
    )


def test_loop_partition():
    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), B: T.Buffer((7, 13), "float32")):
        for i in range(7):
            for j_0 in range(3):
                with T.block("B"):
                    vi = T.axis.spatial(7, i)
                    vj = T.axis.spatial(13, j_0)
                    B[vi, vj] = A[vi, vj] + T.float32(1)
            for j_1 in range(10):
                with T.block("B_1"):
                    vi = T.axis.spatial(7, i)
                    vj = T.axis.spatial(13, j_1 + 3)
                    B[vi, vj] = A[vi, vj] + T.float32(1)

    check(rows, lambda sch: sch.loop_partition(loops(sch, "B")[1], [3, None]), expected)
    check(programs.matmul, lambda sch: sch.loop_partition(loops(sch, "C")[2], [2, 4, None]))
    refused(
        rows, lambda sch: sch.loop_partition(loops(sch, "B")[1], [9, 9]),
        "parts of [9, 9] do not make up 13 iterations", marked="for j",
    )  # fmt: skip
    refused(
        programs.copy_symbolic, lambda sch: sch.loop_partition(loops(sch, "B")[0], [2, None]),
        "the extent is not constant",
    )  # fmt: skip
    n = Var("n", "int32")
    refused(
        rows, lambda sch: sch.loop_partition(loops(sch, "B")[1], [n, None]),
        "loop_partition: the parts ['n', 'None'] are not constant lengths", marked="for j",
    )  # fmt: skip


def test_loop_partition_of_blocks_with_buffers_of_their_own():
    @T.prim_func
    def nested(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(10):
            with T.block("outer"):
                vi = T.axis.spatial(10, i)
                t = T.alloc_buffer((1,), "float32")
                for _u in range(1):
                    with T.block("first"):
                        t[0] = A[vi] * T.float32(2)
                for _u in range(1):
                    with T.block("second"):
                        B[vi] = t[0] + T.float32(1)

    sch = check(nested, lambda sch: sch.loop_partition(loops(sch, "outer")[0], [4, None]))
    own = [sch.get(sch.get_block(name)).alloc_buffers[0] for name in ("outer", "outer_1")]
    assert own[0] is not own[1] and own[0].data is not own[1].data


@pytest.mark.parametrize("target", ["block", "loop"])
def test_add_unit_loop(target):
    def steps(sch):
        block = sch.get_block("B")
        unit = sch.add_unit_loop(block if target == "block" else sch.get_loops(block)[1])
        assert sch.get(unit).extent.value == 1
        assert str(sch.get(unit).loop_var.dtype) == "int64"
        assert len(sch.get_loops(block)) == 3

    check(programs.elementwise64, steps)


def test_add_unit_loop_around_the_root():
    refused(
        rows,
        lambda sch: sch.add_unit_loop(sch.get_block("root")),
        "a loop cannot be added around the root",
    )


def test_reorder_block_iter_var():
    @T.prim_func
    def expected(
        A: T.Buffer((9, 11), "float32"),
        B: T.Buffer((11, 6), "float32"),
        C: T.Buffer((9, 6), "float32"),
    ):
        for i, j, k in T.grid(9, 6, 11):
            with T.block("C"):
                vk, vi, vj = T.axis.remap("RSS", [k, i, j])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    check(
        programs.matmul,
        lambda sch: sch.reorder_block_iter_var(sch.get_block("C"), [2, 0, 1]),
        expected,
    )
    refused(
        programs.matmul,
        lambda sch: sch.reorder_block_iter_var(sch.get_block("C"), [0, 0, 1]),
        "[0, 0, 1] is not a permutation of 3",
    )


@pytest.mark.parametrize("primitive", ["parallel", "vectorize", "unroll"])
def test_kinds(primitive):
    def steps(sch):
        getattr(sch, primitive)(loops(sch, "B")[1])

    sch = check(rows, steps)
    kind = {
        "parallel": ForKind.PARALLEL,
        "vectorize": ForKind.VECTORIZED,
        "unroll": ForKind.UNROLLED,
    }
    assert sch.get(loops(sch, "B")[1]).kind is kind[primitive]
    assert sch.get(loops(sch, "B")[0]).kind is ForKind.SERIAL


def test_unroll_takes_any_loop():
    check(programs.matmul, lambda sch: sch.unroll(loops(sch, "C")[2]))
    check(programs.scan, lambda sch: sch.unroll(loops(sch, "B")[0]))


@pytest.mark.parametrize("primitive", ["parallel", "vectorize"])
def test_kinds_refuse_dependences(primitive):
    def reduction(sch):
        getattr(sch, primitive)(loops(sch, "C")[2])

    refused(
        programs.matmul,
        reduction,
        f"{primitive}: loop 'k' carries the reduction iterator 'vk' of block 'C'",
        marked="for k",
    )
    refused(
        programs.scan,
        lambda sch: getattr(sch, primitive)(loops(sch, "B")[0]),
        "must keep its order",
    )

    @T.prim_func
    def shifted(A: T.Buffer((10,), "float32"), B: T.Buffer((11,), "float32")):
        for i in range(10):
            with T.block("B"):
                vi = T.axis.spatial(10, i)
                B[vi + 1] = B[vi] + A[vi]

    refused(
        shifted,
        lambda sch: getattr(sch, primitive)(loops(sch, "B")[0]),
        "reads other elements of 'B' than it writes",
    )

    @T.prim_func
    def one_place(A: T.Buffer((10,), "float32"), B: T.Buffer((1,), "float32")):
        for i in range(10):
            with T.block("B"):
                vi = T.axis.spatial(10, i)
                B[0] = B[0] + A[vi]

    refused(one_place, lambda sch: getattr(sch, primitive)(loops(sch, "B")[0]), "block 'B' writes")


@pytest.mark.parametrize("primitive", ["parallel", "vectorize", "unroll"])
def test_loops_of_threads_keep_their_kind(primitive):
    @T.prim_func
    def copied(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in T.thread_binding(8, "threadIdx.x"):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi]

    refused(
        copied,
        lambda sch: getattr(sch, primitive)(loops(sch, "B")[0]),
        "loop 'i' is bound to threadIdx.x already",
    )


@pytest.mark.parametrize("primitive", ["parallel", "vectorize"])
def test_lets_carry_reductions(primitive):
    """Found by fuzzing: a reduction iterator bound to a let's variable did not count as driven."""

    @T.prim_func
    def summed(A: T.Buffer((4, 3), "float32"), B: T.Buffer((3,), "float32")):
        for k, i in T.grid(4, 3):
            at: T.int32 = k
            with T.block("B"):
                vk = T.axis.reduce(4, at)
                vi = T.axis.spatial(3, i)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vk, vi]

    reason = "carries the reduction iterator 'vk' of block 'B'"
    refused(summed, lambda sch: getattr(sch, primitive)(loops(sch, "B")[0]), reason)
    check(summed, lambda sch: getattr(sch, primitive)(loops(sch, "B")[1]))
    sch = schedule_of(summed)
    together = sch.fuse(*loops(sch, "B"))
    with pytest.raises(ScheduleError, match=reason):
        getattr(sch, primitive)(together)


@pytest.mark.parametrize("primitive", ["parallel", "vectorize"])
def test_iterations_that_write_the_same_elements(primitive):
    @T.prim_func
    def repeated(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for u, i in T.grid(3, 8):  # noqa: B007
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + T.float32(1)

    refused(
        repeated, lambda sch: getattr(sch, primitive)(loops(sch, "B")[0]),
        "every iteration of loop 'u' writes the same elements of 'B'",
    )  # fmt: skip


def test_parallel_over_tiles_that_overlap():
    """Each tile computes its own margin: parallel first, then the producer moves in."""

    def steps(sch):
        outer, _ = sch.split(loops(sch, "C")[0], [2, 7])
        sch.parallel(outer)
        sch.compute_at(sch.get_block("B"), outer)
        sch.vectorize(loops(sch, "C")[1])

    check(programs.stencil, steps)


def test_parallel_over_private_copies():
    """A block repeated by each iteration, for that iteration alone, does not stand in the way."""

    def steps(sch):
        sch.compute_at(sch.get_block("M"), loops(sch, "C")[0])
        sch.parallel(loops(sch, "C")[0])

    check(programs.row_softmax_sums, steps)


def test_vectorize_inside_of_overlapping_tiles():
    def steps(sch):
        sch.split(loops(sch, "C")[0], [2, 7])
        sch.compute_at(sch.get_block("B"), loops(sch, "C")[0])
        sch.vectorize(loops(sch, "B")[-1])

    check(programs.stencil, steps)


def test_vectorize_refuses_symbolic_extents():
    refused(
        programs.copy_symbolic,
        lambda sch: sch.vectorize(loops(sch, "B")[0]),
        "the extent of loop 'i' is not constant",
    )


def test_bind():
    def steps(sch):
        i, j = loops(sch, "B")
        sch.bind(i, "blockIdx.x")
        sch.bind(j, "threadIdx.x")

    sch = check(rows, steps)
    assert 'T.thread_binding(7, thread="blockIdx.x")' in main_of(sch).script()
    refused(
        rows,
        lambda sch: sch.bind(loops(sch, "B")[0], "threadIdx.w"),
        "'threadIdx.w' is not a thread axis",
        "threadIdx.x",
    )
    refused(
        rows,
        [
            lambda sch: sch.bind(loops(sch, "B")[0], "threadIdx.x"),
            lambda sch: sch.bind(loops(sch, "B")[1], "threadIdx.x"),
        ],
        "an outer loop is bound to threadIdx.x already",
    )
    refused(
        programs.matmul,
        lambda sch: sch.bind(loops(sch, "C")[2], "blockIdx.x"),
        "carries the reduction iterator",
    )
    # Threads of a block may combine their results.
    sch = schedule_of(programs.matmul)
    sch.bind(loops(sch, "C")[2], "threadIdx.x")


def test_annotate_and_unannotate():
    def steps(sch):
        block = sch.get_block("B")
        outer, inner = sch.get_loops(block)
        sch.annotate(inner, "pragma", "text")
        sch.annotate(block, "tiles", [1, 2, [3, 4]])
        sch.annotate(outer, "gone", 1)
        sch.unannotate(outer, "gone")

    sch = check(rows, steps)
    block = sch.get_block("B")
    assert dict(sch.get(block).annotations) == {"tiles": (1, 2, (3, 4))}
    assert dict(sch.get(sch.get_loops(block)[1]).annotations) == {"pragma": "text"}
    assert not sch.get(sch.get_loops(block)[0]).annotations
    refused(rows, lambda sch: sch.unannotate(sch.get_block("B"), "x"), "there is no annotation 'x'")


def test_finding_blocks():
    sch = schedule_of(programs.three_stages)
    b, c, d = (sch.get_block(name) for name in "BCD")

    def names(blocks):
        return [sch.get(block).name_hint for block in blocks]

    root = sch.get_block("root")
    assert names(sch.get_child_blocks(root)) == ["B", "C", "D"]
    assert names(sch.get_child_blocks(sch.get_loops(c)[0])) == ["C"]
    assert names(sch.get_producers(d)) == ["B", "C"]
    assert names(sch.get_producers(b)) == []
    assert names(sch.get_consumers(b)) == ["C", "D"]
    assert names(sch.get_output_blocks(root)) == ["D"]
    assert [sch.get(loop).loop_var.name for loop in sch.get_loops(b)] == ["i", "j"]
    assert sch.get_loops(root) == []


def test_get_block_refusals():
    refused(rows, lambda sch: sch.get_block("b"), "'main' has no block 'b'")
    refused(programs.three_stages, lambda sch: sch.get_block("BB"), "did you mean 'B'?")
    refused(
        rows,
        lambda sch: sch.split(sch.get_block("B"), [1, None]),
        "expected a loop, got the block 'B'",
    )
    refused(
        rows, lambda sch: sch.compute_inline(loops(sch, "B")[0]), "expected a block, got the loop i"
    )
    sch = schedule_of(programs.elementwise)
    i, j = loops(sch, "B")
    sch.fuse(i, j)
    with pytest.raises(ScheduleError, match="no longer part of the program"):
        sch.get(j)


def test_programs_in_work_keep_their_originals():
    sch = schedule_of(rows)
    before = main_of(sch)
    sch.split(loops(sch, "B")[0], [None, 2])
    assert_structural_equal(before, rows)


@T.prim_func
def repeats(A: T.Buffer((20,), "float32"), B: T.Buffer((20,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(5, 5):
        with T.block("B"):
            vi = T.axis.spatial(20, i * 3 + j)
            B[vi] = A[vi] * 2.0


def test_blocks_that_write_the_same_again_are_reordered():
    sch = check(repeats, lambda sch: sch.reorder(*loops(sch, "B")[::-1]))
    assert [sch.get(loop).loop_var.name for loop in loops(sch, "B")] == ["j", "i"]


@T.prim_func
def triangle(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(16):
        for j in range(i, 16):
            with T.block("above"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2.0
        for j in range(i):
            with T.block("below"):
                vi, vj = T.axis.S(16, i), T.axis.S(i, j)
                B[vi, vj] = A[vi, vj] + 1.0


def test_domains_of_triangles_run_over_all_iterations():
    sch = check(triangle, lambda sch: sch.split(loops(sch, "above")[0], [None, 4]))
    for name in ("above", "below"):
        domain = sch.get(sch.get_block(name)).iter_vars[1].dom
        assert domain.min == 0 and int(domain.extent) in (15, 16)
    refused(
        triangle,
        lambda sch: sch.reorder(*loops(sch, "above")[::-1]),
        "loop 'i' has several statements",
    )
