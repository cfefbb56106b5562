"""Recurrent operators, unrolled over the steps of their input."""

from __future__ import annotations

from typing import Any

from tilesmith.relay import op
from tilesmith.relay.frontend.cells import lstm_cell, rnn_cell
from tilesmith.relay.frontend.common import unbind
from tilesmith.relay.frontend.tflite.registry import operator
from tilesmith.relay.op.view import sizes
from tilesmith.support.errors import OpAttributeUnImplemented

__all__: list[str] = []


def _steps(x: Any, time_major: bool) -> list[Any]:
    axis = 0 if time_major else 1
    return [op.squeeze(x, [axis])] if sizes(x)[axis] == 1 else list(unbind(x, axis))


def _activation(converter: Any, options: Any) -> Any:
    kind = options.FusedActivationFunction
    return lambda x: converter.convert_fused_activation_function(x, kind)


def _state(x: Any, units: int, time_major: bool) -> Any:
    return op.zeros((sizes(x)[1 if time_major else 0], units), "float32")


@operator("UNIDIRECTIONAL_SEQUENCE_LSTM")
def _lstm(converter: Any, one: Any) -> Any:
    inputs = converter.get_input_tensors(one)
    inputs += [None] * (24 - len(inputs))
    options = converter.options(one)
    if inputs[1] is None or any(wrapper is not None for wrapper in inputs[20:24]):
        raise OpAttributeUnImplemented("an LSTM with coupled gates or layer normalisation")
    if options.CellClip or options.ProjClip or inputs[17] is not None:
        raise OpAttributeUnImplemented("an LSTM that clips its states or projects with a bias")
    if inputs[0].qnn_params is not None:
        raise OpAttributeUnImplemented("an LSTM on integers: import the model of floats")

    def joined(first: int) -> Any:
        return op.concatenate([converter.number(one) for one in inputs[first : first + 4]], 0)

    def numbers(place: int) -> Any:
        return None if inputs[place] is None else converter.number(inputs[place])

    x = converter.number(inputs[0])
    major = bool(options.TimeMajor)
    units = converter.get_tensor_shape(inputs[2])[0]
    width = units if inputs[16] is None else converter.get_tensor_shape(inputs[16])[0]
    act = _activation(converter, options)
    outputs, _, _ = lstm_cell(
        _steps(x, major), _state(x, width, major), _state(x, units, major), joined(1), joined(5),
        joined(12), proj=numbers(16), p_i=numbers(9), p_f=numbers(10), p_o=numbers(11),
        g_act=act, h_act=act,
    )  # fmt: skip
    return op.stack(outputs, 0 if major else 1)


@operator("UNIDIRECTIONAL_SEQUENCE_RNN")
def _rnn(converter: Any, one: Any) -> Any:
    data, weight, recurrent, bias, _ = converter.get_input_tensors(one)
    options = converter.options(one)
    x, major = converter.number(data), bool(options.TimeMajor)
    outputs, _ = rnn_cell(
        _steps(x, major), _state(x, converter.get_tensor_shape(weight)[0], major),
        converter.number(weight), converter.number(recurrent), converter.number(bias),
        act=_activation(converter, options),
    )  # fmt: skip
    return op.stack(outputs, 0 if major else 1)
