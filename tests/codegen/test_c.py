"""The C back end: the same programs as for LLVM, many per file because compilers are slow."""

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tilesmith
from tests.codegen import test_operators as operators
from tests.codegen.harness import Compiled, elementwise, kernel
from tests.codegen.test_against_interpreter import COUNT, LANES, Program
from tests.codegen.test_machine_code import register_tile
from tests.codegen.test_parallel_and_packed import packed_main
from tilesmith import codegen, runtime, te, tir
from tilesmith.codegen.c import emit_source, find_compiler
from tilesmith.ir import Call, Cast, IntImm, IRModule, Ramp, Shuffle, StringImm, Var, const
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import CodegenError
from tilesmith.target import Target
from tilesmith.tir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    call_packed,
    decl_buffer,
    if_then_else,
    stmt_seq,
)
from tilesmith.tir.interpreter import run

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C compiler here")
C = Target("c")
wide, samples = operators.wide, operators.samples


class Batch:
    """Elementwise functions of one file, with what they should give."""

    def __init__(self):
        self.cases = []

    def add(self, make, inputs, result, expected):
        for lanes in (1, 8):
            dtypes = [str(DataType(array.dtype)) for array in inputs]
            function = elementwise(make, dtypes, result, len(inputs[0]), lanes)
            name = f"case_{len(self.cases)}"
            self.cases.append((function.with_attr("global_symbol", name), name, inputs, expected))

    def check(self, tolerance=0.0):
        compiled = Compiled([function for function, *_ in self.cases], C)
        for _, name, inputs, expected in self.cases:
            got = np.zeros_like(expected)
            assert compiled(*inputs, got, name=name) == 0
            if tolerance:
                got, expected = wide(got).astype("f8"), wide(expected).astype("f8")
                np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
            else:
                np.testing.assert_array_equal(wide(got), wide(expected), err_msg=name)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bfloat16", "float64"])
def test_operators(dtype):
    batch, a, b = Batch(), samples(dtype), samples(dtype, 1)
    b[b == 0] = 1
    with np.errstate(over="ignore"):
        for name, expected in operators.BINARY.items():
            batch.add(getattr(tir, name), [a, b], dtype, expected(wide(a), wide(b)).astype(a.dtype))
    for name, expected in operators.COMPARISON.items():
        batch.add(getattr(tir, name), [a, b], "bool", expected(a, b))
    if DataType(dtype).is_float:
        batch.add(tir.Div, [a, b], dtype, (wide(a) / wide(b)).astype(a.dtype))
    else:
        divisor = b.copy()
        divisor[divisor == -1] = 2
        for name, expected in operators.DIVISION.items():
            batch.add(getattr(tir, name), [a, divisor], dtype, expected(a, divisor).astype(a.dtype))
        for name, expected in (("and", a & b), ("or", a | b), ("xor", a ^ b)):
            batch.add(
                lambda x, y, name=name: Call(x.dtype, "tir.bitwise_" + name, (x, y)),
                [a, b], dtype, expected,
            )  # fmt: skip
        mask = (1 << a.itemsize * 8) - 1
        counts = [bin(int(value) & mask).count("1") for value in a]
        batch.add(tir.popcount, [a], dtype, np.array(counts, a.dtype))
    low = np.where(wide(a) < wide(b), a, b)
    batch.add(lambda x, y: tir.Select(tir.LT(x, y), x, y), [a, b], dtype, low)
    batch.check()


@pytest.mark.parametrize("source", ["bool", "int64", "float16", "float64"])
def test_casts(source):
    batch, given_values = Batch(), samples(source)
    for target in ["bool", *operators.INTEGERS, *operators.FLOATS]:
        kind, a = DataType(target), given_values
        if DataType(source).is_float and not kind.is_float and not kind.is_bool:
            a = np.abs(wide(given_values)).astype(a.dtype)
        middle = wide(a)
        if kind.is_float and kind.bits == 16 and source == "float64":
            middle = middle.astype("float32")
        with np.errstate(over="ignore"):
            expected = middle.astype(kind.numpy())
        batch.add(
            lambda x, kind=kind: Cast(kind.with_lanes(x.dtype.lanes), x), [a], target, expected
        )
    batch.check()


