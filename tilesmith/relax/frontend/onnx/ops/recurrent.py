"""RNN, GRU and LSTM: unrolled over the steps of short sequences; longer ones, and those of a length
that is known only when the model runs, become loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import Constant, ShapeExpr, const
from tilesmith.relax.frontend.onnx.loops import counted_loop
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.ops.activation import ACTIVATIONS
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.onnx.values import as_array, dtype_of, rank_of, scalar, shape_of
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

MOST_STEPS = 64
"""Longer sequences are not unrolled: each step is compiled."""

_ACTIVATIONS_WITH_ALPHA = (
    "affine",
    "elu",
    "hardsigmoid",
    "leakyrelu",
    "scaledtanh",
    "thresholdedrelu",
)
_ACTIVATIONS_WITH_BETA = ("affine", "hardsigmoid", "scaledtanh")

Step = Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]


class Recurrence:
    """One direction of a recurrent operator: its weights and activations.

    Weights are (inputs, gates * hidden) for the input, (hidden, gates * hidden) for the state.
    """

    def __init__(self, node: OnnxNode, direction: int, gates: int, functions: list[Any]) -> None:
        self.node = node
        self.gates = gates
        self.activations = functions
        self.clip = node.attribute("clip")
        self.hidden = int(shape_of(node[2], 3)[2])
        self.input_weights = self._turned(1, direction)
        self.state_weights = self._turned(2, direction)
        self.input_bias = self.state_bias = None
        if node.has(3):
            both = self.of_direction(3, direction)
            size = gates * self.hidden
            self.input_bias = self.part(both, 0, 0, size)
            self.state_bias = self.part(both, 0, size, 2 * size)

    def of_direction(self, index: int, direction: int) -> Any:
        """Return what an input has for a direction: a constant if that is known at import, so that
        it is one inside of a loop, too.
        """
        known = self.node.known(index)
        if known is not None:
            return const(numpy.ascontiguousarray(known[direction]))
        return self.node.emit(op.take(self.node[index], scalar(direction, "int64"), 0))

    def _turned(self, index: int, direction: int) -> Any:
        weights = self.of_direction(index, direction)
        if isinstance(weights, Constant):
            return const(numpy.ascontiguousarray(as_array(weights).T))
        return self.node.emit(op.permute_dims(weights))

    def part(self, value: Any, axis: int, first: int, last: int) -> Any:
        """Return the elements from ``first`` to ``last``, exclusive, along an axis."""
        if isinstance(value, Constant):
            array = as_array(value)
            return const(numpy.ascontiguousarray(numpy.take(array, range(first, last), axis)))
        return self.node.emit(op.strided_slice(value, [axis], [first], [last]))

    def from_inputs(self, steps: Any) -> Any:
        """Return the gates' contributions from the inputs of all steps (steps, batch, inputs)."""
        product = op.matmul(steps, self.input_weights)
        return self.node.emit(
            product if self.input_bias is None else op.add(product, self.input_bias)
        )

    def from_state(self, state: Any, first: int = 0, last: int | None = None) -> Any:
        """Return the gates' contributions from a state, for gates ``first`` to ``last``,
        exclusive.
        """
        weights, bias = self.state_weights, self.state_bias
        last = self.gates if last is None else last
        if (first, last) != (0, self.gates):
            bounds = first * self.hidden, last * self.hidden
            weights = self.part(weights, 1, *bounds)
            bias = None if bias is None else self.part(bias, 0, *bounds)
        product = op.matmul(state, weights)
        return self.node.emit(product if bias is None else op.add(product, bias))

    def gate(self, total: Any, index: int) -> Any:
        """Return one gate's part of a sum over all of them."""
        bounds = [index * self.hidden], [(index + 1) * self.hidden]
        return op.strided_slice(total, [1], *bounds)

    def activate(self, index: int, x: Any) -> Any:
        """Return an activation of the limited sum ``x``."""
        if self.clip is not None:
            x = op.clip(x, -float(self.clip), float(self.clip))
        return self.node.emit(self.activations[index](self.node.emit(x)))


def _functions(node: OnnxNode, defaults: list[str], directions: int) -> list[list[Any]]:
    """Return the activations of each direction."""
    names = [str(name).lower() for name in node.attribute("activations") or defaults * directions]
    alphas = [float(value) for value in node.attribute("activation_alpha") or []]
    betas = [float(value) for value in node.attribute("activation_beta") or []]
    found = []
    for name in names:
        if name not in ACTIVATIONS:
            raise OpAttributeInvalid(f"there is no activation '{name}'")
        arguments = {}
        if name in _ACTIVATIONS_WITH_ALPHA and alphas:
            arguments["alpha"] = alphas.pop(0)
        if name in _ACTIVATIONS_WITH_BETA and betas:
            arguments["beta"] = betas.pop(0)
        found.append(_with(ACTIVATIONS[name], arguments))
    count = len(defaults)
    if len(found) != count * directions:
        raise OpAttributeInvalid(f"{len(found)} activations for {directions} directions")
    return [found[i * count : (i + 1) * count] for i in range(directions)]


