"""Decides whether two threads may touch the same element of flat memory.

An access is an index over the axes of threads, loops that may differ between the two accesses, and
variables that are the same for both. Unless it is proven otherwise, two accesses conflict.
"""

from __future__ import annotations

import itertools
from math import gcd
from typing import Any, NamedTuple

from tilesmith.arith import Analyzer, detect_linear_equation, eval_set
from tilesmith.ir import (
    Broadcast,
    Call,
    FloorMod,
    IntImm,
    PrimExpr,
    Ramp,
    Range,
    Var,
    const,
    structural_equal,
)
from tilesmith.ir.queries import nodes, variables
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import uses_variable
from tilesmith.tir.transform.threads.thread_enumeration import mixes_bits, never_shared
from tilesmith.tir.transform.threads.thread_places import PlaceProver

__all__ = ["Access", "Threads", "access_of", "is_handed_over", "may_meet", "range_access"]

Threads = dict[Var, int]
"""The axes of a kernel whose threads share memory, with their extents (0: not known)."""


class Access(NamedTuple):
    """One access: memory, place (None: anywhere in it), lanes, and the loops around it.

    ``fixed`` are axes of threads with the index to which a condition restricts them. The update
    of an element in place is ``own`` to a thread: if two threads did it to one element, they would
    race in a single statement. Atomic accesses need no barrier between them. A ``bulk`` copy is
    ordered by barriers in shared memory: ``order`` says when an access comes in the text,
    ``waited`` when its threads have waited for such a barrier before it (0: never).
    """

    pointer: Var
    place: PrimExpr | None
    lanes: int
    dtype: Any
    writes: bool
    loops: tuple[tuple[Var, Range], ...] = ()
    fixed: frozenset[tuple[Var, int]] = frozenset()
    own: bool = False
    atomic: bool = False
    bulk: bool = False
    order: int = 0
    waited: int = 0

    def inside(self, variable: Var, domain: Range) -> Access:
        """Return the access over all iterations of an enclosing loop."""
        return self._replace(loops=(*self.loops, (variable, domain)))

    def later(self, variable: Var) -> Access:
        """Return the access in the next iteration of a loop."""
        if self.place is None:
            return self
        return self._replace(place=substitute(self.place, {variable: variable + 1}))


def access_of(pointer: Var, indices: tuple[PrimExpr, ...], dtype: Any, writes: bool) -> Access:
    """Return the access of an element, or of the lanes of a vector."""
    if len(indices) != 1:
        return Access(pointer, None, 1, dtype, writes)
    (index,) = indices
    if isinstance(index, Ramp) and isinstance(index.stride, IntImm):
        if index.stride.value == 1:
            return Access(pointer, index.base, int(index.lanes), dtype, writes)
        lane = Var("lane", index.base.dtype)  # lanes that lie apart are like a loop
        lanes = Range.from_min_extent(const(0, lane.dtype), const(int(index.lanes), lane.dtype))
        place = index.base + lane * index.stride
        return Access(pointer, place, 1, dtype, writes, ((lane, lanes),))
    if isinstance(index, Broadcast):
        return Access(pointer, index.value, 1, dtype, writes)
    if index.dtype.lanes > 1:
        return Access(pointer, None, 1, dtype, writes)
    return Access(pointer, index, 1, dtype, writes)


def range_access(pointer: Call, writes: bool) -> Access:
    """Return the access through ``tvm_access_ptr``, which says where it begins and how far it goes.

    Without a constant extent that is anywhere.
    """
    annotation, data, offset, extent = pointer.args[:4]
    assert isinstance(data, Var)
    size = Analyzer().simplify(extent)
    if not isinstance(size, IntImm) or size.value < 1 or offset.dtype.lanes != 1:
        return Access(data, None, 1, None, writes)
    return Access(data, offset, size.value, annotation.dtype, writes)


def is_handed_over(first: Access, second: Access, begun: int) -> bool:
    """Return whether the threads of the second access have waited since the first one for a barrier
    that bulk copies arrive at, or that says to them who is done.

    What an iteration of a loop does comes before all waits of the next one: that is told by when
    the loop was ``begun`` (0: both accesses are in one iteration).
    """
    return (first.bulk or second.bulk) and second.waited > (begun or first.order)


def may_meet(first: Access, second: Access, threads: Threads, prover: PlaceProver) -> bool:
    """Return whether two different threads may access the same element, at least one of them
    writing.
    """
    if first.pointer is not second.pointer or not (first.writes or second.writes):
        return False
    if first.atomic and second.atomic:
        return False
    fixed = {var for var, _ in first.fixed & second.fixed}
    threads = {var: size for var, size in threads.items() if size != 1 and var not in fixed}
    if not threads:
        return False
    if first.place is None or second.place is None or first.dtype is not second.dtype:
        return True
    if (first.own or second.own) and _same_place(first, second, threads):
        return False
    if any(extent == 0 for extent in threads.values()):
        return True
    reach = max(first.lanes, second.lanes) - 1
    places = (first.place, first.loops), (second.place, second.loops)
    if prover.tells_threads(*places, threads, reach):
        return False
    if mixes_bits(first.place) and mixes_bits(second.place):
        if never_shared(places, threads, reach + 1):
            return False
    first, second = _rename(first), _rename(second)
    if _same_thread_only(first, second, threads):
        return False
    return not _intervals_apart(first, second, threads)


