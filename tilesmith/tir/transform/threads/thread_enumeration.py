"""Compares the places of threads one by one, where their bits are mixed: rows that are permuted.

    S[ax * 512 + tx // 8 * 64 + (tx % 8 ^ tx // 8) * 8]

No sum of digits describes such a place. As a block has at most 1024 threads, the places that they
touch in all iterations of the loops around are computed instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import IntImm, PrimExpr, Range, Var, const, structural_equal
from tilesmith.ir.queries import any_node, is_call, variables
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.functor import substitute
from tilesmith.tir.index_map_values import NumpyValue
from tilesmith.tir.queries import uses_variable

__all__ = ["mixes_bits", "never_shared"]

MOST_PLACES = 1 << 17

Loops = tuple[tuple[Var, Range], ...]


def mixes_bits(place: PrimExpr) -> bool:
    """Return whether a place combines numbers by an exclusive or."""
    return any_node(place, lambda node: is_call(node, "tir.bitwise_xor"))


def never_shared(
    accesses: tuple[tuple[PrimExpr, Loops], tuple[PrimExpr, Loops]],
    threads: Mapping[Var, int],
    lanes: int,
) -> bool:
    """Return whether no element is touched by two threads, through either of two places; False
    where the places cannot be computed.
    """
    found = []
    common: list[PrimExpr] = []
    for place, loops in accesses:
        loops = tuple([entry for entry in loops if uses_variable(place, {entry[0]})])
        extents = _extents(threads, loops)
        own = set(extents or ())
        others: dict[Var, Any] = {
            var: const(0, var.dtype) for var in variables(place) if var not in own
        }
        local = substitute(place, others) if others else place
        rest = Analyzer().simplify(place - local)
        if extents is None or uses_variable(rest, own):
            return False
        common.append(rest)
        table = _elements(local, extents, len(threads), lanes)
        if table is None:
            return False
        found.append(table)
    return structural_equal(common[0], common[1]) and _one_thread_each(found)


def _extents(threads: Mapping[Var, int], loops: Loops) -> dict[Var, tuple[int, int]] | None:
    """Return the first value and the number of values of each variable, threads first; None if
    they are not known or too many.
    """
    found = {var: (0, extent) for var, extent in threads.items()}
    total = 1
    for var, domain in loops:
        if not isinstance(domain.min, IntImm) or not isinstance(domain.extent, IntImm):
            return None
        found[var] = (int(domain.min.value), int(domain.extent.value))
    for _, count in found.values():
        total *= count
    return found if 0 < total <= MOST_PLACES else None


def _elements(
    place: PrimExpr, extents: dict[Var, tuple[int, int]], axes: int, lanes: int
) -> Any | None:
    """Return pairs of an element and the number of the thread that touches it."""
    import numpy

    shape = [count for _, count in extents.values()]
    grids = numpy.ogrid[tuple([slice(low, low + count) for low, count in extents.values()])]
    try:
        values = NumpyValue(dict(zip(extents, grids))).visit(place)
    except (KeyError, UnsupportedError):
        return None
    flat = numpy.broadcast_to(values, shape).ravel()
    threads = int(numpy.prod(shape[:axes]))
    number = numpy.repeat(numpy.arange(threads), flat.size // threads)
    steps = numpy.arange(lanes)
    return numpy.stack([(flat[:, None] + steps).ravel(), numpy.repeat(number, lanes)])


def _one_thread_each(tables: list[Any]) -> bool:
    import numpy

    pairs = numpy.unique(numpy.concatenate(tables, axis=1), axis=1)
    return bool((numpy.diff(pairs[0]) != 0).all())  # sorted: an element of two threads comes twice
