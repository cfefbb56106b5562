"""tensorize: what matches a description becomes the implementation."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tilesmith as ts
from tests.tir.schedule.harness import check, main_of, refused, schedule_of
from tests.tir.transform.harness import arrays_for, assert_same, assert_same_results, outputs
from tilesmith import tir
from tilesmith.script import tir as T
from tilesmith.support.errors import UnknownNameError
from tilesmith.tir.schedule import ScheduleError


def tile_product(rows, columns, depth):
    """An intrinsic that adds a small product to a tile, through vectors of the tile's rows."""

    @T.prim_func
    def desc(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (rows, depth), offset_factor=1)
        B = T.match_buffer(b, (depth, columns), offset_factor=1)
        C = T.match_buffer(c, (rows, columns), offset_factor=1)
        with T.block("root"):
            T.reads(C[0:rows, 0:columns], A[0:rows, 0:depth], B[0:depth, 0:columns])
            T.writes(C[0:rows, 0:columns])
            for i, j, k in T.grid(rows, columns, depth):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    @T.prim_func
    def impl(a: T.handle, b: T.handle, c: T.handle):
        sa, sb, sc = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (rows, depth), offset_factor=1, strides=[sa, 1])
        B = T.match_buffer(b, (depth, columns), offset_factor=1, strides=[sb, 1])
        C = T.match_buffer(c, (rows, columns), offset_factor=1, strides=[sc, 1])
        with T.block("root"):
            T.reads(C[0:rows, 0:columns], A[0:rows, 0:depth], B[0:depth, 0:columns])
            T.writes(C[0:rows, 0:columns])
            for k, i in T.grid(depth, rows):
                C[i, T.ramp(0, 1, columns)] = (
                    C[i, T.ramp(0, 1, columns)]
                    + T.Broadcast(A[i, k], columns) * B[k, T.ramp(0, 1, columns)]
                )

    return tir.TensorIntrin(desc, impl)


SMALL = tile_product(3, 2, 4)


def product(rows, columns, depth, dtype="int32"):
    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (T.IntImm(dtype, rows), T.IntImm(dtype, depth)))
        B = T.match_buffer(b, (T.IntImm(dtype, depth), T.IntImm(dtype, columns)))
        C = T.match_buffer(c, (T.IntImm(dtype, rows), T.IntImm(dtype, columns)))
        for i, j, k in T.grid(
            T.IntImm(dtype, rows), T.IntImm(dtype, columns), T.IntImm(dtype, depth)
        ):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + B[vk, vj] * A[vi, vk]

    return main


def tiled(sch, factors, name="C", order=None):
    """Outer loops, then inner ones."""
    outer, inner = [], []
    for loop, factor in zip(sch.get_loops(sch.get_block(name)), factors):
        first, second = sch.split(loop, [None, factor])
        outer.append(first)
        inner.append(second)
    sch.reorder(*outer, *[inner[k] for k in order or range(len(inner))])
    return outer, [inner[k] for k in order or range(len(inner))]


def assert_compiles(program, scheduled, sizes=None):
    """LLVM's code of a scheduled function computes what the interpreter says of the original."""
    arrays = arrays_for(program, sizes)
    module = ts.build(scheduled, target="llvm")
    tensors = [ts.nd.array(array) for array in arrays]
    module["main"](*tensors)
    assert_same([tensor.numpy() for tensor in tensors], outputs(program, arrays), rtol=1e-4)