def _with(function: Callable[..., Any], arguments: dict[str, float]) -> Callable[[Any], Any]:
    return lambda x: function(x, **arguments)


def _run(
    node: OnnxNode, gates: int, defaults: list[str], states: tuple[int, ...], make: Any
) -> Any:
    """Run all directions over all steps; return Y, then the last value of each state.

    ``states`` are the inputs with the initial states; ``make(recurrence, direction)`` gives the
    step: (what the inputs give, states) → states, of which the first is the output.
    """
    direction = node.choice("direction", "forward", "forward", "reverse", "bidirectional")
    turned = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    batch_first = node.flag("layout")
    _check_shapes(node, gates, len(turned), states, batch_first)
    x = node.emit(op.permute_dims(node[0], [1, 0, 2])) if batch_first else node[0]
    length, batch, _ = shape_of(x, 3)
    if isinstance(length, int) and length == 0:
        raise node.unsupported("a sequence without steps")
    functions = _functions(node, defaults, len(turned))
    outputs, lasts = [], []
    for number, is_reversed in enumerate(turned):
        recurrence = Recurrence(node, number, gates, functions[number])
        start = [_initial(node, index, number, batch, recurrence, batch_first) for index in states]
        step = make(recurrence, number)
        found, last = _over_steps(node, recurrence, x, start, step, is_reversed)
        outputs.append(found)
        lasts.append(last)
    return _results(node, outputs, lasts, batch_first)


def _check_shapes(
    node: OnnxNode, gates: int, directions: int, states: tuple[int, ...], batch_first: bool
) -> None:
    """Raise ShapeError where the weights and states do not fit the input and the directions."""
    if rank_of(node[0]) != 3 or rank_of(node[2]) != 3:
        ranks = rank_of(node[0]), rank_of(node[2])
        raise ShapeError(f"its inputs X and R have the ranks {ranks[0]} and {ranks[1]}, 3 needed")
    batch, width = shape_of(node[0])[0 if batch_first else 1], shape_of(node[0])[2]
    hidden = shape_of(node[2])[2]
    if not isinstance(hidden, int):
        raise node.unsupported(f"a state of the size {hidden}, which is not constant,")
    state = [batch, directions, hidden] if batch_first else [directions, batch, hidden]
    expected: dict[int, tuple[str, list[Any]]] = {
        1: ("W", [directions, gates * hidden, width]),
        2: ("R", [directions, gates * hidden, hidden]),
        3: ("B", [directions, 2 * gates * hidden]),
        4: ("sequence_lens", [batch]),
        **dict.fromkeys(states, ("the initial state", state)),
        7: ("P", [directions, 3 * hidden]),
    }
    for index, (name, sizes) in expected.items():
        if not node.has(index):
            continue
        found = shape_of(node[index]) if rank_of(node[index]) == len(sizes) else None
        if found is None or any(
            isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(found, sizes)
        ):
            shown = ", ".join([str(size) for size in sizes])
            raise ShapeError(f"its input {index} ({name}) has to have the shape ({shown})")


def _initial(
    node: OnnxNode, index: int, number: int, batch: Any, recurrence: Recurrence, batch_first: bool
) -> Any:
    if node.has(index):
        return node.emit(op.take(node[index], scalar(number, "int64"), 1 if batch_first else 0))
    dtype = dtype_of(node[0])
    return node.emit(op.full([batch, recurrence.hidden], scalar(0, dtype), dtype))


