"""Random graphs of operators, written once and built through both doors, give equal results."""

from dataclasses import dataclass
from typing import Any

import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

import tilesmith as ts
from tilesmith import relax, relay
from tilesmith.relax import op as graph
from tilesmith.relax.interpreter import run as in_numpy

SHAPE = (2, 4)
RANDOM = numpy.random.default_rng(5)
INPUTS = [RANDOM.uniform(-1, 1, SHAPE).astype("float32") for _ in range(3)]
SQUARE = RANDOM.uniform(-1, 1, (4, 4)).astype("float32")
FILTER = RANDOM.uniform(-1, 1, (1, 1, 3, 3)).astype("float32")
PLACES = numpy.array([3, 0, 0, 1], "int64")


@dataclass
class Step:
    """What one step computes of tensors of one shape: with relay's and with relax's functions."""

    arity: int
    relay: Any
    relax: Any


def same(name, arity=1, other=""):
    """Return the step of functions with one name, or with relax's other one."""
    return Step(arity, find(relay, name), find(graph, other or name))


def find(module, name):
    for part in name.split("."):
        module = getattr(module, part)
    return module


STEPS = {
    **{name: same(name, 2) for name in ("add", "subtract", "multiply", "maximum", "minimum")},
    **{name: same(name) for name in ("tanh", "sigmoid", "abs", "nn.relu", "nn.softmax")},
    "divide": Step(
        2,
        lambda x, y: x / (relay.abs(y) + relay.const(0.5)),
        lambda x, y: graph.divide(x, graph.add(graph.abs(y), relax.const(0.5))),
    ),
    "transpose": Step(
        1,
        lambda x: relay.reshape(relay.transpose(x), SHAPE),
        lambda x: graph.reshape(graph.permute_dims(x), SHAPE),
    ),
    "join": Step(
        2,
        lambda x, y: relay.concatenate(
            [relay.strided_slice(x, (0, 2), (2, 4)), relay.strided_slice(y, (0, 0), (2, 2))], 1),
        lambda x, y: graph.concat(
            [graph.strided_slice(x, [1], [2], [4]), graph.strided_slice(y, [1], [0], [2])], 1),
    ),
    "split": Step(
        1,
        lambda x: relay.concatenate([(parts := relay.split(x, 2, 1))[1], parts[0]], 1),
        lambda x: graph.concat(
            [relax.TupleGetItem(parts := graph.split(x, 2, 1), 1), relax.TupleGetItem(parts, 0)],
            1),
    ),
    "centre": Step(
        1,
        lambda x: x - relay.mean(x, axis=1, keepdims=True),
        lambda x: graph.subtract(x, graph.mean(x, axis=1, keepdims=True)),
    ),
    "largest": Step(
        1,
        lambda x: relay.broadcast_to(relay.max(x, axis=0, keepdims=True), SHAPE),
        lambda x: graph.broadcast_to(graph.max(x, axis=0, keepdims=True), SHAPE),
    ),
    "dense": Step(
        1,
        lambda x: relay.nn.dense(x, relay.const(SQUARE)),
        lambda x: graph.linear(x, relax.const(SQUARE)),
    ),
    "filter": Step(
        1,
        lambda x: relay.reshape(relay.nn.conv2d(
            relay.reshape(x, (1, 1, 2, 4)), relay.const(FILTER), padding=(1, 1)), SHAPE),
        lambda x: graph.reshape(graph.nn.conv2d(
            graph.reshape(x, (1, 1, 2, 4)), relax.const(FILTER), padding=(1, 1)), SHAPE),
    ),
    "take": Step(
        1,
        lambda x: relay.take(x, relay.const(PLACES), axis=1),
        lambda x: graph.take(x, relax.const(PLACES), axis=1),
    ),
    "sums": Step(1, lambda x: relay.cumsum(x, axis=1), lambda x: graph.cumsum(x, axis=1)),
    "where": Step(
        2,
        lambda x, y: relay.where(relay.const([[True], [False]]), x, y),
        lambda x, y: graph.where(relax.const(numpy.array([[True], [False]])), x, y),
    ),
    "tile": Step(
        1,
        lambda x: relay.strided_slice(relay.tile(x, (1, 2)), (0, 3), (2, 7)),
        lambda x: graph.strided_slice(graph.tile(x, (1, 2)), [1], [3], [7]),
    ),
}  # fmt: skip


def through_relay(steps):
    """Return a module of the graph, built as expressions."""
    params = [relay.var(name, shape=SHAPE) for name in "xyz"]
    values = list(params)
    for name, places in steps:
        operands = [values[place % len(values)] for place in places[: STEPS[name].arity]]
        values.append(STEPS[name].relay(*operands))
    return ts.IRModule.from_expr(relay.Function(params, relay.Tuple([values[-1], values[-2]])))


def through_relax(steps):
    """Return a module of the graph, built binding by binding."""
    builder = relax.BlockBuilder()
    params = [relax.Var(name, relax.TensorStructInfo(SHAPE, "float32")) for name in "xyz"]
    with builder.function("main", params):
        values = list(params)
        for name, places in steps:
            operands = [values[place % len(values)] for place in places[: STEPS[name].arity]]
            values.append(builder.emit(STEPS[name].relax(*operands)))
        builder.emit_func_output(relax.Tuple([values[-1], values[-2]]))
    return builder.get()


GRAPHS = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.tuples(*[st.integers(0, 20)] * 2)),
    min_size=2,
    max_size=9,
)


def results_of(steps):
    """Return the results of a graph: by numpy, then compiled; each through both doors."""
    by_relay, by_relax = through_relay(steps), through_relax(steps)
    machine = relax.VirtualMachine(relax.build(by_relax, "llvm"), ts.cpu())
    return [
        in_numpy(by_relax, "main", *INPUTS),
        relay.create_executor("debug", by_relay, ts.cpu(), "llvm").evaluate()(*INPUTS),
        relay.create_executor("graph", by_relay, ts.cpu(), "llvm").evaluate()(*INPUTS),
        machine["main"](*[ts.nd.array(one) for one in INPUTS]),
    ]


@settings(max_examples=15, deadline=None)
@given(GRAPHS)
def test_both_doors_give_equal_results(steps):
    reference, *others = [
        [numpy.asarray(one if isinstance(one, numpy.ndarray) else one.numpy()) for one in found]
        for found in results_of(steps)
    ]
    for found in others:
        for one, wanted in zip(found, reference, strict=True):
            assert one.shape == wanted.shape == SHAPE and one.dtype == wanted.dtype
            numpy.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-5)


def test_every_step_is_the_same_through_both_doors():
    steps = [(name, (number, number + 1)) for number, name in enumerate(sorted(STEPS))]
    reference, interpreted, compiled, machine = results_of(steps)
    for found in (interpreted, compiled, machine):
        for one, wanted in zip(found, reference, strict=True):
            numpy.testing.assert_allclose(one.numpy(), wanted, rtol=1e-4, atol=1e-5)