@T.prim_func
def product_in_tiles(
    A: T.Buffer((9, 8), "float32"), B: T.Buffer((8, 6), "float32"), C: T.Buffer((9, 6), "float32")
):
    for i_0, j_0, k_0 in T.grid(3, 3, 2):
        with T.block("C_o"):
            vi_o, vj_o, vk_o = T.axis.remap("SSR", [i_0, j_0, k_0])
            T.reads(
                B[vk_o * 4 : vk_o * 4 + 4, vj_o * 2 : vj_o * 2 + 2],
                A[vi_o * 3 : vi_o * 3 + 3, vk_o * 4 : vk_o * 4 + 4],
            )
            T.writes(C[vi_o * 3 : vi_o * 3 + 3, vj_o * 2 : vj_o * 2 + 2])
            sa, sb, sc = T.int32(), T.int32(), T.int32()
            A_1 = T.match_buffer(
                A[vi_o * 3 : vi_o * 3 + 3, vk_o * 4 : vk_o * 4 + 4],
                (3, 4),
                offset_factor=1,
                strides=[sa, 1],
            )
            B_1 = T.match_buffer(
                B[vk_o * 4 : vk_o * 4 + 4, vj_o * 2 : vj_o * 2 + 2],
                (4, 2),
                offset_factor=1,
                strides=[sb, 1],
            )
            C_1 = T.match_buffer(
                C[vi_o * 3 : vi_o * 3 + 3, vj_o * 2 : vj_o * 2 + 2],
                (3, 2),
                offset_factor=1,
                strides=[sc, 1],
            )
            with T.init():
                for i_1_init, j_1_init in T.grid(3, 2):
                    with T.block("C_init"):
                        vi_init, vj_init = T.axis.remap("SS", [i_1_init, j_1_init])
                        C[vi_o * 3 + vi_init, vj_o * 2 + vj_init] = T.float32(0)
            for k, i in T.grid(4, 3):
                C_1[i, T.ramp(0, 1, 2)] = (
                    C_1[i, T.ramp(0, 1, 2)] + T.Broadcast(A_1[i, k], 2) * B_1[k, T.ramp(0, 1, 2)]
                )


def test_product_with_operands_exchanged():
    def steps(sch):
        _, inner = tiled(sch, [3, 2, 4])
        sch.tensorize(inner[0], SMALL)

    program = product(9, 6, 8)
    sch = check(program, steps, product_in_tiles)
    assert_compiles(program, sch.mod)


@pytest.mark.parametrize("given_as", ["name", "registered", "pair"])
def test_by_name_and_as_a_pair(given_as):
    registered = tir.TensorIntrin.register(
        "test.small_product", SMALL.desc, SMALL.impl, override=True
    )
    ways = {
        "name": "test.small_product",
        "registered": registered,
        "pair": (SMALL.desc, SMALL.impl),
    }

    def steps(sch):
        outer, inner = tiled(sch, [3, 2, 4])
        block = sch.blockize(inner[0])
        sch.decompose_reduction(block, outer[2])
        sch.tensorize(block, ways[given_as])

    program = product(9, 6, 8)
    sch = check(program, steps)
    assert_compiles(program, sch.mod)
    if given_as != "pair":
        assert 'sch.tensorize(block_or_loop=b10, tensor_intrin="test.small_product"' in str(
            sch.trace
        )


def test_indices_of_64_bits():
    def steps(sch):
        _, inner = tiled(sch, [3, 2, 4])
        sch.tensorize(inner[0], SMALL)

    program = product(9, 6, 8, "int64")
    sch = check(program, steps)
    assert_compiles(program, sch.mod)


@T.prim_func
def batched(
    A: T.Buffer((5, 6, 8), "float32"),
    B: T.Buffer((8, 4), "float32"),
    C: T.Buffer((2, 5, 6, 4), "float32"),
):
    T.func_attr({"global_symbol": "main"})
    for n, i, j, k in T.grid(5, 6, 4, 8):
        with T.block("C"):
            vn, vi, vj, vk = T.axis.remap("SSSR", [n, i, j, k])
            with T.init():
                C[1, vn, vi, vj] = T.float32(0)
            C[1, vn, vi, vj] = C[1, vn, vi, vj] + A[vn, vi, vk] * B[vk, vj]


def test_dimensions_in_front():
    def steps(sch):
        outer, inner = tiled(sch, [1, 3, 2, 4])
        sch.tensorize(inner[0], SMALL)  # with the loop of one iteration

    sch = check(batched, steps)
    assert_compiles(batched, sch.mod)


