"""Recurrent layers, unrolled over the steps of their input."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relay import op
from tilesmith.relay.expr import const
from tilesmith.relay.frontend.cells import gru_cell, lstm_cell, rnn_cell
from tilesmith.relay.frontend.keras.activation import activation_of
from tilesmith.relay.frontend.keras.registry import Graph, Value, mapped, plain, raw
from tilesmith.relay.op.tensor import constant_like, dtype_of
from tilesmith.relay.op.view import sizes
from tilesmith.support.errors import OpNotImplemented, ShapeError, UnsupportedError

__all__: list[str] = []


def _steps(x: Any) -> list[Any]:
    count = sizes(x)[1]
    if not isinstance(count, int):
        raise ShapeError(
            "a recurrent layer is unrolled: the number of steps has to be known",
            notes=("give the input its shape: shape={name: (1, 20, 8)}",),
        )
    if count == 1:
        return [op.squeeze(x, [1])]
    return [op.squeeze(one, [1]) for one in op.split(x, count, 1)]


def _rows(held: numpy.ndarray) -> numpy.ndarray:
    return held.T


def _simple(graph: Graph, cell: Any, steps: list[Any], states: list[Any], back: bool) -> Any:
    outputs, state = rnn_cell(
        steps, states[0], graph.weight(cell, "kernel", _rows),
        graph.weight(cell, "recurrent_kernel", _rows),
        graph.weight(cell, "bias") if cell.use_bias else None,
        backwards=back, act=activation_of(graph, cell),
    )  # fmt: skip
    return outputs, [state]


def _lstm(graph: Graph, cell: Any, steps: list[Any], states: list[Any], back: bool) -> Any:
    gate = activation_of(graph, cell, "recurrent_activation")
    act = activation_of(graph, cell)
    outputs, state, memory = lstm_cell(
        steps, states[0], states[1], graph.weight(cell, "kernel", _rows),
        graph.weight(cell, "recurrent_kernel", _rows),
        graph.weight(cell, "bias") if cell.use_bias else None,
        f_act=gate, g_act=act, h_act=act, backwards=back,
    )  # fmt: skip
    return outputs, [state, memory]


def _gru(graph: Graph, cell: Any, steps: list[Any], states: list[Any], back: bool) -> Any:
    def gates(held: numpy.ndarray) -> numpy.ndarray:
        """Put the reset gate before the update gate, and gates in rows."""
        update, reset, new = numpy.split(held, 3, axis=-1)
        return numpy.concatenate([reset, update, new], axis=-1).T

    b_inp = b_hid = None
    if cell.use_bias:
        both = gates(graph.array(cell, "bias")).T
        b_inp, b_hid = (const(both[0]), const(both[1])) if cell.reset_after else (const(both), None)
    outputs, state = gru_cell(
        steps, states[0], graph.weight(cell, "kernel", gates),
        graph.weight(cell, "recurrent_kernel", gates), b_inp, b_hid,
        activation_of(graph, cell, "recurrent_activation"), activation_of(graph, cell), back,
        linear_before_reset=bool(cell.reset_after),
    )  # fmt: skip
    return outputs, [state]


_CELLS = {
    "GRUCell": (_gru, 1),
    "LSTMCell": (_lstm, 2),
    "SimpleRNNCell": (_simple, 1),
}
"""Class of a cell → its function and the number of its states."""


@plain("GRU", "LSTM", "RNN", "SimpleRNN")
def _recurrent(graph: Graph, layer: Any, x: Any, initial_state: Any = None) -> Any:
    cells = list(getattr(layer.cell, "cells", None) or [layer.cell])
    given = [] if initial_state is None else initial_state
    given = list(given) if isinstance(given, (list, tuple)) else [given]
    if given and isinstance(given[0], (list, tuple)):
        given = [state for one in given for state in one]
    steps, back, last = _steps(x), bool(layer.go_backwards), []
    for cell in cells:
        function, count = _cell(layer, cell)
        states = given[:count] or [_zeros(x, int(cell.units))] * count
        given = given[count:]
        steps, states = function(graph, cell, steps, states, back)
        back = False  # what it gives is in the order of its steps
        last.append(states)
    result = op.stack(steps, 1) if layer.return_sequences else steps[-1]
    if not layer.return_state:
        return result
    kept = [state for one in last for state in one] if len(cells) == 1 else last
    return [result, *kept]


def _cell(layer: Any, cell: Any) -> Any:
    kind = type(cell).__name__
    if kind not in _CELLS or not type(cell).__module__.startswith("keras."):
        raise OpNotImplemented(f"the cell {kind} of the layer '{layer.name}' cannot be imported")
    return _CELLS[kind]


def _zeros(x: Any, units: int) -> Any:
    batch = sizes(x)[0]
    if isinstance(batch, int):
        return op.zeros((batch, units), str(dtype_of(x)))
    first = op.take(x, const(0), 1)
    zero = op.sum(first, [-1], True) * constant_like(0, x)
    return op.repeat(zero, units, 1)


@raw("Bidirectional")
def _bidirectional(graph: Graph, layer: Any, x: Value, initial_state: Any = None) -> Any:
    states: list[Any] = [{}, {}]
    if initial_state is not None:
        half = len(initial_state) // 2
        states = [
            {"initial_state": list(initial_state[:half])},
            {"initial_state": list(initial_state[half:])},
        ]
    forward = graph.call(layer.forward_layer, x, **states[0])
    backward = graph.call(layer.backward_layer, x, **states[1])
    last: list[Any] = []
    if layer.return_state:
        last = [*forward[1:], *backward[1:]]
        forward, backward = forward[0], backward[0]
    a, b = forward.plain(), backward.plain()
    if layer.return_sequences:
        b = op.reverse(b, 1)
    if layer.merge_mode is None:
        return [Value(a), Value(b), *last]
    merged = Value(_merged(layer, a, b))
    return [merged, *last] if last else merged


def _merged(layer: Any, a: Any, b: Any) -> Any:
    if layer.merge_mode == "concat":
        return op.concatenate([a, b], -1)
    if layer.merge_mode == "mul":
        return a * b
    total = a + b
    return total / constant_like(2, total) if layer.merge_mode == "ave" else total


@raw("TimeDistributed")
def _time_distributed(graph: Graph, layer: Any, x: Value) -> Any:
    """Let the steps be a part of the batch for the layer inside."""
    plain_x = x.plain()
    whole = sizes(plain_x)
    if not all(isinstance(size, int) for size in whole[:2]):
        raise UnsupportedError(f"the layer '{layer.name}': batch and steps have to be known")
    rows = op.reshape(plain_x, (whole[0] * whole[1], *whole[2:]))
    found = graph.call(layer.layer, Value(rows))

    def restored(value: Value) -> Value:
        expr = value.plain()
        return Value(op.reshape(expr, (whole[0], whole[1], *sizes(expr)[1:])))

    return mapped(found, restored)
