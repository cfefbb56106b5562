"""The law of the script: the text of a program parses back to an equal one with the same text."""

import pytest

import tilesmith as ts
from tilesmith.ir.structural import assert_structural_equal
from tilesmith.script import ir as I
from tilesmith.script import tir as T

EXTENT = 7


@T.prim_func
def matmul(
    A: T.Buffer((16, 16), "float32"), B: T.Buffer[(16, 16), "float32"], C: T.Buffer((16, 16))
):
    T.func_attr({"tir.noalias": True})
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func
def symbolic(a: T.handle, b: T.handle, n: T.int32):
    m = T.int32(is_size_var=True)
    s0 = T.int32()
    A = T.match_buffer(a, (n, m), "float32", strides=[s0, 1], offset_factor=4, align=128)
    B = T.match_buffer(b, (n, m), "float32", scope="shared")
    for i in range(n):
        for j in range(i, i + m):
            with T.block("b"):
                vi = T.axis.spatial(n, i)
                vj = T.axis.S((2, m), j)
                T.where(i * 4 + j < EXTENT)
                X = T.alloc_buffer((4,), "float32", scope="local")
                M = T.match_buffer(A[vi, vj : vj + 4], (1, 4), "float32", offset_factor=1)
                B[vi, vj] = M[0, 0] + T.exp(A[vi, vj]) * 2.0
                if (vi < 2 and vj > 3) or not vi == 5:
                    B[vi, vj] += 1.0
                elif 0 <= vi < EXTENT:
                    X[0] = T.float32("inf")
                else:
                    T.evaluate(T.call_extern("int32", "foo", A.data, B.access_ptr("w")))


@T.prim_func(private=True)
def lowered(p: T.handle("float32", "global"), n: T.int64) -> T.int32:
    T.func_attr({"x": [1, 2.5, "s", None, True, {"k": -1}], "target": T.target("llvm")})
    A = T.Buffer((n,), "float32", data=p)
    q = T.allocate([64], "float32", "local")
    Q = T.decl_buffer((64,), data=q)
    W = T.decl_buffer((8, 8), "int8", scope="shared")
    flags = T.allocate([8], "bool")
    F = T.decl_buffer((8,), "bool", data=flags, elem_offset=0)
    x: T.float32 = A[3]
    y = x + 1.0
    F[0] = T.bool(True)
    with T.allocate([n], "float32", condition=n > 3, annotations={"k": 1}) as r:
        R = T.Buffer((n,), "float32", data=r)
        R[0] = 1.0
    for i in T.serial(0, 16, annotations={"pragma": 1}):
        for j in T.vectorized(4):
            for k in T.unroll(i, i + 3):
                while A[i] < 3.0:
                    A[i] = T.if_then_else(i < 3, A[j], T.Select(k < 2, 1.0, x))
    c = T.allocate_const([1, 2, 3], "int32", [3])
    d = T.allocate_const([True], "bool", [1], pointer=T.handle("bool", "global"))
    T.evaluate(T.Max(d, d))
    T.prefetch(T.address_of(A[0]), 0, 3, 1)
    assert n > 2, "bad n"
    v = T.int32()
    T.evaluate(T.Let(v + 1, where={v: 3}))
    T.call_packed("hello", n, T.address_of(A[0]), 'text with "quotes" and \n', c)
    W.vstore(
        [0, T.Ramp(0, 1, 8)], T.Broadcast(T.int8(1), 8), predicate=T.Broadcast(T.bool(True), 8)
    )
    Q[T.Ramp(0, 1, 8)] = A[T.Ramp(T.int64(0), T.int64(1), 8)] + T.Broadcast(y, 8)
    Q[0:8] = A[0:8] * 2.0
    Q[0:8:2] = Q[1:8:2]
    with T.Assert(n > 3, "m"):
        T.evaluate(T.tvm_struct_get(p, 0, 1, "handle"))
    with T.LetStmt(y * 2.0) as z:
        Q[1] = z
    return 0


