"""Products of matrices and sums over indices."""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.values import dtype_of, is_one, rank_of, scalar, shape_of, vector
from tilesmith.support.errors import OpAttributeInvalid, ShapeError


@converter("MatMul")
def _matmul(node: OnnxNode) -> Any:
    return op.matmul(node[0], node[1])


def _transposed(x: Any) -> Any:
    return op.permute_dims(x, [1, 0])


def scaled(x: Any, factor: float) -> Any:
    """Multiply ``x`` by a number; unchanged for 1. Integers are multiplied as floats."""
    if factor == 1:
        return x
    dtype = dtype_of(x)
    if dtype.is_float:
        return op.multiply(x, scalar(factor, dtype))
    if float(factor).is_integer():
        return op.multiply(x, scalar(int(factor), dtype))
    product = op.multiply(op.astype(x, "float64"), scalar(factor, "float64"))
    return op.astype(product, dtype)


@converter("Gemm")
def _gemm(node: OnnxNode) -> Any:
    a, b = node[0], node[1]
    for index, tensor in enumerate((a, b)):
        if rank_of(tensor) != 2:
            raise ShapeError(f"Gemm needs matrices, input {index} has the rank {rank_of(tensor)}")
    a = _transposed(a) if node.flag("transA") else a
    b = node.emit(_transposed(b)) if node.flag("transB") else b
    product = scaled(op.matmul(a, b), node.attribute("alpha", 1.0))
    beta = node.attribute("beta", 1.0)
    if not node.has(2) or beta == 0:
        return product
    return op.add(product, scaled(node[2], beta))


# Einstein's sum


def written_out(equation: str, ranks: list[int]) -> str:
    """Return an einsum equation with letters instead of ``...`` and an explicit output."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ranks):
        raise OpAttributeInvalid(
            f"the equation '{equation}' has {len(terms)} terms for {len(ranks)} inputs"
        )
    letters = [chr(code) for code in (*range(97, 123), *range(65, 91)) if chr(code) not in equation]
    hidden = max([rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks)] + [0])
    if "..." not in inputs:
        hidden = 0
    spare = "".join(letters[:hidden])
    found = []
    for term, rank in zip(terms, ranks):
        count = rank - len(term.replace("...", ""))
        found.append(term.replace("...", spare[len(spare) - count :] if count else ""))
    if not arrow:
        text = inputs.replace("...", "").replace(",", "")
        output = "..." + "".join([x for x in sorted(set(text)) if text.count(x) == 1])
    return f"{','.join(found)}->{output.replace('...', spare)}"


def _same_sizes(
    node: OnnxNode, tensors: list[Any], terms: list[str]
) -> tuple[list[Any], list[str]]:
    """Drop axes of size 1 whose letter has another size elsewhere: they broadcast."""
    largest: dict[str, Any] = {}
    for term, tensor in zip(terms, tensors):
        for letter, size in zip(term, shape_of(tensor)):
            if letter not in largest or is_one(largest[letter]):
                largest[letter] = size
    kept, names = [], []
    for term, tensor in zip(terms, tensors):
        shape = shape_of(tensor)
        drop = [
            i for i, letter in enumerate(term) if is_one(shape[i]) and not is_one(largest[letter])
        ]
        kept.append(node.emit(op.squeeze(tensor, drop)) if drop else tensor)
        names.append("".join([letter for i, letter in enumerate(term) if i not in drop]))
    return kept, names


@converter("Einsum")
def _einsum(node: OnnxNode) -> Any:
    tensors = node.tensors()
    equation = written_out(str(node.required("equation")), [rank_of(tensor) for tensor in tensors])
    inputs, _, output = equation.partition("->")
    terms = inputs.split(",")
    for term, tensor in zip(terms, tensors):
        if len(term) != rank_of(tensor):
            raise OpAttributeInvalid(
                f"its equation '{equation}' has {len(term)} letters for a tensor of rank "
                f"{rank_of(tensor)}"
            )
    tensors, terms = _same_sizes(node, tensors, terms)
    return op.einsum(tensors, f"{','.join(terms)}->{output}")


@converter("Det")
def _determinant(node: OnnxNode) -> Any:
    """Compute determinants by elimination with the largest pivot, column by column."""
    x = node[0]
    shape = shape_of(x)
    count = shape[-1]
    if not isinstance(count, int):
        raise node.unsupported("a determinant of symbolic size")
    dtype = dtype_of(x)
    batch = shape[:-2]
    flat = node.emit(op.reshape(x, [-1, count, count]))
    total = node.emit(op.full([shape_of(flat)[0]], scalar(1, dtype), dtype))
    for left in range(count, 0, -1):
        flat, total = _eliminate(node, flat, total, left)
    return op.reshape(total, batch)


def _eliminate(node: OnnxNode, x: Any, total: Any, count: int) -> Any:
    """Return the matrices without pivot row and column, the products of pivots and signs so far."""
    dtype = dtype_of(x)
    column = op.take(x, scalar(0, "int64"), 2)
    row = node.emit(op.argmax(op.abs(column), 1))
    swap = node.emit(op.expand_dims(op.astype(op.one_hot(row, 1, 0, count, -1, "int64"), dtype), 2))
    pivots = node.emit(op.sum(op.multiply(x, swap), 1))
    pivot = node.emit(op.take(pivots, scalar(0, "int64"), 1))
    sign = op.where(op.equal(row, scalar(0, "int64")), scalar(1, dtype), scalar(-1, dtype))
    total = node.emit(op.multiply(total, op.multiply(pivot, sign)))
    if count == 1:
        return x, total
    # The first row moves to the pivot's row.
    first = op.take(x, vector([0]), 1)
    moved = node.emit(
        op.add(op.multiply(x, op.subtract(scalar(1, dtype), swap)), op.multiply(first, swap))
    )
    rest = node.emit(op.strided_slice(moved, [1], [1], [count]))
    safe = op.where(op.equal(pivot, scalar(0, dtype)), scalar(1, dtype), pivot)
    factor = op.divide(op.take(rest, scalar(0, "int64"), 2), op.expand_dims(safe, 1))
    cut = op.multiply(op.expand_dims(factor, 2), op.expand_dims(pivots, 1))
    return node.emit(op.strided_slice(op.subtract(rest, cut), [2], [1], [count])), total
