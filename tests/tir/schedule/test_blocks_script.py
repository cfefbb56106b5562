"""Primitives that move blocks, inline them and cache their buffers."""

import pytest

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import check, refused, schedule_of
from tilesmith.script import tir as T


def loops(sch, name):
    return sch.get_loops(sch.get_block(name))


def compute_at(producer, consumer, number, **options):
    def step(sch):
        sch.compute_at(sch.get_block(producer), loops(sch, consumer)[number], **options)

    return step


def reverse_compute_at(consumer, producer, number, **options):
    def step(sch):
        sch.reverse_compute_at(sch.get_block(consumer), loops(sch, producer)[number], **options)

    return step


def inline(name):
    return lambda sch: sch.compute_inline(sch.get_block(name))


def reverse_inline(name):
    return lambda sch: sch.reverse_compute_inline(sch.get_block(name))


def test_compute_inline():
    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), C: T.Buffer((7, 13), "float32")):
        for i, j in T.grid(7, 13):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * T.float32(2) + T.float32(1)

    check(programs.elementwise, inline("B"), expected)
    check(programs.elementwise, reverse_inline("C"))


@pytest.mark.parametrize(
    "program, name", [(programs.stencil, "B"), (programs.padded, "P"), (programs.three_stages, "B")]
)
def test_compute_inline_of_many_reads(program, name):
    check(program, inline(name))


def test_compute_inline_after_split():
    def steps(sch):
        sch.split(loops(sch, "B")[1], [None, 4])
        sch.split(loops(sch, "C")[1], [None, 5])
        sch.compute_inline(sch.get_block("B"))

    check(programs.elementwise, steps)


def test_compute_inline_refusals():
    refused(
        programs.elementwise,
        inline("C"),
        "block 'C' is an output block",
        marked='T.block("C")',
    )
    refused(
        programs.matmul_relu,
        inline("C"),
        "block 'C' is not a complete block: iterator 'vk' is not data-parallel",
    )

    @T.prim_func
    def shifted(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((9,), "float32")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi + 1] = A[vi]
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi + 1]

    refused(shifted, inline("B"), "block 'B' does not write 'B' at its plain iterators")

    @T.prim_func
    def overwritten(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,), "float32")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + T.float32(1)
        for i in range(8):
            with T.block("A"):
                vi = T.axis.spatial(8, i)
                A[vi] = T.float32(0)
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi]

    refused(overwritten, inline("B"), "compute_inline: block 'A' writes what it reads")
    refused(overwritten, compute_at("B", "C", 0), "compute_at: block 'A' writes what it reads")


