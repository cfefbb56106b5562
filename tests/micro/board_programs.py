"""Models for boards, and C programs that call them with files of inputs."""

import numpy as np
import pytest

from tilesmith import relay
from tilesmith.codegen.c import find_compiler
from tilesmith.ir import (
    ConstantMemoryPools,
    ConstantPoolInfo,
    IRModule,
    PoolInfoProperties,
    WorkspaceMemoryPools,
    WorkspacePoolInfo,
)
from tilesmith.relay.backend.executor import Executor, Runtime

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")
CRT = Runtime("crt")


def network(seed=0):
    """A convolution, a softmax and a dense layer: kernels with memory of their own."""
    random = np.random.default_rng(seed)
    x, w = relay.var("x", shape=(1, 3, 9, 9)), relay.var("w", shape=(8, 3, 3, 3))
    y = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1), kernel_size=(3, 3), channels=8))
    y = relay.nn.softmax(relay.nn.batch_flatten(y))
    d = relay.var("d", shape=(7, 648))
    function = relay.Function([x, w, d], relay.nn.dense(y, d))
    params = {"w": random.normal(size=(8, 3, 3, 3)), "d": random.normal(size=(7, 648))}
    return (
        IRModule.from_expr(function),
        {name: value.astype("float32") for name, value in params.items()},
        {"x": random.normal(size=(1, 3, 9, 9)).astype("float32")},
    )


def two_outputs(seed=0):
    """Integers, a result that is an input of the other one, names that C does not know."""
    random = np.random.default_rng(seed)
    x, y = (
        relay.var("in:1", shape=(5, 13), dtype="int32"),
        relay.var("int", shape=(13,), dtype="int8"),
    )
    total = relay.add(x, relay.cast(y, "int32"))
    rows = relay.sum(relay.multiply(total, relay.const(3)), axis=1)
    module = IRModule.from_expr(relay.Function([x, y], relay.Tuple([total, rows])))
    inputs = {
        "in:1": random.integers(-99, 99, (5, 13)).astype("int32"),
        "int": random.integers(-99, 99, (13,)).astype("int8"),
    }
    return module, {}, inputs


def large(seed=0):
    """Enough work that kernels of this process would be given to several threads."""
    random = np.random.default_rng(seed)
    x, w = relay.var("x", shape=(96, 160)), relay.var("w", shape=(144, 160))
    body = relay.exp(relay.tanh(relay.nn.dense(x, w)))
    params = {"w": random.normal(size=(144, 160)).astype("float32")}
    inputs = {"x": random.normal(size=(96, 160)).astype("float32")}
    return IRModule.from_expr(relay.Function([x, w], body)), params, inputs


MODELS = {one.__name__: one for one in (network, two_outputs, large)}


def built(model, interface="c", name="default", target="c", **options):
    module, params, _ = model
    executor = Executor("aot", {"interface-api": interface, "unpacked-api": interface == "c"})
    return relay.build(
        module, target, executor=executor, runtime=CRT, params=params, mod_name=name, **options
    )


def workspace_pools(**sizes):
    return WorkspaceMemoryPools(
        [
            WorkspacePoolInfo(name, ["c"], PoolInfoProperties(size_hint_bytes=size))
            for name, size in sizes.items()
        ]
    )


def constant_pools(**sizes):
    return ConstantMemoryPools(
        [
            ConstantPoolInfo(name, ["c"], [], PoolInfoProperties(size_hint_bytes=size))
            for name, size in sizes.items()
        ]
    )


def interpreted(model):
    module, params, inputs = model
    result = relay.create_executor("debug", mod=module, target="llvm").evaluate()(
        **inputs, **params
    )
    results = result if hasattr(result, "__len__") and not hasattr(result, "numpy") else [result]
    return [one.numpy() for one in results]


def check(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
