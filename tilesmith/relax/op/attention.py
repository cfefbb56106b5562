"""Attention, and losses."""

from __future__ import annotations

import math
from typing import Any

import numpy

from tilesmith.ir import IntImm
from tilesmith.relax.attrs import (
    Schema,
    integer,
    optional_integer,
    optional_number,
    text,
)
from tilesmith.relax.expr import Call, const, known_struct_info
from tilesmith.relax.op.activation import softmax
from tilesmith.relax.op.agreement import attention_sizes, loss_sizes
from tilesmith.relax.op.backward import composed
from tilesmith.relax.op.common import (
    check_dtypes,
    check_ndim,
    prove_equal,
    result,
    size_text,
    sizes_of,
    tensor,
)
from tilesmith.relax.op.declaration import define
from tilesmith.relax.op.elementwise import multiply, where
from tilesmith.relax.op.grad import nll_loss_backward
from tilesmith.relax.op.linear_algebra import matmul
from tilesmith.relax.op.linear_maps import constant_sizes
from tilesmith.relax.op.manipulate import permute_dims
from tilesmith.relax.spec import Precision
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, UnsupportedError


def _infer_attention(call: Call) -> Any:
    if call.attrs.window_size is not None:
        raise OpAttributeInvalid("nn.attention: window_size is not supported; pass a bias instead")
    query, key, value = (tensor(call, index) for index in range(3))
    for index, info in enumerate((query, key, value)):
        check_ndim(call, index, info, 4)
    dtype = check_dtypes(call, (query, key, value))
    q, k, v = sizes_of(query), sizes_of(key), sizes_of(value)
    if q is None or k is None or v is None:
        return result(None, dtype, 4)
    if not prove_equal(q[3], k[3]):
        raise ShapeError(
            f"nn.attention: head sizes of query ({size_text(q[3])}) and key ({size_text(k[3])}) "
            f"differ"
        )
    if not prove_equal(k[1], v[1]):
        raise ShapeError(f"nn.attention: {size_text(k[1])} keys but {size_text(v[1])} values")
    return result([q[0], q[1], q[2], v[3]], dtype)