@T.prim_func
def convolution(
    X: T.Buffer((10, 9, 8), "float32"),
    W: T.Buffer((3, 3, 8, 4), "float32"),
    Y: T.Buffer((8, 7, 4), "float32"),
):
    T.func_attr({"global_symbol": "main"})
    for h, w, o, r, s, c in T.grid(8, 7, 4, 3, 3, 8):
        with T.block("Y"):
            vh, vw, vo, vr, vs, vc = T.axis.remap("SSSRRR", [h, w, o, r, s, c])
            with T.init():
                Y[vh, vw, vo] = T.float32(0)
            Y[vh, vw, vo] = Y[vh, vw, vo] + X[vh + vr, vw + vs, vc] * W[vr, vs, vc, vo]


def test_convolution():
    """A row of pixels times channels: the window is outside."""
    intrin = tile_product(7, 2, 4)

    def steps(sch):
        h, w, o, r, s, c = sch.get_loops(sch.get_block("Y"))
        o0, o1 = sch.split(o, [None, 2])
        c0, c1 = sch.split(c, [None, 4])
        sch.reorder(h, o0, r, s, c0, w, o1, c1)
        sch.tensorize(w, intrin)

    sch = check(convolution, steps)
    assert_compiles(convolution, sch.mod)


def test_annotations_of_the_inside_are_kept():
    sch = schedule_of(product(9, 6, 8))
    _, inner = tiled(sch, [3, 2, 4])
    sch.annotate(sch.get_block("C"), "note", "mine")
    sch.tensorize(inner[0], SMALL)
    assert sch.get(sch.get_block("C_o")).annotations["note"] == "mine"


