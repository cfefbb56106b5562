"""Products of matrices."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax.attrs import Schema, dtype, text
from tilesmith.relax.expr import Call
from tilesmith.relax.op.common import (
    broadcast_sizes,
    check_dtypes,
    prove_equal,
    result,
    size_text,
    sizes_of,
    tensor,
    tensors,
)
from tilesmith.relax.op.elementwise import add
from tilesmith.relax.op.manipulate import permute_dims
from tilesmith.relax.op.spec import FusionKind, call, define, topi
from tilesmith.relax.relations import describe, surely_different
from tilesmith.support.errors import OpAttributeInvalid, ShapeError


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
    return numpy.matmul(a.astype(out), b.astype(out))


_MATMUL = define(
    "matmul",
    "x1 x2",
    _infer_matmul,
    schema=Schema(out_dtype=dtype()),
    compute="topi.matmul",
    kind=FusionKind.OUT_ELEMWISE_FUSABLE,
    evaluate=_matmul,
)


def matmul(x1: Any, x2: Any, out_dtype: Any = None) -> Call:
    """The matrix product by numpy's rule: leading axes broadcast, vectors count as row or
    column."""
    return call(_MATMUL, x1, x2, out_dtype=out_dtype)


def linear(data: Any, weight: Any, bias: Any = None, out_dtype: Any = None) -> Call:
    """``data @ weight.T + bias``."""
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


_DENSE = define(
    "nn.dense",
    "data weight",
    _infer_dense,
    schema=Schema(out_dtype=dtype()),
    compute="topi.nn.dense",
    kind=FusionKind.OUT_ELEMWISE_FUSABLE,
    evaluate=lambda attrs, a, b: _matmul(attrs, a, b.T),
)


def dense(data: Any, weight: Any, out_dtype: Any = None) -> Call:
    """``data @ weight.T`` as one operator; the weight is (outputs, inputs)."""
    return call(_DENSE, data, weight, out_dtype=out_dtype)


def _einsum_sizes(call: Call, infos: Any, subscripts: str) -> Any:
    text_ = subscripts.replace(" ", "")
    inputs, arrow, output = text_.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(infos):
        raise OpAttributeInvalid(
            f"einsum: '{subscripts}' has {len(terms)} terms for {len(infos)} tensors"
        )
    if "..." in text_:
        raise OpAttributeInvalid("einsum: '...' is not supported; write the axes out")
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
    if not arrow:
        letters = inputs.replace(",", "")
        output = "".join([x for x in sorted(set(letters)) if letters.count(x) == 1])
    return [sizes[letter] for letter in output], len(output)


def _infer_einsum(call: Call) -> Any:
    infos = tensors(call, 0)
    sizes, ndim = _einsum_sizes(call, infos, call.attrs.subscripts)
    return result(sizes, check_dtypes(call, infos), ndim)


_EINSUM = define(
    "einsum",
    "operands",
    _infer_einsum,
    schema=Schema(subscripts=text()),
    compute=lambda attrs, operands: topi.einsum(attrs.subscripts, *operands),
    evaluate=lambda attrs, operands: numpy.einsum(attrs.subscripts, *operands),
)


def einsum(operands: Any, subscripts: str) -> Call:
    """Einstein's sum: ``einsum((a, b), "ij,jk->ik")``."""
    return call(_EINSUM, operands, subscripts=subscripts)
