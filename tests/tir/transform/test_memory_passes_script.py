"""Classic loop programs, images, layouts, copies, transfers, vectors as elements, checks."""

import numpy as np
import pytest

from tests.tir.transform.harness import apply, arrays_for, assert_same_results, outputs
from tilesmith.ir import Call, Range, StringImm, Var, post_order_visit
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.ir.transform import PassContext
from tilesmith.script import tir as T
from tilesmith.support.errors import UnknownNameError, UnsupportedError, VerifyError
from tilesmith.target import Target
from tilesmith.tir import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferRealize,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IndexMap,
    IterVar,
    PrimFunc,
    const,
    decl_buffer,
    stmt_seq,
    transform,
)
from tilesmith.tir.analysis import verify_memory, verify_well_formed
from tilesmith.tir.stmt import BufferStore

MARK = "meta_schedule.layout_rewrite_preproc"


def loops(extents, make, names="ijk"):
    """Serial loops around what ``make`` makes of their variables."""
    variables = [Var(name, "int32") for name in names[: len(extents)]]
    body = make(*variables)
    for var, extent in reversed(list(zip(variables, extents))):
        body = For(var, 0, extent, ForKind.SERIAL, body)
    return body


def nodes_of(func):
    found = []
    post_order_visit(func.body, found.append)
    return found


def realized(rolling=False, align=None):
    """A window of three rows of X is live in each iteration over the rows of B."""
    a, b = decl_buffer((16, 8), name="A"), decl_buffer((14, 8), name="B")
    x = decl_buffer((16, 8), name="X")

    def row(y):
        fill = loops((3, 8), lambda r, c: BufferStore(x, a[y + r, c] * 2.0, [y + r, c]), ("r", "c"))
        use = loops(
            (8,),
            lambda c: BufferStore(b, x[y, c] + x[y + 1, c] - x[y + 2, c], [y, c]),
            ("c",),
        )
        bounds = [Range.from_min_extent(y, 3), Range.from_min_extent(0, 8)]
        body = BufferRealize(x, bounds, True, stmt_seq(fill, use))
        if align is not None:
            value = Call("handle", "tir.tvm_tuple", tuple(const(n, "int32") for n in align))
            body = AttrStmt(x, "buffer_dim_align", value, body)
        return AttrStmt(x, "rolling_buffer_scope", True, body) if rolling else body

    return PrimFunc([a, b], loops((14,), row, ("y",)), attrs={"global_symbol": "main"})


# Classic loop programs.


def test_storage_flatten():
    @T.prim_func
    def expected(A: T.Buffer((16, 8), "float32"), B: T.Buffer((14, 8), "float32")):
        T.func_attr({"global_symbol": "main"})
        A1 = T.decl_buffer((128,), data=A.data)
        B1 = T.decl_buffer((112,), data=B.data)
        for y in range(14):
            X = T.allocate([24], "float32", "global")
            X1 = T.decl_buffer((24,), data=X)
            for r in range(3):
                for c in range(8):
                    X1[r * 8 + c] = A1[y * 8 + r * 8 + c] * T.float32(2)
            for c in range(8):
                B1[y * 8 + c] = X1[c] + X1[c + 8] - X1[c + 16]

    func = realized()
    got = apply(func, transform.StorageFlatten(64))
    simple = apply(got, transform.Simplify())
    assert_structural_equal(simple, apply(expected, transform.Simplify()))
    assert_same_results(func, got)


def test_storage_flatten_leaves_gaps_and_notes_bounds():
    func = realized(align=(0, 16, 3))
    got = apply(func, transform.StorageFlatten(64, create_bound_attribute=True))
    (allocation,) = [n for n in nodes_of(got) if isinstance(n, Allocate)]
    assert allocation.extents[0].value == 57  # rows are 19 elements apart: 19 % 16 == 3
    assert "buffer_bound" in got.script()
    assert_same_results(func, got)