@pytest.mark.parametrize("target", ["float16", "bfloat16"])
def test_rounding(target):
    random = np.random.default_rng(7)
    kind = DataType(target).numpy()
    values = (random.standard_normal(4096) * np.exp2(random.integers(-30, 12, 4096))).astype("f4")
    some = values[:512].astype(kind)
    following = (some.view("u2") + 1).view(kind)
    halves = (some.astype("f4") + following.astype("f4")) / 2
    extremes = np.array([0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519, 65520, 1e30, 2**-25], "f4")
    values = np.concatenate([values, halves, extremes])
    values = np.resize(values, (len(values) + 7) // 8 * 8)
    with np.errstate(all="ignore"):
        expected = values.astype(kind)
    batch = Batch()
    to, back = DataType(target), DataType("float32")
    batch.add(lambda x: Cast(to.with_lanes(x.dtype.lanes), x), [values], target, expected)
    again = expected.astype("f4")
    batch.add(lambda x: Cast(back.with_lanes(x.dtype.lanes), x), [expected], "float32", again)
    batch.check()


@pytest.mark.parametrize("dtype", operators.FLOATS)
def test_mathematics(dtype):
    batch = Batch()
    for name, function in operators.MATHEMATICS.items():
        low, high = operators.DOMAIN.get(name, (-5, 5))
        a = np.random.default_rng(3).uniform(low, high, 48).astype(DataType(dtype).numpy())
        if name == "round":
            a[:6] = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5]
        expected = function(wide(a)).astype(a.dtype)
        batch.add(lambda x, name=name: Call(x.dtype, "tir." + name, (x,)), [a], dtype, expected)
    batch.check({"float64": 1e-13, "float32": 2e-6, "float16": 4e-3, "bfloat16": 2e-2}[dtype])


@settings(max_examples=6, phases=[Phase.generate])  # shrinking programs of a compiler is slow
@given(st.data())
def test_random_programs_against_the_interpreter(data):
    a = np.array([3, -8, 0, 5, 7, -1, 2, 11, -30, 4, 9, -6, 1, 8, -2, 14], "int32")
    f = np.array(
        [0.5, -1.5, 2.25, 3, -0.25, 7.75, -8.5, 1, 0, 2.5, -3.5, 4, 9.5, -7, 6, 0.75], "f4"
    )
    functions = [Program(data.draw, lanes).function() for lanes in (1, LANES) * 6]
    functions = [f.with_attr("global_symbol", f"f{n}") for n, f in enumerate(functions)]
    compiled = Compiled(functions, C)
    for number, function in enumerate(functions):
        expected, got = np.zeros(COUNT, "int32"), np.zeros(COUNT, "int32")
        run(function, a, f, expected, number - 6)
        assert compiled(a, f, got, number - 6, name=f"f{number}") == 0
        np.testing.assert_array_equal(got, expected)


