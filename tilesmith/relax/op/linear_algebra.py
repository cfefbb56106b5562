"""Products of matrices."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax.attrs import Schema, dtype, text
from tilesmith.relax.expr import Call, known_struct_info
from tilesmith.relax.op.agreement import einsum_sizes
from tilesmith.relax.op.common import (
    broadcast_sizes,
    check_dtypes,
    prove_equal,
    result,
    size_text,
    sizes_of,
    tensor,
    tensors,
    widened,
)
from tilesmith.relax.op.declaration import define, function
from tilesmith.relax.op.elementwise import add
from tilesmith.relax.op.manipulate import permute_dims
from tilesmith.relax.op.scatter import collapsed, shape_like
from tilesmith.relax.op.views import expand_dims, reshape
from tilesmith.relax.relations import describe, surely_different
from tilesmith.relax.spec import Precision, topi
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, UnsupportedError


def _matmul_dtype(call: Call, infos: Any) -> Any:
    if call.attrs.out_dtype is not None:
        return call.attrs.out_dtype
    return check_dtypes(call, infos)


def _infer_matmul(call: Call) -> Any:
    a, b = tensor(call, 0), tensor(call, 1)
    out = _matmul_dtype(call, (a, b))
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul needs at least one dimension, got {describe(a)}, {describe(b)}")
    if a.ndim == -1 or b.ndim == -1:
        return result(None, out)
    ndim = max(a.ndim, b.ndim) - (a.ndim == 1) - (b.ndim == 1)
    left, right = sizes_of(a), sizes_of(b)
    if left is None or right is None:
        return result(None, out, ndim)
    inner_left = left[-1]
    inner_right = right[0] if len(right) == 1 else right[-2]
    if not prove_equal(inner_left, inner_right) and surely_different(inner_left, inner_right):
        raise ShapeError(
            f"matmul: the last size of the first tensor ({size_text(inner_left)}) differs from "
            f"the one of the "
            f"second that it meets ({size_text(inner_right)}): {describe(a)}, {describe(b)}"
        )
    batch = broadcast_sizes(call, left[:-2], right[:-2])
    if batch is None:
        return result(None, out, ndim)
    rows = [left[-2]] if len(left) > 1 else []
    columns = [right[-1]] if len(right) > 1 else []
    return result([*batch, *rows, *columns], out)


def _matmul(attrs: Any, a: Any, b: Any) -> Any:
    out = a.dtype if attrs.out_dtype is None else attrs.out_dtype.numpy()
    return numpy.matmul(widened(a.astype(out)), widened(b.astype(out))).astype(out)


def _turned(expr: Any) -> Any:
    rank = known_struct_info(expr).ndim
    return permute_dims(expr, [*range(rank - 2), rank - 1, rank - 2])


def _matmul_gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Return g bᵀ and aᵀ g; vectors as rows and columns."""
    a, b = orig_call.args
    rank_a, rank_b = known_struct_info(a).ndim, known_struct_info(b).ndim
    left = ctx.emit(expand_dims(a, 0)) if rank_a == 1 else a
    right = ctx.emit(expand_dims(b, 1)) if rank_b == 1 else b
    grad = output_grad
    if rank_b == 1:
        grad = expand_dims(grad, -1)
    if rank_a == 1:
        grad = expand_dims(grad, -2)
    grad = ctx.emit(grad)
    by_a = collapsed(ctx.emit(matmul(grad, _turned(right))), left)
    by_b = collapsed(ctx.emit(matmul(_turned(left), grad)), right)
    if rank_a == 1:
        by_a = reshape(by_a, shape_like(a))
    if rank_b == 1:
        by_b = reshape(by_b, shape_like(b))
    return [by_a, by_b]


matmul = define(
    "matmul",
    "x1 x2",
    _infer_matmul,
    description=(
        "The matrix product by numpy's rule: leading axes broadcast, vectors count as row or "
        "column."
    ),
    schema=Schema(out_dtype=dtype()),
    compute="topi.matmul",
    evaluate=_matmul,
    gradient=_matmul_gradient,
    precision=Precision.ALWAYS,
)


