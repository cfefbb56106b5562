"""Inverts indices: from the element of an access back to the iterators of its block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilesmith.arith import Analyzer, find_iter_map, inverse_affine_iter_map
from tilesmith.ir import PrimExpr, Range, Var
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import variables
from tilesmith.tir.functor import Substitution

__all__ = ["inverse_of"]


def inverse_of(
    indices: Sequence[PrimExpr], domains: Mapping[Var, Range]
) -> tuple[list[Var], dict[Var, PrimExpr]]:
    """Return the iterators that the indices determine, as functions of placeholders for the
    indices.

    An iterator of one value follows from nothing. Iterators whose inverse is not proven correct
    are left out.
    """
    placeholders = [Var(f"p{number}", index.dtype) for number, index in enumerate(indices)]
    used = {v: domains[v] for v in variables(indices) if v in domains}
    found: dict[Var, PrimExpr] = {}
    for placeholder, index in zip(placeholders, indices):
        if isinstance(index, Var) and index in used:
            found.setdefault(index, placeholder)
    for variable, domain in domains.items():
        if is_const(domain.extent, 1):
            found.setdefault(variable, domain.min)
    if set(used) <= set(found):
        return placeholders, found
    analyzer = Analyzer()
    for variable, domain in domains.items():
        analyzer.bind(variable, domain)
    simple = [analyzer.simplify(index) for index in indices]
    # what the indices tell is proven below; they need not reach all places of a padded layout
    result = find_iter_map(simple, used, check_level="nocheck")
    if not result.indices:
        return placeholders, found
    back = Substitution(dict(zip(placeholders, simple)))
    for variable, value in inverse_affine_iter_map(result.indices, list(placeholders)).items():
        if variable not in found and analyzer.can_prove_equal(back.visit(value), variable):
            found[variable] = value
    return placeholders, found
