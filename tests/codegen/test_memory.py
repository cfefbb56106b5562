"""Loads, stores and memory: vectors, strides, scattered lanes, masks, allocations, constants."""

import numpy as np
import pytest

from tests.codegen.harness import HOST, Compiled, kernel
from tilesmith.codegen.llvm import emit_text
from tilesmith.ir import (
    Broadcast,
    Call,
    IntImm,
    IRModule,
    PointerType,
    PrimType,
    Ramp,
    Shuffle,
    StringImm,
    Var,
    const,
)
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import CodegenError
from tilesmith.tir import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    While,
    address_of,
    decl_buffer,
    if_then_else,
    stmt_seq,
)

N = 64


def loop(extent, body, kind=ForKind.SERIAL, **annotations):
    var = Var("i", "int32")
    return For(var, 0, extent, kind, body(var), annotations=annotations)


def buffers(dtype="float32", count=2, size=N):
    return [decl_buffer((size,), dtype, f"b{n}") for n in range(count)]


def pointer(dtype="float32", scope="global", name="memory"):
    return Var(name, PointerType(PrimType(dtype), scope))


DTYPES = ["bool", "int8", "uint16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def values(dtype, count=N):
    data = np.random.default_rng(5).integers(0, 2 if dtype == "bool" else 100, count)
    return data.astype(DataType(dtype).numpy())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [1, -1, 2, 3, -2, 0])
def test_strided_load_and_store(dtype, stride):
    a, b = buffers(dtype)
    start = 30
    lanes = 8
    index = Ramp(const(start, "int32"), stride, lanes)
    body = BufferStore(b, BufferLoad(a, [index]), [Ramp(const(4, "int32"), 1, lanes)])
    x, y = values(dtype), np.zeros(N, DataType(dtype).numpy())
    Compiled(kernel([a, b], body))(x, y)
    places = start + stride * np.arange(lanes)
    np.testing.assert_array_equal(y[4:12], x[places])
    if stride == 0:
        return
    body = BufferStore(b, BufferLoad(a, [Ramp(const(4, "int32"), 1, lanes)]), [index])
    y = np.zeros(N, DataType(dtype).numpy())
    Compiled(kernel([a, b], body))(x, y)
    expected = np.zeros_like(y)
    expected[places] = x[4:12]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_dtype", ["int32", "int64", "uint8", "uint32"])
def test_gather_and_scatter(dtype, index_dtype):
    a, b = buffers(dtype)
    where = decl_buffer((8,), index_dtype, "where")
    index = BufferLoad(where, [Ramp(const(0, "int32"), 1, 8)])
    body = BufferStore(b, BufferLoad(a, [index]), [index])
    x, y = values(dtype), np.zeros(N, DataType(dtype).numpy())
    places = np.array([3, 60, 1, 7, 33, 12, 63, 0], index_dtype)
    Compiled(kernel([a, where, b], body))(x, places, y)
    expected = np.zeros_like(y)
    expected[places] = x[places]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [1, -1, 3])
def test_masked_access_touches_only_what_is_on(dtype, stride):
    a, b = buffers(dtype)
    start = 24 if stride < 0 else 8
    index = Ramp(const(start, "int32"), stride, 8)
    on = Ramp(const(0, "int32"), 1, 8) < Broadcast(const(5, "int32"), 8)
    body = BufferStore(b, BufferLoad(a, [index], on), [index], on)
    x, y = values(dtype), np.ones(N, DataType(dtype).numpy())
    Compiled(kernel([a, b], body))(x, y)
    expected = np.ones_like(y)
    places = start + stride * np.arange(5)
    expected[places] = x[places]
    np.testing.assert_array_equal(y, expected)


def test_predicate_of_a_scalar_access():
    a, b = buffers()
    n = Var("n", "int32")
    body = loop(N, lambda i: BufferStore(b, BufferLoad(a, [i], i < n) + 1.0, [i], i < n))
    x, y = values("float32"), np.zeros(N, "float32")
    Compiled(kernel([a, b, n], body))(x[:20].copy(), y, 20)
    np.testing.assert_array_equal(y[:20], x[:20] + 1)
    assert not y[20:].any()