def test_parts_of_allocated_buffers_get_a_pointer_of_their_own():
    """`T.decl_buffer` allocates: what is realized inside of that is not bound a second time."""

    @T.prim_func
    def func(A: T.Buffer((9,), "float32"), B: T.Buffer((9,), "float32")):
        T.func_attr({"global_symbol": "main"})
        X = T.decl_buffer((9,), "float32")
        for i in range(9):
            with T.realize(X[0:8], ""):
                Y = T.decl_buffer((8,), "float32", data=X.data)
                X[i % 8] = A[i] + T.float32(1)
                B[i] = Y[i % 8]

    got = apply(func, transform.StorageFlatten(64))
    assert verify_well_formed(got)
    outer, inner = [n for n in nodes_of(got) if isinstance(n, Allocate)]
    assert outer.buffer_var is not inner.buffer_var
    assert_same_results(func, got)


@pytest.mark.parametrize("line", [64, 32])
def test_lines_of_memory_are_prefetched(line):
    @T.prim_func
    def func(A: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "main"})
        T.prefetch(A, [T.Range(0, 64)])

    got = apply(func, transform.StorageFlatten(line))
    assert f"range({64 * 4 // line})" in got.script()


def test_rolling_buffer():
    func = realized(rolling=True)
    got = apply(func, transform.InjectRollingBuffer())
    assert isinstance(got.body, BufferRealize)
    text = got.script()
    assert "% 3" in text and "rolling_buffer_scope" not in text
    assert "y == 0" in text
    assert_same_results(realized(), got)
    assert_same_results(realized(), apply(got, transform.StorageFlatten(64)))


def test_what_does_not_move_cannot_roll():
    x, b = decl_buffer((4,), name="X"), decl_buffer((4,), name="B")
    body = BufferRealize(x, [Range(0, 4)], True, BufferStore(x, 1.0, [0]))
    body = For(
        Var("i", "int32"), 0, 4, ForKind.SERIAL, AttrStmt(x, "rolling_buffer_scope", 1, body)
    )
    with pytest.raises(UnsupportedError, match="cannot roll"):
        apply(PrimFunc([b], body), transform.InjectRollingBuffer())


# Images.


@pytest.mark.parametrize(
    ("scope", "shape", "rows", "columns"),
    [
        ("global.texture", (5, 6, 4), 5, 6),
        ("global.texture", (2, 3, 5, 6, 4), 6, 30),
        ("global.texture-weight", (2, 3, 5, 6, 4), 2, 90),
        ("global.texture-nhwc", (2, 3, 5, 6, 4), 6, 30),
        ("global.texture-nhwc", (5, 6, 4), 5, 6),
    ],
)
def test_texture_flatten(scope, shape, rows, columns):
    image = decl_buffer(shape, name="X", scope=scope)
    target = decl_buffer(shape, name="B")
    place = [size - 1 for size in shape]
    fill = BufferStore(image, 1.0, place)
    use = BufferStore(target, image[tuple(place)], place)
    bounds = [Range(0, size) for size in shape]
    func = PrimFunc([target], BufferRealize(image, bounds, True, stmt_seq(fill, use)))
    got = apply(func, transform.TextureFlatten())
    memory = got.body.value
    assert memory.op.name == "tir.nd_mem_alloc_with_scope"
    assert memory.args[0].value == scope
    assert [size.value for size in memory.args[2].args] == [columns, rows]
    text = got.script()
    assert f'texture2d_store", X, {rows - 1}, {columns - 1}' in text
    assert f'texture2d_load", X, {rows - 1}, {columns - 1}, 3' in text


def test_what_is_no_image_stays_realized():
    plain, target = decl_buffer((5, 6, 4), name="X"), decl_buffer((5, 6, 4), name="B")
    fill, use = BufferStore(plain, 1.0, [4, 5, 3]), BufferStore(target, plain[4, 5, 3], [4, 5, 3])
    bounds = [Range(0, size) for size in (5, 6, 4)]
    func = PrimFunc([target], BufferRealize(plain, bounds, True, stmt_seq(fill, use)))
    assert_structural_equal(apply(func, transform.TextureFlatten()), func)


def test_images_need_three_axes():
    image = decl_buffer((4, 4), name="X", scope="global.texture")
    func = PrimFunc([image], BufferStore(image, 1.0, [0, 0]))
    with pytest.raises(UnsupportedError, match="three"):
        apply(func, transform.TextureFlatten())


# Layouts.


