"""Devices of values: annotations, plans, copies."""

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import relay
from tilesmith.support.errors import TypeMismatchError
from tilesmith.target import Target
from tilesmith.target.compilation_config import make_compilation_config

CPU, CUDA = ts.cpu(), ts.device("cuda")
on = relay.annotation.on_device


def config(*targets):
    given = {"llvm": "llvm", "cuda": "cuda -arch=sm_80"}
    return make_compilation_config(None, [Target(given[one], "llvm") for one in targets])


def plan(body, *targets):
    mod = ts.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    return relay.transform.PlanDevices(config(*(targets or ("llvm", "cuda"))))(mod)["main"]


def copies(function):
    found = []

    def visit(node):
        if isinstance(node, relay.Call) and getattr(node.op, "name", "") == "device_copy":
            attrs = node.attrs
            found.append((attrs.src_virtual_device.device_type,
                          attrs.dst_virtual_device.device_type))  # fmt: skip

    relay.analysis.post_order_visit(function, visit)
    return found


def types(function):
    devices = function.attrs["param_virtual_devices"]
    return [one.device_type for one in devices], function.attrs["result_virtual_device"].device_type


def x(name="x"):
    return relay.var(name, shape=(2, 3))


def test_an_annotation_changes_no_type_and_no_value():
    call = on(x(), "cuda:1", constrain_result=True)
    assert call.attrs.virtual_device.device == ts.device("cuda", 1)
    mod = relay.transform.InferType()(ts.IRModule.from_expr(relay.nn.relu(call)))
    assert mod["main"].body.checked_type == mod["main"].params[0].checked_type
    found = relay.create_executor("graph", mod, CPU, "llvm").evaluate()(-np.ones((2, 3), "float32"))
    np.testing.assert_array_equal(found.numpy(), np.zeros((2, 3)))


def test_devices_are_written_and_read():
    y = relay.exp(on(relay.op.tensor.device_copy(x(), CPU, CUDA), "cuda:1"))
    function = relay.annotation.function_on_device(
        relay.Function(relay.analysis.free_vars(y), y), [CPU], CUDA
    )
    mod = relay.transform.InferType()(ts.IRModule.from_expr(function))
    again = relay.transform.InferType()(relay.fromtext(relay.astext(mod)))
    assert relay.astext(again) == relay.astext(mod)
    made = relay.transform.PlanDevices(config("llvm", "cuda"))(again)["main"]
    assert types(made) == ([1], 2)


def test_without_annotations_all_is_on_the_default_device():
    function = plan(relay.add(x(), x("y")))
    assert copies(function) == [] and types(function) == ([1, 1], 1)


def test_a_part_on_another_device_is_copied_back():
    function = plan(relay.exp(on(relay.add(x(), x("y")), CUDA)))
    assert copies(function) == [(2, 1)]
    assert types(function) == ([2, 2], 1)
    assert "on_device" not in str(function)


def test_copies_to_and_from():
    y = relay.exp(x())
    y = on(relay.add(on(y, CPU), x("z")), CUDA)
    function = plan(relay.nn.relu(y))
    assert copies(function) == [(1, 2), (2, 1)]
    assert types(function) == ([1, 2], 1)


def test_no_copy_on_the_same_device():
    function = plan(relay.exp(on(relay.add(x(), x("y")), CPU)))
    assert copies(function) == []


def test_devices_follow_through_lets_and_tuples():
    v, y = relay.var("v"), x()
    pair = relay.Tuple([relay.exp(y), y])
    body = relay.Let(v, pair, relay.nn.relu(on(relay.TupleGetItem(v, 0), CUDA)))
    function = plan(body)
    assert types(function) == ([2], 1) and copies(function) == [(2, 1)]


def test_a_contradiction_is_refused():
    y = x()
    pinned = on(y, CUDA, constrain_result=True)
    other = on(x("z"), CPU, constrain_result=True)
    with pytest.raises(TypeMismatchError, match="needed on|cannot be on"):
        plan(relay.add(pinned, other))


def test_functions_say_where_they_are():
    function = relay.Function([a := x()], relay.exp(a))
    placed = relay.annotation.function_on_device(function, [CUDA], CUDA)
    mod = ts.IRModule.from_expr(placed)
    made = relay.transform.PlanDevices(config("llvm", "cuda"))(mod)["main"]
    assert types(made) == ([2], 2) and copies(made) == []
    with pytest.raises(TypeMismatchError, match="2 devices"):
        relay.annotation.function_on_device(function, [CUDA, CPU], CUDA)


def test_copies_between_processors_compile():
    call = relay.op.tensor.device_copy(x(), ts.cpu(0), ts.cpu(1))
    mod = ts.IRModule.from_expr(relay.exp(call))
    value = np.random.default_rng(0).random((2, 3)).astype("float32")
    for kind in ("graph", "debug"):
        found = relay.create_executor(kind, mod, CPU, "llvm").evaluate()(value)
        np.testing.assert_allclose(found.numpy(), np.exp(value), rtol=1e-5)


def test_a_planned_program_compiles():
    y = relay.exp(on(relay.add(x(), x("y")), ts.cpu(1)))
    function = plan(y, "llvm")
    assert copies(function) == [(1, 1)]
    value = np.random.default_rng(0).random((2, 3)).astype("float32")
    found = relay.create_executor("graph", ts.IRModule.from_expr(function), CPU, "llvm")
    np.testing.assert_allclose(found.evaluate()(value, value).numpy(), np.exp(2 * value), rtol=1e-5)


def test_a_deep_network_is_placed():
    y = x()
    for _ in range(20000):
        y = relay.exp(y)
    assert types(plan(on(y, CUDA))) == ([2], 1)
