"""The interpreter against numpy: statements, expressions, dtypes, memory, errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tir.sample_programs import elementwise, matmul
from tilesmith import tir
from tilesmith.ir import (
    Broadcast,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    GlobalVar,
    IRModule,
    Let,
    Mod,
    PointerType,
    PrimType,
    Ramp,
    Range,
    Select,
    Shuffle,
    Var,
    const,
)
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import (
    ExecutionError,
    OutOfBoundsError,
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.tir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferLoad,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IterVar,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    While,
    decl_buffer,
    ret,
    stmt_seq,
)
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.interpreter.operators import llvm_function

rng = np.random.default_rng(0)


def loop(extent, body, kind=ForKind.SERIAL, name="i", dtype="int32", begin=0):
    variable = Var(name, dtype)
    return For(variable, begin, extent, kind, body(variable))


def value_of(expr, variables=(), values=()):
    """What an expression gives, returned from a function."""
    return run(PrimFunc(list(variables), Evaluate(ret(expr))), *values)


# Whole programs.


@pytest.mark.parametrize("rows", [16, None])
@pytest.mark.parametrize("kind", list(ForKind)[:4])
def test_elementwise(rows, kind):
    a = rng.random((16, 12), dtype="float32")
    b = np.zeros_like(a)
    run(elementwise(rows, kind=kind), a, b)
    np.testing.assert_array_equal(b, a + np.float32(1))


@pytest.mark.parametrize("shape", [(1, 1, 1), (8, 6, 10), (3, 5, 7)])
def test_matmul_initialises_its_result(shape):
    n, m, k = shape
    a, b = rng.random((n, k), dtype="float32"), rng.random((k, m), dtype="float32")
    c = np.full((n, m), np.nan, "float32")
    run(matmul(n, m, k), a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float16", "float64"])
def test_matmul_dtypes(dtype):
    a = rng.integers(-3 if dtype[0] != "u" else 0, 4, (4, 6)).astype(dtype)
    b = rng.integers(0, 4, (6, 5)).astype(dtype)
    c = np.zeros((4, 5), dtype)
    run(matmul(4, 5, 6, dtype), a, b, c)
    np.testing.assert_array_equal(c, a @ b)


def test_modules_and_calls_between_functions():
    a = Var("a", PointerType(PrimType("float32"), "global"))
    n = Var("n", "int32")
    flat = decl_buffer((8,), name="flat", data=a)
    twice = PrimFunc([a, n], loop(n, lambda i: BufferStore(flat, flat[i] * 2.0, [i])))
    buffer = decl_buffer((8,), name="A")
    call = Call("void", GlobalVar("twice"), (buffer.data, const(5, "int32")))
    main = PrimFunc([buffer], stmt_seq(Evaluate(call), Evaluate(call)))
    array = np.ones(8, "float32")
    run(IRModule({"twice": twice, "main": main}), array)
    np.testing.assert_array_equal(array, [4] * 5 + [1] * 3)
    with pytest.raises(UnknownNameError, match="twice"):
        run(main, array)
    with pytest.raises(UnknownNameError, match="no PrimFunc 'other'"):
        run(IRModule({"main": main}), array, entry="other")


def test_arguments_of_other_kinds():
    import torch

    from tilesmith.runtime.ndarray import array

    source, target = torch.rand(16, 12), array(np.zeros((16, 12), "float32"))
    run(elementwise(), source, target)
    np.testing.assert_array_equal(target.numpy(), source.numpy() + np.float32(1))


def test_strided_arguments():
    a = rng.random((16, 12), dtype="float32")
    b = np.zeros((12, 16), "float32").T  # not compact: goes through a copy
    run(elementwise(), a, b)
    np.testing.assert_array_equal(b, a + np.float32(1))


def test_symbolic_strides():
    steps = [Var("s0", "int32"), Var("s1", "int32")]
    a = decl_buffer((4, 3), name="A", strides=steps)
    func = PrimFunc(
        [a], loop(4, lambda i: loop(3, lambda j: BufferStore(a, a[i, j] + 1.0, [i, j])))
    )
    whole = np.zeros((8, 6), "float32")
    run(func, whole[::2, 1:6:2])
    expected = np.zeros((8, 6), "float32")
    expected[::2, 1:6:2] = 1
    np.testing.assert_array_equal(whole, expected)


# Blocks.


def test_predicates_and_iterators_with_other_origins():
    a = decl_buffer((10,), name="A")
    vi = IterVar(Range.from_min_extent(2, 8), "vi", 0)
    block = Block([vi], [], [], "b", BufferStore(a, 1.0, [vi.var]))
    func = PrimFunc([a], loop(16, lambda i: BlockRealize([i + 2], i + 2 < 7, block)))
    array = np.zeros(10, "float32")
    run(func, array)
    np.testing.assert_array_equal(array, [0, 0, 1, 1, 1, 1, 1, 0, 0, 0])


def test_init_runs_at_the_first_value_of_each_reduction():
    a = decl_buffer((3,), name="A")
    vi = IterVar((0, 3), "vi", 0)
    vk = IterVar(Range.from_min_extent(1, 2), "vk", IterVar.CommReduce)
    block = Block(
        [vi, vk], [], [], "b", BufferStore(a, a[vi] + 1.0, [vi.var]), BufferStore(a, 10.0, [vi.var])
    )
    func = PrimFunc(
        [a], loop(3, lambda i: loop(2, lambda k: BlockRealize([i, k + 1], True, block)))
    )
    array = np.zeros(3, "float32")
    run(func, array)
    np.testing.assert_array_equal(array, [12, 12, 12])


def test_memory_of_blocks_is_fresh():
    a, temporary = decl_buffer((2,), name="A"), decl_buffer((1,), name="temporary")
    body = stmt_seq(BufferStore(a, temporary[0], [1]), BufferStore(temporary, 1.0, [0]))
    block = Block([], [], [], "b", body, None, [temporary])
    array = np.zeros(2, "float32")
    run(PrimFunc([a], loop(2, lambda i: BlockRealize([], True, block))), array)
    assert np.isnan(array[1])


@pytest.mark.parametrize("rank", [1, 2])
def test_matched_buffers(rank):
    a = decl_buffer((8, 8), name="A")
    stride, offset = Var("stride", "int32"), Var("offset", "int32")
    vi = IterVar((0, 2), "vi", 0)
    sizes = (4, 4)[2 - rank :]
    strides = [stride, 1][2 - rank :]
    tile = decl_buffer(sizes, name="tile", strides=strides, elem_offset=offset)
    first = Range.from_min_extent(vi.var * 4, 4 if rank == 2 else 1)
    region = BufferRegion(a, [first, Range.from_min_extent(const(2, "int32"), 4)])
    where = [1, 3][2 - rank :]
    pointer = tir.tvm_access_ptr("float32", tile.data, tile.elem_offset, 16, 3)
    body = stmt_seq(
        BufferStore(tile, 1.0, where),
        Evaluate(Call("void", "tir.call_extern", ("mark", pointer))),
        BufferStore(a, Cast("float32", stride if rank == 2 else offset), [0, 0]),
    )
    block = Block([vi], [], [], "b", body, None, [], [MatchBufferRegion(tile, region)])
    func = PrimFunc([a], loop(2, lambda i: BlockRealize([i], True, block)))

    def mark(place):
        place.view(DataType("float32"), (1,), None, 0)[0] = 5.0

    array = np.zeros((8, 8), "float32")
    run(func, array, externs={"mark": mark})
    expected = np.zeros((8, 8), "float32")
    for i in range(2):
        expected[i * 4 + (1 if rank == 2 else 0), 5] = 1
        expected[i * 4, 2] = 5
    expected[0, 0] = 8 if rank == 2 else 34
    np.testing.assert_array_equal(array, expected)


# Lowered code.


def pointer(name, dtype="float32", scope="global"):
    return Var(name, PointerType(PrimType(dtype), scope))


def test_allocations_views_and_vectors():
    a = pointer("a")
    flat = decl_buffer((8,), name="flat", data=a)
    memory = pointer("memory", scope="local")
    local = decl_buffer((8,), name="local", data=memory)
    whole = Ramp(0, 1, 8)
    backwards = Ramp(7, -1, 8)
    body = stmt_seq(
        BufferStore(local, BufferLoad(flat, [whole]) * Broadcast(2.0, 8), [whole]),
        BufferStore(flat, BufferLoad(local, [backwards]), [whole]),
    )
    array = np.arange(8, dtype="float32")
    run(PrimFunc([a], Allocate(memory, "float32", [8], True, DeclBuffer(local, body))), array)
    np.testing.assert_array_equal(array, np.arange(8)[::-1] * 2)


def test_masked_access_does_not_touch_lanes_that_are_off():
    a = pointer("a")
    flat = decl_buffer((6,), name="flat", data=a)
    lanes = Ramp(4, 1, 4)
    mask = Ramp(4, 1, 4) < Broadcast(6, 4)
    body = BufferStore(flat, BufferLoad(flat, [lanes], mask) + Broadcast(1.0, 4), [lanes], mask)
    array = np.zeros(6, "float32")
    run(PrimFunc([a], body), array)
    np.testing.assert_array_equal(array, [0, 0, 0, 0, 1, 1])


def test_gather_scatter_and_shuffle():
    a, b = decl_buffer((8,), name="A"), decl_buffer((4,), "int32", name="B")
    index = BufferLoad(b, [Ramp(0, 1, 4)])
    swapped = Shuffle([BufferLoad(a, [index])], [1, 0, 3, 2])
    array, places = np.arange(8, dtype="float32"), np.array([6, 1, 3, 0], "int32")
    run(PrimFunc([a, b], BufferStore(a, swapped, [index])), array, places)
    expected = np.arange(8, dtype="float32")
    expected[places] = expected[places][[1, 0, 3, 2]]
    np.testing.assert_array_equal(array, expected)


def test_buffers_of_vectors():
    a = decl_buffer((4,), "float32x4", name="A")
    array = rng.random((4, 4), dtype="float32")
    expected = array.copy()
    expected[2] = expected[1] + 1
    run(PrimFunc([a], BufferStore(a, a[1] + const(1.0, "float32x4"), [2])), array)
    np.testing.assert_array_equal(array, expected)


def test_constants_typed_views_and_addresses():
    table, out = pointer("table", "int32"), decl_buffer((2,), "int32", name="out")
    values = decl_buffer((3,), "int32", name="values", data=table)
    raw = pointer("raw", "int32")
    moved = decl_buffer((2,), "int32", name="moved", data=raw)
    place = tir.handle_add_byte_offset(tir.address_of(values[0]), 4)
    body = LetStmt(
        raw, place, DeclBuffer(moved, stmt_seq(*[BufferStore(out, moved[i], [i]) for i in (0, 1)]))
    )
    constant = AllocateConst(table, "int32", [3], np.array([7, 8, 9], "int32"), body)
    array = np.zeros(2, "int32")
    run(PrimFunc([out], constant), array)
    np.testing.assert_array_equal(array, [8, 9])


def test_while_let_if_and_attributes():
    a = decl_buffer((2,), "int32", name="A")
    x = Var("x", "int32")
    thread = IterVar((0, 3), "tx", IterVar.ThreadIndex, "threadIdx.x")
    body = stmt_seq(
        While(a[0] < 10, LetStmt(x, a[0] + 3, BufferStore(a, x, [0]))),
        IfThenElse(a[0] < 3, BufferStore(a, 0, [1]), BufferStore(a, a[0], [1])),
        AttrStmt(thread, "thread_extent", 3, BufferStore(a, a[1] + thread.var, [1])),
        AttrStmt(const(0, "int32"), "pragma_x", 1, BufferStore(a, a[1] + 1, [1])),
    )
    array = np.zeros(2, "int32")
    run(PrimFunc([a], body), array)
    np.testing.assert_array_equal(array, [12, 16])


def test_thread_loops():
    a = decl_buffer((4, 3), "int32", name="A")
    i, j = Var("i", "int32"), Var("j", "int32")
    threads = [
        IterVar(None, Var(tag, "int32"), IterVar.ThreadIndex, tag)
        for tag in ("blockIdx.x", "threadIdx.x")
    ]
    body = BufferStore(a, i * 10 + j, [i, j])
    inner = For(j, 0, 3, ForKind.THREAD_BINDING, body, threads[1])
    func = PrimFunc([a], For(i, 0, 4, ForKind.THREAD_BINDING, inner, threads[0]))
    array = np.zeros((4, 3), "int32")
    run(func, array)
    np.testing.assert_array_equal(array, np.arange(4)[:, None] * 10 + np.arange(3))


def test_return_leaves_at_once():
    a = decl_buffer((1,), "int32", name="A")
    body = stmt_seq(loop(10, lambda i: IfThenElse(i > 3, Evaluate(ret(i)))), BufferStore(a, 1, [0]))
    array = np.zeros(1, "int32")
    assert run(PrimFunc([a], body), array) == 4
    assert array[0] == 0


def test_registered_and_external_functions():
    from tilesmith.runtime.registry import register_func

    seen = []
    a = decl_buffer((3,), name="A")

    @register_func("tests.interpreter.note", override=True)
    def note(tensor, number):
        seen.append((tensor.numpy().tolist(), number))

    run(
        PrimFunc([a], Evaluate(tir.call_packed("tests.interpreter.note", a, 7))),
        np.ones(3, "float32"),
    )
    assert seen == [([1.0, 1.0, 1.0], 7)]
    expr = tir.call_extern("int32", "plus", 3, 4)
    func = PrimFunc([], Evaluate(ret(expr)))
    assert run(func, externs={"plus": lambda x, y: x + y}) == 7
    with pytest.raises(ExecutionError, match="external function 'plus'"):
        run(func)


# Expressions.

INTEGER = st.integers(-(2**7), 2**7 - 1)


@given(INTEGER, INTEGER, st.sampled_from(["int8", "uint8", "int32"]))
def test_integer_arithmetic_wraps(x, y, dtype):
    if dtype == "uint8":
        x, y = x & 255, y & 255
    variables = [Var("x", dtype), Var("y", dtype)]
    a, b = variables

    def check(expr, expected):
        got = value_of(expr, variables, (x, y))
        assert got == int(np.array(expected).astype(dtype)), (str(expr), x, y)

    check(a + b, x + y)
    check(a - b, x - y)
    check(a * b, x * y)
    check(tir.min(a, b), min(x, y))
    check(tir.max(a, b), max(x, y))
    check(a & b, x & y)
    check(a ^ b, x ^ y)
    check(~a, ~x)
    if y:
        truncated = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        check(FloorDiv(a, b), x // y)
        check(FloorMod(a, b), x % y)
        check(Div(a, b), truncated)
        check(Mod(a, b), x - y * truncated)


@given(
    st.lists(INTEGER, min_size=4, max_size=4),
    st.lists(INTEGER.filter(bool), min_size=4, max_size=4),
)
def test_vectors_agree_with_scalars(left, right):
    lanes = Ramp(0, 1, 4)
    a, b = decl_buffer((4,), "int32", name="A"), decl_buffer((4,), "int32", name="B")
    c = decl_buffer((4,), "int32", name="C")
    for make in (
        lambda x, y: x * y - x,
        FloorDiv,
        FloorMod,
        Div,
        Mod,
        lambda x, y: tir.max(x, y),
        lambda x, y: Select(x < y, x, y + x),
        lambda x, y: Cast(
            "int32" if x.dtype.lanes == 1 else "int32x4", Cast(x.dtype.with_bits(8), x * y)
        ),
    ):
        results = []
        vector = BufferStore(c, make(BufferLoad(a, [lanes]), BufferLoad(b, [lanes])), [lanes])
        scalar = loop(4, lambda i, make=make: BufferStore(c, make(a[i], b[i]), [i]))
        for body in (vector, scalar):
            out = np.zeros(4, "int32")
            run(PrimFunc([a, b, c], body), np.array(left, "int32"), np.array(right, "int32"), out)
            results.append(out)
        np.testing.assert_array_equal(*results)


@given(st.floats(-50, 50, width=32), st.floats(-50, 50, width=32))
def test_float32_rounds_each_operation(x, y):
    variables = [Var("x", "float32"), Var("y", "float32")]
    a, b = variables
    x32, y32 = np.float32(x), np.float32(y)
    assert value_of(a * b + a, variables, (x, y)) == x32 * y32 + x32
    assert isinstance(value_of(a * b, variables, (x, y)), np.float32)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    ("name", "reference", "value"),
    [
        ("exp", np.exp, 0.7), ("exp2", np.exp2, 0.7), ("exp10", lambda x: 10**x, 0.7),
        ("log", np.log, 0.7), ("log2", np.log2, 0.7), ("log10", np.log10, 0.7),
        ("log1p", np.log1p, 0.7), ("sqrt", np.sqrt, 0.7), ("rsqrt", lambda x: 1 / np.sqrt(x), 0.7),
        ("sin", np.sin, 0.7), ("cos", np.cos, 0.7), ("tan", np.tan, 0.7), ("sinh", np.sinh, 0.7),
        ("cosh", np.cosh, 0.7), ("tanh", np.tanh, 0.7), ("asin", np.arcsin, 0.7),
        ("acos", np.arccos, 0.7), ("atan", np.arctan, 0.7), ("asinh", np.arcsinh, 0.7),
        ("acosh", np.arccosh, 1.7), ("atanh", np.arctanh, 0.7), ("erf", math.erf, 0.7),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), 0.7), ("floor", np.floor, -1.5),
        ("ceil", np.ceil, -1.5), ("trunc", np.trunc, -1.5), ("nearbyint", np.rint, 2.5),
        ("abs", np.abs, -1.5),
    ],
)  # fmt: skip
def test_mathematics(name, reference, value, dtype):
    x = Var("x", dtype)
    got = value_of(getattr(tir, name)(x), [x], [value])
    rounded = float(DataType(dtype).numpy().type(value))
    tolerance = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-12}[dtype]
    assert float(got) == pytest.approx(float(reference(rounded)), rel=tolerance)
    assert DataType(got.dtype) == dtype


@pytest.mark.parametrize(
    ("value", "expected"), [(0.5, 1), (-0.5, -1), (1.5, 2), (2.5, 3), (0.49999997, 0), (-2.4, -2)]
)
def test_round_goes_away_from_zero(value, expected):
    assert value_of(tir.round(const(value, "float32"))) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (tir.popcount(const(-1, "int32")), 32),
        (tir.clz(const(1, "int32")), 31),
        (tir.clz(const(0, "int64")), 64),
        (Call("int32", "tir.shift_right", (const(-5, "int32"), const(1, "int32"))), -3),
        (Call("int8", "tir.shift_left", (const(100, "int8"), const(1, "int8"))), -56),
        (tir.reinterpret("int32", const(1.0, "float32")), 0x3F800000),
        (tir.reinterpret("float32", const(0x3F800000, "int32")), 1.0),
        (tir.q_multiply_shift(const(100, "int32"), const(1 << 30, "int32"), 31, 0), 50),
        (tir.dot_u8i8(const(0xFF000002, "uint32"), const(-128 << 24 | 3, "int32")), -32634),
        (tir.dot_i8i8(const(0xFF000002, "uint32"), const(-128 << 24 | 3, "int32")), 134),
        (tir.dot_i16i16(const(0x8000FFFF, "uint32"), const(2 << 16 | 3, "int32")), -65539),
        (tir.dot_i16i16(const(0x80008000, "uint32"), const(-0x7FFF8000, "int32")), -(1 << 31)),
        # (1, 2) times (3, -0.5)
        (tir.dot_bf16bf16(const(0x40003F80, "uint32"), const(0xBF004040, "uint32")), 2.0),
        (tir.power(const(3, "int32"), const(4, "int32")), 81),
        (tir.power(2.0, 0.5), np.float32(2.0) ** np.float32(0.5)),
        (tir.atan2(1.0, 2.0), np.arctan2(np.float32(1), np.float32(2))),
        (tir.fmod(-5.5, 2.0), -1.5),
        (tir.hypot(3.0, 4.0), 5.0),
        (tir.copysign(3.0, -1.0), -3.0),
        (tir.ldexp(1.5, const(3, "int32")), 12.0),
        (tir.isnan(const(float("nan"), "float32")), True),
        (tir.isinf(const(float("-inf"), "float32")), True),
        (tir.isfinite(const(float("inf"), "float32")), False),
        (tir.isfinite(const(3.0, "float32")), True),
        (tir.ceildiv(7, 2), 4),
        (Let(Var("x", "int32"), 3, const(4, "int32")), 4),
        (Cast("int32", const(-2.7, "float32")), -2),
        (Cast("uint8", const(-1, "int32")), 255),
        (Cast("bool", const(2, "int32")), True),
        (Cast("float32", const(16777217, "int32")), 16777216.0),
        (tir.all(const(True, "bool"), const(3, "int32") < 2), False),
        (tir.if_then_else(const(True, "bool"), 1, 2), 1),
        (tir.call_extern("float32", "expf", 0.0), 1.0),
        (tir.call_llvm_pure_intrin("float32", "llvm.sqrt.f32", 4.0), 2.0),
        (tir.call_llvm_pure_intrin("float32", "llvm.fma.f32", 2.0, 3.0, 4.0), 10.0),
        (tir.dp4a(const(2, "int8x4"), const(-3, "int8x4"), 1), -23),
        (tir.isnullptr(const(0, "handle")), True),
        (tir.min_value("int8"), -128),
        (tir.max_value("float16"), 65504.0),
    ],
)
def test_operators(expr, expected):
    assert value_of(expr) == expected


def test_only_the_chosen_branch_is_evaluated():
    a = decl_buffer((2,), name="A")
    i = Var("i", "int32")
    for make in (tir.if_then_else, Select):
        body = For(i, 0, 3, 0, Evaluate(make(i < 2, a[i], 0.0)))
        run(PrimFunc([a], body), np.zeros(2, "float32"))


# Errors.


@pytest.mark.parametrize("index", [-1, 4])
@pytest.mark.parametrize("what", ["load", "store"])
def test_scalar_access_outside(index, what):
    a = decl_buffer((4,), name="A")
    body = Evaluate(a[index] + 0.0) if what == "load" else BufferStore(a, 1.0, [index])
    with pytest.raises(OutOfBoundsError, match=rf"the {what} of A\[{index}\] .*shape \(4\)"):
        run(PrimFunc([a], body), np.zeros(4, "float32"))


@pytest.mark.parametrize("rank", [2, 3, 5])
@pytest.mark.parametrize("what", ["load", "store"])
def test_access_outside_in_more_dimensions(rank, what):
    a = decl_buffer((2,) * rank, name="A")
    indices = [0] * (rank - 1) + [-1]
    body = Evaluate(a[tuple(indices)] + 0.0) if what == "load" else BufferStore(a, 1.0, indices)
    with pytest.raises(OutOfBoundsError, match="0, -1"):
        run(PrimFunc([a], body), np.zeros((2,) * rank, "float32"))


@pytest.mark.parametrize("base", [-1, 2])
@pytest.mark.parametrize("what", ["load", "store"])
def test_vector_access_outside(base, what):
    a = decl_buffer((4,), name="A")
    lanes = Ramp(base, 1, 4)
    load = Evaluate(BufferLoad(a, [lanes]))
    body = load if what == "load" else BufferStore(a, Broadcast(1.0, 4), [lanes])
    with pytest.raises(OutOfBoundsError, match="outside"):
        run(PrimFunc([a], body), np.zeros(4, "float32"))


@pytest.mark.parametrize("options", [Options(), Options(check_races=True)])
def test_vector_runs_over_the_rows_of_a_compact_buffer(options):
    a, b = decl_buffer((3, 4), name="A"), decl_buffer((3, 4), name="B")
    lanes = Ramp(2, 1, 8)
    body = BufferStore(b, BufferLoad(a, [const(0, "int32"), lanes]), [const(1, "int32"), lanes])
    given, out = np.arange(12, dtype="float32").reshape(3, 4), np.zeros((4, 4), "float32")
    with pytest.raises(OutOfBoundsError, match=r"store of B\[1, \[2, .* 9\]\]"):  # of 12 elements
        run(PrimFunc([a, b], body), given, out[:3], options=options)
    body = BufferStore(b, BufferLoad(a, [const(1, "int32"), lanes]), [const(0, "int32"), lanes])
    with pytest.raises(OutOfBoundsError, match=r"load of A\[1, \[2, .* 9\]\]"):
        run(PrimFunc([a, b], body), given, out[:3], options=options)
    body = BufferStore(b, BufferLoad(a, [const(0, "int32"), lanes]), [const(0, "int32"), lanes])
    run(PrimFunc([a, b], body), given, out[:3], options=options)
    assert out.ravel()[2:10].tolist() == list(range(2, 10))


def test_vector_runs_over_the_rows_of_a_strided_buffer():
    a = decl_buffer((3, 4), name="A", strides=[8, 1])
    body = Evaluate(BufferLoad(a, [const(0, "int32"), Ramp(2, 1, 4)]))
    with pytest.raises(OutOfBoundsError, match="outside"):
        run(PrimFunc([a], body), np.zeros((3, 8), "float32")[:, :4])


def test_matched_region_outside():
    a, tile = decl_buffer((4,), name="A"), decl_buffer((4,), name="tile")
    region = BufferRegion(a, [Range.from_min_extent(const(1, "int32"), 4)])
    block = Block(
        [], [], [], "b", Evaluate(tile[0] + 0.0), None, [], [MatchBufferRegion(tile, region)]
    )
    with pytest.raises(OutOfBoundsError, match=r"the matched region of A\[1:5\]"):
        run(PrimFunc([a], BlockRealize([], True, block)), np.zeros(4, "float32"))


def test_wrong_arguments():
    func = matmul(4, 5, 6)
    good = [np.zeros(shape, "float32") for shape in ((4, 6), (6, 5), (4, 5))]
    with pytest.raises(TypeMismatchError, match="takes 3 arguments"):
        run(func, *good[:2])
    with pytest.raises(ShapeError, match="size 1 of buffer 'C' is 5"):
        run(func, *good[:2], np.zeros((4, 6), "float32"))
    with pytest.raises(ShapeError, match="2 dimensions"):
        run(func, *good[:2], np.zeros(4, "float32"))
    with pytest.raises(TypeMismatchError, match="float64"):
        run(func, *good[:2], np.zeros((4, 5)))
    with pytest.raises(TypeMismatchError, match="PrimFunc or an IRModule"):
        run(3)


def test_symbolic_sizes_have_to_agree():
    func = elementwise(None)
    with pytest.raises(ShapeError, match="size 0 of buffer 'B' is 4"):
        run(func, np.zeros((4, 12), "float32"), np.zeros((5, 12), "float32"))


def test_assertions_and_division_by_zero():
    x = Var("x", "int32")
    func = PrimFunc(
        [x], AssertStmt(x < 3, "x is too large", Evaluate(ret(Div(const(6, "int32"), x))))
    )
    assert run(func, 2) == 3
    with pytest.raises(ExecutionError, match="x is too large"):
        run(func, 3)
    with pytest.raises(ExecutionError, match="division by zero"):
        run(func, 0)
    with pytest.raises(ExecutionError, match="assumes"):
        value_of(tir.assume(const(False, "bool")))


def test_free_variables():
    with pytest.raises(ExecutionError, match="'nowhere'"):
        value_of(Var("nowhere", "int32") + 1)


def test_unknown_operators():
    for name in UNKNOWN:
        with pytest.raises(UnsupportedError, match=name):
            run(PrimFunc([], Evaluate(Call("int32", "tir." + name, ()))))


# What has no meaning without the device, the runtime or the compiler that it belongs to.
UNKNOWN = (
    "lookup_param", "nd_mem_alloc_with_scope", "texture2d_store", "texture2d_load", "mem_copy",
    "call_spirv_pure_glsl450", "tvm_static_handle", "tvm_bmma_sync", "ptx_mma_sp",
)  # fmt: skip


def test_each_operator_is_known_or_refused():
    from tilesmith.ir.intrinsic_table import INTRINSICS
    from tilesmith.tir.interpreter.call_rules import CALLS, GROUP_CALLS
    from tilesmith.tir.interpreter.operators import OPERATORS

    for record in INTRINSICS:
        name = "tir." + record.name
        runs = name in OPERATORS or name in CALLS or name in GROUP_CALLS
        assert runs != (record.name in UNKNOWN), name


def test_reductions_of_tensor_expressions():
    k = IterVar((0, 3), "k", IterVar.CommReduce)
    with pytest.raises(UnsupportedError, match="create_prim_func"):
        value_of(tir.sum(Cast("float32", k.var), axis=k))


def test_speed():
    """About 3 µs per innermost iteration on a quiet machine; ten times that is a mistake."""
    import time

    arrays = [np.ones(shape, "float32") for shape in ((12, 14), (14, 10), (12, 10))]
    func = matmul(12, 10, 14)
    run(func, *arrays)
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        run(func, *arrays)
        best = min(best, time.perf_counter() - start)
    assert best / (12 * 10 * 14) < 40e-6


def test_picking_lanes_by_the_lowest_bits():
    picked = llvm_function("llvm.x86.avx512.permvar.sf.512")("float32x16", ())
    lanes = np.array([0, 15, 16, -1, 1 << 30] + [3] * 11, "int32")
    got = picked(np.arange(16, dtype="float32"), lanes)
    np.testing.assert_array_equal(got, [0, 15, 0, 15, 0] + [3] * 11)


def test_scaling_by_powers_of_two_of_any_size():
    scaled = llvm_function("llvm.x86.avx512.mask.scalef.ps.512")("float32x16", ())
    powers = np.array([1.5, -1, 3e9, -3e9, np.inf, -np.inf, np.nan], "float32")
    with np.errstate(over="ignore"):
        got = scaled(np.full(7, -3, "float32"), powers)
    np.testing.assert_array_equal(got, [-6, -1.5, -np.inf, 0, -np.inf, 0, np.nan])
