"""Products of matrices as tensor expressions."""

from __future__ import annotations

from typing import Any

from tilesmith import te, topi


def matmul(attrs: Any, a: Any, b: Any) -> Any:
    """The matrix product by numpy's rule."""
    return topi.matmul(a, b, out_dtype=attrs.out_dtype)


def dense(attrs: Any, a: Any, b: Any) -> Any:
    """``a @ b.T``."""
    return topi.matmul(a, b, transp_b=True, out_dtype=attrs.out_dtype)


def einsum(attrs: Any, operands: Any) -> Any:
    """Einstein's sum."""
    text = attrs.subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if not arrow:
        letters = inputs.replace(",", "")
        output = "".join([x for x in sorted(set(letters)) if letters.count(x) == 1])
    sizes: dict[str, Any] = {}
    for term, operand in zip(terms, operands):
        sizes.update(dict(zip(term, operand.shape)))
    summed = {
        letter: te.reduce_axis((0, size), name="r" + letter.lower())
        for letter, size in sizes.items()
        if letter not in output
    }

    def element(*indices: Any) -> Any:
        at = {**dict(zip(output, indices)), **summed}
        value: Any = None
        for term, operand in zip(terms, operands):
            factor = operand(*[at[letter] for letter in term])
            value = factor if value is None else value * factor
        return te.sum(value, axis=list(summed.values())) if summed else value

    return te.compute([sizes[letter] for letter in output], element, name="T_einsum")
