"""MakePackedAPI: what the wrappers check and bind, and what their messages say."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.ir import IRModule
from tilesmith.ir.transform import Sequential
from tilesmith.lowering import build, lower
from tilesmith.script import from_source
from tilesmith.script import tir as T
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir import transform
from tilesmith.tir.transform.functions.kernel import kernel_parameters


@T.prim_func
def scale(
    A: T.Buffer((4, 6), "float32"),
    B: T.Buffer((4, 6), "float32"),
    factor: T.float32,
    count: T.int32,
):
    T.func_attr({"global_symbol": "scale", "tir.noalias": True})
    for i, j in T.grid(4, 6):
        B[i, j] = A[i, j] * factor + T.Cast("float32", count)


@pytest.fixture(scope="module")
def scale_function():
    return build(scale)["scale"]


def tensor(shape, dtype="float32"):
    return ts.nd.array(np.zeros(shape, dtype))


def test_arguments_are_converted(scale_function):
    a, b = np.random.rand(4, 6).astype("float32"), tensor((4, 6))
    for factor, count in ((2.5, 3), (2, True), (True, 0)):
        scale_function(ts.nd.array(a), b, factor, count)
        np.testing.assert_allclose(b.numpy(), a * np.float32(factor) + count, rtol=1e-6)


def test_numpy_arrays_are_taken(scale_function):
    a, b = np.ones((4, 6), "float32"), np.zeros((4, 6), "float32")
    scale_function(a, b, 3.0, 1)
    np.testing.assert_array_equal(b, np.full((4, 6), 4, "float32"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (lambda a: (a, a, 1.0), ["scale", "expected 4 arguments", "got 3"]),
        (lambda a: (a, 3, 1.0, 1), ["scale", "argument 2", "'B'", "must be a tensor"]),
        (lambda a: (a, a, a, 1), ["argument 3", "'factor'", "must be a number (float32)"]),
        (lambda a: (a, a, 1.0, 2.5), ["argument 4", "'count'", "must be an integer (int32)"]),
        (lambda a: (a, tensor((4, 6, 1)), 1.0, 1), ["'B'", "must have 2 dimensions", "got 3"]),
        (lambda a: (a, tensor((4, 7)), 1.0, 1), ["'B'", "size 6 along axis 1", "got 7"]),
        (lambda a: (tensor((5, 6)), a, 1.0, 1), ["'A'", "size 4 along axis 0", "got 5"]),
        (lambda a: (a, tensor((4, 6), "float64"), 1.0, 1), ["'B'", "dtype float32", "got float64"]),
        (lambda a: (a, tensor((4, 6), "int32"), 1.0, 1), ["'B'", "dtype float32", "got int32"]),
        (lambda a: (np.zeros((6, 4), "float32").T, a, 1.0, 1), ["'A'", "compact", "stride 1"]),
    ],
)  # fmt: skip
def test_wrong_arguments(scale_function, arguments, words):
    with pytest.raises(Exception) as error:
        scale_function(*arguments(tensor((4, 6))))
    for word in words:
        assert word in str(error.value), str(error.value)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [(lambda a: (a,), TypeError), (lambda a: (a, tensor((4, 7)), 1.0, 1), ValueError)],
)
def test_kinds_of_errors(scale_function, arguments, kind):
    with pytest.raises(kind):
        scale_function(*arguments(tensor((4, 6))))


def test_a_view_with_offset_is_taken(scale_function):
    whole = np.arange(60, dtype="float32").reshape(10, 6)
    b = tensor((4, 6))
    scale_function(whole[3:7], b, 1.0, 0)
    np.testing.assert_array_equal(b.numpy(), whole[3:7])


@pytest.mark.parametrize("rows", ["T.int32(1)", "n"])
def test_strides_of_single_rows_do_not_matter(rows):
    """Whether the size is known when the function is built or when it is called."""
    copy = from_source(f"""
@T.prim_func
def copy(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, ({rows}, 4))
    B = T.match_buffer(b, ({rows}, 4))
    for i, j in T.grid({rows}, 4):
        B[i, j] = A[i, j]
