"""The questions of ``tir.schedule.analysis``."""

import numpy as np
import pytest

from tests.tir.schedule import programs_script as programs
from tests.tir.schedule.harness import main_of, schedule_of
from tests.tir.schedule.test_tensorize_script import SMALL, batched, convolution, product
from tests.tir.transform.harness import assert_same_results
from tilesmith import tir
from tilesmith.ir import structural_equal
from tilesmith.schedule_rules.intrinsics.dot_product_common import tile_product_desc
from tilesmith.script import tir as T
from tilesmith.tir.schedule import ScheduleError, analysis
from tilesmith.tir.schedule.analysis import (
    get_auto_tensorize_mapping_info,
    get_tensorize_loop_mapping,
    has_block,
    is_output_block,
    suggest_index_map,
)


def test_blocks_and_outputs():
    sch = schedule_of(programs.elementwise)
    assert has_block(sch, "B") and has_block(sch, "root") and not has_block(sch, "D")
    assert [is_output_block(sch, sch.get_block(name)) for name in "BC"] == [False, True]
    with pytest.raises(ScheduleError, match="expected a block"):
        is_output_block(sch, sch.get_loops(sch.get_block("B"))[0])
    assert tir.schedule.analysis is analysis


# --- layouts --------------------------------------------------------------------------------------


def layout(sch, name, number=0):
    """What is suggested for a buffer that a block reads, over the loops around it."""
    block = sch.get_block(name)
    realize = sch.state.stmt(sch.get_sref(block))
    loops = [sch.get(loop) for loop in sch.get_loops(block)]
    region = realize.block.reads[number]
    values = dict(zip([i.var for i in realize.block.iter_vars], realize.iter_values))
    indices = [tir.stmt_functor.substitute(part.min, values) for part in region.region]
    return region.buffer, suggest_index_map(region.buffer, indices, loops, realize.predicate)