@T.prim_func
def scaled_product(
    A: T.Buffer((9, 8), "float32"), B: T.Buffer((8, 6), "float32"), C: T.Buffer((9, 6), "float32")
):
    T.func_attr({"global_symbol": "main"})
    for i, j, k in T.grid(9, 6, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * (B[vk, vj] + T.float32(1))


@T.prim_func
def strided_product(
    A: T.Buffer((18, 8), "float32"), B: T.Buffer((8, 6), "float32"), C: T.Buffer((9, 6), "float32")
):
    T.func_attr({"global_symbol": "main"})
    for i, j, k in T.grid(9, 6, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi * 2, vk] * B[vk, vj]


@T.prim_func
def half_product(
    A: T.Buffer((9, 8), "float16"), B: T.Buffer((8, 6), "float32"), C: T.Buffer((9, 6), "float32")
):
    T.func_attr({"global_symbol": "main"})
    for i, j, k in T.grid(9, 6, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + T.Cast("float32", A[vi, vk]) * B[vk, vj]


def first(sch, factors=(3, 2, 4), order=None):
    return tiled(sch, factors, order=order)[1][0]


@pytest.mark.parametrize(
    "program, factors, order, texts",
    [
        (product(9, 6, 8), (3, 2, 2), None,
         ["loop 'k_1' of the block has the extent 2, loop 'k' of the description 4"]),
        (product(9, 6, 8), (3, 2, 4), (1, 0, 2),
         ["loop 'j_1' of the block has the extent 2, loop 'i' of the description 3"]),
        (product(9, 6, 10), (3, 2, 4), None,
         ["runs under the condition", "k_1", "pad_einsum"]),
        (scaled_product, (3, 2, 4), None,
         ["does not match the intrinsic", "the block computes", "+ T.float32(1.0)",
          "where the description computes"]),
        (strided_product, (3, 2, 4), None,
         ["'A' of the block is indexed by", "in dimension 0", "depends on loop 'i_1'"]),
        (half_product, (3, 2, 4), None,
         ["the block computes", "T.Cast", "where the description computes"]),
    ],
    ids=["extent", "order", "last tile", "value", "stride", "dtype"],
)  # fmt: skip
def test_what_differs_is_told(program, factors, order, texts):
    sch = schedule_of(program)
    loop = first(sch, factors, order)
    before = main_of(sch)
    with pytest.raises(ScheduleError) as error:
        sch.tensorize(loop, SMALL)
    message = str(error.value)
    for text in [*texts, "the description of the intrinsic", 'with T.block("update")']:
        assert text in message, message
    assert main_of(sch) is before
    assert len(sch.get_loops(sch.get_block("C"))) == 6


def test_reduction_inside_keeps_its_init():
    sch = schedule_of(product(9, 6, 4))
    loop = first(sch, (3, 2, 4))
    with pytest.raises(ScheduleError, match="an init and the description has none"):
        sch.tensorize(loop, SMALL, preserve_unit_iters=False)


def test_unknown_names():
    sch = schedule_of(product(9, 6, 8))
    with pytest.raises(UnknownNameError, match="tensor intrinsic 'no_such_thing'"):
        sch.tensorize(sch.get_block("C"), "no_such_thing")
    with pytest.raises(ScheduleError, match="tensorize takes the name"):
        sch.tensorize(sch.get_block("C"), 3)


@T.prim_func
def square_desc(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (4,), offset_factor=1)
    B = T.match_buffer(b, (4,), offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(B[0:4])
        for i in range(4):
            with T.block("square"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] * A[vi]


@T.prim_func
def square_by_pointer(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (4,), offset_factor=1)
    B = T.match_buffer(b, (4,), offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(B[0:4])
        T.evaluate(T.call_extern("int32", "square4", A.access_ptr("r"), B.access_ptr("w")))


@T.prim_func
def square_without_offset(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (4,))
    B = T.match_buffer(b, (4,), offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(B[0:4])
        T.evaluate(T.call_extern("int32", "square4", A.access_ptr("r"), B.access_ptr("w")))


@T.prim_func
def square_aligned(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (4,), offset_factor=8)
    B = T.match_buffer(b, (4,), offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4])
        T.writes(B[0:4])
        for i in range(4):
            B[i] = A[i] * A[i]


@T.prim_func
def squares(A: T.Buffer((3, 12), "float32"), B: T.Buffer((3, 12), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(3, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * A[vi, vj]


def test_pointers():
    sch = schedule_of(squares)
    loop = sch.split(sch.get_loops(sch.get_block("B"))[1], [None, 4])[1]
    sch.tensorize(loop, (square_desc, square_by_pointer))
    arrays = arrays_for(squares)
    seen = []

    def square4(source, target):
        from tilesmith.runtime.dtype import DataType

        values = source.view(DataType("float32"), (4,), None, 0)
        seen.append(values.copy())
        target.view(DataType("float32"), (4,), None, 0)[:] = values * values

    from tilesmith.tir.interpreter import run

    run(main_of(sch), *arrays, externs={"square4": square4})
    assert len(seen) == 9
    np.testing.assert_array_equal(arrays[1], arrays[0] ** 2)


@pytest.mark.parametrize(
    "impl, text",
    [
        (square_without_offset, "has no symbolic offset"),
        (square_aligned, "must begin at a multiple of 8 elements"),
    ],
)
def test_demands_of_the_implementation(impl, text):
    def steps(sch):
        loop = sch.split(sch.get_loops(sch.get_block("B"))[1], [None, 4])[1]
        sch.tensorize(loop, (square_desc, impl))

    sch = schedule_of(squares)
    with pytest.raises(ScheduleError, match=text):
        steps(sch)


@T.prim_func
def block4x4_desc(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (4, 4), offset_factor=1)
    B = T.match_buffer(b, (4, 4), offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4, 0:4])
        T.writes(B[0:4, 0:4])
        for i, j in T.grid(4, 4):
            with T.block("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func
def block4x4_impl(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (4, 4), offset_factor=1)
    B = T.match_buffer(b, (4, 4), offset_factor=1)
    with T.block("root"):
        T.reads(A[0:4, 0:4])
        T.writes(B[0:4, 0:4])
        # all sixteen elements as one vector: the block must be compact
        B[0, T.ramp(0, 1, 16)] = A[0, T.ramp(0, 1, 16)] + T.Broadcast(T.float32(1), 16)


@pytest.mark.parametrize("columns, fits", [(4, True), (8, False)])
def test_compact_blocks(columns, fits):
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (8, columns))
        B = T.match_buffer(b, (8, columns))
        for i, j in T.grid(8, columns):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    def steps(sch):
        sch.tensorize(tiled(sch, [4, 4], "B")[1][0], (block4x4_desc, block4x4_impl))

    if fits:
        sch = schedule_of(main)
        steps(sch)
        assert_compiles(main, sch.mod)
        return
    sch = schedule_of(main)
    with pytest.raises(ScheduleError, match="has the strides .*'4', '1'.*, the region of 'A'"):
        steps(sch)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_tiles(data):
    """Random sizes, tiles, places of the outer loops; with and without an init outside."""
    sizes = [data.draw(st.integers(1, 4)) for _ in range(3)]
    counts = [data.draw(st.integers(1, 3)) for _ in range(3)]
    dtype = data.draw(st.sampled_from(["int32", "int64"]))
    program = product(*[size * count for size, count in zip(sizes, counts)], dtype=dtype)
    intrin = tile_product(*sizes)
    sch = schedule_of(program)
    outer, inner = [], []
    for loop, factor in zip(sch.get_loops(sch.get_block("C")), sizes):
        one, two = sch.split(loop, [None, factor], preserve_unit_iters=data.draw(st.booleans()))
        outer.append(one)
        inner.append(two)
    sch.reorder(*data.draw(st.permutations(outer)), *inner)
    block = sch.blockize(inner[0])
    if data.draw(st.booleans()):
        sch.decompose_reduction(block, sch.get_loops(block)[0])
    sch.tensorize(block, intrin)
    assert_same_results(program, main_of(sch))


def test_tensorized_twice():
    refused(
        product(9, 6, 8),
        [
            lambda sch: sch.tensorize(first(sch), SMALL),
            lambda sch: sch.tensorize(sch.get_block("C_o"), SMALL),
        ],
        "is it tensorized already?",
    )


@T.prim_func
def whole_product_desc(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (3, 8), offset_factor=1)
    B = T.match_buffer(b, (8, 2), offset_factor=1)
    C = T.match_buffer(c, (3, 2), offset_factor=1)
    with T.block("root"):
        T.reads(A[0:3, 0:8], B[0:8, 0:2])
        T.writes(C[0:3, 0:2])
        for i, j, k in T.grid(3, 2, 8):
            with T.block("product"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def whole_product_impl(a: T.handle, b: T.handle, c: T.handle):
    sa, sb, sc = T.int32(), T.int32(), T.int32()
    A = T.match_buffer(a, (3, 8), offset_factor=1, strides=[sa, 1])
    B = T.match_buffer(b, (8, 2), offset_factor=1, strides=[sb, 1])
    C = T.match_buffer(c, (3, 2), offset_factor=1, strides=[sc, 1])
    with T.block("root"):
        T.reads(A[0:3, 0:8], B[0:8, 0:2])
        T.writes(C[0:3, 0:2])
        for i in range(3):
            C[i, T.ramp(0, 1, 2)] = T.Broadcast(T.float32(0), 2)
            for k in range(8):
                C[i, T.ramp(0, 1, 2)] = (
                    C[i, T.ramp(0, 1, 2)] + T.Broadcast(A[i, k], 2) * B[k, T.ramp(0, 1, 2)]
                )


@pytest.mark.parametrize("units", [True, False])
def test_description_with_an_init(units):
    """The whole reduction is inside, and so is its init."""
    program = product(9, 6, 8)

    def steps(sch):
        outer, inner = tiled(sch, [3, 2, 8])
        sch.tensorize(inner[0], (whole_product_desc, whole_product_impl), units)

    sch = check(program, steps)
    assert_compiles(program, sch.mod)
    halves = schedule_of(product(9, 6, 16))
    _, inner = tiled(halves, [3, 2, 8])
    with pytest.raises(ScheduleError, match="the description has an init and the block has none"):
        halves.tensorize(inner[0], (whole_product_desc, whole_product_impl))