class _Steps:
    """The steps of one direction: what the inputs give to them, and how long each sequence is."""

    def __init__(self, node: OnnxNode, recurrence: Recurrence, x: Any, step: Step) -> None:
        self.node, self.step, self.dtype = node, step, dtype_of(x)
        self.length = shape_of(x)[0]
        self.total = recurrence.from_inputs(x)
        self.lengths = None
        if node.has(4):
            checked = node.emit(op.checked_lengths(node[4], [self.length]))
            self.lengths = node.emit(op.expand_dims(checked, 1))

    def run(self, place: Any, state: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Emit the step at a place (a scalar of int64); return its output and the new states."""
        node, lengths = self.node, self.lengths
        new = self.step(node.emit(op.take(self.total, place, 0)), state)
        if lengths is None:
            return new[0], new
        # Past its end a sequence keeps its state, and its output is 0.
        limit = place if dtype_of(lengths) == "int64" else op.astype(place, dtype_of(lengths))
        runs = node.emit(op.greater(lengths, limit))
        state = tuple([node.emit(op.where(runs, a, b)) for a, b in zip(new, state)])
        return op.where(runs, new[0], scalar(0, self.dtype)), state

    def last(self, state: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the last states; a sequence without steps has none: 0, as onnxruntime gives."""
        if self.lengths is None:
            return state
        runs = self.node.emit(op.greater(self.lengths, scalar(0, dtype_of(self.lengths))))
        zero = scalar(0, self.dtype)
        return tuple([self.node.emit(op.where(runs, value, zero)) for value in state])


def _over_steps(
    node: OnnxNode, recurrence: Recurrence, x: Any, state: Any, step: Step, is_reversed: bool
) -> tuple[Any, tuple[Any, ...]]:
    """Return the outputs of all steps (steps, batch, hidden) in time order, and the states after
    the last one.
    """
    steps = _Steps(node, recurrence, x, step)
    if not isinstance(steps.length, int) or steps.length > MOST_STEPS:
        return _in_a_loop(node, steps, state, is_reversed)
    order = range(steps.length - 1, -1, -1) if is_reversed else range(steps.length)
    outputs: list[Any] = [None] * steps.length
    state = tuple(state)
    for place in order:
        outputs[place], state = steps.run(scalar(place, "int64"), state)
    rows = [op.expand_dims(output, 0) for output in outputs]
    return node.emit(op.concat(rows, 0)), steps.last(state)


def _in_a_loop(
    node: OnnxNode, steps: _Steps, state: Any, is_reversed: bool
) -> tuple[Any, tuple[Any, ...]]:
    number = node.emit(op.shape_to_tensor(ShapeExpr([steps.length])))
    count = node.emit(op.reshape(number, []))

    def one(i: Any, states: list[Any]) -> tuple[Any, Any]:
        place = i
        if is_reversed:
            place = node.emit(op.subtract(op.subtract(count, scalar(1, "int64")), i))
        output, following = steps.run(place, tuple(states))
        return following, [output]

    last, (outputs,) = counted_loop(node, steps.length, state, one)
    if is_reversed:
        outputs = node.emit(op.flip(outputs, 0))
    return outputs, steps.last(tuple(last))


def _results(node: OnnxNode, outputs: list[Any], lasts: list[Any], batch_first: bool) -> Any:
    parts = [op.expand_dims(one, 1) for one in outputs]
    whole = node.emit(op.concat(parts, 1))  # (steps, directions, batch, hidden)
    if batch_first:
        whole = op.permute_dims(whole, [2, 0, 1, 3])
    results = [whole]
    axis = 1 if batch_first else 0
    for state in zip(*lasts):
        results.append(op.concat([op.expand_dims(part, axis) for part in state], axis))
    return tuple(results)


@converter("RNN")
def _rnn(node: OnnxNode) -> Any:
    def make(recurrence: Recurrence, direction: int) -> Step:
        def step(given: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
            return (recurrence.activate(0, op.add(given, recurrence.from_state(state[0]))),)

        return step

    return _run(node, 1, ["Tanh"], (5,), make)


@converter("GRU")
def _gru(node: OnnxNode) -> Any:
    before = node.flag("linear_before_reset")

    def make(recurrence: Recurrence, direction: int) -> Step:
        def step(given: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
            hidden = state[0]
            two = recurrence.from_state(hidden, 0, 2)
            update, reset = [
                recurrence.activate(0, op.add(recurrence.gate(given, i), recurrence.gate(two, i)))
                for i in range(2)
            ]
            if before:
                candidate = op.multiply(reset, recurrence.from_state(hidden, 2, 3))
            else:
                candidate = recurrence.from_state(node.emit(op.multiply(reset, hidden)), 2, 3)
            new = recurrence.activate(1, op.add(recurrence.gate(given, 2), candidate))
            kept = op.multiply(update, op.subtract(hidden, new))
            return (node.emit(op.add(new, kept)),)

        return step

    return _run(node, 3, ["Sigmoid", "Tanh"], (5,), make)


@converter("LSTM")
def _lstm(node: OnnxNode) -> Any:
    coupled = node.flag("input_forget")

    def make(recurrence: Recurrence, direction: int) -> Step:
        peepholes = _peepholes(node, recurrence, direction)

        def with_cell(total: Any, gate: int, cell: Any) -> Any:
            part = recurrence.gate(total, gate)
            weights = peepholes.get(gate)
            return part if weights is None else op.add(part, op.multiply(weights, cell))

        def step(given: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
            hidden, cell = state
            total = node.emit(op.add(given, recurrence.from_state(hidden)))
            entry = recurrence.activate(0, with_cell(total, 0, cell))
            if coupled:
                forget = op.subtract(scalar(1, dtype_of(cell)), entry)
            else:
                forget = recurrence.activate(0, with_cell(total, 2, cell))
            candidate = recurrence.activate(1, recurrence.gate(total, 3))
            cell = node.emit(op.add(op.multiply(forget, cell), op.multiply(entry, candidate)))
            exit_gate = recurrence.activate(0, with_cell(total, 1, cell))
            limited = recurrence.activations[2](cell)
            return node.emit(op.multiply(exit_gate, limited)), cell

        return step

    return _run(node, 4, ["Sigmoid", "Tanh", "Tanh"], (5, 6), make)


def _peepholes(node: OnnxNode, recurrence: Recurrence, direction: int) -> dict[int, Any]:
    """Return gate → weights of the cell: input, output, forget gate in this order."""
    if not node.has(7):
        return {}
    weights = recurrence.of_direction(7, direction)
    size = recurrence.hidden
    return {gate: recurrence.part(weights, 0, gate * size, (gate + 1) * size) for gate in range(3)}