def _same_place(first: Access, second: Access, threads: Threads) -> bool:
    """Return whether two accesses name one place that depends on all axes of threads."""
    place, other = first.place, second.place
    assert place is not None and other is not None
    inner = {var for var, _ in (*first.loops, *second.loops)}
    if uses_variable(place, inner) or not all(uses_variable(place, {var}) for var in threads):
        return False
    return place is other or structural_equal(place, other)


def _rename(access: Access) -> Access:
    """Give the loops of one access new variables, so that they differ from the other's."""
    assert access.place is not None
    fresh = [(Var(var.name, var.dtype), domain) for var, domain in access.loops]
    mapping = {old: new for (old, _), (new, _) in zip(access.loops, fresh)}
    index = substitute(access.place, mapping)
    loops = [
        (var, Range.from_min_extent(
            substitute(domain.min, mapping), substitute(domain.extent, mapping)
        ))
        for var, domain in fresh
    ]  # fmt: skip
    return access._replace(place=index, loops=tuple(loops))


def _same_thread_only(first: Access, second: Access, threads: Threads) -> bool:
    """Return whether equal indices imply equal threads: both are ``c * thread + multiples of m``,
    where the thread's part is unique and below ``m``.
    """
    axes = [var for var, extent in threads.items() if extent > 1]
    loops = [var for var, _ in (*first.loops, *second.loops)]
    forms = [detect_linear_equation(one.place, [*axes, *loops]) for one in (first, second)]
    if not forms[0] or not forms[1]:
        return False
    steps = [[_number(c) for c in form[:-1]] for form in forms]
    difference = _number(Analyzer().simplify(forms[0][-1] - forms[1][-1]))
    if difference is None or any(c is None for c in (*steps[0], *steps[1])):
        return False
    thread_steps = steps[0][: len(axes)]
    if thread_steps != steps[1][: len(axes)]:
        return False
    reach = max(first.lanes, second.lanes) - 1
    sizes = [abs(step or 0) for step in thread_steps]
    for size, extent in sorted(zip(sizes, [threads[axis] for axis in axes])):
        if size <= reach:
            return False
        reach += size * (extent - 1)
    modulus = difference
    for step in (*steps[0][len(axes) :], *steps[1][len(axes) :]):
        modulus = gcd(modulus, step or 0)
    return modulus == 0 or abs(modulus) > reach


def _number(expr: PrimExpr) -> int | None:
    return expr.value if isinstance(expr, IntImm) else None


def _moduli(*indices: PrimExpr) -> dict[Var, int]:
    """Return the small moduli of one variable, by which buffers with several versions are
    indexed."""
    found: dict[Var, int] = {}
    for remainder in nodes(indices, FloorMod):
        if isinstance(remainder.b, IntImm) and 1 < remainder.b.value <= 8:
            for var in variables(remainder.a):
                found[var] = _lcm(found.get(var, 1), remainder.b.value)
    return found


def _lcm(a: int, b: int) -> int:
    return a * b // gcd(a, b)


def _intervals_apart(first: Access, second: Access, threads: Threads) -> bool:
    """Return whether the elements of all threads are disjoint, separately for each version of a
    buffer.
    """
    assert first.place is not None and second.place is not None
    moduli = _moduli(first.place, second.place)
    free = {*threads, *[var for var, _ in (*first.loops, *second.loops)]}
    cases = [(var, modulus) for var, modulus in moduli.items() if var not in free]
    total = 1
    for _, modulus in cases:
        total *= modulus
    if total > 64:
        return False
    for remainders in itertools.product(*[range(modulus) for _, modulus in cases]):
        mapping: dict[Var, Any] = {}
        for (var, modulus), remainder in zip(cases, remainders):
            mapping[var] = Var(var.name, var.dtype) * modulus + remainder
        if not _apart(_with(first, mapping), _with(second, mapping), threads):
            return False
    return True


def _with(access: Access, mapping: dict[Var, Any]) -> Access:
    if not mapping:
        return access
    index = Analyzer().simplify(substitute(access.place, mapping))
    return access._replace(place=index)


def _apart(first: Access, second: Access, threads: Threads) -> bool:
    analyzer = Analyzer()
    ends = []
    for access in (first, second):
        assert access.place is not None
        domains: dict[Var, Any] = {
            var: Range.from_min_extent(const(0, var.dtype), const(extent, var.dtype))
            for var, extent in threads.items()
        }
        domains.update(dict(access.loops))
        found = eval_set(access.place, domains)
        low, high = found.min_value, found.max_value
        if not (found.has_lower_bound() and found.has_upper_bound()):
            return False
        if uses_variable(low, set(domains)) or uses_variable(high, set(domains)):
            return False
        ends.append((low, high + (access.lanes - 1)))
    (low_a, high_a), (low_b, high_b) = ends
    return analyzer.can_prove(high_a < low_b) or analyzer.can_prove(high_b < low_a)
