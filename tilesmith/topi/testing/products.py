"""Products, attention, recurrent layers and losses in numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilesmith.support.errors import UnsupportedError

__all__ = ["attention_python", "batch_matmul", "dense", "lstm_python", "nll_loss"]


def dense(
    x: np.ndarray,
    y: np.ndarray,
    bias: np.ndarray | None,
    use_bias: bool = False,
    use_relu: bool = False,
    out_dtype: Any = None,
) -> np.ndarray:
    """Return ``x @ y.T``, with a bias and without what is negative where asked for."""
    dtype = x.dtype if out_dtype is None else np.dtype(out_dtype)
    result = x.astype(dtype) @ y.astype(dtype).T
    if use_bias and bias is not None:
        result = result + bias.astype(dtype)
    return np.maximum(result, 0) if use_relu else result


def batch_matmul(
    x: np.ndarray,
    y: np.ndarray,
    out_dtype: Any = None,
    trans_x: bool = False,
    trans_y: bool = True,
) -> np.ndarray:
    """Multiply the matrices of two batches, one of which may have a single matrix."""
    left = x.swapaxes(1, 2) if trans_x else x
    right = y.swapaxes(1, 2) if trans_y else y
    dtype = x.dtype if out_dtype is None else np.dtype(out_dtype)
    return np.matmul(left.astype(dtype), right.astype(dtype))


def attention_python(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    bias: np.ndarray | None,
    qk_scale: float | None,
    causal: str | None,
    window_size: int | None = None,
    layout: str = "BSNH",
) -> np.ndarray:
    """Return ``softmax(q k' * scale + bias) v`` for each head; heads of k and v may serve several.

    ``causal``: "TopLeft" or "BottomRight", where the triangle of what is seen begins;
    ``window_size`` limits how far back it reaches. ``layout``: the axes of all four arrays.
    """
    order = [layout.index(letter) for letter in "BNSH"]
    queries, keys, values = [array.transpose(order) for array in (q, k, v)]
    shared = queries.shape[1] // keys.shape[1]
    keys, values = [np.repeat(array, shared, 1) for array in (keys, values)]
    scale = 1 / math.sqrt(queries.shape[-1]) if qk_scale is None else qk_scale
    scores = np.einsum("bnsh,bnth->bnst", queries, keys).astype("float64") * scale
    if bias is not None:
        scores = scores + bias
    rows, columns = scores.shape[-2:]
    if causal not in (None, "none", "TopLeft", "BottomRight"):
        raise UnsupportedError(f"attention: causal '{causal}' is neither TopLeft nor BottomRight")
    distance = np.arange(columns) - np.arange(rows)[:, None]
    if causal == "BottomRight":
        distance = distance - (columns - rows)
    if causal in ("TopLeft", "BottomRight"):
        scores = np.where(distance <= 0, scores, -np.inf)
    if window_size is not None:
        scores = np.where(distance > -window_size, scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    weights = powers / powers.sum(-1, keepdims=True)
    made = np.einsum("bnst,bnth->bnsh", weights, values).astype(q.dtype)
    return made.transpose(np.argsort(order))


def nll_loss(
    predictions: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> np.ndarray:
    """Return the weighted negative prediction of the target class (the second axis): of each place
    ("none"), summed, or as the weighted mean.
    """
    used = targets != ignore_index
    classes = np.where(used, targets, 0)
    chosen = np.take_along_axis(predictions, classes[:, None], 1)[:, 0]
    own = np.where(used, weights[classes], 0)
    loss = -chosen * own
    if reduction == "none":
        return loss
    return np.asarray(loss.sum() / own.sum() if reduction == "mean" else loss.sum())


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
}


def lstm_python(
    Xs: np.ndarray,
    Wi: np.ndarray,
    Wh: np.ndarray,
    Bi: np.ndarray | None = None,
    Bh: np.ndarray | None = None,
    h_init: np.ndarray | None = None,
    c_init: np.ndarray | None = None,
    proj: np.ndarray | None = None,
    p_i: np.ndarray | None = None,
    p_f: np.ndarray | None = None,
    p_o: np.ndarray | None = None,
    f_act: str = "sigmoid",
    g_act: str = "tanh",
    h_act: str = "tanh",
    reverse: bool = False,
    weight_layout: str = "IFGO",
) -> tuple[np.ndarray, np.ndarray]:
    """Run a recurrent layer over (time, batch, inputs); return the hidden states and the cell
    states of all times.

    The rows of the weights stand in the order of the gates in ``weight_layout``. ``p_*`` are
    weights of the cell state for gates, ``proj`` maps the hidden state to a smaller one.
    """
    gate, cell, output = [_ACTIVATIONS[name] for name in (f_act, g_act, h_act)]
    size, batch = Wi.shape[0] // 4, Xs.shape[1]
    h = np.zeros((batch, Wh.shape[1]), Xs.dtype) if h_init is None else h_init
    c = np.zeros((batch, size), Xs.dtype) if c_init is None else c_init
    hidden, cells = [], []
    for x in Xs[::-1] if reverse else Xs:
        parts = x @ Wi.T + h @ Wh.T
        for bias in (Bi, Bh):
            parts = parts if bias is None else parts + bias
        own = dict(zip(weight_layout, np.split(parts, 4, 1)))
        i = gate(own["I"] if p_i is None else own["I"] + p_i * c)
        f = gate(own["F"] if p_f is None else own["F"] + p_f * c)
        c = f * c + i * cell(own["G"])
        o = gate(own["O"] if p_o is None else own["O"] + p_o * c)
        h = o * output(c)
        h = h if proj is None else h @ proj.T
        hidden.append(h)
        cells.append(c)
    return np.stack(hidden), np.stack(cells)