def test_statements():
    a, b = decl_buffer((64,), "float32", "a"), decl_buffer((64,), "float32", "b")
    n, i, j = Var("n", "int32"), Var("for", "int32"), Var("j", "int32")
    x = Var("x", "float32x4")
    table = Var("table", a.data.type_annotation)
    values = np.arange(64, dtype="float32") * 0.1
    constants = decl_buffer((64,), "float32", "constants", data=table)
    memory = decl_buffer((n,), "float32", "memory")
    whole = Ramp(const(8, "int32"), 1, 4)
    picked = Shuffle([x_of(a, 0), x_of(a, 4)], [IntImm("int32", k) for k in (7, 0, 5, 2)])
    body = stmt_seq(
        For(i, 0, 8, ForKind.PARALLEL, BufferStore(b, BufferLoad(a, [i]) + constants[i + 3], [i])),
        LetStmt(x, BufferLoad(a, [whole]), BufferStore(b, x * x, [whole])),
        BufferStore(b, BufferLoad(b, [Ramp(const(7, "int32"), 1, 4)]), [whole]),  # overlapping
        BufferStore(b, picked,
                    [Ramp(const(12, "int32"), 1, 4)]),
        For(j, 2, n, ForKind.UNROLLED, BufferStore(memory, BufferLoad(a, [j]), [j - 2])),
        IfThenElse(n > 3, BufferStore(b, BufferLoad(memory, [3]), [16]), BufferStore(b, 1.0, [17])),
        BufferStore(b, if_then_else(n > 1000, BufferLoad(a, [n * 100000]), 5.0), [18]),
        BufferStore(b, x_of(a, 20), [Ramp(const(20, "int32"), 1, 4)],
                    Ramp(const(0, "int32"), 1, 4) < tir.Broadcast(n - 8, 4)),
    )  # fmt: skip
    body = Allocate(memory.data, "float32", [n], const(True, "bool"), body)
    body = AllocateConst(table, "float32", [64], values, body)
    given_values = np.random.default_rng(0).standard_normal(64).astype("f4")
    got = np.zeros(64, "f4")
    compiled = Compiled(kernel([a, b, n], body), C)
    assert compiled(given_values, got, 10) == 0
    expected = np.zeros(64, "f4")
    expected[:8] = given_values[:8] + values[3:11]
    expected[8:12] = given_values[8:12] ** 2
    expected[8:12] = expected[7:11].copy()
    expected[12:16] = given_values[[7, 0, 5, 2]]
    expected[16], expected[18] = given_values[5], 5
    expected[20:22] = given_values[20:22]
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert "ts_launch(" in compiled.module.get_source()


def x_of(buffer, start):
    return BufferLoad(buffer, [Ramp(const(start, "int32"), 1, 4)])


def test_register_tile():
    compiled = Compiled(register_tile(4, 2, 32), C)
    random = np.random.default_rng(0)
    a, b = [random.standard_normal(s).astype("f4") for s in ((32, 4), (32, 16))]
    c = np.zeros((4, 16), "f4")
    compiled(a, b, c)
    np.testing.assert_allclose(c, a.T @ b, rtol=1e-4, atol=1e-4)


def test_packed_calls_and_errors():
    seen = []
    runtime.register_func("test.codegen.c", lambda *args: seen.append(args) or 41, override=True)
    n = Var("n", "int64")
    parts = (StringImm("ValueError: size "), n, StringImm("!"))
    check = AssertStmt(
        tir.NE(n, 7), Call("handle", "tir.tvm_tuple", parts), Evaluate(IntImm("int32", 0))
    )
    module = IRModule({"check": kernel([n], check, "check")})
    number = Var("number", "int32")
    calls = [
        Evaluate(Call("void", module.get_global_var("check"), (const(v, "int64"),))) for v in (1, 7)
    ]
    call = call_packed("test.codegen.c", 3, -2.5, "text", const(True, "bool"))
    again = Evaluate(call_packed("test.codegen.c", number + 1))
    module["__tvm_ffi_main"] = packed_main(stmt_seq(LetStmt(number, call, again), *calls))
    with pytest.raises(ValueError, match="size 7!"):
        codegen.build(module, C)["main"]()
    assert seen == [(3, -2.5, "text", True), (42,)]
    module["__tvm_ffi_main"] = packed_main(Evaluate(call_packed("test.codegen.c.nobody")))
    with pytest.raises(RuntimeError, match="c.nobody"):
        codegen.build(module, C)["main"]()


def test_imported_source():
    a = decl_buffer((4,), "float32", "a")
    call = Call("float32", "tir.call_extern", (StringImm("twice"), BufferLoad(a, [0])))
    source = StringImm("static float twice(float x) { return 2 * x; }")
    body = AttrStmt(a.data, "pragma_import_c", source, BufferStore(a, call, [1]))
    values = np.array([3, 0, 0, 0], "f4")
    Compiled(kernel([a], body), C)(values)
    assert values[1] == 6