@function("linear")
def linear(data: Any, weight: Any, bias: Any = None, out_dtype: Any = None) -> Call:
    """Return ``data @ weight.T + bias``."""
    product = matmul(data, permute_dims(weight), out_dtype=out_dtype)
    return product if bias is None else add(product, bias)


def _infer_dense(call: Call) -> Any:
    a, b = tensor(call, 0), tensor(call, 1)
    out = _matmul_dtype(call, (a, b))
    left, right = sizes_of(a), sizes_of(b)
    if left is None or right is None:
        return result(None, out, a.ndim)
    if len(right) != 2:
        raise ShapeError(f"nn.dense needs a matrix as weight, got {describe(b)}")
    if surely_different(left[-1], right[1]):
        raise ShapeError(f"nn.dense: {describe(a)} and weight {describe(b)} do not meet")
    return result([*left[:-1], right[0]], out)


def _dense_gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Return g w and gᵀ x."""
    x, weight = orig_call.args
    if known_struct_info(x).ndim != 2:
        raise UnsupportedError("the gradient of nn.dense needs a matrix; use matmul")
    return [matmul(output_grad, weight), matmul(permute_dims(output_grad), x)]


dense = define(
    "nn.dense",
    "data weight",
    _infer_dense,
    description="``data @ weight.T`` as one operator; the weight is (outputs, inputs).",
    schema=Schema(out_dtype=dtype()),
    compute="topi.nn.dense",
    evaluate=lambda attrs, a, b: _matmul(attrs, a, b.T),
    gradient=_dense_gradient,
    precision=Precision.ALWAYS,
)
function("dense")(dense)


def einsum_terms(subscripts: str) -> tuple[list[str], str]:
    """Return the letters of each operand of an einsum, and those of its result: without an arrow
    the letters that occur once, in their order.
    """
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    if not arrow:
        letters = inputs.replace(",", "")
        output = "".join([one for one in sorted(set(letters)) if letters.count(one) == 1])
    return inputs.split(","), output


def _einsum_sizes(infos: Any, subscripts: str) -> Any:
    text_ = subscripts.replace(" ", "")
    terms, output = einsum_terms(subscripts)
    if len(terms) != len(infos):
        raise OpAttributeInvalid(
            f"einsum: '{subscripts}' has {len(terms)} terms for {len(infos)} tensors"
        )
    if "..." in text_:
        raise OpAttributeInvalid("einsum: '...' is not supported; write the axes out")
    for letter in output:
        if letter not in "".join(terms) or output.count(letter) > 1:
            raise OpAttributeInvalid(
                f"einsum: '{letter}' of the result of '{subscripts}' is not one axis"
            )
    sizes: dict[str, Any] = {}
    for term, info in zip(terms, infos):
        own = sizes_of(info)
        if info.ndim != -1 and info.ndim != len(term):
            raise ShapeError(f"einsum: term '{term}' does not fit {describe(info)}")
        for letter, size in zip(term, own or ()):
            known = sizes.get(letter)
            if known is not None and surely_different(known, size):
                raise ShapeError(
                    f"einsum: axis '{letter}' has sizes {size_text(known)} and {size_text(size)}"
                )
            sizes.setdefault(letter, size)
        if own is None:
            return None, len(output)
    return [sizes[letter] for letter in output], len(output)


def _infer_einsum(call: Call) -> Any:
    infos = tensors(call, 0)
    sizes, ndim = _einsum_sizes(infos, call.attrs.subscripts)
    return result(sizes, check_dtypes(call, infos), ndim)


einsum = define(
    "einsum",
    "operands",
    _infer_einsum,
    description='Einstein\'s sum: ``einsum((a, b), "ij,jk->ik")``.',
    schema=Schema(subscripts=text()),
    agreeing=einsum_sizes,
    compute=lambda attrs, operands: topi.einsum(attrs.subscripts, *operands),
    evaluate=lambda attrs, operands: numpy.einsum(
        attrs.subscripts, *[widened(one) for one in operands]
    ),
)