def test_reverse_compute_inline_of_a_permutation():
    @T.prim_func
    def transposed(A: T.Buffer((5, 6), "float32"), C: T.Buffer((6, 5), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((5, 6), "float32")
        for i, j in T.grid(5, 6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(6, 5):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vj, vi] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((5, 6), "float32"), C: T.Buffer((6, 5), "float32")):
        for i, j in T.grid(5, 6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vj, vi] = A[vi, vj] * T.float32(2) + T.float32(1)

    check(transposed, reverse_inline("C"), expected)


def test_reverse_compute_inline_of_a_flattening_and_a_crop():
    @T.prim_func
    def flat(A: T.Buffer((5, 6), "float32"), C: T.Buffer((30,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((5, 6), "float32")
        for i, j in T.grid(5, 6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i in range(30):
            with T.block("C"):
                vi = T.axis.spatial(30, i)
                C[vi] = B[vi // 6, vi % 6] + T.float32(1)

    @T.prim_func
    def crop(A: T.Buffer((9,), "float32"), C: T.Buffer((7,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((9,), "float32")
        for i in range(9):
            with T.block("B"):
                vi = T.axis.spatial(9, i)
                B[vi] = A[vi] * T.float32(2)
        for i in range(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                C[vi] = B[vi] + T.float32(1)

    check(flat, reverse_inline("C"))
    check(crop, reverse_inline("C"))


def test_reverse_compute_inline_refusals():
    refused(
        programs.matmul_relu,
        reverse_inline("D"),
        "block 'C' is a reduction",
        "use reverse_compute_at",
    )
    refused(programs.stencil, reverse_inline("C"), "'B' is read at several different places")
    refused(programs.three_stages, reverse_inline("D"), "block 'D' has 2 producers, it needs one")
    refused(programs.three_stages, reverse_inline("C"), "'B' has another consumer")


def test_consumers_with_conditions():
    @T.prim_func
    def part(A: T.Buffer((9,), "float32"), C: T.Buffer((9,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((9,), "float32")
        for i in range(9):
            with T.block("B"):
                vi = T.axis.spatial(9, i)
                B[vi] = A[vi] * T.float32(2)
        for i in range(9):
            with T.block("C"):
                vi = T.axis.spatial(9, i)
                T.where(i < 5)
                C[vi] = B[vi] + T.float32(1)

    refused(part, reverse_inline("C"), "block 'C' runs under a condition of its own: i < 5")
    refused(part, reverse_compute_at("C", "B", 0), "block 'C' runs under a condition of its own")
    check(part, inline("B"))
    check(part, compute_at("B", "C", 0))

    def split_first(step):
        def steps(sch):
            sch.split(loops(sch, "C")[1], [None, 4])
            step(sch)

        return steps

    check(programs.elementwise, split_first(reverse_inline("C")))
    check(programs.elementwise, split_first(reverse_compute_at("C", "B", 0)))


def test_reverse_compute_inline_of_padding():
    """The margins belong to no element of the producer: nothing would write them."""

    @T.prim_func
    def pad(A: T.Buffer((6,), "float32"), C: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((6,), "float32")
        for i in range(6):
            with T.block("B"):
                vi = T.axis.spatial(6, i)
                B[vi] = A[vi] * T.float32(2)
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = T.if_then_else(1 <= vi and vi < 7, B[vi - 1], T.float32(0))

    refused(pad, reverse_inline("C"), "block 'C' runs for more than the elements of 'B'")
    check(pad, inline("B"))


def test_compute_at():
    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), C: T.Buffer((7, 13), "float32")):
        B = T.alloc_buffer((7, 13), "float32")
        for i in range(7):
            for ax0 in range(13):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, ax0])
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for j in range(13):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + T.float32(1)

    check(programs.elementwise, compute_at("B", "C", 0), expected)
    check(programs.elementwise64, compute_at("B", "C", 0))
    check(programs.elementwise64, compute_at("B", "C", 1, preserve_unit_loops=True))


@pytest.mark.parametrize("factor", [2, 4, 5, 14])
@pytest.mark.parametrize("program, name", [(programs.stencil, "B"), (programs.padded, "P")])
def test_compute_at_with_overlap_and_predicates(program, name, factor):
    def steps(sch):
        outer, _ = sch.split(loops(sch, "C")[0], [None, factor])
        sch.compute_at(sch.get_block(name), outer)

    check(program, steps)


def test_compute_at_of_a_reduction():
    check(programs.matmul_relu, compute_at("C", "D", 0))
    check(programs.matmul_relu, compute_at("C", "D", 1))
    check(programs.row_softmax_sums, compute_at("M", "C", 0))
    check(programs.row_softmax_sums, compute_at("M", "C", 1))


def test_compute_at_of_reads_out_of_range():
    """The consumer guards its reads; its region still names what lies outside."""

    @T.prim_func
    def guarded(A: T.Buffer((13,), "float32"), C: T.Buffer((15,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((13,), "float32")
        for i in range(13):
            with T.block("B"):
                vi = T.axis.spatial(13, i)
                B[vi] = A[vi] * T.float32(2)
        for i in range(15):
            with T.block("C"):
                vi = T.axis.spatial(15, i)
                C[vi] = T.if_then_else(1 <= vi and vi < 14, B[vi - 1], T.float32(0))

    def tiled(sch):
        outer, _ = sch.split(loops(sch, "C")[0], [None, 4])
        sch.compute_at(sch.get_block("B"), outer)

    check(guarded, tiled)
    check(guarded, compute_at("B", "C", 0))
    refused(
        guarded,
        reverse_compute_at("C", "B", 0),
        "the loop does not make all of 'B' that block 'C' reads",
    )


def test_compute_at_index():
    check(programs.three_stages, [lambda sch: None][0])

    def steps(sch):
        sch.compute_at(sch.get_block("C"), loops(sch, "D")[0])
        sch.compute_at(sch.get_block("B"), loops(sch, "D")[0], index=0)

    sch = check(programs.three_stages, steps)
    assert [sch.get(b).name_hint for b in sch.get_child_blocks(loops(sch, "D")[0])] == [
        "B",
        "C",
        "D",
    ]

    def wrong(sch):
        steps(sch)

    refused(
        programs.three_stages,
        [compute_at("C", "D", 0), compute_at("B", "D", 0, index=2)],
        "index 2 is not between 0 and 0",
    )


def test_compute_at_refusals():
    refused(programs.elementwise, compute_at("C", "B", 0), "block 'C' is an output block")
    refused(
        programs.elementwise,
        compute_at("B", "B", 0),
        "the loop is already an ancestor of block 'B'",
    )
    refused(
        programs.three_stages,
        compute_at("B", "C", 0),
        "is read by 'D'; the primitive requires all the consumer(s) to be under the loop",
        marked='T.block("D")',
    )
    refused(programs.scan, compute_at("B", "B", 0), "compute_at")


def test_reverse_compute_at():
    @T.prim_func
    def expected(
        A: T.Buffer((9, 11), "float32"),
        B: T.Buffer((11, 6), "float32"),
        D: T.Buffer((9, 6), "float32"),
    ):
        C = T.alloc_buffer((9, 6), "float32")
        for i in range(9):
            for j, k in T.grid(6, 11):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
            for ax0 in range(6):
                with T.block("D"):
                    vi, vj = T.axis.remap("SS", [i, ax0])
                    D[vi, vj] = T.max(C[vi, vj], T.float32(0))

    check(programs.matmul_relu, reverse_compute_at("D", "C", 0), expected)
    check(programs.matmul_relu, reverse_compute_at("D", "C", 1))
    check(programs.elementwise64, reverse_compute_at("C", "B", 1, preserve_unit_loops=True))


@pytest.mark.parametrize("factor", [2, 4, 5])
def test_reverse_compute_at_of_tiles(factor):
    def steps(sch):
        i, j, k = loops(sch, "C")
        i0, i1 = sch.split(i, [None, factor])
        j0, j1 = sch.split(j, [None, 4])
        sch.reorder(i0, j0, k, i1, j1)
        sch.reverse_compute_at(sch.get_block("D"), j0)

    check(programs.matmul_relu, steps)


def test_reverse_compute_at_refusals():
    refused(
        programs.matmul_relu, reverse_compute_at("D", "C", 2),
        "the reduction of block 'C' is complete only after loop 'k'", marked="for k",
    )  # fmt: skip
    refused(
        programs.stencil,
        reverse_compute_at("C", "B", 0),
        "block 'C' reads 'B' over several iterations of 'i'",
    )
    refused(
        programs.elementwise,
        reverse_compute_at("B", "C", 0),
        "no producer of block 'B' is under the loop",
    )

    def diamond(sch):
        sch.reverse_compute_at(sch.get_block("D"), loops(sch, "B")[0])

    refused(
        programs.three_stages,
        diamond,
        "block 'D' reads what 'C' writes; the primitive requires all the producers to be under",
    )

    def reduction_outside(sch):
        i, j, k = loops(sch, "C")
        sch.reorder(k, i, j)

    refused(
        programs.matmul_relu,
        [reduction_outside, reverse_compute_at("D", "C", 1)],
        "complete only after loop 'k'",
    )


def test_reverse_compute_at_of_a_reduction():
    """A sum over what each iteration makes: run once for each, in order."""

    @T.prim_func
    def sums(A: T.Buffer((5, 6), "float32"), C: T.Buffer((5,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((5, 6), "float32")
        for i, k in T.grid(5, 6):
            with T.block("B"):
                vi, vk = T.axis.remap("SS", [i, k])
                B[vi, vk] = A[vi, vk] * T.float32(2)
        for i, k in T.grid(5, 6):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + B[vi, vk]

    check(sums, reverse_compute_at("C", "B", 0))
    check(sums, reverse_compute_at("C", "B", 1))
    refused(
        sums, [lambda sch: sch.parallel(loops(sch, "B")[1]), reverse_compute_at("C", "B", 1)],
        "loop 'k' would carry the reduction of block 'C'",
    )  # fmt: skip

    def threads(sch):
        inner = sch.split(loops(sch, "B")[1], [None, 3])[1]
        sch.bind(inner, "threadIdx.x")

    refused(
        sums, [threads, reverse_compute_at("C", "B", 2)],
        "loop 'k_0' would carry the reduction of block 'C'", "rfactor the loop over threads",
    )  # fmt: skip


@T.prim_func
def halves(A: T.Buffer((4,), "float32"), C: T.Buffer((8,), "float32")):
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((4,), "float32")
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi // 2] + T.float32(1)


@T.prim_func
def diagonal_of(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((4, 4), "float32")
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi, vi] + T.float32(1)


@T.prim_func
def one_row(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((4, 4), "float32")
    for i, j in T.grid(4, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[1, vi] + T.float32(1)


@T.prim_func
def odd_ones(A: T.Buffer((10,), "float32"), C: T.Buffer((4,), "float32")):
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((10,), "float32")
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi * 2 + 1] + T.float32(1)


@pytest.mark.parametrize("program", [diagonal_of, one_row, odd_ones])
def test_reverse_compute_inline_of_a_part(program):
    """Elements that the consumer does not read must not store anything."""
    check(program, reverse_inline("C"))


def test_reverse_compute_inline_of_repeated_reads():
    """Each element is read twice: one store cannot stand for both."""
    refused(halves, reverse_inline("C"), "iterator 'vi' does not follow from the indices")


def test_reverse_compute_inline_of_digits():
    @T.prim_func
    def flat(A: T.Buffer((4, 5), "float32"), C: T.Buffer((20,), "float32")):
        T.func_attr({"global_symbol": "main"})
        B = T.alloc_buffer((4, 5), "float32")
        for i, j in T.grid(4, 5):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i in range(20):
            with T.block("C"):
                vi = T.axis.spatial(20, i)
                C[vi] = B[vi // 5, vi % 5] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((4, 5), "float32"), C: T.Buffer((20,), "float32")):
        for i, j in T.grid(4, 5):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi * 5 + vj] = A[vi, vj] * T.float32(2) + T.float32(1)

    check(flat, reverse_inline("C"), expected)


def test_what_is_inlined_with_a_pointer_is_still_read():
    @T.prim_func
    def before(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        B = T.alloc_buffer((8, 8), "float32")
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, 0:8])
                T.writes(B[vi, vj])
                B[vi, vj] = T.call_extern("float32", "look", A.data, vi, vj)
        for i, j in T.grid(8, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)

    for steps in (
        lambda sch: sch.compute_inline("B"),
        lambda sch: sch.reverse_compute_inline("C"),
    ):
        sch = schedule_of(before)
        steps(sch)
        block = sch.get(sch.get_block("C") if "C" in names(sch) else sch.get_block("B"))
        assert [region.buffer.name for region in block.reads] == ["A"]
        assert [region.buffer.name for region in block.writes] == ["C"]


def names(sch):
    return [sch.get(block).name_hint for block in sch.get_child_blocks(sch.get_block("root"))]
