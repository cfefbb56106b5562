"""lower and build: what they take, options, several functions, end to end against numpy."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.ir import IRModule
from tilesmith.ir.transform import PassContext
from tilesmith.lowering import PHASES, build, lower, lower_passes
from tilesmith.script import ir as I
from tilesmith.script import tir as T
from tilesmith.support.errors import TilesmithError, TypeMismatchError, UnsupportedError
from tilesmith.target import Target
from tilesmith.tir import For, ForKind, PrimFunc, Schedule


@T.prim_func
def double(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.vectorized(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * T.float32(2)


def run(function, *arrays):
    tensors = [ts.nd.array(array) for array in arrays]
    function(*tensors)
    return [tensor.numpy() for tensor in tensors]


def kinds(node):
    found = set()

    def look(part):
        found.add(type(part).__name__)
        if isinstance(part, For):
            found.add(part.kind)
        if not part.is_leaf:
            for child in part.children():
                look(child)

    look(node.body)
    return found


def test_lower_a_function():
    mod = lower(double, name="twice")
    (func,) = mod.functions.values()
    assert func.attrs["tir.noalias"] is True
    assert not kinds(func) & {"Block", "BlockRealize", ForKind.VECTORIZED}
    assert "Ramp" in kinds(func)


def test_simple_mode_keeps_the_loops():
    (func,) = lower(double, simple_mode=True).functions.values()
    assert ForKind.VECTORIZED in kinds(func) and "Block" not in kinds(func)


def test_build_forms():
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    named = double.with_attr("global_symbol", "double")
    for given, name in (
        (named, "double"),
        (IRModule({"double": named}), "double"),
        ([named], "double"),
        ({"llvm": named}, "double"),
        (Schedule(named), "double"),
    ):
        module = build(given, target=None if isinstance(given, dict) else "llvm")
        np.testing.assert_array_equal(run(module[name], a, b)[1], a * 2)
        assert module.entry_name == "double"
    np.testing.assert_array_equal(run(ts.build(named, target=Target("llvm")), a, b)[1], a * 2)
    np.testing.assert_array_equal(run(ts.build(double, name="mine")["mine"], a, b)[1], a * 2)


def test_a_module_of_private_functions_shows_them_all():
    private = double.without_attr("global_symbol")
    module = build(IRModule({"first": private, "second": private}))
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    for name in ("first", "second"):
        np.testing.assert_array_equal(run(module[name], a, b)[1], a * 2)


def test_two_functions_of_one_name():
    with pytest.raises(UnsupportedError, match="two functions are called 'double'"):
        build([double, double])


def test_several_functions_that_call_each_other():
    @I.ir_module
    class Module:
        @T.prim_func
        def add_one(A: T.Buffer((8,), "float32")):
            T.func_attr({"global_symbol": "add_one", "tir.noalias": True})
            for i in range(8):
                A[i] = A[i] + T.float32(1)

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), n: T.int32):
            T.func_attr({"global_symbol": "main", "tir.noalias": True})
            for _ in range(n):
                Module.add_one(A.data)

    module = build(Module)
    a = ts.nd.array(np.zeros(8, "float32"))
    module["main"](a, 5)
    np.testing.assert_array_equal(a.numpy(), np.full(8, 5, "float32"))
    module["add_one"](a)
    np.testing.assert_array_equal(a.numpy(), np.full(8, 6, "float32"))
    assert set(module.function_names) == {"add_one", "main"}


def test_calls_of_registered_functions():
    seen = []
    ts.register_func("tests.lowering.note", lambda value: seen.append(value), override=True)

    @T.prim_func
    def func(A: T.Buffer((3,), "int32")):
        T.func_attr({"global_symbol": "func"})
        for i in range(3):
            T.evaluate(T.call_packed("tests.lowering.note", A[i]))

    run(build(func)["func"], np.array([3, 1, 2], "int32"))
    assert seen == [3, 1, 2]


def test_target_scope_and_attribute():
    with Target("llvm -mcpu=x86-64"):
        assert "ymm" not in build(double).get_source("asm")
    bound = double.with_attr("target", Target("llvm -mcpu=x86-64"))
    assert "ymm" not in build(bound).get_source("asm")


def test_added_passes_run_after_their_phase():
    seen = []

    def note(phase):
        def step(func):
            seen.append((phase, bool(kinds(func) & {"BlockRealize"})))
            return func

        return step

    added = [(phase, note(phase)) for phase in range(len(PHASES))]
    with PassContext(config={"tir.add_lower_pass": added}):
        lower(double)
    assert seen == [(0, True), (1, False), (2, False), (3, False)]


def test_passes_can_be_disabled():
    with PassContext(disabled_pass=["tir.VectorizeLoop"]):
        (func,) = lower(double).functions.values()
    assert ForKind.VECTORIZED in kinds(func)
    with PassContext(config={"tir.disable_vectorize": True}):
        (func,) = lower(double).functions.values()
    assert ForKind.SERIAL in kinds(func)


def test_disabled_assertions():
    @T.prim_func
    def func(A: T.Buffer((2,), "float32"), n: T.int32):
        T.func_attr({"global_symbol": "func"})
        assert n > 3, "n is too small"
        A[0] = T.float32(n)

    a = np.zeros(2, "float32")
    with pytest.raises(Exception, match="n is too small"):
        build(func)["func"](a, 1)
    with PassContext(config={"tir.disable_assert": True}):
        module = build(func)
    module["func"](a, 1)
    assert a[0] == 1
    with pytest.raises(TypeError):  # the checks of arguments stay
        module["func"](a)


def test_checked_accesses():
    @T.prim_func
    def func(
        A: T.Buffer((4, 3), "float32"), idx: T.Buffer((4,), "int32"), B: T.Buffer((4,), "float32")
    ):
        T.func_attr({"global_symbol": "func"})
        for i in range(4):
            B[i] = A[i, idx[i]] + T.if_then_else(i > 0, A[i - 1, 0], T.float32(0))

    a, idx, b = np.ones((4, 3), "float32"), np.array([0, 2, 1, 3], "int32"), np.zeros(4, "float32")
    with PassContext(config={"tir.instrument_bound_checkers": True}):
        module = build(func)
    text = r"buffer 'A' of shape \(4, 3\) is read outside of axis 1: index 3 of 3"
    with pytest.raises(Exception, match=text):
        module["func"](a, idx, b)
    idx[3] = 0
    module["func"](a, idx, b)
    np.testing.assert_array_equal(b, [1, 2, 2, 2])


def test_names_of_passes_are_those_that_users_know():
    names = [step.info.name for step in lower_passes()]
    assert len(names) == len([name for name in names if name.startswith("tir.")])
    assert names.index("tir.LowerInitBlock") < names.index("tir.ConvertBlocksToOpaque")
    for name in dict.fromkeys(names):
        assert ts.ir.transform.get_pass(name).info.name == name


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (
            3,
            TypeMismatchError,
            "lower and build take a PrimFunc, an IRModule or a schedule, got int",
        ),
        ({}, TypeMismatchError, "at least one function"),
    ],
)
def test_wrong_inputs(given, error, words):
    with pytest.raises(error, match=words):
        build(given)


def test_targets_without_a_back_end():
    with pytest.raises(UnsupportedError, match="no back end"):
        build(double, target="vulkan")
    with pytest.raises(TilesmithError, match="unknown|kind"):
        build(double, target="fantasy")


# End to end.


@pytest.mark.parametrize(("n", "m", "k"), [(1, 1, 1), (16, 16, 16), (17, 5, 33), (64, 48, 31)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_matmul(n, m, k, dtype):
    @T.prim_func
    def matmul(A: T.Buffer((n, k), dtype), B: T.Buffer((k, m), dtype), C: T.Buffer((n, m), dtype)):
        for i, j, l in T.grid(n, m, k):  # noqa: E741
            with T.block("C"):
                vi, vj, vl = T.axis.remap("SSR", [i, j, l])
                with T.init():
                    C[vi, vj] = T.cast(0, dtype)
                C[vi, vj] = C[vi, vj] + A[vi, vl] * B[vl, vj]

    random = np.random.default_rng(0)
    a = random.integers(-9, 9, (n, k)).astype(dtype)
    b = random.integers(-9, 9, (k, m)).astype(dtype)
    got = run(build(matmul), a, b, np.zeros((n, m), dtype))[2]
    np.testing.assert_allclose(got, a @ b, rtol=1e-5)


@pytest.mark.parametrize("size", [1, 5, 64, 1000])
def test_symbolic_elementwise(size):
    @T.prim_func
    def relu(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,))
        B = T.match_buffer(b, (n,))
        for i0 in T.parallel((n + T.int64(7)) // T.int64(8)):
            for i1 in T.vectorized(T.int64(8)):
                with T.block("B"):
                    vi = T.axis.spatial(n, i0 * T.int64(8) + i1)
                    T.where(i0 * T.int64(8) + i1 < n)
                    B[vi] = T.max(A[vi], T.float32(0))

    a = np.random.default_rng(1).standard_normal(size).astype("float32")
    got = run(build(relu), a, np.zeros(size, "float32"))[1]
    np.testing.assert_array_equal(got, np.maximum(a, 0))


def test_softmax():
    from tests.tir.transform.programs_script import softmax

    a = np.random.default_rng(2).standard_normal((3, 19)).astype("float32")
    got = run(build(softmax), a, np.zeros((3, 19), "float32"))[1]
    want = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(got, want / want.sum(1, keepdims=True), rtol=1e-5)


def test_convolution_against_torch():
    torch = pytest.importorskip("torch")
    from tests.tir.transform.programs_script import padded_convolution

    random = np.random.default_rng(3)
    a = random.standard_normal((1, 3, 7, 9)).astype("float32")
    w = random.standard_normal((5, 3, 3, 3)).astype("float32")
    got = run(build(padded_convolution), a, w, np.zeros((1, 5, 7, 9), "float32"))[2]
    want = torch.nn.functional.conv2d(torch.tensor(a), torch.tensor(w), padding=1)
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5)


def test_exported_library_needs_nothing(tmp_path):
    path = str(tmp_path / "lib.so")
    build(double.with_attr("global_symbol", "double")).export_library(path)
    loaded = ts.runtime.load_module(path)
    a = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(run(loaded["double"], a, np.zeros(8, "float32"))[1], a * 2)


def test_lowering_leaves_its_input_alone():
    mod = IRModule({"double": double})
    lower(mod)
    build(mod)
    assert mod["double"] is double and len(mod.functions) == 1
    assert isinstance(double, PrimFunc) and "BlockRealize" in kinds(double)


def test_functions_of_a_module_may_name_their_targets():
    mod = IRModule(
        {
            name: double.with_attr({"global_symbol": name, "target": Target(name)})
            for name in ("llvm", "c")
        }
    )
    module = build(mod)
    assert [module.type_key, *[each.type_key for each in module.imports]] == ["llvm", "c"]
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    for name in ("llvm", "c"):
        np.testing.assert_array_equal(run(module[name], a, b)[1], a * 2)


def test_the_runtime_that_is_asked_for():
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    for runtime in (None, "cpp", "crt"):
        module = build(double, target="llvm", runtime=runtime, name="mine")
        np.testing.assert_array_equal(run(module["mine"], a, b)[1], a * 2)
    with pytest.raises(UnsupportedError, match="no runtime 'java'"):
        build(double, target="llvm", runtime="java")