@pytest.mark.parametrize("name", ["sqrtf", "floormod_i32", "twice", "bits_f32_as_i32", "table_0"])
def test_variables_hide_no_function(name):
    """A variable may have the name of a function, helper or array that the code uses."""
    a, b = decl_buffer((4,), "float32", "a"), decl_buffer((4,), "int32", "b")
    table = decl_buffer((2,), "int32", "table")
    variable, own = Var(name, "float32"), BufferLoad(a, [0])
    twice = Call("float32", "tir.call_extern", (StringImm("twice"), own))
    bits = tir.reinterpret("int32", own)
    body = stmt_seq(
        BufferStore(a, tir.sqrt(own) + variable, [1]),
        BufferStore(a, twice + variable, [2]),
        BufferStore(b, tir.floormod(BufferLoad(b, [0]), BufferLoad(b, [1])), [2]),
        BufferStore(b, bits + BufferLoad(table, [BufferLoad(b, [1]) - 4]), [3]),
    )
    constant = np.array([10, 20], "i4")
    body = AllocateConst(table.data, "int32", (2,), tilesmith.nd.array(constant), body)
    source = StringImm("static float twice(float x) { return 2 * x; }")
    body = AttrStmt(a.data, "pragma_import_c", source, LetStmt(variable, BufferLoad(a, [3]), body))
    floats, whole = np.array([9, 0, 0, 5], "f4"), np.array([-7, 5, 0, 0], "i4")
    Compiled(kernel([a, b], body), C)(floats, whole)
    assert floats.tolist() == [9, 8, 23, 5]
    assert whole.tolist() == [-7, 5, 3, int(floats[:1].view("i4")[0]) + 20]