@T.prim_func
def threads(p: T.handle("float32", "global")):
    A = T.decl_buffer((1024,), data=p)
    bx = T.launch_thread("blockIdx.x", 16)
    with T.launch_thread("threadIdx.x", 32) as tx:
        T.attr(A.data, "storage_alignment", 128)
        A[bx * 32 + tx] = 0.0
        T.tvm_storage_sync("shared")
    for ty in T.thread_binding(4, thread="threadIdx.y"):
        A[ty] = 1.0


@T.prim_func
def shared_threads(p: T.handle("float32", "global")):
    A = T.decl_buffer((1024,), data=p)
    tx = T.env_thread("threadIdx.x")
    with T.launch_thread(tx, 32):
        A[tx] = 0.0
    with T.launch_thread(tx, 32):
        A[tx] = 1.0


@T.prim_func
def opaque_blocks(A: T.Buffer((16,), "int64"), B: T.Buffer((T.int64(16),), "int64")):
    for i in T.serial(T.int64(4)):
        with T.block("outer"):
            vo = T.axis.spatial(T.int64(4), i)
            T.reads(A[0:16])
            T.writes(B[vo * T.int64(4) : vo * T.int64(4) + T.int64(4)])
            T.block_attr({"script_parsing_detect_access": 3})
            for j in T.serial(T.int64(4)):
                with T.block("inner"):
                    vi = T.axis.opaque(T.int64(4), j)
                    vr = T.axis.scan(T.int64(1), T.int64(0))
                    B[vo * T.int64(4) + vi] = (
                        T.min(A[0], T.max(A[1], T.int64(5))) // A[2] % A[3] + vr
                    )


@T.prim_func
def operators(A: T.Buffer((16,), "float32"), x: T.int32, y: T.int32, u: T.uint8, h: T.float16):
    T.evaluate(T.Add(x, 0) + T.Mul(x, 1) * T.Sub(1, 2))
    T.evaluate((x - (y - x)) // (x % y) - (x + y) * -1)
    T.evaluate(T.truncdiv(x, y) + T.truncmod(x, y) + T.Div(4, 2))
    T.evaluate(T.bitwise_and(x, y) ^ (x << 2) | ~y)
    T.evaluate(T.Cast("int64", x) + T.int64(5))
    T.evaluate(T.Cast("int32", u) + T.cast(u, "int32"))
    T.evaluate(T.And(T.bool(True), x < y) or (x == y) == (y == x))
    T.evaluate(T.Not(T.Not(x < y)))
    T.evaluate(T.Shuffle([T.Broadcast(x, 4), T.Ramp(0, y, 4)], [0, 5]))
    T.evaluate(h * T.float16(0.1) + T.float16("nan"))
    T.evaluate(T.float32(-0.0) + T.float32(1e30) + T.float64(0.1) + T.float32(1e-7))
    T.evaluate(T.uint8(255) - u)
    T.evaluate(T.reinterpret("float32", x))
    T.evaluate(T.isnan(A[0]) or T.isinf(A[1]) or T.isfinite(A[2]))
    T.evaluate(T.call_llvm_pure_intrin("float32", "llvm.sqrt.f32", T.uint32(1), A[0]))
    T.evaluate(T.likely(x < y))
    T.evaluate(T.call_intrin("float32", "tir.exp", A[0], A[1]))
    T.evaluate(T.int64(-(2**40)) + T.int32(-5))
    T.evaluate(T.max_value("int32") + T.min_value("int8"))


@T.prim_func(implicit_root=False)
def without_root(A: T.Buffer((4,), "float32")):
    for i in T.thread_binding(4, thread=T.env_thread("threadIdx.x")):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            A[vi] = 1.0


@T.prim_func
def reductions(A: T.Buffer((T.int64(4),), "float32", elem_offset=T.int32(8))):
    k = T.int32()
    axis = T.meta_var(T.iter_var(k, (0, 3), "CommReduce", ""))
    add = T.meta_var(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]))
    value = T.meta_var(T.Reduce(add, [T.Cast("float32", k)], [axis], T.bool(True), 0, []))
    A[0] = value


