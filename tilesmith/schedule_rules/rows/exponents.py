"""Bounds exponents from which the largest one of their row is subtracted.

    for i, k: M[i] = max(M[i], A[i, k])         the same
    for i, k: E[i, k] = exp(A[i, k] - M[i])     for i, k: E[i, k] = exp(min(A[i, k] - M[i], 0))

The bound changes no value, and NaN stays NaN. It tells the lowering of exp that the exponent is not
positive: one power of two scales such results instead of two, and there is no other upper bound.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from tilesmith.ir import (
    Call,
    Cast,
    IntImm,
    Max,
    Min,
    PrimExpr,
    Rewriter,
    Sub,
    Var,
    const,
    structural_equal,
)
from tilesmith.ir.queries import calls, is_call, nodes
from tilesmith.tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IterVar,
    PrimFunc,
    SeqStmt,
    Stmt,
)
from tilesmith.tir.queries import stores

__all__ = ["bound_exponents"]


@dataclass(frozen=True)
class _Maximum:
    """A block that computes the largest elements of a buffer along some axes."""

    result: BufferStore
    element: BufferLoad
    domains: dict[Var, IterVar]
    """The iterators of the reduction by their variables."""


def bound_exponents(function: PrimFunc) -> PrimFunc:
    """Return a function whose calls of exp have a bound where the exponent is an element minus the
    maximum of elements among which it is; each maximum has a loop nest of its own, which is over.
    """
    if not any(True for _ in calls(function.body, "tir.exp")):
        return function
    nests = _nests(function.body)
    writers = Counter(buffer for nest in nests for buffer in {one.buffer for one in stores(nest)})
    maxima: dict[Block, _Maximum] = {}
    written: set[Buffer] = set()
    for nest in nests:
        block = _block_over_all(nest)
        found = None if block is None else _maximum(block)
        if block is not None and found is not None and writers[found.result.buffer] == 1:
            source = found.element.buffer
            if writers[source] == 0 or (writers[source] == 1 and source in written):
                maxima[block] = found
        written |= {one.buffer for one in stores(nest)}
    if not maxima:
        return function
    return function.with_body(_Bounds(maxima).visit(function.body))


def _nests(body: Stmt) -> list[Stmt]:
    """Return the loop nests of a function, in the order of the program."""
    inner = body.block.body if isinstance(body, BlockRealize) else body
    return [*inner.seq] if isinstance(inner, SeqStmt) else [inner]


def _block_over_all(nest: Stmt) -> Block | None:
    """Return the only block of a nest whose loops are its iterators, over their whole domains."""
    loops: dict[PrimExpr, For] = {}
    while isinstance(nest, For):
        loops[nest.loop_var] = nest
        nest = nest.body
    if not isinstance(nest, BlockRealize) or any(True for _ in nodes(nest.block.body, Block)):
        return None
    if not (isinstance(nest.predicate, IntImm) and nest.predicate.value):
        return None
    pairs = [*zip(nest.iter_values, nest.block.iter_vars)]
    if {value for value, _ in pairs} != {*loops} or len(pairs) != len(loops):
        return None
    for value, iterator in pairs:
        if iterator.dom is None or not structural_equal(loops[value].extent, iterator.dom.extent):
            return None
        if not structural_equal(loops[value].min, iterator.dom.min):
            return None
    return nest.block


def _maximum(block: Block) -> _Maximum | None:
    """Return what a block computes if it is a maximum of the elements of one buffer."""
    store = block.body
    if block.init is None or not isinstance(store, BufferStore):
        return None
    if not isinstance(store.value, Max):
        return None
    sides = [one for one in (store.value.a, store.value.b) if isinstance(one, BufferLoad)]
    elements = [one for one in sides if one.buffer is not store.buffer]
    if len(sides) != 2 or len(elements) != 1:
        return None
    (element,) = elements
    reduced = {one.var: one for one in block.iter_vars if one.iter_type == IterVar.CommReduce}
    known = {*reduced, *store.indices}
    if any(not isinstance(one, IntImm) and one not in known for one in element.indices):
        return None
    if not all(isinstance(one, IntImm | Var) for one in store.indices):
        return None
    return _Maximum(store, element, reduced)


class _Bounds(Rewriter):
    """Bounds exponents by zero that are elements minus maxima of blocks that came before."""

    def __init__(self, maxima: dict[Block, _Maximum]) -> None:
        self._maxima = maxima
        self._known: dict[Buffer, _Maximum] = {}
        self._domains: dict[Var, IterVar] = {}

    def visit_Block(self, block: Block) -> Any:
        outer, self._domains = self._domains, {one.var: one for one in block.iter_vars}
        made = self.children(block)
        self._domains = outer
        found = self._maxima.get(block)
        if found is not None:
            self._known[found.result.buffer] = found
        return made

    def visit_Call(self, call: Call) -> Any:
        made = self.children(call)
        if not is_call(made, "tir.exp") or not self._is_bounded(made.args[0]):
            return made
        (exponent,) = made.args
        return made.with_fields(args=(Min(exponent, const(0.0, exponent.dtype)),))

    def _is_bounded(self, exponent: PrimExpr) -> bool:
        """Return whether an exponent is an element of which no other one of its row is larger."""
        if not isinstance(exponent, Sub):
            return False
        element, largest = (_without_cast(one) for one in (exponent.a, exponent.b))
        if not isinstance(element, BufferLoad) or not isinstance(largest, BufferLoad):
            return False
        found = self._known.get(largest.buffer)
        if found is None or element.buffer is not found.element.buffer:
            return False
        places: dict[Var, PrimExpr] = {}
        for index, place in zip(found.result.indices, largest.indices):
            if isinstance(index, Var):
                index = places.setdefault(index, place)
            if not structural_equal(index, place):
                return False
        return all(
            self._is_within(index, place, places, found.domains)
            for index, place in zip(found.element.indices, element.indices)
        )

    def _is_within(
        self,
        index: PrimExpr,
        place: PrimExpr,
        places: dict[Var, PrimExpr],
        domains: dict[Var, IterVar],
    ) -> bool:
        """Return whether a place is among those that an index of the maximum's elements takes."""
        if not isinstance(index, Var):
            return structural_equal(index, place)
        if index in places:
            return structural_equal(places[index], place)
        own = self._domains.get(place) if isinstance(place, Var) else None
        return own is not None and structural_equal(own.dom, domains[index].dom)


def _without_cast(expr: PrimExpr) -> PrimExpr:
    """Return what is cast to another float, which keeps the order of values."""
    if isinstance(expr, Cast) and expr.dtype.is_float and expr.value.dtype.is_float:
        return expr.value
    return expr