def test_source_is_readable():
    a, b = decl_buffer((64,), "float32", "A"), decl_buffer((64,), "float32", "B")
    i = Var("i", "int32")
    value = tir.Max(BufferLoad(a, [i * 2 + 1]) * 2.0, const(0.0, "float32")) - BufferLoad(
        a, [i // 2]
    )
    body = For(i, 0, 32, ForKind.SERIAL, BufferStore(b, value, [i]))
    source = emit_source(IRModule({"relu": kernel([a, b], body, "relu")}))
    assert "int32_t relu(float* restrict A, float* restrict B) {" in source
    assert "  for (int32_t i = 0; i < 32; ++i) {" in source
    assert "    B[i] = max_f32(A[i * 2 + 1] * 2.0f, 0.0f) - A[i / 2];" in source


def test_refusals():
    a = decl_buffer((4,), "float32", "a")
    for body, words in [
        (
            BufferStore(a, Call("float32", "tir.call_llvm_intrin", (StringImm("llvm.sqrt"),)), [0]),
            "llvm",
        ),
        (For(Var("i", "int32"), 0, 4, ForKind.VECTORIZED, BufferStore(a, 1.0, [0])), "VECTORIZED"),
    ]:
        with pytest.raises(CodegenError, match=words):
            emit_source(IRModule({"kernel": kernel([a], body)}))


def parallel_program(extent, start=0, dtype="int32", nested=False):
    """`b[i] = thread-independent function of a[i]` and the number of tasks that took part."""
    a, b = decl_buffer((4096,), "float32", "a"), decl_buffer((4096,), "float32", "b")
    n, i, j = Var("n", "int32"), Var("i", dtype), Var("j", "int32")
    x = Var("x", "float32")
    store = LetStmt(x, n.astype("float32") * 2.0, BufferStore(b, a[i] * x + 1.0, [i]))
    if nested:
        store = For(j, 0, 3, ForKind.PARALLEL, store)
    return kernel([a, b, n], For(i, start, extent(n), ForKind.PARALLEL, store))


@pytest.mark.parametrize(
    "extent, start, dtype, count",
    [(lambda n: 4096, 0, "int32", 4096), (lambda n: n, 0, "int32", 7), (lambda n: n * 2, 3, "int32",
     14), (lambda n: 1, 0, "int32", 1), (lambda n: 1000, 5, "int64", 1000)],
)  # fmt: skip
@pytest.mark.parametrize("nested", [False, True])
def test_parallel_loops(extent, start, dtype, count, nested):
    function = parallel_program(extent, start, dtype, nested)
    x, y = np.random.default_rng(0).random(4096).astype("f4"), np.zeros(4096, "f4")
    assert Compiled(function, C)(x, y, 7) == 0
    expected = np.zeros(4096, "f4")
    expected[start : start + count] = x[start : start + count] * np.float32(14) + np.float32(1)
    np.testing.assert_array_equal(y, expected)


def test_parallel_loops_use_the_threads_of_the_runtime():
    """The launcher is ours: tasks of one loop run at the same time on several threads."""
    i, seen = Var("i", "int32"), decl_buffer((64,), "int64", "seen")
    thread = Call("int64", "tir.call_extern", (StringImm("pthread_self"),))
    wait = Evaluate(Call("int32", "tir.call_extern", (StringImm("usleep"), const(2000, "int32"))))
    body = stmt_seq(BufferStore(seen, thread, [i]), wait)
    ids = np.zeros(64, "i8")
    assert Compiled(kernel([seen], For(i, 0, 64, ForKind.PARALLEL, body)), C)(ids) == 0
    assert len(set(ids)) == min(2, runtime.num_threads())


def test_parts_of_bytes_stay_in_one_thread():
    i, nibbles = Var("i", "int32"), decl_buffer((64,), "int4", "nibbles")
    packed = BufferStore(nibbles, const(3, "int4"), [i])
    function = kernel([nibbles], For(i, 0, 64, ForKind.PARALLEL, packed))
    assert "ts_launch" not in emit_source(IRModule({"kernel": function}))


def test_openmp_where_it_is_compiled_with(tmp_path):
    import ctypes
    import subprocess

    source = emit_source(IRModule({"kernel": parallel_program(lambda n: 4096)}))
    (tmp_path / "code.c").write_text(source)
    command = [find_compiler(), "-std=c99", "-Wall", "-Wextra", "-Werror", "-fopenmp", "-O2",
               "-shared", "-fPIC", "code.c", "-o", "code.so"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "fopenmp" in done.stderr:
        pytest.skip("the compiler has no OpenMP")
    assert done.returncode == 0, done.stderr
    x, y = np.random.default_rng(0).random(4096).astype("f4"), np.zeros(4096, "f4")
    call = ctypes.CDLL(str(tmp_path / "code.so")).kernel
    call(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), 7)
    np.testing.assert_array_equal(y, x * np.float32(14) + np.float32(1))


@pytest.mark.parametrize("name", ["a.b-c", "1st", "main", "int", "été"])
def test_functions_are_found_by_their_own_names(name):
    a = te.placeholder((4,), name="A")
    func = te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1)])
    module = tilesmith.build(func.with_attr("global_symbol", name), target="c")
    assert module.function_names == [name] and module.entry_name == name
    for call in (module[name], module):
        found = np.zeros(4, "f4")
        call(np.zeros(4, "f4"), found)
        assert (found == 1).all()


def test_lanes_of_a_shared_vector_are_values_of_their_own():
    a, b = decl_buffer((4,), "int32", "a"), decl_buffer((4,), "int32", "b")
    lanes = Ramp(const(0, "int32"), const(1, "int32"), 4)
    twice = BufferLoad(a, [lanes]) * 2
    turned = Shuffle([twice], [const(lane, "int32") for lane in (3, 2, 1, 0)])
    compiled = Compiled(kernel([a, b], BufferStore(b, turned + twice, [lanes])), C)
    x, y = np.arange(1, 5, dtype="i4"), np.zeros(4, "i4")
    assert compiled(x, y) == 0
    np.testing.assert_array_equal(y, 2 * x[::-1] + 2 * x)


@pytest.mark.parametrize("join", [tir.And, tir.Or])
def test_what_may_fault_stays_behind_a_condition(join):
    a, b, n = decl_buffer((4,), "int32", "a"), decl_buffer((1,), "bool", "b"), Var("n", "int32")
    shared = a[n] + 1
    store = BufferStore(b, join(n < 4, shared * shared > 9), [0])
    assert "common" not in emit_source(IRModule({"kernel": kernel([a, b, n], store)}))