def _attention(attrs: Any, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
    q, k, v = (x.transpose(0, 2, 1, 3).astype("float64") for x in (query, key, value))
    scale = attrs.scale if attrs.scale is not None else 1 / math.sqrt(query.shape[-1])
    scores = q @ k.transpose(0, 1, 3, 2) * scale
    if bias is not None:
        scores = scores + bias
    if attrs.causal_mask is not None:
        rows, columns = scores.shape[-2:]
        offset = columns - rows if attrs.causal_mask == "BottomRight" else 0
        mask = numpy.arange(columns)[None] > numpy.arange(rows)[:, None] + offset
        scores = numpy.where(mask, -numpy.inf, scores)
    weights = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return (weights @ v).transpose(0, 2, 1, 3).astype(query.dtype)


def _composed_attention(
    attrs: Any, query: Any, key: Any, value: Any, bias: Any | None = None
) -> Any:
    """Compute attention by products and a softmax, of which its gradient is made."""
    info: Any = known_struct_info(query)
    q, k, v = [permute_dims(one, [0, 2, 1, 3]) for one in (query, key, value)]
    scale = attrs.scale
    if scale is None:
        scale = 1 / math.sqrt(int(constant_sizes(query, "nn.attention")[3]))
    scores: Any = multiply(matmul(q, permute_dims(k, [0, 1, 3, 2])), const(scale, info.dtype))
    if bias is not None:
        scores = scores + bias
    if attrs.causal_mask is not None:
        rows, columns = [constant_sizes(one, "nn.attention")[1] for one in (query, key)]
        offset = columns - rows if attrs.causal_mask == "BottomRight" else 0
        hidden = numpy.arange(columns)[None] > numpy.arange(rows)[:, None] + offset
        scores = where(const(hidden), const(float("-inf"), info.dtype), scores)
    return permute_dims(matmul(softmax(scores), v), [0, 2, 1, 3])


attention = define(
    "nn.attention",
    "query key value bias?",
    _infer_attention,
    description="""Scaled dot-product attention of tensors (batch, sequence, heads, head size).

    ``scale`` defaults to ``1 / sqrt(head size)``; ``causal_mask`` is "TopLeft" or "BottomRight".
    """,
    schema=Schema(scale=optional_number(), causal_mask=text(None), window_size=optional_integer()),
    agreeing=attention_sizes,
    compute="topi.nn.attention",
    gradient=composed(_composed_attention),
    precision=Precision.ALWAYS,
    evaluate=_attention,
)


# Losses


def _infer_cross_entropy(call: Call) -> Any:
    info = tensor(call, 0)
    tensor(call, 1)
    return result([], info.dtype)


def _cross_entropy(attrs: Any, predictions: Any, labels: Any) -> Any:
    total = -(predictions * labels).sum()
    return total / (predictions.shape[0] if predictions.ndim > 1 else 1)


def _cross_entropy_gradient(
    orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any
) -> list[Any]:
    """Return -g labels / batch and -g predictions / batch."""
    predictions, labels = orig_call.args
    sizes = sizes_of(known_struct_info(predictions))
    grad = -output_grad
    if len(sizes) > 1:
        if not isinstance(sizes[0], IntImm):
            raise UnsupportedError(
                "the gradient of cross_entropy_with_logits needs a constant batch"
            )
        grad = grad / sizes[0].value
    return [grad * labels, grad * predictions]


cross_entropy_with_logits = define(
    "nn.cross_entropy_with_logits",
    "predictions labels",
    _infer_cross_entropy,
    description="Minus the mean over the batch of the sums of ``predictions * labels``.",
    compute="topi.nn.cross_entropy_with_logits",
    evaluate=_cross_entropy,
    gradient=_cross_entropy_gradient,
)


def _infer_nll_loss(call: Call) -> Any:
    info, targets = tensor(call, 0), tensor(call, 1)
    if call.attrs.reduction == "none":
        return result(sizes_of(targets), info.dtype, targets.ndim)
    if call.attrs.reduction not in ("mean", "sum"):
        raise OpAttributeInvalid("nn.nll_loss: reduction is 'mean', 'sum' or 'none'")
    return result([], info.dtype)


def _nll_loss(attrs: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
    classes = predictions.shape[1 if predictions.ndim > 1 else 0]
    weights = numpy.ones(classes, predictions.dtype) if weights is None else weights
    used = targets != attrs.ignore_index
    chosen = numpy.where(used, targets, 0)
    if predictions.ndim == 1:
        picked = predictions[chosen]
    else:
        picked = numpy.take_along_axis(predictions, numpy.expand_dims(chosen, 1), 1).squeeze(1)
    factor = numpy.where(used, weights[chosen], 0)
    losses = -picked * factor
    if attrs.reduction == "none":
        return losses
    return losses.sum() / factor.sum() if attrs.reduction == "mean" else losses.sum()


def _nll_loss_gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Return the gradient of the predictions."""
    attrs = orig_call.attrs
    by_predictions = nll_loss_backward(
        output_grad, *orig_call.args, reduction=attrs.reduction, ignore_index=attrs.ignore_index
    )
    return [by_predictions, *[None] * (len(orig_call.args) - 1)]


nll_loss = define(
    "nn.nll_loss",
    "predictions targets weights?",
    _infer_nll_loss,
    description='The negative log-likelihood loss; ``reduction`` is "mean", "sum" or "none".',
    schema=Schema(reduction=text("mean"), ignore_index=integer(-100)),
    agreeing=loss_sizes(0),
    compute="topi.nn.nll_loss",
    evaluate=_nll_loss,
    gradient=_nll_loss_gradient,
)
