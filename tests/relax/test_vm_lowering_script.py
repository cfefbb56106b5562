"""Graph functions as calls of the runtime: VMShapeLower, VMBuiltinLower, LowerRuntimeBuiltin, …"""

import numpy as np
import pytest

from tilesmith import ir, relax
from tilesmith.ir import structural_equal
from tilesmith.relax import analysis, interpreter, op, transform
from tilesmith.runtime import nd
from tilesmith.runtime.registry import get_global_func
from tilesmith.script import ir as I
from tilesmith.script import relax as R
from tilesmith.script import tir as T
from tilesmith.support.errors import ShapeError, TypeMismatchError

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def assert_equal(got, wanted):
    assert structural_equal(got, wanted, True), f"{got.script()}\n\nwanted\n\n{wanted.script()}"


@I.ir_module
class Allocated:
    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        out = R.builtin.alloc_tensor(R.shape([2, 3]), "float32", 0)
        y = R.reshape(x, (3, 2))
        z = R.memory.kill_tensor(out)
        gv = R.reshape(y, (2, 3))
        return gv


@I.ir_module
class InStorage:
    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        s = R.memory.alloc_storage(R.shape([24]), 0, "global", "uint8")
        out = R.memory.alloc_tensor(s, 0, R.shape([2, 3]), "float32")
        y = R.reshape(x, (3, 2))
        z = R.memory.kill_tensor(out)
        gv = R.reshape(y, (2, 3))
        return gv


@I.ir_module
class InVM:
    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        s = R.vm.alloc_storage(R.shape([24]), 0, "uint8", "global")
        out = R.vm.alloc_tensor(s, 0, R.shape([2, 3]), "float32")
        y = R.reshape(x, (3, 2))
        z = R.vm.kill_object(out)
        gv = R.reshape(y, (2, 3))
        return gv


@I.ir_module
class InRuntime:
    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        s = R.call_builtin_with_ctx(
            "vm.builtin.alloc_storage",
            (R.shape([24]), R.prim_value(0), R.dtype("uint8"), R.str("global")),
            sinfo_args=(R.Object,),
        )
        out = R.call_packed(
            "vm.builtin.alloc_tensor",
            s,
            R.prim_value(0),
            R.shape([2, 3]),
            R.dtype("float32"),
            sinfo_args=(R.Tensor((2, 3), "float32"),),
        )
        y = R.call_packed(
            "vm.builtin.reshape", x, R.shape([3, 2]), sinfo_args=(R.Tensor((3, 2), "float32"),)
        )
        z = R.vm.kill_object(out)
        gv = R.call_packed(
            "vm.builtin.reshape", y, R.shape([2, 3]), sinfo_args=(R.Tensor((2, 3), "float32"),)
        )
        return gv


STEPS = [
    (transform.LowerAllocTensor, Allocated, InStorage),
    (transform.VMBuiltinLower, InStorage, InVM),
    (transform.LowerRuntimeBuiltin, InVM, InRuntime),
]


@pytest.mark.parametrize("step, before, after", STEPS, ids=[step[0].__name__ for step in STEPS])
def test_memory_step_by_step(step, before, after):
    assert_equal(step()(before), after)
    assert_equal(step()(after), after)
    x = f32(2, 3)
    np.testing.assert_array_equal(interpreter.run(after, "main", x), x)


@I.ir_module
class Sized:
    @T.prim_func(private=True)
    def fill(x: T.handle, y: T.handle):
        n = T.int64()
        a = T.match_buffer(x, (n, T.int64(2)))
        b = T.match_buffer(y, (n * T.int64(2) + T.int64(1),))
        for i in range(n * T.int64(2) + T.int64(1)):
            with T.block("fill"):
                vi = T.axis.spatial(n * T.int64(2) + T.int64(1), i)
                b[vi] = a[0, 0] + T.cast(vi, "float32")

    @R.function(pure=False)
    def main(x: R.Tensor(("n", 2), "float32")) -> R.Tensor(ndim=1, dtype="float32"):
        n = T.int64()
        cls = Sized
        out = R.builtin.alloc_tensor(R.shape([n * 2 + 1]), "float32", 0)
        _ = cls.fill(x, out)
        return out


@I.ir_module
class Lowered:
    @T.prim_func(private=True)
    def fill(x: T.handle, y: T.handle):
        n = T.int64()
        a = T.match_buffer(x, (n, T.int64(2)))
        b = T.match_buffer(y, (n * T.int64(2) + T.int64(1),))
        for i in range(n * T.int64(2) + T.int64(1)):
            with T.block("fill"):
                vi = T.axis.spatial(n * T.int64(2) + T.int64(1), i)
                b[vi] = a[0, 0] + T.cast(vi, "float32")

    @T.prim_func(private=True)
    def shape_func(H: T.Buffer((T.int64(2),), "int64")):
        T.func_attr({"tir.is_host_func": True})
        H[T.int64(1)] = H[T.int64(0)] * T.int64(2) + T.int64(1)

    @R.function(pure=False)
    def main(x: R.Tensor(("n", 2), "float32")) -> R.Tensor(("n * 2 + 1",), dtype="float32"):
        cls = Lowered
        shape_heap = R.call_builtin_with_ctx(
            "vm.builtin.alloc_shape_heap",
            (R.prim_value(2),),
            sinfo_args=(R.Tensor(ndim=1, dtype="int64"),),
        )
        _ = R.call_packed(
            "vm.builtin.check_tensor_info",
            x,
            R.prim_value(2),
            R.dtype("float32"),
            R.str("argument 'x'"),
            sinfo_args=(R.Tuple(),),
        )
        _1 = R.call_packed(
            "vm.builtin.match_shape",
            x,
            shape_heap,
            R.prim_value(2),
            R.prim_value(1),
            R.prim_value(0),
            R.prim_value(0),
            R.prim_value(2),
            R.str("argument 'x'"),
            sinfo_args=(R.Tuple(),),
        )
        _2 = cls.shape_func(shape_heap)
        gv = R.call_packed(
            "vm.builtin.make_shape",
            shape_heap,
            R.prim_value(1),
            R.prim_value(1),
            R.prim_value(1),
            sinfo_args=(R.Shape(ndim=1),),
        )
        out = R.builtin.alloc_tensor(gv, R.dtype("float32"), R.prim_value(0), R.str("global"))
        _3 = cls.fill(x, out)
        return out


