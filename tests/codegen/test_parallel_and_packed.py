"""Parallel loops under every launcher, packed calls, assertions, and errors that travel."""

# ruff: noqa: B023 - the functions are called before the loop goes on

import ctypes
import threading

import numpy as np
import pytest

from tests.codegen.harness import Compiled, kernel
from tilesmith import runtime
from tilesmith.ir import Call, IntImm, IRModule, StringImm, Var, const
from tilesmith.runtime import nd, threads
from tilesmith.support.knobs import knobs
from tilesmith.tir import (
    NE,
    Allocate,
    AssertStmt,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    call_packed,
    decl_buffer,
    stmt_seq,
)

N = 1000


def parallel(extent, body, dtype="int32", start=0):
    var = Var("i", dtype)
    return For(var, start, extent, ForKind.PARALLEL, body(var))


def launch_with(compiled, kind, count):
    """Set the launcher and the number of threads of one library."""
    symbol = compiled.module.library.symbol
    ctypes.c_int32.from_address(symbol("__tilesmith_num_threads")).value = count
    pointer = ctypes.c_void_p.from_address(symbol("__tilesmith_parallel_launch"))
    pointer.value = symbol("__tilesmith_launch_" + kind)


@pytest.mark.parametrize("kind", ["serial", "gomp", "pool"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_launchers(kind, count):
    if kind == "gomp" and threads.find_libgomp() is None:
        pytest.skip("no libgomp here")
    a, b = decl_buffer((N,), "float32", "a"), decl_buffer((N,), "float32", "b")
    scale, low, high = Var("scale", "float32"), Var("low", "int64"), Var("high", "int64")
    flag = Var("flag", "bool")
    body = parallel(
        high - low,
        lambda i: IfThenElse(flag, BufferStore(b, BufferLoad(a, [i]) * scale, [i])),
        "int64",
        low,
    )
    compiled = Compiled(kernel([a, b, scale, low, high, flag], body))
    launch_with(compiled, kind, count)
    x = np.random.default_rng(0).standard_normal(N).astype("float32")
    for first, last in ((0, N), (3, 4), (7, 7), (9, 5), (1, 3), (0, N)):
        y = np.zeros(N, "float32")
        for _ in range(20):
            assert compiled(x, y, 1.5, first, last, True) == 0
        expected = np.zeros(N, "float32")
        expected[first:last] = x[first:last] * np.float32(1.5)
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("count, tasks", [(0, 0), (1, 0), (2, 2), (9, 2)])
def test_a_loop_of_one_iteration_starts_no_threads(count, tasks):
    b, high = decl_buffer((N,), "int32", "b"), Var("high", "int32")
    compiled = Compiled(kernel([b, high], parallel(high, lambda i: BufferStore(b, i, [i]))))
    launch_with(compiled, "serial", 2)
    calls = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    def launch(body, data):
        task = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)(body)
        for number in range(2):
            calls.append(number)
            task(number, 2, data)

    pointer = compiled.module.library.symbol("__tilesmith_parallel_launch")
    ctypes.c_void_p.from_address(pointer).value = ctypes.cast(launch, ctypes.c_void_p).value
    y = np.full(N, -1, "int32")
    assert compiled(y, count) == 0
    np.testing.assert_array_equal(y[:count], np.arange(count))
    assert (y[count:] == -1).all()
    assert len(calls) == tasks


def test_directly_nested_loops():
    b = decl_buffer((N,), "int32", "b")

    def row(i):
        return parallel(100, lambda j: BufferStore(b, i + j, [i * 100 + j]))

    compiled = Compiled(kernel([b], parallel(10, row)))
    for kind in ("pool", "serial"):
        launch_with(compiled, kind, 3)
        y = np.zeros(N, "int32")
        compiled(y)
        np.testing.assert_array_equal(y, np.add.outer(np.arange(10), np.arange(100)).ravel())


def test_nested_parallel_calls():
    b = decl_buffer((N,), "int32", "b")
    row = Var("row", "int32")
    inner = kernel(
        [b, row], parallel(100, lambda j: BufferStore(b, row + j, [row * 100 + j])), "inner"
    )
    module = IRModule({"inner": inner})
    c = decl_buffer((N,), "int32", "c")
    call = parallel(
        10, lambda i: Evaluate(Call("void", module.get_global_var("inner"), (c.data, i)))
    )
    module["kernel"] = kernel([c], call)
    compiled = Compiled(module)
    for kind in ("pool", "gomp") if threads.find_libgomp() else ("pool",):
        launch_with(compiled, kind, 3)
        y = np.zeros(N, "int32")
        assert compiled(y) == 0
        np.testing.assert_array_equal(y, np.add.outer(np.arange(10), np.arange(100)).ravel())


def test_pool_is_shared_by_threads_of_python_and_can_be_stopped():
    b = decl_buffer((N,), "int32", "b")
    compiled = Compiled(
        kernel([b], parallel(N, lambda i: BufferStore(b, BufferLoad(b, [i]) + 1, [i])))
    )
    launch_with(compiled, "pool", 3)
    arrays = [np.zeros(N, "int32") for _ in range(4)]

    def work(array):
        for _ in range(300):
            compiled(array)

    workers = [threading.Thread(target=work, args=(array,)) for array in arrays]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    stop = ctypes.CFUNCTYPE(None)(compiled.module.library.symbol("__tilesmith_pool_stop"))
    for array in arrays:
        assert (array == 300).all()
    stop()
    compiled(arrays[0])
    assert (arrays[0] == 301).all()
    stop()


def test_objects_of_one_library_share_the_thread_runtime():
    objects, functions = [], []
    for name in ("first", "second"):
        b = decl_buffer((N,), "int32", "b")
        body = parallel(N, lambda i: BufferStore(b, i + len(name), [i]))
        functions.append(Compiled(kernel([b], body, name=name)))
        objects += functions[-1].module.objects
    library = runtime.library.Library.from_objects(objects)
    for name in ("first", "second"):
        y = np.zeros(N, "int32")
        ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(library.symbol(name))(y.ctypes.data)
        np.testing.assert_array_equal(y, np.arange(N) + len(name))


def test_saved_object_is_complete(tmp_path):
    b = decl_buffer((N,), "int32", "b")
    module = Compiled(kernel([b], parallel(N, lambda i: BufferStore(b, i, [i])))).module
    assert len(module.objects) == 2  # the code, and what launches parallel loops
    module.save(tmp_path / "a.o")
    library = runtime.library.Library.from_objects([(tmp_path / "a.o").read_bytes()])
    y = np.zeros(N, "int32")
    ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(library.symbol("kernel"))(y.ctypes.data)
    np.testing.assert_array_equal(y, np.arange(N))


def packed_main(body, name="main"):
    """`__tvm_ffi_NAME()` around a body."""
    params = [
        Var("self", "handle"),
        Var("args", "handle"),
        Var("num_args", "int32"),
        Var("result", "handle"),
    ]
    done = Evaluate(Call("int32", "tir.ret", (const(0, "int32"),)))
    return PrimFunc(params, stmt_seq(body, done), attrs={"global_symbol": "__tvm_ffi_" + name})


def call_main(body, *more):
    functions = {f.attrs["global_symbol"]: f for f in more}
    compiled = Compiled(IRModule({**functions, "__tvm_ffi_main": packed_main(body)}))
    return compiled.module["main"]()


def test_packed_calls_pass_numbers_texts_and_pointers():
    seen = []
    runtime.register_func("test.codegen.see", lambda *args: seen.append(args), override=True)
    big = const(1 << 40, "int64")
    call = call_packed("test.codegen.see", 3, -2.5, "text", const(True, "bool"), big,
                       const(200, "uint8"), const(0, "handle"))  # fmt: skip
    call_main(stmt_seq(Evaluate(call), Evaluate(call)))
    assert seen == [(3, -2.5, "text", True, 1 << 40, 200, None)] * 2


def test_packed_calls_give_results():
    runtime.register_func("test.codegen.half", lambda x: x / 2, override=True)
    runtime.register_func("test.codegen.next", lambda x: x + 1, override=True)
    seen = []
    runtime.register_func("test.codegen.keep", lambda *args: seen.extend(args), override=True)
    half = Call(
        "float32", "tir.tvm_call_packed", (StringImm("test.codegen.half"), const(5.0, "float32"))
    )
    following = Call(
        "int64", "tir.tvm_call_packed", (StringImm("test.codegen.next"), const(5, "int64"))
    )
    traced = Call(
        "int32", "tir.tvm_call_trace_packed", (StringImm("test.codegen.keep"), const(9, "int32"))
    )
    call_main(Evaluate(call_packed("test.codegen.keep", half, following, traced)))
    assert seen == [9, 2.5, 6, 9]


def test_packed_calls_pass_tensors():
    seen = []

    def keep(array, strided):
        seen.append((array.numpy().copy(), strided.shape, strided.numpy().copy()))
        array.copyfrom(array.numpy() + 1)

    runtime.register_func("test.codegen.keep_tensor", keep, override=True)
    a = decl_buffer((6,), "int32", "a")
    view = decl_buffer((2, 2), "int32", "view", data=a.data, strides=(2, 1), elem_offset=1)
    whole = decl_buffer((2, 3), "int32", "whole", data=a.data)
    i = Var("i", "int32")
    body = stmt_seq(
        For(i, 0, 6, ForKind.SERIAL, BufferStore(a, i, [i])),
        Evaluate(call_packed("test.codegen.keep_tensor", whole, view)),
        Evaluate(call_packed("test.codegen.keep_tensor", whole, view)),
    )
    call_main(Allocate(a.data, "int32", [6], const(True, "bool"), body))
    first, shape, strided = seen[0]
    np.testing.assert_array_equal(first, [[0, 1, 2], [3, 4, 5]])
    assert tuple(shape) == (2, 2)
    np.testing.assert_array_equal(strided, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(seen[1][0], [[1, 2, 3], [4, 5, 6]])


def test_errors_of_packed_functions_come_back():
    def fail():
        raise ValueError("not today")

    runtime.register_func("test.codegen.fail", fail, override=True)
    with pytest.raises(ValueError, match="not today"):
        call_main(Evaluate(call_packed("test.codegen.fail")))
    with pytest.raises(RuntimeError, match="test.codegen.nobody"):
        call_main(Evaluate(call_packed("test.codegen.nobody")))


def test_assertions_name_their_kind():
    for message, kind in [
        ("plain words", RuntimeError),
        ("ValueError: wrong value", ValueError),
        ("TypeError: wrong type", TypeError),
    ]:
        n = Var("n", "int32")
        check = AssertStmt(n < 3, StringImm(message), Evaluate(const(0, "int32")))
        compiled = Compiled(IRModule({
            "check": kernel([n], check, "check"),
            "__tvm_ffi_main": packed_main(Evaluate(const(0, "int32"))),
        }))  # fmt: skip
        assert compiled(2, name="check") == 0
        module = IRModule({"check": kernel([n], check, "check")})
        call = Evaluate(Call("void", module.get_global_var("check"), (const(5, "int32"),)))
        module["__tvm_ffi_main"] = packed_main(call)
        with pytest.raises(kind, match=message.rpartition(": ")[2]):
            Compiled(module).module["main"]()


@pytest.mark.parametrize("number", [0, 7, -12, 2**63 - 1, -(2**63)])
def test_messages_write_out_integers(number):
    n = Var("n", "int64")
    parts = (StringImm("ValueError: size "), n, StringImm(" of "), n // 2, StringImm("!"))
    check = AssertStmt(
        NE(n, n), Call("handle", "tir.tvm_tuple", parts), Evaluate(IntImm("int32", 0))
    )
    module = IRModule({"check": kernel([n], check, "check")})
    call = Evaluate(Call("void", module.get_global_var("check"), (const(number, "int64"),)))
    module["__tvm_ffi_main"] = packed_main(call)
    with pytest.raises(ValueError, match=f"size {number} of {number // 2}!"):
        Compiled(module).module["main"]()


@pytest.mark.parametrize("kind", ["serial", "gomp", "pool"])
def test_errors_leave_parallel_loops(kind):
    if kind == "gomp" and threads.find_libgomp() is None:
        pytest.skip("no libgomp here")

    def fail_at(i):
        if i == 700:
            raise KeyError("in task")

    runtime.register_func("test.codegen.fail_at", fail_at, override=True)
    body = parallel(N, lambda i: Evaluate(call_packed("test.codegen.fail_at", i)))
    compiled = Compiled(IRModule({"__tvm_ffi_main": packed_main(body)}))
    launch_with(compiled, kind, 3)
    for _ in range(5):
        with pytest.raises(KeyError, match="in task"):
            compiled.module["main"]()
    # all tasks fail: one error arrives, the others are dropped
    all_fail = parallel(
        N, lambda i: AssertStmt(i < 0, StringImm("each"), Evaluate(IntImm("int32", 0)))
    )
    compiled = Compiled(IRModule({"__tvm_ffi_main": packed_main(all_fail)}))
    launch_with(compiled, kind, 3)
    with pytest.raises(RuntimeError, match="each"):
        compiled.module["main"]()


def test_memory_is_given_back_when_an_error_leaves():
    b = decl_buffer((1 << 22,), "uint8", "b")
    n = Var("n", "int32")
    body = stmt_seq(
        BufferStore(b, BufferLoad(b, [0]) + const(1, "uint8"), [0]),
        AssertStmt(n < 0, StringImm("never"), Evaluate(IntImm("int32", 0))),
    )
    compiled = Compiled(
        kernel([n], Allocate(b.data, "uint8", [1 << 22], const(True, "bool"), body))
    )
    for _ in range(20_000):  # 80 GB if it leaked
        assert compiled(1) == -1


def test_reading_arguments_and_tensors_of_the_calling_convention():
    from tilesmith.tir.struct_fields import StructField as Field

    self_, args, count, result = [
        Var(n, d)
        for n, d in (("self", "handle"), ("args", "handle"), ("n", "int32"), ("result", "handle"))
    ]

    def get(pointer, index, field, dtype):
        return Call(
            dtype,
            "tir.tvm_struct_get",
            (pointer, const(index, "int32"), const(int(field), "int32")),
        )

    def put(index, field, value):
        arguments = (result, const(index, "int32"), const(int(field), "int32"), value)
        return Evaluate(Call("int32", "tir.tvm_struct_set", arguments))

    tensor = Call(
        "handle",
        "tir.handle_add_byte_offset",
        (get(args, 0, Field.ANY_UNION_VALUE, "handle"), const(24, "int32")),
    )
    total = (
        get(tensor, 0, Field.ARRAY_NDIM, "int32") * 1000000
        + get(tensor, 0, Field.ARRAY_TYPE_CODE, "int32") * 100000
        + get(tensor, 0, Field.ARRAY_TYPE_BITS, "int32") * 100
        + get(tensor, 0, Field.ARRAY_TYPE_LANES, "int32")
        + get(args, 1, Field.ANY_UNION_VALUE, "int32")
        + get(args, 0, Field.ANY_TYPE_INDEX, "int32") * 10000000
    )
    floating = get(args, 2, Field.ANY_UNION_VALUE, "float32")
    body = stmt_seq(
        put(0, Field.ANY_TYPE_INDEX, const(3, "int32")),
        put(0, Field.ANY_ZERO_PADDING, const(0, "int32")),
        put(0, Field.ANY_UNION_VALUE, total.astype("float64") + floating.astype("float64")),
        Evaluate(Call("int32", "tir.ret", (const(0, "int32"),))),
    )
    function = PrimFunc(
        [self_, args, count, result], body, attrs={"global_symbol": "__tvm_ffi_main"}
    )
    got = Compiled(function).module["main"](nd.array(np.zeros((2, 3), "float32")), 7, 0.5)
    assert got == 70 * 10000000 + 2 * 1000000 + 2 * 100000 + 32 * 100 + 1 + 7 + 0.5


def test_launcher_of_the_knob_is_used():
    b = decl_buffer((N,), "int32", "b")
    for kind in ("serial", "pool"):
        with knobs.override(thread_runtime=kind):
            compiled = Compiled(kernel([b], parallel(N, lambda i: BufferStore(b, i, [i]))))
            y = np.zeros(N, "int32")
            compiled(y)
            symbol = compiled.module.library.symbol
            pointer = ctypes.c_void_p.from_address(symbol("__tilesmith_parallel_launch")).value
            assert pointer == symbol("__tilesmith_launch_" + kind)
        np.testing.assert_array_equal(y, np.arange(N))
        stop = ctypes.CFUNCTYPE(None)(symbol("__tilesmith_pool_stop"))
        stop()