@T.prim_func
def doubled(A: T.Buffer((32, 48), "float32"), B: T.Buffer((32, 48), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(32, 48):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


def tile(sch, factors):
    outer, inner = [], []
    for loop, factor in zip(sch.get_loops(sch.get_block("B")), factors):
        one, two = sch.split(loop, [None, factor])
        outer.append(one)
        inner.append(two)
    sch.reorder(*outer, *inner)


def test_suggested_layout_of_tiles():
    sch = schedule_of(doubled)
    tile(sch, [16, 8])
    buffer, found = layout(sch, "B")
    expected = tir.IndexMap.from_func(
        lambda i, j: [i // 16, j // 8, i % 16, j % 8], index_dtype="int32"
    )
    assert found.is_equivalent_to(expected)
    # In that layout the loops read the memory in order.
    data = np.arange(32 * 48).reshape(32, 48)
    turned = data.reshape(2, 16, 6, 8).transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(found.map_ndarray(data), turned)


def test_suggested_layout_follows_the_order_of_loops():
    sch = schedule_of(doubled)
    i, j = sch.get_loops(sch.get_block("B"))
    sch.reorder(j, i)
    _, found = layout(sch, "B")
    assert found.is_equivalent_to(tir.IndexMap.from_func(lambda i, j: [j, i], index_dtype="int32"))
    sch = schedule_of(doubled)
    _, found = layout(sch, "B")
    assert found.is_equivalent_to(tir.IndexMap.from_func(lambda i, j: [i, j], index_dtype="int32"))


def test_suggested_layout_of_fused_loops():
    sch = schedule_of(doubled)
    fused = sch.fuse(*sch.get_loops(sch.get_block("B")))
    sch.split(fused, [None, 8])
    _, found = layout(sch, "B")
    data = np.arange(32 * 48).reshape(32, 48)
    if found is not None:
        assert sorted(found.map_ndarray(data).reshape(-1)) == list(range(32 * 48))


@pytest.mark.parametrize(("index", "is_whole"), [
    (lambda i, j: i * 8 + j, True), (lambda i, j: (i * 8 + j) % 4, False),
    (lambda i, j: (i * 8 + j) % 64, False), (lambda i, j: (i * 8 + j) % 128, True),
])  # fmt: skip
def test_no_layout_is_suggested_where_fused_loops_start_again(index, is_whole):
    i, j = tir.Var("i", "int32"), tir.Var("j", "int32")
    nothing = tir.Evaluate(0)
    loops = [tir.For(one, 0, n, tir.ForKind.SERIAL, nothing) for one, n in ((i, 16), (j, 8))]
    buffer = tir.decl_buffer((128,), "float32")
    found = suggest_index_map(buffer, [index(i, j)], loops, tir.const(True, "bool"))
    assert (found is not None) == is_whole


def test_no_layout_is_suggested_for_windows():
    sch = schedule_of(convolution)
    assert layout(sch, "Y")[1] is None


# --- loops of an intrinsic ------------------------------------------------------------------------


def extents_of(sch, info):
    loops = {sref: sch.state.stmt(sref).loop_var.name for sref in info.loop_map}
    return {loops[sref]: loop.loop_var.name for sref, loop in info.loop_map.items()}


def tensorize_by(sch, name, info, intrin):
    """Split the loops that were found, move the inner ones inside, tensorize."""
    block = sch.get_block(name)
    if info.block_iter_paddings is not None:
        sch.pad_einsum(block, info.block_iter_paddings)
        info = get_tensorize_loop_mapping(sch, block, intrin.desc)
    inner = {}
    for loop in sch.get_loops(block):
        wanted = info.loop_map.get(sch.get_sref(loop))
        if wanted is not None:
            inner[info.desc_loop_indexer[wanted]] = sch.split(loop, [None, int(wanted.extent)])[1]
    ordered = [inner[number] for number in sorted(inner)]
    rest = [
        loop
        for loop in sch.get_loops(block)
        if sch.get_sref(loop) not in {sch.get_sref(one) for one in ordered}
    ]
    sch.reorder(*rest, *ordered)
    sch.tensorize(ordered[0], intrin)


@pytest.mark.parametrize(
    "program, name, expected",
    [
        (product(9, 6, 8), "C", {"i": "i", "j": "j", "k": "k"}),  # operands exchanged
        (batched, "C", {"i": "i", "j": "j", "k": "k"}),
    ],
)
def test_loops_of_an_intrinsic(program, name, expected):
    sch = schedule_of(program)
    info = get_tensorize_loop_mapping(sch, sch.get_block(name), SMALL.desc)
    assert extents_of(sch, info) == expected and info.block_iter_paddings is None
    assert [loop.loop_var.name for loop in info.desc_loop_indexer] == ["i", "j", "k"]
    tensorize_by(sch, name, info, SMALL)
    assert_same_results(program, main_of(sch))


def test_loops_of_a_convolution():
    """w + s is where the description has i; s stays outside."""
    from tests.tir.schedule.test_tensorize_script import tile_product

    intrin = tile_product(7, 2, 4)
    sch = schedule_of(convolution)
    info = get_tensorize_loop_mapping(sch, sch.get_block("Y"), intrin.desc)
    assert extents_of(sch, info) == {"w": "i", "o": "j", "c": "k"}
    tensorize_by(sch, "Y", info, intrin)
    assert_same_results(convolution, main_of(sch))


def test_loops_that_need_padding():
    program = product(10, 7, 9)
    sch = schedule_of(program)
    block = sch.get_block("C")
    assert get_tensorize_loop_mapping(sch, block, SMALL.desc) is None
    info = get_tensorize_loop_mapping(sch, block, SMALL.desc, allow_padding=True)
    assert info.block_iter_paddings == [3, 2, 4]
    tensorize_by(sch, "C", info, SMALL)
    assert_same_results(program, main_of(sch))


def test_no_loops_of_an_intrinsic():
    sch = schedule_of(programs.elementwise)
    assert get_tensorize_loop_mapping(sch, sch.get_block("B"), SMALL.desc) is None
    int8 = tile_product_desc(3, 2, 4, "int8", "int8", "int32")
    sch = schedule_of(product(9, 6, 8))
    assert get_tensorize_loop_mapping(sch, sch.get_block("C"), int8) is None
    # the second operand lies transposed
    floats = tile_product_desc(3, 2, 4, "float32", "float32", "float32")
    assert get_tensorize_loop_mapping(sch, sch.get_block("C"), floats) is None
    sch.split(sch.get_loops(sch.get_block("C"))[0], [None, 3])
    assert get_tensorize_loop_mapping(sch, sch.get_block("C"), SMALL.desc) is None


# --- fused iterators ------------------------------------------------------------------------------


def mapping_of(program, name, desc=SMALL.desc):
    sch = schedule_of(program)
    return get_auto_tensorize_mapping_info(sch, sch.get_block(name), desc)


def equivalent(found, function):
    expected = tir.IndexMap.from_func(function, index_dtype="int32")
    return found.is_equivalent_to(expected)


def test_convolution_as_a_product():
    info = mapping_of(convolution, "Y")
    (found,) = info.mappings
    assert equivalent(found, lambda h, w, o, r, s, c: [h * 7 + w, o, r * 24 + s * 8 + c])
    assert [iterator.var.name for iterator in info.lhs_iters] == [
        "vh", "vw", "vo", "vr", "vs", "vc",
    ]  # fmt: skip
    names = {wanted.name: mine.name for wanted, mine in info.rhs_buffer_map.items()}
    assert names == {"C": "Y", "A": "X", "B": "W"}


def test_exchanged_operands_keep_the_order_of_the_output():
    info = mapping_of(product(9, 6, 8), "C")
    assert equivalent(info.mappings[0], lambda i, j, k: [i, j, k])


@T.prim_func
def several_products(
    A: T.Buffer((3, 6, 8), "float32"),
    B: T.Buffer((3, 8, 4), "float32"),
    C: T.Buffer((3, 6, 4), "float32"),
):
    T.func_attr({"global_symbol": "main"})
    for n, i, j, k in T.grid(3, 6, 4, 8):
        with T.block("C"):
            vn, vi, vj, vk = T.axis.remap("SSSR", [n, i, j, k])
            with T.init():
                C[vn, vi, vj] = T.float32(0)
            C[vn, vi, vj] = C[vn, vi, vj] + A[vn, vi, vk] * B[vn, vk, vj]


def test_batches_stay_in_front():
    info = mapping_of(several_products, "C")
    assert equivalent(info.mappings[0], lambda n, i, j, k: [n, i, j, k])
    info = mapping_of(batched, "C")
    assert equivalent(info.mappings[0], lambda n, i, j, k: [n * 6 + i, j, k])


def test_no_fused_iterators():
    assert mapping_of(programs.elementwise, "B") is None
    assert mapping_of(programs.row_softmax_sums, "C") is None


def test_the_map_can_be_applied():
    """reindex brings the operands into place, transform_block_layout fuses the loops."""
    sch = schedule_of(convolution)
    block = sch.get_block("Y")
    info = get_auto_tensorize_mapping_info(sch, block, SMALL.desc)
    for buffer in (("read", 0), ("read", 1), ("write", 0)):
        sch.reindex(block, buffer)
    sch.transform_block_layout(block, info.mappings[0])
    extents = [int(sch.get(loop).extent) for loop in sch.get_loops(block)]
    assert extents == [56, 4, 72]
    assert structural_equal(sch.get(block).iter_vars[0].dom.extent, tir.const(56, "int32"))
    assert_same_results(convolution, main_of(sch))
