"""Einstein summation."""

from __future__ import annotations

from typing import Any

from tilesmith import te
from tilesmith.ir import IntImm, PrimExpr
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi.accumulation import rounded, widened
from tilesmith.topi.compute import compute

__all__ = ["einsum"]


def _terms(subscripts: str, operands: tuple[Tensor, ...]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if "." in subscripts:
        raise UnsupportedError(f"einsum: '{subscripts}' has an ellipsis; name its axes by letters")
    if len(terms) != len(operands):
        raise ShapeError(
            f"einsum: '{subscripts}' has {len(terms)} terms for {len(operands)} tensors"
        )
    for term, operand in zip(terms, operands):
        if len(term) != len(operand.shape):
            raise ShapeError(f"einsum: '{term}' names a tensor of {len(operand.shape)} dimensions")
    if not arrow:
        letters = inputs.replace(",", "")
        output = "".join([x for x in sorted(set(letters)) if letters.count(x) == 1])
    for letter in output:
        if letter not in "".join(terms) or output.count(letter) > 1:
            raise ShapeError(f"einsum: '{letter}' of the result of '{subscripts}' is not one axis")
    return terms, output


def einsum(subscripts: str, *operand: Tensor) -> Tensor:
    """Return the sum of products that ``subscripts`` describe; "ij,jk->ik" is a product of
    matrices.

    Letters that the result does not have are summed over. Raises ShapeError where a letter stands
    for different sizes.
    """
    terms, output = _terms(subscripts, operand)
    sizes: dict[str, PrimExpr] = {}
    for term, tensor in zip(terms, operand):
        for letter, size in zip(term, tensor.shape):
            known = sizes.setdefault(letter, size)
            if isinstance(known, IntImm) and isinstance(size, IntImm) and int(known) != int(size):
                raise ShapeError(f"einsum: axis '{letter}' has sizes {known} and {size}")
    summed = {
        letter: te.reduce_axis((0, size), name="r" + letter.lower())
        for letter, size in sizes.items()
        if letter not in output
    }

    def element(*indices: Any) -> PrimExpr:
        at = {**dict(zip(output, indices)), **summed}
        value: Any = None
        for term, tensor in zip(terms, operand):
            factor = widened(tensor(*[at[letter] for letter in term]))
            value = factor if value is None else value * factor
        return te.sum(value, axis=list(summed.values())) if summed else value

    total = compute([sizes[letter] for letter in output], element, name="T_einsum")
    return rounded(total, operand[0].dtype)
