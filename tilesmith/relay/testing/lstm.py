"""A recurrent network whose cells have a long and a short memory.

Hochreiter, Schmidhuber: Long short-term memory, 1997.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relay.expr import Call, Tuple, TupleGetItem, var
from tilesmith.relay.function import Function
from tilesmith.relay.op import nn, sigmoid, split, tanh, zeros
from tilesmith.relay.scope_builder import ScopeBuilder
from tilesmith.relay.testing.init import create_workload
from tilesmith.relay.ty import TensorType, TupleType

__all__ = ["get_net", "get_workload", "lstm_cell"]


def lstm_cell(
    num_hidden: int, batch_size: int = 1, dtype: str = "float32", name: str = ""
) -> Function:
    """Return the function of an input, the state (output and memory), the weights and biases of
    the input and of the output before; it gives the output and the new state.

    The rows of the weights are those of the gates: input, forget, change, output.
    """
    hidden = TensorType((batch_size, num_hidden), dtype)
    state_type = TupleType([hidden, hidden])
    weight = TensorType((4 * num_hidden, num_hidden), dtype)
    bias = TensorType((4 * num_hidden,), dtype)
    inputs, states = var("inputs", hidden), var("states", state_type)
    i2h_weight, i2h_bias = var("i2h_weight", weight), var("i2h_bias", bias)
    h2h_weight, h2h_bias = var("h2h_weight", weight), var("h2h_bias", bias)
    builder = ScopeBuilder()

    def named(what: str, value: Any) -> Any:
        return builder.let(f"{name}_{what}" if name else what, value)

    units = 4 * num_hidden
    from_input = named("i2h", nn.bias_add(nn.dense(inputs, i2h_weight, units), i2h_bias, axis=-1))
    before = TupleGetItem(states, 0)
    from_hidden = named("h2h", nn.bias_add(nn.dense(before, h2h_weight, units), h2h_bias, axis=-1))
    gates = named("gates", split(from_input + from_hidden, 4, axis=1).astuple())
    enter = named("in_gate", sigmoid(TupleGetItem(gates, 0)))
    forget = named("forget_gate", sigmoid(TupleGetItem(gates, 1)))
    change = named("in_transform", tanh(TupleGetItem(gates, 2)))
    leave = named("out_gate", sigmoid(TupleGetItem(gates, 3)))
    memory = named("next_c", forget * TupleGetItem(states, 1) + enter * change)
    output = named("next_h", leave * tanh(memory))
    builder.ret(Tuple([output, Tuple([output, memory])]))
    params = [inputs, states, i2h_weight, i2h_bias, h2h_weight, h2h_bias]
    return Function(params, builder.get(), TupleType([hidden, state_type]))


def get_net(
    iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32"
) -> Function:
    """Return the function of ``data``, which enters each cell, and of each cell's weights."""
    hidden = TensorType((batch_size, num_hidden), dtype)
    state_type = TupleType([hidden, hidden])
    weight = TensorType((4 * num_hidden, num_hidden), dtype)
    bias = TensorType((4 * num_hidden,), dtype)
    builder = ScopeBuilder()
    nothing = builder.let(("zeros", hidden), zeros((batch_size, num_hidden), dtype))
    states: Any = builder.let(("init_states", state_type), Tuple([nothing, nothing]))
    data, found = var("data", hidden), nothing
    params = [data]
    for step in range(iterations):
        own = [
            var(f"{source}_{step}_{kind}", type_)
            for source in ("i2h", "h2h")
            for kind, type_ in (("weight", weight), ("bias", bias))
        ]
        cell = lstm_cell(num_hidden, batch_size, dtype, f"lstm_{step}")
        result = builder.let(f"call_{step}", Call(cell, [data, states, *own]))
        found = builder.let((f"out_{step}", hidden), TupleGetItem(result, 0))
        states = builder.let((f"states_{step}", state_type), TupleGetItem(result, 1))
        params += own
    builder.ret(found)
    return Function(params, builder.get(), hidden)


def get_workload(
    iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32"
) -> tuple[IRModule, dict[str, Any]]:
    """Return the module of the network, and values of its parameters."""
    return create_workload(get_net(iterations, num_hidden, batch_size, dtype))