def test_choice_by_lane_loads_only_what_is_wanted():
    a, b = buffers()
    lanes = Ramp(const(0, "int32"), 1, 8)
    wild = lanes * Broadcast(const(1 << 28, "int32"), 8)  # only lane 0 lies inside
    inside = lanes < Broadcast(const(1, "int32"), 8)
    zero = Broadcast(const(7.0, "float32"), 8)
    choice = Call("float32x8", "tir.if_then_else", (inside, BufferLoad(a, [wild]), zero))
    x, y = values("float32"), np.zeros(N, "float32")
    Compiled(kernel([a, b], BufferStore(b, choice, [lanes])))(x, y)
    np.testing.assert_array_equal(y[:8], [x[0]] + [7] * 7)


def test_branches_that_could_fault_are_not_taken():
    a, b = buffers()
    body = loop(N, lambda i: BufferStore(
        b, if_then_else(i < 3, BufferLoad(a, [i * (1 << 20)]), 5.0), [i]))  # fmt: skip
    x, y = values("float32"), np.zeros(N, "float32")
    big = np.zeros(3 << 20, "float32")
    big[:: 1 << 20] = x[:3]
    Compiled(kernel([a, b], body))(big, y)
    np.testing.assert_array_equal(y, [*x[:3], *[5] * (N - 3)])
    n = Var("n", "int32")
    division = loop(
        N, lambda i: BufferStore(b, if_then_else(n > 0, 8 // n, 1).astype("float32"), [i])
    )
    Compiled(kernel([b, n], division))(y, 0)
    assert (y == 1).all()


def test_vector_elements():
    a = decl_buffer((16,), "float32x4", "a")
    b = decl_buffer((16,), "float32x4", "b")
    body = stmt_seq(
        loop(16, lambda i: BufferStore(b, BufferLoad(a, [15 - i]), [i])),
        BufferStore(
            b, BufferLoad(a, [Ramp(const(2, "int32"), 1, 2)]), [Ramp(const(0, "int32"), 1, 2)]
        ),
        BufferStore(
            b, BufferLoad(a, [Ramp(const(1, "int32"), 3, 2)]), [Ramp(const(8, "int32"), 4, 2)]
        ),
    )
    x, y = values("float32"), np.zeros(N, "float32")
    Compiled(kernel([a, b], body))(x, y)
    rows, expected = x.reshape(16, 4), x.reshape(16, 4)[::-1].copy()
    expected[:2], expected[8], expected[12] = rows[2:4], rows[1], rows[4]
    np.testing.assert_array_equal(y.reshape(16, 4), expected)


def test_shuffles():
    a, b = buffers()
    first = BufferLoad(a, [Ramp(const(0, "int32"), 1, 4)])
    second = BufferLoad(a, [Ramp(const(4, "int32"), 1, 4)])
    third = BufferLoad(a, [Ramp(const(8, "int32"), 1, 2)])
    n = Var("n", "int32")

    def pick(*numbers):
        return [
            number if isinstance(number, Var) else IntImm("int32", number) for number in numbers
        ]

    body = stmt_seq(
        BufferStore(b, Shuffle([first, second], pick(7, 0, 3, 4)), [Ramp(const(0, "int32"), 1, 4)]),
        BufferStore(
            b, Shuffle([first, second, third], pick(9, 1, 5)), [Ramp(const(4, "int32"), 1, 3)]
        ),
        BufferStore(b, Shuffle([first], pick(2)), [const(7, "int32")]),
        BufferStore(b, Shuffle([first, third], pick(n)), [const(8, "int32")]),
        BufferStore(
            b,
            Call("float32x8", "tir.vectorcombine", (second, first)),
            [Ramp(const(9, "int32"), 1, 8)],
        ),
        BufferStore(
            b, Call("float32x2", "tir.vectorhigh", (second,)), [Ramp(const(17, "int32"), 1, 2)]
        ),
    )
    x, y = values("float32"), np.zeros(N, "float32")
    Compiled(kernel([a, b, n], body))(x, y, 5)
    picked = [7, 0, 3, 4, 9, 1, 5, 2, 9, 4, 5, 6, 7, 0, 1, 2, 3, 6, 7]
    np.testing.assert_array_equal(y[:19], x[picked])


@pytest.mark.parametrize("size", [4, 1000, 100_000])
@pytest.mark.parametrize("scope", ["global", "local"])
def test_allocation(size, scope):
    a, b = buffers(size=size)
    var = pointer(scope=scope)
    temporary = decl_buffer((size,), "float32", "temporary", data=var)
    body = stmt_seq(
        loop(size, lambda i: BufferStore(temporary, BufferLoad(a, [i]) * 2.0, [i])),
        loop(size, lambda i: BufferStore(b, BufferLoad(temporary, [size - 1 - i]), [i])),
    )
    body = Allocate(var, "float32", [size], const(True, "bool"), DeclBuffer(temporary, body))
    x, y = values("float32", size), np.zeros(size, "float32")
    assert Compiled(kernel([a, b], body))(x, y) == 0
    np.testing.assert_array_equal(y, x[::-1] * 2)


def test_allocation_of_a_size_known_at_run_time():
    a, b = buffers()
    n, var = Var("n", "int32"), pointer()
    temporary = decl_buffer((n,), "float32", "temporary", data=var)
    body = stmt_seq(
        loop(n, lambda i: BufferStore(temporary, BufferLoad(a, [i]), [i])),
        loop(n, lambda i: BufferStore(b, BufferLoad(temporary, [n - 1 - i]), [i])),
    )
    body = Allocate(var, "float32", [n], const(True, "bool"), body)
    x, y = values("float32"), np.zeros(N, "float32")
    compiled = Compiled(kernel([a, b, n], body))
    for size in (0, 1, 50):
        assert compiled(x, y, size) == 0
        np.testing.assert_array_equal(y[:size], x[:size][::-1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_constants(dtype):
    given = values(dtype)
    b = decl_buffer((N,), dtype, "b")
    var = pointer(dtype)
    table = decl_buffer((N,), dtype, "table", data=var)
    body = loop(N, lambda i: BufferStore(b, BufferLoad(table, [N - 1 - i]), [i]))
    y = np.zeros(N, DataType(dtype).numpy())
    Compiled(kernel([b], AllocateConst(var, dtype, [N], given, body)))(y)
    np.testing.assert_array_equal(y, given[::-1])


def test_pointers():
    a, b = buffers("int32")
    moved = Var("moved", PointerType(PrimType("int32"), "global"))
    view = decl_buffer((8,), "int32", "view", data=moved)
    element = Var("element", PointerType(PrimType("int32"), "global"))
    seen = decl_buffer((8,), "int32", "seen", data=element)
    accessed = Var("accessed", PointerType(PrimType("int32"), "global"))
    through = decl_buffer((8,), "int32", "through", data=accessed)
    number = Call("uint64", "tir.reinterpret", (a.data,))
    same = Call("handle", "tir.reinterpret", (number,))
    body = stmt_seq(
        BufferStore(b, BufferLoad(view, [const(1, "int32")]), [const(0, "int32")]),
        BufferStore(b, BufferLoad(seen, [const(0, "int32")]), [const(1, "int32")]),
        BufferStore(b, BufferLoad(through, [const(2, "int32")]), [const(2, "int32")]),
        IfThenElse(
            Call("bool", "tir.isnullptr", (same,)), BufferStore(b, 1, [3]), BufferStore(b, 2, [3])
        ),
    )
    body = LetStmt(accessed, a.access_ptr("r", offset=20), body)
    body = LetStmt(element, address_of(BufferLoad(a, [const(9, "int32")])), body)
    body = LetStmt(moved, Call("handle", "tir.handle_add_byte_offset", (a.data, 16)), body)
    x, y = np.arange(N, dtype="int32"), np.zeros(N, "int32")
    Compiled(kernel([a, b], body))(x, y)
    np.testing.assert_array_equal(y[:4], [5, 9, 22, 2])


def test_control_flow():
    a, b = buffers("int32")
    count = pointer("int32", "local", "count")
    counter = decl_buffer((1,), "int32", "counter", data=count)
    now = BufferLoad(counter, [0])
    body = SeqStmt(
        [
            BufferStore(counter, 0, [0]),
            While(
                now < 10,
                SeqStmt(
                    [
                        IfThenElse(
                            now % 2 == 0,
                            BufferStore(b, BufferLoad(a, [now]), [now]),
                            BufferStore(b, 0 - now, [now]),
                        ),
                        BufferStore(counter, now + 1, [0]),
                    ]
                ),
            ),
            IfThenElse(now > 100, BufferStore(b, 1, [20])),
        ]
    )
    body = Allocate(count, "int32", [1], const(True, "bool"), body)
    x, y = np.arange(100, 100 + N, dtype="int32"), np.zeros(N, "int32")
    Compiled(kernel([a, b], body))(x, y)
    np.testing.assert_array_equal(y[:10], [x[i] if i % 2 == 0 else -i for i in range(10)])
    assert not y[10:].any()


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_loop_bounds(dtype):
    b = decl_buffer((N,), "int32", "b")
    low, high = Var("low", dtype), Var("high", dtype)
    i, j = Var("i", dtype), Var("j", dtype)
    body = For(
        i,
        low,
        high - low,
        ForKind.SERIAL,
        For(j, 5, 3, ForKind.SERIAL, BufferStore(b, BufferLoad(b, [i]) + j.astype("int32"), [i])),
    )
    compiled = Compiled(kernel([b, low, high], body))
    for first, last in ((3, 9), (4, 4), (0, N)):
        y = np.zeros(N, "int32")
        compiled(y, first, last)
        expected = np.zeros(N, "int32")
        expected[first:last] = 18
        np.testing.assert_array_equal(y, expected)


def test_negative_indices_are_extended_with_their_sign():
    a, b = buffers("int32")
    n = Var("n", "int32")
    body = loop(8, lambda i: BufferStore(b, BufferLoad(a, [(i - 4) // 3 + n % 5 + 3]), [i]))
    x, y = np.arange(N, dtype="int32"), np.zeros(N, "int32")
    Compiled(kernel([a, b, n], body))(x, y, -7)
    np.testing.assert_array_equal(y[:8], [(i - 4) // 3 + -7 % 5 + 3 for i in range(8)])


def test_shared_expressions_are_written_once():
    a, b = buffers()
    value = BufferLoad(a, [const(0, "int32")])
    for _ in range(60):
        value = value + value  # a tree of 2 ** 60 nodes
    compiled = Compiled(kernel([a, b], BufferStore(b, value, [const(0, "int32")])))
    y = np.zeros(N, "float32")
    compiled(np.full(N, 2.0**-60, "float32"), y)
    assert y[0] == 1


def test_deep_expressions():
    a, b = buffers()
    value = BufferLoad(a, [const(0, "int32")])
    for _ in range(3000):
        value = value * 1.0009 + BufferLoad(a, [const(1, "int32")])
    text = emit_text(IRModule({"kernel": kernel([a, b], BufferStore(b, value, [0]))}), HOST)
    assert text.count("fadd") == 3000


def test_alignment_is_the_true_one():
    a, b = buffers()
    var = pointer(scope="local")
    temporary = decl_buffer((N,), "float32", "temporary", data=var)
    body = loop(
        8,
        lambda i: stmt_seq(
            BufferStore(temporary, BufferLoad(a, [Ramp(i * 8, 1, 8)]), [Ramp(i * 8, 1, 8)]),
            BufferStore(b, BufferLoad(temporary, [Ramp(i * 8 + 1, 1, 4)]), [Ramp(i * 8, 1, 4)]),
        ),
    )
    body = Allocate(var, "float32", [N + 1], const(True, "bool"), body)
    text = emit_text(IRModule({"kernel": kernel([a, b], body)}), HOST)
    stores = [line for line in text.split("\n") if "store <8 x float>" in line]
    assert stores[0].endswith("align 32")
    loads = [line for line in text.split("\n") if "load <" in line]
    assert [line.rsplit(" ", 1)[1] for line in loads] == ["4", "4"]
    declared = kernel([a, b], body).with_attr("tir.param_alignment", (64, 0))
    text = emit_text(IRModule({"kernel": declared}), HOST)
    loads = [line for line in text.split("\n") if "load <" in line]
    assert [line.rsplit(" ", 1)[1] for line in loads] == ["32", "4"]


def test_calls_of_c_functions_and_intrinsics():
    a, b = buffers()
    vector = BufferLoad(a, [Ramp(const(0, "int32"), 1, 8)])
    body = stmt_seq(
        BufferStore(b, Call("float32", "tir.call_pure_extern", (StringImm("fabsf"), a[8])), [8]),
        BufferStore(
            b,
            Call(
                "float32x8",
                "tir.call_llvm_pure_intrin",
                (StringImm("llvm.fma"), vector, vector, vector),
            ),
            [Ramp(const(0, "int32"), 1, 8)],
        ),
        BufferStore(
            b, Call("float32", "tir.call_llvm_intrin", (StringImm("llvm.sqrt.f32"), a[9])), [9]
        ),
        Evaluate(Call("void", "tir.prefetch", (address_of(a[0]), 0, 3, 1))),
        Evaluate(Call("int32", "tir.tvm_storage_sync", (StringImm("shared"),))),
        Evaluate(Call("bool", "tir.assume", (const(True, "bool"),))),
    )
    x, y = -values("float32"), np.zeros(N, "float32")
    x[9] = 9
    Compiled(kernel([a, b], body))(x, y)
    np.testing.assert_allclose(y[:8], x[:8] * x[:8] + x[:8])
    assert y[8] == -x[8] and y[9] == 3


def test_imported_llvm_text():
    a, b = buffers()
    source = "define float @twice(float %x) {\n  %y = fadd float %x, %x\n  ret float %y\n}\n"
    call = Call("float32", "tir.call_pure_extern", (StringImm("twice"), a[3]))
    body = AttrStmt(a.data, "pragma_import_llvm", StringImm(source), BufferStore(b, call, [0]))
    x, y = values("float32"), np.zeros(N, "float32")
    Compiled(kernel([a, b], body))(x, y)
    assert y[0] == 2 * x[3]


def test_names_of_the_c_library_do_not_clash():
    a, b = buffers("float64")
    body = loop(N, lambda i: BufferStore(b, Call("float64", "tir.exp", (BufferLoad(a, [i]),)), [i]))
    x, y = values("float64") / 100, np.zeros(N)
    Compiled(kernel([a, b], body, name="exp"))(x, y)
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-14)


def test_calls_between_functions():
    a, b = buffers()
    inner = kernel([a, b], loop(N, lambda i: BufferStore(b, a[i] + 1.0, [i])), name="inner")
    private = inner.without_attr("global_symbol")
    n = Var("n", "int32")
    value = Var("x", "int32")
    square = kernel([value], Evaluate(Call("int32", "tir.ret", (value * value,))), name="square")
    c, d = buffers()
    module = IRModule({"inner": private, "square": square})
    call = Evaluate(Call("void", module.get_global_var("inner"), (c.data, d.data)))
    squared = Call("int32", module.get_global_var("square"), (n,))
    outer = kernel([c, d, n], stmt_seq(call, BufferStore(d, squared.astype("float32"), [0])))
    module["kernel"] = outer
    x, y = values("float32"), np.zeros(N, "float32")
    assert Compiled(module)(x, y, 7) == 0
    np.testing.assert_array_equal(y[1:], x[1:] + 1)
    assert y[0] == 49


def test_refusals():
    a, b = buffers()
    two = decl_buffer((4, 4), "float32", "two")
    cases = [
        (BufferStore(two, 1.0, [0, 0]), "2 indices"),
        (loop(8, lambda i: BufferStore(b, 1.0, [i]), ForKind.VECTORIZED), "VECTORIZED"),
        (BufferStore(b, Var("loose", "float32"), [0]), "'loose' is not defined"),
        (AttrStmt(a.data, "thread_extent", const(4, "int32"), Evaluate(const(0, "int32"))), "GPU"),
        (BufferStore(b, Call("float32", "tir.vscale", ()), [0]), "T.vscale"),
    ]
    for body, words in cases:
        with pytest.raises(CodegenError, match=words):
            emit_text(IRModule({"kernel": kernel([a, b, two], body)}), HOST)
