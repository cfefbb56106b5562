"""Memory as part of programs, plans of it, and versions of programs for sizes."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relay
from tilesmith.relay.transform import flexible_shape, memory_plan
from tilesmith.support.errors import ConfigError, ShapeError, TypeMismatchError, UnsupportedError

RANDOM = np.random.default_rng(0)
MANIFEST = relay.transform.ManifestAlloc
KINDS = ["debug", "graph", "vm"]


def x(name="x", *shape):
    return relay.var(name, shape=shape or (4, 6))


def module(body):
    mod = ts.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    return relay.transform.InferType()(mod)


def run(mod, kind="debug"):
    inputs = [
        np.random.default_rng(1).random([int(n) for n in one.checked_type.shape], "float32")
        for one in mod["main"].params
    ]
    found = relay.create_executor(kind, mod, ts.cpu(), "llvm").evaluate()(*inputs)
    return [found.numpy()] if hasattr(found, "numpy") else [one.numpy() for one in found]


def agree(mod, made, kind="debug"):
    for wanted, found in zip(run(mod), run(made, kind)):
        np.testing.assert_allclose(wanted, found, rtol=1e-5)


def calls(mod, name):
    found = []

    def visit(node):
        if isinstance(node, relay.Call) and getattr(node.op, "name", "") == name:
            found.append(node)

    relay.analysis.post_order_visit(mod["main"], visit)
    return found


def chain(length):
    y = x()
    for _ in range(length):
        y = relay.exp(relay.negative(y))
    return y


def several():
    y = x()
    parts = relay.split(relay.exp(y), 2, axis=1)
    joined = relay.concatenate([parts[1], relay.const(np.ones((4, 3), "float32"))], axis=0)
    return relay.Tuple([joined, relay.reshape(parts[0], (12,)), relay.nn.pad(y, ((1, 0), (0, 0)))])


def choice():
    y, c = x(), relay.const(True)
    return relay.exp(relay.If(c, relay.nn.relu(y), relay.negative(y)))


PROGRAMS = {"chain": lambda: chain(3), "several": several, "choice": choice}


@pytest.mark.parametrize("make", PROGRAMS.values(), ids=PROGRAMS)
def test_programs_with_memory_compute_the_same(make):
    mod = module(make())
    made = MANIFEST(ts.cpu())(mod)
    assert len(calls(made, "vm.invoke_tvm_op")) >= 2
    agree(mod, made)
    agree(mod, relay.transform.ManifestLifetimes()(made))
    agree(mod, memory_plan.MemoryPlan()(made))
    agree(mod, memory_plan.LiftConstants()(mod))


@pytest.mark.parametrize("kind", KINDS)
def test_programs_with_memory_compile(kind):
    mod = module(several())
    agree(mod, relay.transform.ManifestLifetimes()(MANIFEST()(mod)), kind)


def test_the_memory_of_a_call():
    made = MANIFEST("cpu:1")(module(relay.exp(x())))
    (storage,), (tensor,) = [calls(made, f"memory.alloc_{one}") for one in ("storage", "tensor")]
    assert int(storage.args[0].data.numpy()) == 4 * 6 * 4
    assert storage.attrs.virtual_device.device == ts.cpu(1)
    assert tensor.checked_type == relay.TensorType((4, 6))
    assert not calls(made, "memory.kill")


def test_reshapes_take_no_memory():
    made = MANIFEST()(module(relay.reshape(x(), (24,))))
    assert calls(made, "vm.reshape_tensor") and not calls(made, "memory.alloc_storage")


def test_results_of_computed_sizes_stay():
    sizes = relay.var("s", shape=(2,), dtype="int64")
    made = MANIFEST()(module(relay.exp(relay.reshape(x(), sizes))))
    assert calls(made, "dyn.reshape") and not calls(made, "vm.invoke_tvm_op")


def test_each_value_ends_once():
    made = relay.transform.ManifestLifetimes()(module(chain(2)))
    assert len(calls(made, "memory.kill")) == 3  # of 4, the last is the result


def test_storages_share_one_region():
    made = memory_plan.MemoryPlan()(MANIFEST()(module(chain(4))))
    (storage,) = calls(made, "memory.alloc_storage")
    offsets = {int(one.args[1].data.numpy()) for one in calls(made, "memory.alloc_tensor")}
    assert int(storage.args[0].data.numpy()) <= 3 * 128 and len(offsets) < 8


def test_tensors_that_live_together_do_not_share():
    y = relay.exp(x())
    body = relay.Tuple([y, relay.negative(y), relay.nn.relu(y)])
    made = memory_plan.MemoryPlan()(MANIFEST()(module(body)))
    offsets = {int(one.args[1].data.numpy()) for one in calls(made, "memory.alloc_tensor")}
    assert len(offsets) == 3


def test_constants_are_lifted():
    y = relay.add(x(), relay.const(np.ones((4, 6), "float32")))
    made = memory_plan.LiftConstants()(module(relay.multiply(y, relay.const(2.0))))
    first = made["main"].body
    assert isinstance(first, relay.Let) and isinstance(first.value, relay.Constant)
    assert not isinstance(first.body, relay.Let)


def test_regions_grow():
    region = memory_plan.Region.empty(0)
    a, b = relay.var("a"), relay.var("b")
    cpu = relay.op.annotation.annotation.virtual_device("cpu")
    region.grow(a, 10, 64, cpu, "float32")
    region.grow(b, 20, 64, cpu, "float32")
    assert (region.offset_for(a), region.offset_for(b), region.size) == (0, 64, 84)
    assert region.offset_for(relay.var("c")) is None
    assert region.to_expr(a).value.op.name == "memory.alloc_storage"
    with pytest.raises(TypeMismatchError, match="on one device"):
        region.grow(b, 20, 64, relay.op.annotation.annotation.virtual_device("cuda"), "float32")


def test_small_helpers():
    call = relay.exp(x())
    assert not memory_plan.is_primitive(call)
    found = memory_plan.const_eval(ts.IRModule(), relay.add(relay.const(1.0), relay.const(2.0)))
    assert found.numpy() == 3
    with pytest.raises(UnsupportedError, match="more than constants"):
        memory_plan.const_eval(ts.IRModule(), call)
    a, b = relay.var("a"), relay.var("b")
    lets = memory_plan.mk_let([(a, call), (b, relay.exp(a))], b)
    pairs = memory_plan.iterative_let(lets, lambda var, value: (var, value), lambda p, body: p)
    assert [var for var, _ in pairs] == [a, b]


def test_tuple_types_are_flattened():
    memory = relay.op.memory
    one, two = relay.TensorType((2,)), relay.TensorType((3,), "int32")
    nested = relay.TupleType([one, relay.TupleType([two, one])])
    assert memory.flatten_tuple_type(nested) == [one, two, one]
    parts = memory.from_tuple_type(nested, relay.var("t", nested))
    assert [part.checked_type for part in parts] == [one, two, one]
    assert memory.to_tuple_type(nested, parts).checked_type == nested
    with pytest.raises(TypeMismatchError, match="tensors and tuples"):
        memory.flatten_tuple_type(relay.FuncType([one], two))


@pytest.mark.parametrize("kind", ["debug", "vm"])
def test_shapes_as_values(kind):
    sizes = relay.var("s", shape=(2,), dtype="int64")
    body = relay.Tuple([
        relay.op.vm.shape_of(x()), relay.op.vm.reshape_tensor(x("y"), sizes, [-1, -1]),
        relay.op.vm.reshape_tensor(x("z"), sizes, [24]),
    ])  # fmt: skip
    mod = module(body)
    values = {"s": np.array([3, 8])}
    inputs = [values.get(one.name_hint, np.ones((4, 6), "float32")) for one in mod["main"].params]
    found = relay.create_executor(kind, mod, ts.cpu(), "llvm").evaluate()(*inputs)
    assert found[0].numpy().tolist() == [4, 6]
    assert found[1].numpy().shape == (3, 8) and found[2].numpy().shape == (24,)


def test_what_writes_to_memory_is_bound_by_lets():
    kernel = relay.Function([a := x("a")], relay.exp(a))
    call = relay.op.vm.shape_func(kernel, [x()], [x("t")], [0])
    body = relay.Let(relay.var("u"), call, x())
    with pytest.raises(UnsupportedError, match="shape_func"):
        relay.build(module(body), "llvm")
    with pytest.raises(UnsupportedError, match="no let binds it"):
        relay.to_relax(module(relay.Tuple([relay.op.memory.alloc_storage(8, 8, "cpu"), x()])))


def test_a_deep_program_with_memory():
    made = relay.transform.ManifestLifetimes()(MANIFEST()(module(chain(500))))
    planned = memory_plan.MemoryPlan()(made)
    assert len(calls(planned, "memory.alloc_storage")) == 1


# Versions for sizes


def dense():
    return relay.nn.relu(relay.nn.dense(x("x", 4, 3), x("w", 5, 3)))


@pytest.mark.parametrize("auto_pad", [False, True])
def test_a_program_for_any_size(auto_pad):
    made = relay.transform.FlexibleShapeDispatch([2, 4], auto_pad=auto_pad, input_indices=[0])(
        module(dense())
    )
    assert {"main_2", "main_4", "main_any"} <= {one.name_hint for one in made.functions}
    w = RANDOM.random((5, 3)).astype("float32")
    for kind in ("debug", "vm"):
        evaluate = relay.create_executor(kind, made, ts.cpu(), "llvm").evaluate()
        for size in (1, 2, 3, 4, 6):
            value = RANDOM.random((size, 3)).astype("float32")
            np.testing.assert_allclose(evaluate(value, w).numpy(), value @ w.T, rtol=1e-4)


def test_versions_for_one_size():
    mod = module(dense())
    made = flexible_shape.specialize_body(mod, mod["main"], 0, 7, [0])
    assert [int(n) for n in made["main"].ret_type.shape] == [7, 5]
    assert [int(n) for n in mod["main"].ret_type.shape] == [4, 5]
    one = relay.TensorType((2, 3))
    found = flexible_shape.override_shape(relay.TupleType([one, one]), 1, 5)
    assert found == relay.TupleType([relay.TensorType((2, 5))] * 2)
    with pytest.raises(ShapeError, match="no axis 2"):
        flexible_shape.override_shape(one, 2, 5)


def test_bad_buckets():
    with pytest.raises(ConfigError, match="at least one"):
        relay.transform.FlexibleShapeDispatch([])(module(dense()))
    with pytest.raises(ConfigError, match="no input"):
        relay.transform.FlexibleShapeDispatch([2], input_indices=[])(module(dense()))