def with_layout(index_map):
    a, b = decl_buffer((8, 6), name="A"), decl_buffer((8, 6), name="B")
    x = decl_buffer((8, 6), name="X")
    fill = loops((8, 6), lambda i, j: BufferStore(x, a[i, j] + 1.0, [i, j]))
    use = loops((8, 6), lambda i, j: BufferStore(b, x[7 - i, j], [i, j]))
    body = DeclBuffer(x, stmt_seq(fill, use))
    body = Allocate(x.data, "float32", x.shape, True, body)
    attrs = {"global_symbol": "main", "layout_transform_map": index_map}
    return PrimFunc([a, b], body, attrs=attrs)


def test_layouts_of_buffers_change():
    tiles = IndexMap.from_func(lambda i, j: [j // 3, i, j % 3])
    func = with_layout({"X": tiles})
    got = apply(func, transform.ApplyLayoutTransforms())
    assert "layout_transform_map" not in got.attrs
    assert "X_1[j // 3, i, j % 3]" in got.script()
    assert_same_results(func, got)


def test_layouts_of_parameters_change_their_shape():
    transposed = IndexMap.from_func(lambda i, j: [j, i])
    func = with_layout({"A": [transposed]})
    got = apply(func, transform.ApplyLayoutTransforms())
    assert [size.value for size in got.buffers[0].shape] == [6, 8]
    arrays = arrays_for(func)
    want = outputs(func, arrays)[1]
    changed = [arrays[0].T.copy(), arrays[1]]
    np.testing.assert_array_equal(outputs(got, changed)[1], want)


def test_layouts_that_pad_or_have_no_buffer_are_refused():
    padded = IndexMap.from_func(lambda i, j: [i // 3, j, i % 3])
    with pytest.raises(UnsupportedError, match="more elements"):
        apply(with_layout({"X": padded}), transform.ApplyLayoutTransforms())
    with pytest.raises(UnknownNameError, match="'Y'"):
        apply(with_layout({"Y": padded}), transform.ApplyLayoutTransforms())


@T.prim_func
def packs_its_weight(
    A: T.Buffer((4, 6), "float32"), W: T.Buffer((6, 8), "float32"), C: T.Buffer((4, 8), "float32")
):
    T.func_attr({"global_symbol": "main"})
    P = T.alloc_buffer((2, 6, 4))
    for o, k, i in T.grid(2, 6, 4):
        with T.block("pack"):
            vo, vk, vi = T.axis.remap("SSS", [o, k, i])
            T.block_attr({MARK: True})
            P[vo, vk, vi] = W[vk, vo * 4 + vi]
    for i, j, k in T.grid(4, 8, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * P[vj // 4, vk, vj % 4]


def test_weights_come_in_the_layout_in_which_they_are_used():
    got = apply(packs_its_weight, transform.RemoveWeightLayoutRewriteBlock())
    assert [size.value for size in got.buffers[1].shape] == [2, 6, 4]
    assert "pack" not in got.script() and "alloc_buffer" not in got.script()
    arrays = arrays_for(packs_its_weight)
    want = outputs(packs_its_weight, arrays)[2]
    packed = arrays[1].reshape(6, 2, 4).transpose(1, 0, 2).copy()
    np.testing.assert_allclose(outputs(got, [arrays[0], packed, arrays[2]])[2], want, rtol=1e-5)


@pytest.mark.parametrize("skip", [False, True])
def test_constants_are_laid_out_anew(skip):
    array = np.arange(48, dtype="float32").reshape(6, 8)
    param, weight = packs_its_weight.params[1], packs_its_weight.buffers[1]
    buffers = {p: b for p, b in packs_its_weight.buffer_map.items() if p is not param}
    body = AllocateConst(weight.data, "float32", weight.shape, array, packs_its_weight.body)
    params = [p for p in packs_its_weight.params if p is not param]
    func = packs_its_weight.with_fields(params=params, buffer_map=buffers, body=body)
    got = apply(func, transform.RemoveWeightLayoutRewriteBlock(skip_ndarray_rewrite=skip))
    assert [size.value for size in got.body.extents] == [2, 6, 4]
    if skip:
        assert got.body.data_or_idx is array
    else:
        assert_same_results(func, got)


# Copies.


@pytest.mark.parametrize("padded", [False, True])
def test_copies_are_given_to_the_users_function(padded):
    a, b = decl_buffer((16, 16), name="A"), decl_buffer((10, 12), name="B")
    seen = []

    def copy(source, target, before, after, value):
        seen.append((source, target, before, after, value))
        return Evaluate(const(0, "int32"))

    def element(i, j):
        if padded:
            inside = T.all(i >= 1, i < 9, j >= 2)
            return T.if_then_else(inside, a[i - 1, j - 2], T.float32(7))
        return a[i + 2, j * 1 + 3]

    body = loops((10, 12), lambda i, j: BufferStore(b, element(i, j), [i, j]))
    func = PrimFunc([a, b], AttrStmt(const(0, "int32"), "pragma_copy", 1, body))
    apply(func, transform.InjectCopyIntrin("copy", copy))
    ((source, target, before, after, value),) = seen
    numbers = [[part.value for part in parts] for parts in (source.strides, target.strides)]
    assert numbers == [[16, 1], [12, 1]]
    assert target.elem_offset.value == 0 and [s.value for s in target.shape] == [10, 12]
    if padded:
        assert [part.value for part in before] == [1, 2]
        assert [part.value for part in after] == [1, 0]
        assert [s.value for s in source.shape] == [8, 10]
        assert source.elem_offset.value == 0 and value.value == 7
    else:
        assert before == [] and after == [] and value is None
        assert source.elem_offset.value == 2 * 16 + 3


def test_only_copies_can_be_given_away():
    a = decl_buffer((8,), name="A")
    body = loops((8,), lambda i: BufferStore(a, a[i] + 1.0, [i]))
    func = PrimFunc([a], AttrStmt(const(0, "int32"), "pragma_copy", 1, body))
    with pytest.raises(UnsupportedError, match="is not a copy"):
        apply(func, transform.InjectCopyIntrin("copy", lambda *parts: None))


@T.prim_func
def transfers(A: T.Buffer((512,), "int8"), B: T.Buffer((128,), "int8")):
    T.func_attr({"global_symbol": "main"})
    for k in range(4):
        with T.attr(0, "async_commit_queue_scope", 1):
            with T.attr(0, "async_scope", 1):
                for i, j in T.grid(4, 32):
                    B[i * 32 + j] = A[k * 128 + i * 32 + j]
        with T.attr(0, "async_wait_queue_scope", 1):
            with T.attr(0, "async_wait_inflight_count", 0):
                B[0] = B[0] + T.int8(1)


def test_asynchronous_copies_are_transfers():
    text = apply(transfers, transform.LowerAsyncDMA()).script()
    call = 'dma_copy", 1, T.address_of(B[0]), T.address_of(A[k * 128]), 128, 0)'
    assert call in text
    assert text.index("dma_copy") < text.index('dma_wait", 1, 0)') < text.index("B[0] = ")
    with_option = {"tir.dma_bypass_cache": True}
    with PassContext(config=with_option):
        text = apply(transfers, transform.LowerAsyncDMA()).script()
    assert ", 128, 1)" in text


def test_tightly_coupled_memory():
    @T.prim_func
    def func(A: T.Buffer((64,), "int8")):
        T.func_attr({"global_symbol": "main"})
        X = T.allocate([64], "int8", "global.vtcm")
        X1 = T.decl_buffer((64,), "int8", data=X, scope="global.vtcm")
        X1[0] = A[0]

    got = apply(func, transform.LowerVtcmAlloc())
    assert got.body.value.op.name == "tir.nd_mem_alloc_with_scope"
    assert isinstance(got.body.value.args[0], StringImm)
    apply(func, transform.VerifyVTCMLimit(64))
    with pytest.raises(VerifyError, match="64 bytes"):
        apply(func, transform.VerifyVTCMLimit(63))
    target = Target("hexagon -vtcm-capacity=32")
    with pytest.raises(VerifyError, match="there are 32"):
        apply(func.with_attr("target", target), transform.VerifyVTCMLimit())


# Vectors as elements.


def test_memory_that_is_used_in_vectors_has_vectors_as_elements():
    @T.prim_func
    def before(a: T.handle("float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "main"})
        A = T.decl_buffer((64,), data=a)
        X = T.allocate([16], "float32", "global")
        X1 = T.decl_buffer((16,), data=X)
        for i in range(16):
            X1[T.Ramp(i % 4 * 4, 1, 4)] = A[T.Ramp(i * 4, 1, 4)]
            B[T.Ramp(i * 4, 1, 4)] = X1[T.Ramp(i % 4 * 4, 1, 4)]

    @T.prim_func
    def expected(a: T.handle("float32x4"), B: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "main"})
        A = T.decl_buffer((16,), "float32x4", data=a)
        X = T.allocate([4], "float32x4", "global")
        X1 = T.decl_buffer((4,), "float32x4", data=X)
        for i in range(16):
            X1[i % 4] = A[i]
            B[T.Ramp(i * 4, 1, 4)] = X1[i % 4]

    got = apply(before, transform.PointerValueTypeRewrite())
    assert_structural_equal(got, expected)


def test_conditions_of_accesses_read_vectors_too():
    @T.prim_func
    def before(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main"})
        X = T.allocate([4], "float32", "global")
        X1 = T.decl_buffer((4,), data=X)
        X1[T.Ramp(0, 1, 4)] = A[T.Ramp(0, 1, 4)]
        positive = T.meta_var(X1[T.Ramp(0, 1, 4)] > T.Broadcast(T.float32(0.5), 4))
        B.vstore([T.Ramp(0, 1, 4)], A.vload([T.Ramp(0, 1, 4)], predicate=positive), positive)

    got = apply(before, transform.PointerValueTypeRewrite())
    assert '(1,), "float32x4"' in got.script()
    verify_well_formed(got)
    assert_same_results(before, got)


def test_mixed_accesses_keep_their_elements():
    @T.prim_func
    def func(a: T.handle("float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "main"})
        A = T.decl_buffer((64,), data=a)
        for i in range(15):
            B[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i * 4 + 1, 1, 4)]

    assert apply(func, transform.PointerValueTypeRewrite()) is func


# Branches.


@T.prim_func
def padded(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(16):
        T.evaluate(T.assume(i < 14 or A[i] == T.float32(0)))
    for i in range(16):
        B[i] = T.if_then_else(i < 14, A[i] * T.float32(2), T.float32(0))


def test_choices_in_padding_go():
    @T.prim_func
    def expected(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == T.float32(0)))
        for i in range(16):
            B[i] = A[i] * T.float32(2)

    for step in (transform.UseAssumeToReduceBranches, transform.ReduceBranchingThroughOvercompute):
        got = apply(padded, step())
        assert_structural_equal(got, expected)
    arrays = arrays_for(padded)
    arrays[0][14:] = 0
    np.testing.assert_array_equal(outputs(got, arrays)[1], outputs(padded, arrays)[1])


def test_branches_in_padding_go():
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == 3))
        for i in range(16):
            if i < 14:
                B[i] = A[i] * 2
            else:
                B[i] = 6

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == 3))
        for i in range(16):
            B[i] = A[i] * 2

    got = apply(before, transform.ReduceBranchingThroughOvercompute())
    assert_structural_equal(got, expected)
    assert apply(before, transform.UseAssumeToReduceBranches()) is before


def test_other_contents_and_reads_outside_keep_their_branches():
    @T.prim_func
    def func(A: T.Buffer((16,), "float32"), B: T.Buffer((20,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == T.float32(0)))
        for i in range(20):
            B[i] = T.if_then_else(i < 14, A[i] + T.float32(2), T.float32(0))
            B[i] = T.if_then_else(i < 14, A[i], T.float32(0))

    assert apply(func, transform.ReduceBranchingThroughOvercompute()) is func


# Checks.


def test_verify_memory():
    @T.prim_func
    def func(A: T.Buffer((16,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(16):
            A[i] = T.float32(1)

    assert verify_memory(func)
    apply(func, transform.VerifyMemory())
    on_device = func.with_attr("target", Target("cuda"))
    assert not verify_memory(on_device)
    with pytest.raises(VerifyError, match="threadIdx"):
        apply(on_device, transform.VerifyMemory())
    bound = on_device.with_body(on_device.body.with_fields(
        kind=ForKind.THREAD_BINDING, thread_binding=thread("threadIdx.x")))  # fmt: skip
    assert verify_memory(bound)


def thread(tag):
    return IterVar(None, Var("t", "int32"), IterVar.ThreadIndex, tag)


def test_co_processors_are_refused():
    @T.prim_func
    def func(A: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main"})
        with T.attr(0, "coproc_scope", 1):
            A[0] = T.float32(1)

    with pytest.raises(UnsupportedError, match="co-processor"):
        apply(func, transform.CoProcSync())