def test_sizes_on_a_heap():
    changed = transform.VMShapeLower()(Sized)
    print(changed.script())
    analysis.assert_well_formed(changed)
    assert_equal(changed, Lowered)
    x = f32(3, 2)
    want = x[0, 0] + np.arange(7, dtype="float32")
    np.testing.assert_allclose(interpreter.run(Sized, "main", x), want, rtol=1e-6)
    np.testing.assert_allclose(interpreter.run(changed, "main", x), want, rtol=1e-6)
    with pytest.raises(ShapeError, match="argument 'x'"):
        interpreter.run(changed, "main", f32(3, 3))


@I.ir_module
class Matched:
    @R.function(pure=False)
    def main(
        s: R.Shape(["n", "n * 2"]), k: R.Prim(value="n"), x: R.Tuple(R.Tensor("float32"), R.Object)
    ) -> R.Shape(ndim=2):
        n = T.int64()
        m = T.int64()
        t = x[0]
        y = R.match_cast(t, R.Tensor((m, n + 1), "float32"))
        gv = R.call_packed(
            "vm.builtin.make_shape",
            y,
            R.prim_value(1),
            R.prim_value(0),
            R.prim_value(m * n),
            sinfo_args=(R.Shape(ndim=1),),
        )
        return R.shape([m * n, 7])


def test_shapes_numbers_tuples_and_casts():
    changed = transform.VMShapeLower(emit_err_ctx=False)(Matched)
    analysis.assert_well_formed(changed)
    args = [(2, 4), 2, (f32(5, 3), 0)]
    assert interpreter.run(changed, "main", *args) == (10, 7)
    text = changed.script()
    for name in ("check_shape_info", "match_prim_value", "check_tuple_info", "make_prim_value"):
        assert f"vm.builtin.{name}" in text, name
    assert "argument" not in text


def test_a_whole_model_by_calls_of_the_runtime():
    n = ir.Var("n", "int64")
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((n, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(op.nn.softmax(op.add(x, x)))
            z = builder.emit_output(op.reshape(op.permute_dims(y), (n * 4,)))
        builder.emit_func_output(z)
    module = builder.get()
    lowered = module
    for name in (
        "LegalizeOps RewriteDataflowReshape ToNonDataflow CallTIRRewrite StaticPlanBlockMemory "
        "LowerAllocTensor KillAfterLastUse VMBuiltinLower ComputePrimValue VMShapeLower "
        "LowerRuntimeBuiltin"
    ).split():
        lowered = getattr(transform, name)()(lowered)
    assert {"make_shape", "alloc_storage", "alloc_tensor"} <= {
        word.split('"')[0] for word in lowered.script().split("vm.builtin.")[1:]
    }
    x = f32(3, 4)
    want = interpreter.run(module, "main", x)
    np.testing.assert_allclose(interpreter.run(lowered, "main", x), want, rtol=1e-5)


@I.ir_module
class Computed:
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32")) -> R.Prim("int64"):
        n = T.int64()
        gv = R.call_packed("vm.builtin.copy", R.prim_value(n * n), sinfo_args=(R.Prim("int64"),))
        return gv


@T.prim_func(private=True)
def square(n: T.int64) -> T.int64:
    T.func_attr({"tir.is_host_func": True})
    T.ret(n * n)


@pytest.mark.parametrize("compiled", [False, True])
def test_numbers_by_kernels(compiled):
    changed = transform.ComputePrimValue()(Computed)
    assert_equal(changed["compute_symbolic_expr"], square)
    first, second = [binding.value for binding in analysis.bindings_of(changed["main"])]
    assert first.op.name_hint == "compute_symbolic_expr"
    assert isinstance(first.args[0].value, ir.Var) and isinstance(second.args[0], relax.Var)
    assert interpreter.run(changed, "main", f32(5), compiled=compiled) == 25


def test_functions_of_the_runtime_share_memory():
    heap = get_global_func("vm.builtin.alloc_shape_heap")(3)
    x = nd.array(f32(2, 5))
    get_global_func("vm.builtin.match_shape")(x, heap, 2, 0, 2, 1, 1, "x")
    np.testing.assert_array_equal(heap.numpy(), [0, 5, 0])
    assert tuple(get_global_func("vm.builtin.make_shape")(heap, 2, 1, 1, 0, 7)) == (5, 7)
    with pytest.raises(ShapeError, match="x: the size along axis 0 is 2, expected 5"):
        get_global_func("vm.builtin.match_shape")(x, heap, 2, 3, 1, 2, 0, "x")
    with pytest.raises(TypeMismatchError, match="x: a tensor of float32, expected int8"):
        get_global_func("vm.builtin.check_tensor_info")(x, 2, "int8", "x")
    view = get_global_func("vm.builtin.reshape")(x, (5, 2))
    assert view.shape == (5, 2)