""")
    whole = np.arange(16, dtype="float32").reshape(4, 4)
    b = tensor((1, 4))
    build(copy)(whole[::3][1:], b)
    np.testing.assert_array_equal(b.numpy(), whole[3:])


@T.prim_func
def symbols(a: T.handle, b: T.handle, c: T.handle):
    T.func_attr({"global_symbol": "symbols", "tir.noalias": True})
    n = T.int32()
    m = T.int64()
    A = T.match_buffer(a, (n, 3))
    B = T.match_buffer(b, (n * 2,))
    C = T.match_buffer(c, (m,), "int32")
    for i in range(n):
        B[i * 2] = A[i, 0]
        B[i * 2 + 1] = A[i, 2]
    for i in range(m):
        C[i] = T.Cast("int32", i) + n


def test_symbolic_sizes_are_bound_and_checked():
    function = build(symbols)["symbols"]
    a, b, c = np.random.rand(5, 3).astype("float32"), tensor((10,)), tensor((4,), "int32")
    function(a, b, c)
    np.testing.assert_array_equal(b.numpy().reshape(5, 2), a[:, ::2])
    np.testing.assert_array_equal(c.numpy(), np.arange(4) + 5)
    with pytest.raises(ValueError, match="'B'.* size 10 along axis 0, got 11"):
        function(a, tensor((11,)), c)


def test_kernel_parameters_end_with_the_symbols():
    lowered = lower(symbols)["symbols"]
    assert [var.name for var in kernel_parameters(lowered)] == ["A", "B", "C", "n", "m"]


def test_declared_strides():
    @T.prim_func
    def rows(a: T.handle, B: T.Buffer((3, 4), "float32")):
        s = T.int32()
        A = T.match_buffer(a, (3, 4), strides=[s, 1])
        for i, j in T.grid(3, 4):
            B[i, j] = A[i, j]

    function = build(rows)
    whole, b = np.random.rand(3, 10).astype("float32"), tensor((3, 4))
    function(whole[:, :4], b)
    np.testing.assert_array_equal(b.numpy(), whole[:, :4])
    function(np.ascontiguousarray(whole[:, :4]), b)
    np.testing.assert_array_equal(b.numpy(), whole[:, :4])
    with pytest.raises(ValueError, match="stride 1 along axis 1, got 2"):
        function(whole[:, :8:2], b)


def test_declared_alignment_is_checked():
    @T.prim_func
    def aligned(a: T.handle, B: T.Buffer((8,), "float32")):
        A = T.match_buffer(a, (8,), align=128)
        for i in T.vectorized(8):
            B[i] = A[i]

    function, b = build(aligned), tensor((8,))
    space = np.arange(200, dtype="float32")
    start = (-space.ctypes.data % 128) // 4
    function(space[start : start + 8], b)
    np.testing.assert_array_equal(b.numpy(), space[start : start + 8])
    with pytest.raises(ValueError, match="aligned to 128 bytes"):
        function(space[start + 1 : start + 9], b)


def test_plain_parameters_promise_no_alignment(scale_function):
    space = np.arange(30, dtype="float32")
    b = tensor((4, 6))
    for start in range(4):
        scale_function(space[start : start + 24].reshape(4, 6), b, 1.0, 0)
        np.testing.assert_array_equal(b.numpy().ravel(), space[start : start + 24])


def test_offsets_as_symbols():
    @T.prim_func
    def shifted(a: T.handle, B: T.Buffer((4,), "int32")):
        A = T.match_buffer(a, (4,), "int32", offset_factor=1)
        for i in range(4):
            B[i] = A[i]

    b = tensor((4,), "int32")
    build(shifted)(ts.nd.array(np.arange(4, dtype="int32")), b)
    np.testing.assert_array_equal(b.numpy(), np.arange(4))


def test_booleans_and_pointers():
    @T.prim_func
    def flags(A: T.Buffer((4,), "bool"), B: T.Buffer((4,), "bool"), p: T.handle, on: T.bool):
        for i in range(4):
            B[i] = (A[i] and on) or T.isnullptr(p)

    function = build(flags)
    a, b = np.array([1, 0, 1, 0], bool), np.zeros(4, bool)
    function(a, b, 4096, True)  # addresses come as integers
    np.testing.assert_array_equal(b, a)
    function(a, b, None, False)
    assert b.all()


def test_functions_that_return_a_value():
    @T.prim_func
    def add_one(x: T.int32) -> T.int32:
        T.func_attr({"global_symbol": "add_one"})
        T.evaluate(T.ret(x + 1))

    assert build(add_one)["add_one"](41) == 42


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("dtype, given", [("int32", 3), ("float32", 2.5), ("bool", True)])
def test_a_returned_value_needs_no_declaration(target, dtype, given):
    """Without it the caller read a result that nobody had stored."""

    @T.prim_func
    def same(x: getattr(T, dtype)):
        T.func_attr({"global_symbol": "same"})
        T.evaluate(T.ret(x))

    assert build(same, target)["same"](given) == given


def test_private_functions_get_no_wrapper():
    @T.prim_func(private=True)
    def helper(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = A[i] + T.float32(1)

    mod = IRModule({"helper": helper, "scale": scale})
    passes = [transform.FlattenBuffer(), transform.MakePackedAPI()]
    names = [v.name_hint for v in Sequential(passes)(mod).functions]
    assert sorted(names) == ["__tvm_ffi_scale", "helper", "scale"]


def test_all_parameters_are_packed():
    mod = IRModule({"scale": scale})
    for number in (-1, 0):
        assert "__tvm_ffi_scale" in transform.MakePackedAPI(num_unpacked_params=number)(mod)
    with pytest.raises(UnsupportedError, match="2 parameters"):
        transform.MakePackedAPI(num_unpacked_params=2)


def test_unpacked():
    got = transform.MakeUnpackedAPI()(IRModule({"scale": scale}))["scale"]
    assert not got.buffer_map
    assert [str(var.dtype) for var in got.params] == ["handle", "handle", "float32", "int32"]


def test_an_expression_that_no_argument_tells_is_an_error():
    @T.prim_func(check_well_formed=False)
    def unknown(a: T.handle):
        T.func_attr({"global_symbol": "unknown"})
        n = T.int32()
        A = T.match_buffer(a, (n * 2,))
        for i in range(n):
            A[i] = T.float32(1)

    with pytest.raises(Exception, match="'n', but no argument provides its value"):
        build(unknown)
