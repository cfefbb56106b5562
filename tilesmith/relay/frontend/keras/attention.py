"""Attention: of several heads, by products, and additive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from tilesmith.relay import op
from tilesmith.relay.expr import const
from tilesmith.relay.frontend.images import dense, matmul
from tilesmith.relay.frontend.keras.registry import Graph, plain
from tilesmith.relay.op.tensor import constant_like, dtype_of
from tilesmith.relay.op.view import rank_of, sizes
from tilesmith.support.errors import UnsupportedError

__all__: list[str] = []


def _masked(scores: Any, mask: Any) -> Any:
    """Return scores that are very small where a mask does not hold."""
    if mask is None:
        return scores
    held = op.broadcast_to(op.cast(mask, "bool"), sizes(scores))
    low = constant_like(-65504.0 if str(dtype_of(scores)) == "float16" else -1e9, scores)
    return op.where(held, scores, op.full_like(scores, low))


def _causal(rows: int, columns: int) -> Any:
    return const(numpy.tril(numpy.ones((rows, columns), bool)))


# Several heads


def _projection(layer: Any, name: str) -> Any:
    """Return the dense layer inside of a layer of several heads: not all have public ones."""
    return getattr(layer, f"_{name}_dense")


def _projected(graph: Graph, layer: Any, x: Any, count: int) -> Any:
    """Return the product with a kernel of (features, heads, size): (batch, heads, steps, size)."""
    heads, size = (int(one) for one in layer.kernel.shape[1:])
    kernel = graph.weight(layer, "kernel", lambda held: held.reshape(held.shape[0], -1).T)
    found = dense(x, kernel)
    if layer.bias is not None:
        found = op.nn.bias_add(found, graph.weight(layer, "bias", lambda held: held.reshape(-1)), 2)
    found = op.reshape(found, (*sizes(x)[:2], heads, size))
    if heads != count:  # groups of queries share a key
        found = op.repeat(found, count // heads, 2)
    return op.transpose(found, [0, 2, 1, 3])


def _attend(query: Any, key: Any, value: Any, scale: float, mask: Any) -> tuple[Any, Any]:
    """Return the mixed values and the weights of (batch, heads, steps, size)."""
    scores = matmul(query * constant_like(scale, query), key, False, True)
    weights = op.nn.softmax(_masked(scores, mask), -1)
    return matmul(weights, value), weights


def _heads_mask(query: Any, key: Any, mask: Any, causal: bool) -> Any:
    if mask is not None:
        mask = op.cast(mask, "bool")
        while rank_of(mask) < 4:
            mask = op.expand_dims(mask, 1 if rank_of(mask) >= 3 else 0)
    if causal:
        lower = _causal(int(sizes(query)[1]), int(sizes(key)[1]))
        mask = lower if mask is None else op.logical_and(mask, lower)
    return mask


@plain("MultiHeadAttention", "GroupQueryAttention", "GroupedQueryAttention")
def _multi_head(
    graph: Graph, layer: Any, query: Any, value: Any, key: Any = None, query_mask: Any = None,
    value_mask: Any = None, key_mask: Any = None, attention_mask: Any = None,
    return_attention_scores: bool = False, use_causal_mask: bool = False,
) -> Any:  # fmt: skip
    key = value if key is None else key
    _check_heads(layer, query, (query_mask, value_mask, key_mask))
    mask = _heads_mask(query, key, attention_mask, use_causal_mask)
    count = int(_projection(layer, "query").kernel.shape[1])
    size = int(_projection(layer, "query").kernel.shape[2])
    found, weights = _attend(
        _projected(graph, _projection(layer, "query"), query, count),
        _projected(graph, _projection(layer, "key"), key, count),
        _projected(graph, _projection(layer, "value"), value, count),
        size**-0.5, mask,
    )  # fmt: skip
    batch, _, steps, _ = sizes(found)
    rows = op.reshape(op.transpose(found, [0, 2, 1, 3]), (batch, steps, -1))
    last = _projection(layer, "output")
    kernel = graph.weight(last, "kernel", lambda held: held.reshape(-1, held.shape[-1]).T)
    result = dense(rows, kernel)
    if last.bias is not None:
        result = op.nn.bias_add(result, graph.weight(last, "bias"), 2)
    return [result, weights] if return_attention_scores else result


def _check_heads(layer: Any, query: Any, masks: Sequence[Any]) -> None:
    def fail(reason: str) -> None:
        raise UnsupportedError(f"the layer '{layer.name}': {reason}")

    if any(mask is not None for mask in masks):
        fail("masks of queries, keys and values are not imported; attention_mask is")
    if rank_of(query) != 3:
        fail("attention over several axes is not imported")
    if getattr(layer, "_use_gate", False) or getattr(layer, "_sliding_window", None) is not None:
        fail("gates and sliding windows are not imported")
    if len(_projection(layer, "output").kernel.shape) != 3:
        fail("an output_shape of several axes is not imported")


# One head


def _product_scores(graph: Graph, layer: Any, query: Any, key: Any) -> Any:
    if layer.score_mode == "dot":
        scores = matmul(query, key, False, True)
        return scores if layer.scale is None else scores * graph.weight(layer, "scale")
    both = op.expand_dims(query, 2) + op.expand_dims(key, 1)
    if layer.scale is not None:
        both = both * graph.weight(layer, "scale")
    return graph.weight(layer, "concat_score_weight") * op.sum(op.tanh(both), [-1])


def _additive_scores(graph: Graph, layer: Any, query: Any, key: Any) -> Any:
    both = op.tanh(op.expand_dims(query, 2) + op.expand_dims(key, 1))
    if layer.use_scale:
        both = both * graph.weight(layer, "scale")
    return op.sum(both, [-1])


def _one_head(scores_of: Callable[..., Any]) -> Callable[..., Any]:
    def convert(
        graph: Graph, layer: Any, inputs: Sequence[Any], return_attention_scores: bool = False,
        use_causal_mask: bool = False,
    ) -> Any:  # fmt: skip
        query, value = inputs[0], inputs[1]
        key = inputs[2] if len(inputs) > 2 else value
        scores = scores_of(graph, layer, query, key)
        if use_causal_mask:
            scores = _masked(scores, _causal(int(sizes(query)[1]), int(sizes(key)[1])))
        weights = op.nn.softmax(scores, -1)
        found = matmul(weights, value)
        return [found, weights] if return_attention_scores else found

    return convert


plain("Attention")(_one_head(_product_scores))
plain("AdditiveAttention")(_one_head(_additive_scores))
