"""Recurrent cells, unrolled over a list of steps.

Steps have the shape (batch, features), states (batch, hidden); the rows of a weight belong to the
gates, one after the other. The outputs are in the order in which steps are taken: from the last one
with ``backwards``.

Cho et al.: Learning phrase representations using RNN encoder-decoder, 2014. Hochreiter,
Schmidhuber: Long short-term memory, 1997. Gers, Schmidhuber: Recurrent nets that time and count,
2000 (peepholes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilesmith.relay import op
from tilesmith.relay.expr import const

__all__ = ["gru_cell", "lstm_cell", "rnn_cell"]

Act = Callable[[Any], Any]


def _steps(inputs: Sequence[Any], backwards: bool) -> Iterator[tuple[int, Any]]:
    numbered = list(enumerate(inputs))
    return iter(numbered[::-1] if backwards else numbered)


def _product(x: Any, weight: Any, bias: Any) -> Any:
    found = op.nn.dense(x, weight)
    return found if bias is None else op.add(found, bias)


def rnn_cell(
    input_seqs: Sequence[Any],
    hidden_state: Any,
    w_inp: Any,
    w_hid: Any,
    b_inp: Any = None,
    b_hid: Any = None,
    backwards: bool = False,
    act: Act = op.tanh,
) -> tuple[list[Any], Any]:
    """Return the outputs of ``h = act(x @ w_inp.T + b_inp + h @ w_hid.T + b_hid)``, and the last
    state.
    """
    outputs = []
    for _, x in _steps(input_seqs, backwards):
        hidden_state = act(_product(x, w_inp, b_inp) + _product(hidden_state, w_hid, b_hid))
        outputs.append(hidden_state)
    return outputs, hidden_state


def gru_cell(
    input_seqs: Sequence[Any],
    hidden_state: Any,
    w_inp: Any,
    w_hid: Any,
    b_inp: Any = None,
    b_hid: Any = None,
    rz_act: Act = op.sigmoid,
    n_act: Act = op.tanh,
    backwards: bool = False,
    linear_before_reset: bool = True,
    sequence_lens: Any = None,
) -> tuple[list[Any], Any]:
    """Return the outputs of gated units and the last state; the gates are reset, update, new.

    ``linear_before_reset``: the reset gate acts on ``h @ w.T + b``, else on ``h``. From its length
    on (``sequence_lens``, one for each of the batch) a sequence keeps its state and gives 0.
    """
    w_reset_update, w_new = _gates(w_hid, 3)
    b_reset_update, b_new = (None, None) if b_hid is None else _gates(b_hid, 3)
    outputs = []
    for number, x in _steps(input_seqs, backwards):
        x_reset, x_update, x_new = op.split(_product(x, w_inp, b_inp), 3, axis=-1)
        h_both = _product(hidden_state, w_reset_update, b_reset_update)
        h_reset, h_update = op.split(h_both, 2, axis=-1)
        reset, update = rz_act(x_reset + h_reset), rz_act(x_update + h_update)
        if linear_before_reset:
            change = reset * _product(hidden_state, w_new, b_new)
        else:
            change = _product(reset * hidden_state, w_new, b_new)
        new = n_act(x_new + change)
        following = new + update * (hidden_state - new)
        if sequence_lens is None:
            hidden_state = following
            outputs.append(hidden_state)
            continue
        lengths = op.expand_dims(sequence_lens, 1)
        runs = op.less(op.full_like(lengths, const(number, _dtype(sequence_lens))), lengths)
        hidden_state = op.where(runs, following, hidden_state)
        outputs.append(op.where(runs, following, op.zeros_like(following)))
    return outputs, hidden_state


def _gates(weight: Any, count: int) -> tuple[Any, Any]:
    """Return the rows of all gates but the last one, and those of the last one."""
    rows = list(op.split(weight, count, axis=0))
    return op.concatenate(rows[:-1], axis=0), rows[-1]


def _dtype(expr: Any) -> str:
    return str(op.tensor.dtype_of(expr))


def lstm_cell(
    input_seqs: Sequence[Any],
    hidden_state: Any,
    cell_state: Any,
    w_inp: Any,
    w_hid: Any,
    b_inp: Any = None,
    b_hid: Any = None,
    proj: Any = None,
    p_i: Any = None,
    p_f: Any = None,
    p_o: Any = None,
    f_act: Act = op.sigmoid,
    g_act: Act = op.tanh,
    h_act: Act = op.tanh,
    backwards: bool = False,
) -> tuple[list[Any], Any, Any]:
    """Return the outputs of cells with a memory, the last state and the last memory; the gates are
    input, forget, change, output.

    ``p_i``, ``p_f``, ``p_o`` let the gates see the memory; ``proj`` makes a smaller state of each
    output.
    """
    outputs = []
    for _, x in _steps(input_seqs, backwards):
        gates = _product(x, w_inp, b_inp) + _product(hidden_state, w_hid, b_hid)
        enter, forget, change, leave = op.split(gates, 4, axis=-1)
        if p_i is not None and p_f is not None:
            enter, forget = enter + p_i * cell_state, forget + p_f * cell_state
        cell_state = f_act(forget) * cell_state + f_act(enter) * g_act(change)
        if p_o is not None:
            leave = leave + p_o * cell_state
        hidden_state = f_act(leave) * h_act(cell_state)
        if proj is not None:
            hidden_state = op.nn.dense(hidden_state, proj)
        outputs.append(hidden_state)
    return outputs, hidden_state, cell_state
