"""Functions that run step by step: registered functions, closures, recursion, unknown ranks,
objects, memory allocated in the program.
"""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relax
from tilesmith.ir import IRModule, assert_structural_equal, load_json, save_json
from tilesmith.relax import interpreter
from tilesmith.runtime.artifact import read_artifact
from tilesmith.runtime.program import Program
from tilesmith.script import from_source
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import (
    ArtifactError,
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
)


@ts.register_func("tests.program.double", override=True)
def double(x):
    return ts.nd.array(x.numpy() * 2)


@ts.register_func("tests.program.tag", override=True)
def tag(x):
    return (x, "tagged")


@ts.register_func("tests.program.apply", override=True)
def apply(function, x):
    return function(function(x))


@ts.register_func("tests.program.shape", override=True)
def shape_of(x):
    return ts.runtime.ShapeTuple(x.shape)


@ts.register_func("tests.program.increase", override=True)
def increase(x):
    np.from_dlpack(x)[...] += 1
    return x


@I.ir_module
class Module:
    @T.prim_func(private=True)
    def twice(A: T.Buffer((T.int64(2),), "float32"), B: T.Buffer((T.int64(2),), "float32")):
        for i in range(T.int64(2)):
            with T.block("b"):
                v = T.axis.spatial(T.int64(2), i)
                B[v] = A[v] * T.float32(2)

    @T.prim_func(private=True)
    def thrice(a: T.handle, b: T.handle, n: T.int64):
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.block("b"):
                v = T.axis.spatial(n, i)
                B[v] = A[v] * T.float32(3)

    @R.function(pure=False)
    def packed(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        a = R.exp(x)
        b = R.call_packed("tests.program.double", a, sinfo_args=R.Tensor((n, 4), "float32"))
        c = R.add(b, x)
        d = R.nn.relu(c)
        return d

    @R.function
    def unknown_rank(x: R.Tensor(dtype="float32")):
        n, m = T.int64(), T.int64()
        y = R.match_cast(x, R.Tensor((n, m), "float32"))
        z = R.add(y, R.ones((n, m), "float32"))
        w = R.reshape(z, (n * m // 2, 2))
        return w

    @R.function
    def objects(x: R.Object, y: R.Tensor((2,), "float32")):
        z = R.call_pure_packed("tests.program.tag", x, sinfo_args=R.Object)
        return (z, R.add(y, y))

    @R.function
    def sum_to(i: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        more = R.greater(i, R.const(0, "int64"))
        if more:
            rest = Module.sum_to(R.subtract(i, R.const(1, "int64")))
            r = R.add(rest, i)
        else:
            r = i
        return r

    @R.function
    def is_even(i: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
        more = R.greater(i, R.const(0, "int64"))
        if more:
            r = Module.is_odd(R.subtract(i, R.const(1, "int64")))
        else:
            r = R.const(True)
        return r

    @R.function
    def is_odd(i: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
        more = R.greater(i, R.const(0, "int64"))
        if more:
            r = Module.is_even(R.subtract(i, R.const(1, "int64")))
        else:
            r = R.const(False)
        return r

    @R.function
    def make_closure(x: R.Tensor((2,), "float32")):
        @R.function
        def inner(u: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            v = R.multiply(u, x)
            return v

        return inner

    @R.function
    def use_closure(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
        f = Module.make_closure(x)
        z = R.invoke_pure_closure(f, (y,), sinfo_args=(R.Tensor((2,), "float32"),))
        w = R.call_pure_packed("tests.program.apply", f, z, sinfo_args=R.Tensor((2,), "float32"))
        return w

    @R.function
    def promises(x: R.Object) -> R.Tensor((2, 3), "float32"):
        z = R.call_pure_packed("tests.program.double", x, sinfo_args=R.Object)
        return z

    @R.function
    def shapes(x: R.Tensor(dtype="float32")):
        n = T.int64()
        s = R.call_pure_packed("tests.program.shape", x, sinfo_args=R.Shape(ndim=2))
        t = R.match_cast(s, R.Shape([n, 3]))
        return (t, R.full((n, 3), R.const(1.0), "float32"))

    @R.function(pure=False)
    def memory(x: R.Tensor((2,), "float32")):
        s = R.memory.alloc_storage(R.shape([16]), 0, "global", "float32")
        t = R.memory.alloc_tensor(s, 8, R.shape([2]), "float32")
        _ = Module.twice(x, t)
        u = R.builtin.alloc_tensor(R.shape([2]), "float32", 0)
        _1 = Module.twice(t, u)
        R.memory.kill_tensor(t)
        R.memory.kill_storage(s)
        return u

    @R.function(pure=False)
    def machine(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        s = R.vm.alloc_storage(R.shape([n * 4]), 0, "uint8")
        t = R.vm.alloc_tensor(s, 0, R.shape([n]), "float32")
        R.vm.call_tir_dyn(Module.thrice, (x, t, R.shape([n])))
        R.vm.kill_object(s)
        return t

    @R.function(pure=False)
    def in_place(x: R.Tensor((2,), "float32")):
        y = R.call_inplace_packed(
            "tests.program.increase", x, inplace_indices=[0], sinfo_args=R.Tensor((2,), "float32")
        )
        return y

    @R.function(pure=False)
    def checked(x: R.Tensor((2,), "float32"), p: R.Tensor((), "bool")):
        R.print(x, format="x = {}")
        R.assert_op(p, format="p does not hold")
        return x

    @R.function
    def native(x: R.Tensor((2,), "float32")):
        y = R.exp(x)
        return y


@pytest.fixture(scope="module")
def executable():
    return relax.build(Module, target="llvm")


X = np.array([[1, -2, 3, 4], [0, 1, 2, 3], [5, 6, 7, -8]], "float32")
V, W = np.array([1, 2], "float32"), np.array([3, 5], "float32")
RUNS = {
    "packed": ((X,), np.maximum(np.exp(X) * 2 + X, 0)),
    "unknown_rank": ((X,), (X + 1).reshape(6, 2)),
    "sum_to": ((np.array(50),), np.array(1275)),
    "is_even": ((np.array(7),), np.array(False)),
    "use_closure": ((V, W), W * V**3),
    "promises": ((np.ones((2, 3), "float32"),), np.full((2, 3), 2)),
    "memory": ((V,), V * 4),
    "machine": ((V,), V * 3),
    "native": ((V,), np.exp(V)),
}


@pytest.mark.parametrize("name", RUNS)
def test_results(executable, name):
    arguments, expected = RUNS[name]
    got = executable[name](*arguments)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6)
    interpreted = interpreter.run(Module, name, *arguments)
    np.testing.assert_allclose(interpreted, expected, rtol=1e-6)


def test_which_functions_are_native(executable):
    names = {gv.name_hint for gv in Module.get_global_vars()} - {"twice", "thrice"}
    assert set(executable.function_names) == names
    programs = {name for name in names if isinstance(executable[name], Program)}
    assert programs == names - {"native"}
    reasons = {row.place: row.reason for row, _ in executable.fallbacks.rows()}
    assert "tests.program.double" in reasons["'packed'"]
    assert "calls itself, but is no loop" in reasons["'sum_to'"]


def test_the_script_of_programs():
    assert_structural_equal(from_source(Module.script()), Module)


def test_objects_pass_through(executable):
    class Anything:
        pass

    thing = Anything()
    (same, text), y = executable["objects"](thing, V)
    assert same is thing and text == "tagged"
    np.testing.assert_array_equal(y.numpy(), V + V)
    machine = relax.VirtualMachine(executable, ts.cpu())
    machine.set_input("objects", "a text", V)
    machine.invoke_stateful("objects")
    assert machine.get_outputs("objects")[0][0] == "a text"


def test_closures_are_functions(executable):
    machine = relax.VirtualMachine(executable, ts.cpu())
    closure = machine["make_closure"](V)
    np.testing.assert_array_equal(machine.invoke_closure(closure, W).numpy(), V * W)


def test_results_in_place_are_the_arguments(executable):
    x = ts.nd.array(V)
    assert executable["in_place"](x) == x
    np.testing.assert_array_equal(x.numpy(), V + 1)


@I.ir_module
class InPlace:
    @T.prim_func(private=True)
    def increase(a: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n):
            with T.block("b"):
                v = T.axis.spatial(n, i)
                A[v] = A[v] + T.float32(1)

    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
        n = T.int64()
        a = R.call_tir_inplace(InPlace.increase, (y,), [0], out_sinfo=R.Tensor((n,), "float32"))
        b = R.add(x, a)
        return (b, a)

    @R.function(pure=False)
    def step_by_step(x: R.Tensor((3,), "float32")):
        a = R.call_tir_inplace(InPlace.increase, (x,), [0], out_sinfo=R.Tensor((3,), "float32"))
        b = R.call_packed("tests.program.double", a, sinfo_args=R.Tensor((3,), "float32"))
        return (a, b)


def test_results_of_kernels_in_place_are_the_arguments(tmp_path):
    built = relax.build(InPlace, target="llvm")
    built.save(tmp_path / "model.tsm")
    for one in (built, ts.runtime.load_module(str(tmp_path / "model.tsm"))):
        x, y = ts.nd.array(np.zeros(3, "float32")), ts.nd.array(np.ones(3, "float32"))
        total, same = one["main"](x, y)
        assert same == y and hash(same) == hash(y)
        np.testing.assert_array_equal(total.numpy(), [2, 2, 2])
        same, doubled = one["step_by_step"](x)
        assert same == x
        np.testing.assert_array_equal(doubled.numpy(), [2, 2, 2])


KERNEL_STATEMENTS = """
@I.ir_module
class Module:
    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        Module.increment(x)
        Module.increment(x)
        return x

    @R.function(pure=False)
    def grown(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        out = R.builtin.alloc_tensor(R.shape([n]), dtype="float32", runtime_device_index=0)
        Module.grow(x, out)
        return out

    @T.prim_func
    def increment(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = A[i] + T.float32(1)

    @T.prim_func
    def grow(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = A[i] + T.float32(10)
"""


def test_kernels_are_called_as_statements():
    """What a kernel writes to is not copied when it is returned."""
    module = from_source(KERNEL_STATEMENTS)
    assert_structural_equal(from_source(module.script()), module)
    assert_structural_equal(load_json(save_json(module)), module)
    executable = relax.build(module, "llvm")
    x = ts.nd.array(np.zeros(4, "float32"))
    assert executable(x) == x
    np.testing.assert_array_equal(x.numpy(), np.full(4, 2, "float32"))
    y = executable["grown"](x)
    np.testing.assert_array_equal(y.numpy(), np.full(4, 12, "float32"))
    assert not isinstance(executable["main"], Program)
    found = interpreter.run(module, "main", np.ones(4, "float32"))
    np.testing.assert_array_equal(found, np.full(4, 3, "float32"))


def test_kernels_called_as_statements_take_what_they_are_declared_for():
    with pytest.raises(ShapeError, match="axis 0 of size 4, it is given size 5"):
        from_source(
            KERNEL_STATEMENTS.replace('R.Tensor((4,), "float32")', 'R.Tensor((5,), "float32")')
        )
    with pytest.raises(ShapeError, match="has 1 parameters, it is given 2"):
        from_source(KERNEL_STATEMENTS.replace("increment(x)", "increment(x, x)"))


def test_shapes_of_registered_functions(executable):
    shape, filled = executable["shapes"](np.ones((4, 3), "float32"))
    assert shape == [4, 3] and filled.shape == (4, 3)


def test_effects(executable, capsys):
    executable["checked"](V, np.array(True))
    assert "x = " in capsys.readouterr().out
    with pytest.raises(AssertionError, match="p does not hold"):
        executable["checked"](V, np.array(False))


@pytest.mark.parametrize(
    "name, arguments, error, message",
    [
        ("unknown_rank", (V,), ShapeError, r"match_cast of 'y' has 1 axes|the shape \(2,\)"),
        ("unknown_rank", (X.astype("int32"),), TypeMismatchError, "input 'x' is int32"),
        ("unknown_rank", ("text",), TypeMismatchError, "is a str, not a tensor"),
        ("unknown_rank", (), TypeMismatchError, "takes 1 inputs, got 0"),
        ("promises", (V,), ShapeError, "the result of 'promises' has the shape"),
        ("promises", (np.ones((2, 4), "float32"),), ShapeError, "has the size 4 at 1, expected 3"),
        ("shapes", (X,), ShapeError, "has the size 4 at 1, expected 3"),
    ],
)
def test_values_are_checked(executable, name, arguments, error, message):
    with pytest.raises(error, match=message):
        executable[name](*arguments)


def test_native_results_are_checked():
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor((4,), "float32"):
        y = R.exp(x)
        return y

    built = relax.build(IRModule({"main": main}), target="llvm")
    assert built(np.ones(4, "float32")).shape == (4,)
    with pytest.raises(ShapeError, match="the result of 'main' expects size 4, it is 3"):
        built(np.ones(3, "float32"))


def test_functions_that_are_not_registered(executable):
    @R.function
    def main(x: R.Object):
        y = R.call_pure_packed("tests.program.nowhere", x, sinfo_args=R.Object)
        return y

    built = relax.build(IRModule({"main": main}), target="llvm")
    with pytest.raises(UnknownNameError, match=r"'tests\.program\.nowhere', which is not regist"):
        built(1)


def test_saved_programs(executable, tmp_path):
    path = tmp_path / "model.tsm"
    executable.save(path)
    loaded = ts.runtime.load_module(str(path))
    np.testing.assert_array_equal(loaded["sum_to"](np.array(4)).numpy(), 10)
    entries = read_artifact(path).metadata["programs"]
    with pytest.raises(ArtifactError, match="the program of 'f' cannot be read"):
        Program("f", {**entries["sum_to"], "body": {"steps": [{"do": "fly"}]}}, dict, [])
