"""blockize: loops and blocks that become one block."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import check, main_of, refused, schedule_of
from tests.tir.transform.harness import assert_same_results
from tilesmith.script import tir as T
from tilesmith.tir import IterVar
from tilesmith.tir.schedule import ScheduleError


def tiled(sch, name, factors):
    """The loops of a block split and reordered: outer ones, then inner ones."""
    block = sch.get_block(name)
    outer, inner = [], []
    for loop, factor in zip(sch.get_loops(block), factors):
        first, second = sch.split(loop, [None, factor])
        outer.append(first)
        inner.append(second)
    sch.reorder(*outer, *inner)
    return outer, inner


@T.prim_func
def scaled(A: T.Buffer((32, 48), "float32"), B: T.Buffer((32, 48), "float32")):
    for i, j in T.grid(32, 48):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


@T.prim_func
def scaled_in_tiles(A: T.Buffer((32, 48), "float32"), B: T.Buffer((32, 48), "float32")):
    for i_0, j_0 in T.grid(2, 3):
        with T.block("B_o"):
            vi_o, vj_o = T.axis.remap("SS", [i_0, j_0])
            T.reads(A[vi_o * 16 : vi_o * 16 + 16, vj_o * 16 : vj_o * 16 + 16])
            T.writes(B[vi_o * 16 : vi_o * 16 + 16, vj_o * 16 : vj_o * 16 + 16])
            for i_1, j_1 in T.grid(16, 16):
                with T.block("B"):
                    vi_i, vj_i = T.axis.remap("SS", [i_1, j_1])
                    T.reads(A[vi_o * 16 + vi_i, vj_o * 16 + vj_i])
                    T.writes(B[vi_o * 16 + vi_i, vj_o * 16 + vj_i])
                    B[vi_o * 16 + vi_i, vj_o * 16 + vj_i] = A[
                        vi_o * 16 + vi_i, vj_o * 16 + vj_i
                    ] * T.float32(2)


def test_tile():
    check(scaled, lambda sch: sch.blockize(tiled(sch, "B", [16, 16])[1][0]), scaled_in_tiles)


@T.prim_func
def scaled_whole(A: T.Buffer((32, 48), "float32"), B: T.Buffer((32, 48), "float32")):
    with T.block("B_o"):
        vi_o = T.axis.spatial(1, 0)
        vj_o = T.axis.spatial(1, 0)
        T.reads(A[0:32, 0:48])
        T.writes(B[0:32, 0:48])
        for i, j in T.grid(32, 48):
            with T.block("B"):
                vi_i, vj_i = T.axis.remap("SS", [i, j])
                B[vi_i, vj_i] = A[vi_i, vj_i] * T.float32(2)


@T.prim_func
def scaled_whole_without_units(A: T.Buffer((32, 48), "float32"), B: T.Buffer((32, 48), "float32")):
    with T.block("root"):
        T.reads()
        T.writes()
        with T.block("B_o"):
            T.reads(A[0:32, 0:48])
            T.writes(B[0:32, 0:48])
            for i, j in T.grid(32, 48):
                with T.block("B"):
                    vi_i, vj_i = T.axis.remap("SS", [i, j])
                    B[vi_i, vj_i] = A[vi_i, vj_i] * T.float32(2)


@pytest.mark.parametrize(
    "units, expected", [(True, scaled_whole), (False, scaled_whole_without_units)]
)
def test_whole_nest(units, expected):
    check(
        scaled,
        lambda sch: sch.blockize(sch.get_loops(sch.get_block("B"))[0], preserve_unit_iters=units),
        expected,
    )


@T.prim_func
def with_units(A: T.Buffer((32, 1, 48), "float32"), B: T.Buffer((32, 1, 48), "float32")):
    for i, u, j in T.grid(32, 1, 48):
        with T.block("B"):
            vi, vu, vj = T.axis.remap("SSS", [i, u, j])
            B[vi, vu, vj] = A[vi, vu, vj] * T.float32(2)


@T.prim_func
def with_units_in_rows(A: T.Buffer((32, 1, 48), "float32"), B: T.Buffer((32, 1, 48), "float32")):
    for i in range(32):
        with T.block("B_o"):
            vi_o = T.axis.spatial(32, i)
            T.reads(A[vi_o, 0, 0:48])
            T.writes(B[vi_o, 0, 0:48])
            for _u, j in T.grid(1, 48):
                with T.block("B"):
                    vj_i = T.axis.spatial(48, j)
                    B[vi_o, 0, vj_i] = A[vi_o, 0, vj_i] * T.float32(2)


def test_iterators_of_one_value_are_dropped():
    """Without `preserve_unit_iters`, neither block has an iterator of extent 1."""
    check(
        with_units,
        lambda sch: sch.blockize(sch.get_loops(sch.get_block("B"))[1], preserve_unit_iters=False),
        with_units_in_rows,
    )


@T.prim_func
def sum_with_units(A: T.Buffer((3, 8), "float32"), B: T.Buffer((3, 1), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, u, k, j in T.grid(3, 1, 1, 8):
        with T.block("B"):
            vi, vu, vk, vj = T.axis.remap("SSRR", [i, u, k, j])
            with T.init():
                B[vi, vu] = T.float32(0)
            B[vi, vu] = B[vi, vu] + A[vi, vk * 8 + vj]


@T.prim_func
def sum_of_one(A: T.Buffer((3, 1), "float32"), B: T.Buffer((3, 1), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, u, k in T.grid(3, 1, 1):
        with T.block("B"):
            vi, vu, vk = T.axis.remap("SSR", [i, u, k])
            with T.init():
                B[vi, vu] = T.float32(0)
            B[vi, vu] = B[vi, vu] + A[vi, vk]


@pytest.mark.parametrize("program", [with_units, sum_with_units, sum_of_one])
@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_reductions_keep_one_iterator(program, number):
    """The init of a reduction depends on an iterator of its own, even if it has one value."""
    kept = []

    def steps(sch):
        loops = sch.get_loops(sch.get_block("B"))
        outer = sch.blockize(loops[min(number, len(loops) - 1)], preserve_unit_iters=False)
        for block in (sch.get(outer), sch.get(sch.get_block("B"))):
            kept.extend([
                one for one in block.iter_vars if one.dom.extent.value == 1  # extents are numbers
            ])  # fmt: skip

    check(program, steps)
    expected = [IterVar.CommReduce] if program is sum_of_one else []
    assert [one.iter_type for one in kept] == expected


@T.prim_func
def matmul_in_tiles(
    A: T.Buffer((9, 11), "float32"), B: T.Buffer((11, 6), "float32"), C: T.Buffer((9, 6), "float32")
):
    for i_0, j_0, k_0 in T.grid(3, 3, 3):
        with T.block("C_o"):
            vi_o, vj_o, vk_o = T.axis.remap("SSR", [i_0, j_0, k_0])
            T.reads(
                A[vi_o * 3 : vi_o * 3 + 3, vk_o * 4 : vk_o * 4 + T.min(4, 11 - vk_o * 4)],
                B[vk_o * 4 : vk_o * 4 + T.min(4, 11 - vk_o * 4), vj_o * 2 : vj_o * 2 + 2],
            )
            T.writes(C[vi_o * 3 : vi_o * 3 + 3, vj_o * 2 : vj_o * 2 + 2])
            with T.init():
                for i_1_init, j_1_init in T.grid(3, 2):
                    with T.block("C_init"):
                        vi_init, vj_init = T.axis.remap("SS", [i_1_init, j_1_init])
                        C[vi_o * 3 + vi_init, vj_o * 2 + vj_init] = T.float32(0)
            for i_1, j_1, k_1 in T.grid(3, 2, 4):
                with T.block("C"):
                    vi_i, vj_i, vk_i = T.axis.remap("SSR", [i_1, j_1, k_1])
                    T.where(vk_o * 4 + k_1 < 11)
                    T.reads(
                        C[vi_o * 3 + vi_i, vj_o * 2 + vj_i],
                        A[vi_o * 3 + vi_i, vk_o * 4 + vk_i],
                        B[vk_o * 4 + vk_i, vj_o * 2 + vj_i],
                    )
                    T.writes(C[vi_o * 3 + vi_i, vj_o * 2 + vj_i])
                    C[vi_o * 3 + vi_i, vj_o * 2 + vj_i] = (
                        C[vi_o * 3 + vi_i, vj_o * 2 + vj_i]
                        + A[vi_o * 3 + vi_i, vk_o * 4 + vk_i] * B[vk_o * 4 + vk_i, vj_o * 2 + vj_i]
                    )


def test_reduction_with_init_and_last_tile():
    def steps(sch):
        _, inner = tiled(sch, "C", [3, 2, 4])
        block = sch.blockize(inner[0])
        assert sch.get(block).name_hint == "C_o"
        sch.annotate(block, "tile", 1)
        sch.unannotate(block, "tile")

    check(programs.matmul, steps, matmul_in_tiles)


def test_decompose_after_blockize():
    def steps(sch):
        outer, inner = tiled(sch, "C", [3, 2, 4])
        block = sch.blockize(inner[0])
        sch.decompose_reduction(block, outer[2])
        assert [sch.get(b).name_hint for b in sch.get_child_blocks(block)] == ["C"]

    check(programs.matmul, steps)
    check(programs.matmul64, steps)


def test_a_block_alone():
    def steps(sch):
        sch.blockize(sch.get_block("C"))
        assert sch.get(sch.get_block("C")).iter_vars == ()

    check(programs.matmul, steps)


@T.prim_func
def chain_in_rows(A: T.Buffer((7, 13), "float32"), C: T.Buffer((7, 13), "float32")):
    B = T.alloc_buffer((7, 13), "float32")
    for i in range(7):
        with T.block("outer_B_C_"):
            vi_o = T.axis.spatial(7, i)
            T.reads(A[vi_o, 0:13], B[vi_o, 0:13])
            T.writes(B[vi_o, 0:13], C[vi_o, 0:13])
            for ax0 in range(13):
                with T.block("B"):
                    vj_i = T.axis.spatial(13, ax0)
                    B[vi_o, vj_i] = A[vi_o, vj_i] * T.float32(2)
            for j in range(13):
                with T.block("C"):
                    vj_i = T.axis.spatial(13, j)
                    C[vi_o, vj_i] = B[vi_o, vj_i] + T.float32(1)


def test_blocks_beside_each_other():
    def steps(sch):
        producer, consumer = sch.get_block("B"), sch.get_block("C")
        sch.compute_at(producer, sch.get_loops(consumer)[0])
        sch.blockize([producer, consumer])

    check(programs.elementwise, steps, chain_in_rows)


def test_blocks_below_the_root():
    def steps(sch):
        block = sch.blockize([sch.get_block("C"), sch.get_block("B")])
        assert [r.buffer.name for r in sch.get(block).reads] == ["A", "B"]
        assert sch.get_loops(block) == []

    check(programs.elementwise, steps)
    check(programs.elementwise64, steps)


def test_blocks_with_a_reduction():
    def steps(sch):
        consumer = sch.get_block("D")
        loops = sch.get_loops(sch.get_block("C"))
        sch.reverse_compute_at(consumer, loops[0])
        sch.blockize([sch.get_block("C"), consumer])

    check(programs.matmul_relu, steps)


def test_fused_loops():
    def steps(sch):
        fused = sch.fuse(*sch.get_loops(sch.get_block("B")))
        sch.blockize(sch.split(fused, [None, 13])[1])

    check(programs.elementwise, steps)


@T.prim_func
def whole_rows(a: T.handle, b: T.handle):
    T.func_attr({"global_symbol": "main"})
    n = T.int32()
    A = T.match_buffer(a, (n, 6), "float32")
    B = T.match_buffer(b, (n, 6), "float32")
    for i, j in T.grid(n, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


@pytest.mark.parametrize("number", [0, 1])
def test_symbolic_sizes(number):
    check(
        whole_rows,
        lambda sch: sch.blockize(sch.get_loops(sch.get_block("B"))[number]),
        sizes={"n": 5},
    )
    check(
        whole_rows,
        lambda sch: sch.blockize(tiled(sch, "B", [4, 3])[1][number]),
        sizes={"n": 5},
    )


@T.prim_func
def skewed(A: T.Buffer((20,), "float32"), B: T.Buffer((20,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi = T.axis.opaque(20, i * 3 + j)
            B[vi] = A[vi]


@T.prim_func
def two_in_a_loop(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
    T.func_attr({"global_symbol": "main"})
    B = T.alloc_buffer((6,), "float32")
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi] = A[vi] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = B[vi] + T.float32(1)


def test_a_loop_over_two_blocks():
    check(two_in_a_loop, lambda sch: sch.blockize(sch.get_loops(sch.get_block("B"))[0]))


def test_refusals():
    def loop(sch, name, number):
        return sch.get_loops(sch.get_block(name))[number]

    refused(
        skewed,
        lambda sch: sch.blockize(loop(sch, "B", 1)),
        "cannot be divided at this place",
        "outer * extent + inner",
        marked='T.block("B")',
    )
    refused(programs.matmul, lambda sch: sch.blockize(sch.get_block("root")), "root block")
    refused(
        programs.three_stages,
        lambda sch: sch.blockize([sch.get_block(name) for name in ("B", "D")]),
        "block 'C' stands among the blocks and is not one of them",
    )

    def inside_and_outside(sch):
        first = sch.get_block("B")
        sch.blockize(sch.get_loops(first)[1])
        sch.blockize([first, sch.get_block("C")])

    sch = schedule_of(programs.elementwise)
    with pytest.raises(ScheduleError, match="the blocks are not in the same block scope"):
        inside_and_outside(sch)


@pytest.mark.parametrize(
    "program, name",
    [
        (programs.elementwise, "B"),
        (programs.elementwise64, "C"),
        (programs.matmul, "C"),
        (programs.matmul64, "C"),
        (programs.row_softmax_sums, "C"),
        (programs.stencil, "B"),
    ],
    ids=["elementwise", "elementwise64", "matmul", "matmul64", "sums", "stencil"],
)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_places(program, name, data):
    """Splits, a fusion, an order, a place: the results stay, or it is refused unchanged."""
    sch = schedule_of(program, error_render_level="fast")
    block = sch.get_block(name)
    for loop in sch.get_loops(block):
        if data.draw(st.booleans()):
            sch.split(
                loop, [None, data.draw(st.integers(1, 5))],
                preserve_unit_iters=data.draw(st.booleans()),
            )  # fmt: skip
    loops = sch.get_loops(block)
    if len(loops) > 1 and data.draw(st.booleans()):
        first = data.draw(st.integers(0, len(loops) - 2))
        sch.fuse(*loops[first : first + 2])
        loops = sch.get_loops(block)
    else:
        sch.reorder(*data.draw(st.permutations(loops)))
        loops = sch.get_loops(block)
    place = data.draw(st.sampled_from(loops))
    before = main_of(sch)
    try:
        outer = sch.blockize(place, preserve_unit_iters=data.draw(st.booleans()))
    except ScheduleError:
        assert main_of(sch) is before
        return
    if sch.get(outer).init is not None and sch.get_loops(outer):
        if data.draw(st.booleans()):
            sch.decompose_reduction(outer, sch.get_loops(outer)[0])
    assert_same_results(program, main_of(sch))


def test_primitives_on_what_is_nested():
    """What goes by the statements of a block refuses blocks that hold others."""

    def consumer_into_nested(sch):
        sch.reverse_compute_inline(sch.get_block("C"))

    refused(
        programs.elementwise,
        [lambda sch: sch.blockize(sch.get_loops(sch.get_block("B"))[0]), consumer_into_nested],
        "block 'B_o' has blocks inside",
    )
    check(
        programs.elementwise,
        lambda sch: (
            sch.blockize(sch.get_loops(sch.get_block("C"))[1]),
            sch.compute_inline(sch.get_block("B")),
        ),
    )


@T.prim_func
def in_place(A: T.Buffer((6, 4), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(6, 4):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = A[vi, vj] + T.float32(1)


def test_copies_of_what_is_updated_in_place():
    refused(
        in_place,
        lambda sch: sch.cache_write(sch.get_block("A"), 0, "global"),
        "reads what is in 'A' before it writes",
    )


def test_a_producer_read_by_an_unlifted_block_stays_declared():
    """Two blocks, one of them a reduction whose init moves out, the other one its producer."""

    @T.prim_func
    def main(A: T.Buffer((6, 8), "float32"), C: T.Buffer((6,), "float32")):
        B = T.alloc_buffer((6, 8), "float32")
        for i, k in T.grid(6, 8):
            with T.block("B"):
                vi, vk = T.axis.remap("SS", [i, k])
                B[vi, vk] = A[vi, vk] * T.float32(2)
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + B[vi, vk]

    def steps(sch):
        block = sch.get(sch.blockize(sch.get_loops(sch.get_block("B"))[1]))
        assert [region.buffer.name for region in block.reads] == ["A", "B"]

    check(main, steps)
    check(main, lambda sch: sch.blockize([sch.get_block("B"), sch.get_block("C")]))


@T.prim_func
def single_rows(A: T.Buffer((1, 8, 1), "float32"), B: T.Buffer((1, 8, 1), "float32")):
    T.func_attr({"global_symbol": "main"})
    for n, i, u in T.grid(1, 8, 1):
        with T.block("B"):
            vn, vi, vu = T.axis.remap("SSS", [n, i, u])
            B[vn, vi, vu] = A[vn, vi, vu] * T.float32(2)


def test_iterators_of_one_value_need_none_inside():
    @T.prim_func
    def expected(A: T.Buffer((1, 8, 1), "float32"), B: T.Buffer((1, 8, 1), "float32")):
        for n in range(1):
            with T.block("B_o"):
                vn = T.axis.spatial(1, n)
                vi_o = T.axis.spatial(1, 0)
                vu = T.axis.spatial(1, 0)
                T.reads(A[vn, 0:8, vu])
                T.writes(B[vn, 0:8, vu])
                for i, _ in T.grid(8, 1):
                    with T.block("B"):
                        vi = T.axis.spatial(8, i)
                        B[vn, vi, vu] = A[vn, vi, vu] * T.float32(2)

    check(single_rows, lambda sch: sch.blockize(sch.get_loops(sch.get_block("B"))[1]), expected)


@T.prim_func
def one_row(A: T.Buffer((64, 3), "float32"), B: T.Buffer((64, 3), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(64, 3):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


def test_indices_of_blocks_in_blocks_are_plain_sums():
    @T.prim_func
    def expected(A: T.Buffer((64, 3), "float32"), B: T.Buffer((64, 3), "float32")):
        for i_0, j in T.grid(4, 3):
            with T.block("B_o_o"):
                vi, vj = T.axis.remap("SS", [i_0, j])
                T.reads(A[vi * 16 : vi * 16 + 16, vj])
                T.writes(B[vi * 16 : vi * 16 + 16, vj])
                for i_1 in range(4):
                    with T.block("B_o"):
                        vm = T.axis.spatial(4, i_1)
                        T.reads(A[vi * 16 + vm * 4 : vi * 16 + vm * 4 + 4, vj])
                        T.writes(B[vi * 16 + vm * 4 : vi * 16 + vm * 4 + 4, vj])
                        for i_2 in range(4):
                            with T.block("B"):
                                vk = T.axis.spatial(4, i_2)
                                B[vi * 16 + vm * 4 + vk, vj] = A[
                                    vi * 16 + vm * 4 + vk, vj
                                ] * T.float32(2)

    def steps(sch):
        rows, column = sch.get_loops(sch.get_block("B"))
        outer, middle, inner = sch.split(rows, [4, 4, 4])
        sch.reorder(outer, column, middle, inner)
        sch.blockize(inner)
        sch.blockize(middle)

    check(one_row, steps, expected)


def test_loops_of_one_iteration_outside_stay_in_the_binding():
    def steps(sch):
        rows, column = sch.get_loops(sch.get_block("B"))
        outer, inner = sch.split(rows, [1, 64])
        sch.reorder(outer, column, inner)
        sch.blockize(inner)

    sch = check(one_row, steps)
    outer = sch.get(sch.get_loops(sch.get_block("B_o"))[0]).loop_var
    realize = sch.get(sch.get_loops(sch.get_block("B_o"))[1]).body
    assert realize.iter_values[0] is outer
