"""Primitives that move blocks, inline them and cache their buffers."""

import pytest

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import check, main_of, refused, schedule_of
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
        "block 'C' writes an output of its scope",
        marked='T.block("C")',
    )
    refused(
        programs.matmul_relu,
        inline("C"),
        "block 'C' is not complete: iterator 'vk' is not data-parallel",
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
    refused(
        programs.elementwise, compute_at("C", "B", 0), "block 'C' writes an output of its scope"
    )
    refused(programs.elementwise, compute_at("B", "B", 0), "the loop is around block 'B' already")
    refused(
        programs.three_stages,
        compute_at("B", "C", 0),
        "is read by 'D', which is not under the loop",
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
        "block 'C' writes what it reads, and block 'D' would pass it",
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


def test_cache_read_and_write():
    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), B: T.Buffer((7, 13), "float32")):
        A_shared = T.alloc_buffer((7, 13), "float32", scope="shared")
        B_local = T.alloc_buffer((7, 13), "float32", scope="local")
        for ax0, ax1 in T.grid(7, 13):
            with T.block("A_shared"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                A_shared[v0, v1] = A[v0, v1]
        for i, j in T.grid(7, 13):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B_local[vi, vj] = A_shared[vi, vj] + T.float32(1)
        for ax0, ax1 in T.grid(7, 13):
            with T.block("B_local"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                B[v0, v1] = B_local[v0, v1]

    @T.prim_func
    def rows(A: T.Buffer((7, 13), "float32"), B: T.Buffer((7, 13), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, j in T.grid(7, 13):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    def steps(sch):
        block = sch.get_block("B")
        sch.cache_read(block, 0, "shared")
        sch.cache_write(block, "B", "local")

    check(rows, steps, expected)


@pytest.mark.parametrize("program", [programs.matmul, programs.matmul64])
def test_cached_tiles(program):
    def steps(sch):
        block = sch.get_block("C")
        i, j, k = sch.get_loops(block)
        i0, i1 = sch.split(i, [None, 4])
        k0, k1 = sch.split(k, [None, 3])
        sch.reorder(i0, k0, i1, j, k1)
        a = sch.cache_read(block, "A", "shared")
        b = sch.cache_read(block, "B", "local")
        c = sch.cache_write(block, 0, "local")
        sch.compute_at(a, k0)
        sch.compute_at(b, k0)
        sch.reverse_compute_at(c, i0)

    check(program, steps)


def test_cache_consumers():
    def one(sch):
        sch.cache_read(sch.get_block("C"), "B", "local", consumer_blocks=[sch.get_block("C")])

    sch = check(programs.three_stages, one)
    assert [r.buffer.name for r in sch.get(sch.get_block("D")).reads] == ["B", "C"]
    sch = check(programs.three_stages, lambda sch: sch.cache_read(sch.get_block("C"), 0, "local"))
    assert [r.buffer.name for r in sch.get(sch.get_block("D")).reads] == ["B_local", "C"]

    def write(sch):
        sch.cache_write(sch.get_block("B"), 0, "local", consumer_blocks=[sch.get_block("D")])

    sch = check(programs.three_stages, write)
    assert [r.buffer.name for r in sch.get(sch.get_block("D")).reads] == ["B_local", "C"]


def test_caches_within_one_nest():
    together = compute_at("B", "C", 0)
    refused(
        programs.elementwise,
        [together, lambda sch: sch.cache_read(sch.get_block("C"), 0, "local")],
        "block 'C' does not read 'B' after all that write it",
    )
    refused(
        programs.elementwise,
        [together, lambda sch: sch.cache_write(sch.get_block("B"), 0, "local")],
        "block 'C' reads 'B' in the same nest, before the copy",
    )

    def steps(sch):
        together(sch)
        sch.cache_write(sch.get_block("B"), 0, "local", consumer_blocks=[sch.get_block("C")])

    check(programs.elementwise, steps)


def test_cache_refusals():
    refused(
        programs.elementwise,
        lambda sch: sch.cache_read(sch.get_block("B"), 1, "local"),
        "reads 1 buffers, there is no number 1",
    )
    refused(
        programs.elementwise,
        lambda sch: sch.cache_read(sch.get_block("B"), "X", "local"),
        "block 'B' does not read 'X'; it does: A",
    )

    def decomposed(sch):
        sch.decompose_reduction(sch.get_block("C"), loops(sch, "C")[2])

    refused(
        programs.matmul,
        [decomposed, lambda sch: sch.cache_write(sch.get_block("C_update"), 0, "local")],
        "another block writes buffer 'C' too",
    )


def test_set_scope_and_storage_align():
    def steps(sch):
        block = sch.get_block("B")
        sch.set_scope(block, 0, "shared")
        sch.storage_align(block, 0, -2, 32, 8)
        sch.storage_align(block, 0, 0, 16, 4)

    sch = check(programs.elementwise, steps)
    block = sch.get(sch.get_block("B"))
    assert block.writes[0].buffer.scope() == "shared"
    assert sch.get(sch.get_block("C")).reads[0].buffer is block.writes[0].buffer
    assert block.annotations["buffer_dim_align"] == ((0, 0, 16, 4),)
    refused(
        programs.elementwise,
        lambda sch: sch.set_scope(sch.get_block("C"), 0, "shared"),
        "buffer 'C' is a parameter",
    )
    refused(
        programs.elementwise,
        lambda sch: sch.storage_align(sch.get_block("B"), 0, 2, 32, 8),
        "buffer 'B' has no axis 2",
    )
    refused(
        programs.elementwise,
        lambda sch: sch.storage_align(sch.get_block("B"), 0, 0, 0, 8),
        "factor 0 is not positive",
    )
    refused(
        programs.elementwise,
        lambda sch: sch.storage_align(sch.get_block("C"), 0, 0, 8, 0),
        "is a parameter",
    )


def test_decompose_reduction():
    @T.prim_func
    def expected(
        A: T.Buffer((9, 11), "float32"),
        B: T.Buffer((11, 6), "float32"),
        C: T.Buffer((9, 6), "float32"),
    ):
        for i in range(9):
            for j_init in range(6):
                with T.block("C_init"):
                    vi_init, vj_init = T.axis.remap("SS", [i, j_init])
                    C[vi_init, vj_init] = T.float32(0)
            for j, k in T.grid(6, 11):
                with T.block("C_update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    T.reads(C[vi, vj], A[vi, vk], B[vk, vj])
                    T.writes(C[vi, vj])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    def step(sch):
        sch.decompose_reduction(sch.get_block("C"), loops(sch, "C")[1])

    check(programs.matmul, step, expected)
    check(programs.matmul64, step)


def test_decompose_reduction_of_tiles_with_predicates():
    def steps(sch):
        i, j, k = loops(sch, "C")
        j0, j1 = sch.split(j, [None, 4])
        k0, k1 = sch.split(k, [None, 3])
        sch.reorder(i, j0, k0, j1, k1)
        sch.decompose_reduction(sch.get_block("C"), k0)

    check(programs.matmul, steps)


def test_decompose_reduction_refusals():
    def inside(sch):
        i, j, k = loops(sch, "C")
        sch.reorder(i, k, j)
        sch.work_on("main")

    refused(
        programs.matmul,
        [inside, lambda sch: sch.decompose_reduction(sch.get_block("C"), loops(sch, "C")[2])],
        "loop 'k' carries the reduction iterator 'vk'",
        marked="for k",
    )
    refused(
        programs.elementwise,
        lambda sch: sch.decompose_reduction(sch.get_block("B"), loops(sch, "B")[0]),
        "block 'B' is no reduction block: it has no T.init()",
    )
    refused(
        programs.matmul_relu,
        lambda sch: sch.decompose_reduction(sch.get_block("C"), loops(sch, "D")[0]),
        "the loop is not around block 'C'",
    )


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("program", [programs.matmul, programs.matmul64])
def test_rfactor(program, axis):
    def steps(sch):
        made = sch.rfactor(loops(sch, "C")[2], axis)
        sch.parallel(sch.get_loops(made)[2])

    check(program, steps)


def test_rfactor_program():
    @T.prim_func
    def sums(A: T.Buffer((5, 6), "float32"), C: T.Buffer((5,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, k in T.grid(5, 6):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]

    @T.prim_func
    def expected(A: T.Buffer((5, 6), "float32"), C: T.Buffer((5,), "float32")):
        C_rf = T.alloc_buffer((3, 5), "float32")
        for i, k_0, k_1 in T.grid(5, 2, 3):
            with T.block("C_rf"):
                vk_1, vi, vk_0 = T.axis.remap("SSR", [k_1, i, k_0])
                with T.init():
                    C_rf[vk_1, vi] = T.float32(0)
                C_rf[vk_1, vi] = C_rf[vk_1, vi] + A[vi, vk_0 * 3 + vk_1]
        for i, k_1 in T.grid(5, 3):
            with T.block("C"):
                vi, vk_1 = T.axis.remap("SR", [i, k_1])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + C_rf[vk_1, vi]

    def steps(sch):
        _, inner = sch.split(loops(sch, "C")[1], [None, 3])
        sch.rfactor(inner, 0)

    check(sums, steps, expected)


@pytest.mark.parametrize("factor", [2, 3, 4, 7, 16])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("name", ["C", "M"])
def test_rfactor_with_predicates(factor, which, name):
    def steps(sch):
        parts = sch.split(loops(sch, name)[1], [None, factor])
        sch.rfactor(parts[which], 1)

    check(programs.row_softmax_sums, steps)


def test_rfactor_refusals():
    refused(
        programs.matmul,
        lambda sch: sch.rfactor(loops(sch, "C")[0], 0),
        "loop 'i' does not drive reduction iterators only",
        marked="for i",
    )
    refused(
        programs.matmul,
        lambda sch: sch.rfactor(loops(sch, "C")[2], 3),
        "factor_axis 3 is not within 2 dimensions",
    )
    refused(
        programs.elementwise,
        lambda sch: sch.rfactor(loops(sch, "B")[1], 0),
        "is no reduction block",
    )

    @T.prim_func
    def differences(A: T.Buffer((5, 6), "float32"), C: T.Buffer((5,), "float32")):
        for i, k in T.grid(5, 6):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] - A[vi, vk]

    refused(
        differences,
        lambda sch: sch.rfactor(loops(sch, "C")[1], 0),
        "combines with something else than +, *, min, max",
    )


def test_rfactor_of_a_start_value():
    """A sum that starts at 5: the partial sums must not each start there."""

    @T.prim_func
    def offset(A: T.Buffer((5, 6), "float32"), C: T.Buffer((5,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i, k in T.grid(5, 6):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(5)
                C[vi] = C[vi] + A[vi, vk]

    check(offset, lambda sch: sch.rfactor(loops(sch, "C")[1], 0))


def test_transform_layout():
    @T.prim_func
    def expected(A: T.Buffer((7, 13), "float32"), C: T.Buffer((7, 13), "float32")):
        B = T.alloc_buffer((13, 7), "float32")
        for i, j in T.grid(7, 13):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj, vi] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(7, 13):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vj, vi] + T.float32(1)

    def steps(sch):
        sch.transform_layout(sch.get_block("B"), ("write", 0), lambda i, j: (j, i))

    check(programs.elementwise, steps, expected)
    check(programs.elementwise64, steps)


@pytest.mark.parametrize("program", [programs.elementwise, programs.elementwise64])
@pytest.mark.parametrize("pad", [None, 0.0, 3])
def test_transform_layout_with_padding(program, pad):
    def steps(sch):
        sch.transform_layout(
            sch.get_block("C"), ("read", 0), lambda i, j: (i, j // 4, j % 4), pad_value=pad
        )

    check(program, steps)
    refused(
        program,
        lambda sch: sch.transform_layout(sch.get_block("B"), "A", lambda i, j: (i, j // 4, j % 4)),
        "the new layout of parameter 'A' would have padding",
    )
    refused(
        program, lambda sch: sch.transform_layout(sch.get_block("B"), "X", lambda i, j: (i, j)),
        "block 'B' neither reads nor writes 'X'",
    )  # fmt: skip


def test_transform_layout_of_a_parameter():
    sch = schedule_of(programs.matmul)
    sch.transform_layout(sch.get_block("C"), "B", lambda i, j: (j, i))
    shapes = [[int(n) for n in b.shape] for b in main_of(sch).buffer_map.values()]
    assert shapes == [[9, 11], [6, 11], [9, 6]]


@pytest.mark.parametrize("program", [programs.matmul, programs.matmul64])
def test_transform_block_layout(program):
    def steps(sch):
        sch.transform_block_layout(sch.get_block("C"), lambda i, j, k: (i * 6 + j, k))

    sch = check(program, steps)
    assert [int(sch.get(loop).extent) for loop in loops(sch, "C")] == [54, 11]
    refused(
        program,
        lambda sch: sch.transform_block_layout(sch.get_block("C"), lambda i, j, k: (i, j * 11 + k)),
        "the map mixes data-parallel and reduction iterators",
    )
    refused(
        program,
        lambda sch: sch.transform_block_layout(
            sch.get_block("C"), lambda i, j, k: (i, j, k // 4, k % 4)
        ),
        "the map does not reach each point exactly once",
    )