@T.prim_func
def index_maps(A: T.Buffer((4,), "float32")):
    with T.block("root"):
        T.reads()
        T.writes()
        packed = T.meta_var(T.index_map(lambda i, j: (i // 4, j, i % 4)))
        back = T.meta_var(T.index_map(lambda a: (a * 2,), index_dtype="int32"))
        both = T.meta_var(T.index_map(lambda i: (i + 1,), inverse_index_map=lambda i: (i - 1,)))
        T.block_attr({"layouts": [packed, back, both]})
        A[0] = A[1]


@T.prim_func
def explicit_root(A: T.Buffer((4,), "float32")):
    with T.block("root"):
        T.reads()
        T.writes()
        T.block_attr({"x": 1})
        for i in range(4):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                A[vi] = A[vi] + 1.0


@T.prim_func
def returns_two(
    x: T.int32(is_size_var=True), v: T.float32x4, c: T.float8_e4m3fn
) -> (T.int32, T.handle):
    T.evaluate(x)


@T.prim_func
def scalar_buffer(A: T.Buffer((), "float32"), B: T.Buffer((4,), "float32", strides=(2,), align=16)):
    with T.block("x"):
        vi = T.axis.spatial(1, 0)
        A[()] = B[vi]


@T.prim_func
def loops_of_other_begin(A: T.Buffer((64,), "float32"), n: T.int32):
    for i in range(3, 10):
        for j in range(n, n * 2):
            for k in range(i * 4, i * 4 + 4):
                for m in T.parallel(2, n):
                    A[i + j + k + m] = 0.0


@T.prim_func
def realized(A: T.Buffer((64,), "float32"), n: T.int32, p: T.handle("float32", "shared")):
    B = T.Buffer((64,), "float32", data=p)
    with T.realize(B[0:64], ""):
        B[0] = A[0]
    T.attr(0, "some_key", "value")
    A[1] = 1.0


@I.ir_module
class Calls:
    I.module_attrs({"version": 1})
    I.module_global_infos(
        {
            "vdevice": [
                I.vdevice("llvm"),
                I.vdevice({"kind": "llvm"}, 1, "shared"),
            ],
            "dummy": [I.dummy_global_info()],
        }
    )

    @T.prim_func(private=True)
    def first(x: T.int32, p: T.handle("int32", "global")):
        Calls.second(x + 1, p)

    @T.prim_func
    def second(x: T.int32, p: T.handle("int32", "global")):
        cls.first(x, p)
        T.evaluate(T.Call("int32", Calls.first, [x, p]))


FUNCTIONS = (
    matmul, symbolic, lowered, threads, shared_threads, opaque_blocks, operators, explicit_root,
    scalar_buffer, returns_two, index_maps, without_root, reductions, loops_of_other_begin,
    realized,
)  # fmt: skip


def check(node, **options):
    """Print, parse, compare; gives the text."""
    text = node.script(**options)
    again = ts.script.from_source(text)
    assert_structural_equal(node, again)
    assert again.script(**options) == text
    return text


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.attrs.get("global_symbol"))
def test_functions(function):
    check(function)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.attrs.get("global_symbol"))
def test_functions_without_sugar(function):
    text = function.script(syntax_sugar=False)
    assert_structural_equal(function, ts.script.from_source(text))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.attrs.get("global_symbol"))
def test_functions_with_verbose_expressions(function):
    text = function.script(verbose_expr=True)
    assert_structural_equal(function, ts.script.from_source(text))


def test_module_of_all():
    module = ts.IRModule({f"f{n}": function for n, function in enumerate(FUNCTIONS)})
    check(module)


def test_calls_between_functions():
    text = check(Calls)
    assert "cls.second(x + 1, p)" in text
    first = Calls["first"].body.value
    assert first.op is Calls.get_global_var("second")
