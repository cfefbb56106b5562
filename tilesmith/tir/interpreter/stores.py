"""Compiles stores to closures: at once, or in two steps where all threads evaluate before any
writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import PrimExpr, Var
from tilesmith.ir.queries import is_call
from tilesmith.support.errors import ExecutionError, UnsupportedError
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.interpreter.accesses import Accesses, has_lanes
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.values import Environment, Evaluate, poison
from tilesmith.tir.interpreter.views import out_of_bounds, vector_place
from tilesmith.tir.interpreter.watch import Watch
from tilesmith.tir.stmt import BufferStore

__all__ = ["Prepare", "StoreValue", "Stores"]

Prepare = Callable[..., Callable[[], None]]
"""``prepare(env, later=False)`` evaluates a store and gives the function that carries it out."""

_NOTHING: list[int] = []

StoreValue = Callable[[Environment, Any], None]


_SHUFFLES = ("tir.tvm_warp_shuffle", "tir.tvm_warp_shuffle_up", "tir.tvm_warp_shuffle_down")


def _is_moved(value: PrimExpr) -> bool:
    """Return whether a value is one element as it is elsewhere, or in another thread of a warp."""
    if is_call(value, *_SHUFFLES):
        return _is_moved(value.args[1])
    return isinstance(value, BufferLoad) and value.dtype.lanes == 1 and not has_lanes(value)


def _is_moved_vector(node: BufferStore) -> bool:
    """Return whether lanes are stored as they are elsewhere."""
    value = node.value
    if not isinstance(value, BufferLoad) or value.predicate is not None:
        return False
    is_wide = has_lanes(value) and has_lanes(node)
    return is_wide and value.buffer.dtype.lanes == node.buffer.dtype.lanes == 1


def _stored_lanes(undefined: list[int], mask: Any) -> list[int]:
    """Return the numbers of lanes among those that a mask lets through."""
    if mask is None or not undefined:
        return undefined
    return numpy.flatnonzero(numpy.isin(numpy.flatnonzero(mask), undefined)).tolist()


class Stores:
    """Compiles stores to closures."""

    def __init__(self, accesses: Accesses) -> None:
        self.accesses = accesses

    def store(self, node: BufferStore) -> Evaluate:
        """Return the closure of a store that is carried out at once."""
        if self.accesses.observer is not None or has_lanes(node):
            prepare = self.prepared(node)
            return lambda env: prepare(env)()
        value = self.accesses.compile_expr(node.value)
        indices = self.accesses.indices(node.indices)
        if len(indices) == 1:
            return self._one_index(node, indices[0], value)
        if len(indices) == 2:
            return self._two_indices(node, indices, value)
        return self._many_indices(node, indices, value)

    def _one_index(self, node: BufferStore, index: Evaluate, value: Evaluate) -> Evaluate:
        buffer, span = node.buffer, node.span
        slot, bind = self.accesses.slot(buffer)

        def store(env: Environment) -> None:
            array = env[slot]
            if array is None:
                array = bind(env)
            place = index(env)
            stored = value(env)
            if place >= 0:
                try:
                    array[place] = stored
                    return
                except IndexError:
                    pass
            out_of_bounds(buffer, array, (place,), span, "the store")

        return store

    def _two_indices(self, node: BufferStore, indices: list[Evaluate], value: Evaluate) -> Evaluate:
        buffer, span = node.buffer, node.span
        slot, bind = self.accesses.slot(buffer)
        first, second = indices

        def store(env: Environment) -> None:
            array = env[slot]
            if array is None:
                array = bind(env)
            i, j = first(env), second(env)
            stored = value(env)
            if i >= 0 and j >= 0:
                try:
                    array[i, j] = stored
                    return
                except IndexError:
                    pass
            out_of_bounds(buffer, array, (i, j), span, "the store")

        return store

    def _many_indices(
        self, node: BufferStore, indices: list[Evaluate], value: Evaluate
    ) -> Evaluate:
        buffer, span = node.buffer, node.span
        slot, bind = self.accesses.slot(buffer)

        def store(env: Environment) -> None:
            array = env[slot]
            if array is None:
                array = bind(env)
            place = tuple([index(env) for index in indices])
            stored = value(env)
            if not place or min(place) >= 0:
                try:
                    array[place] = stored
                    return
                except IndexError:
                    pass
            out_of_bounds(buffer, array, place, span, "the store")

        return store

    # In two steps.

    def prepared(self, node: BufferStore) -> Prepare:
        """Return a closure that evaluates a store for a thread and returns the function that
        carries it out.

        With ``later`` the element is poisoned until then (NaN for floats), so that a read that
        comes too early is noticed.
        """
        buffer, span = node.buffer, node.span
        array_of, place_of = self.accesses.array(buffer), self.accesses.place(node.indices)
        value = self.accesses.compile_expr(node.value)
        lanes_of = self.accesses.lanes(node) if has_lanes(node) else None
        inner_lanes = buffer.dtype.lanes
        observe = self.accesses.observe(buffer, True, span)
        copied = self._copied(node)
        observer = self.accesses.observer
        is_tracked = (lambda env: False) if observer is None else observer.tracked(buffer)

        def prepare(env: Environment, later: bool = False) -> Callable[[], None]:
            array, undefined = array_of(env), _NOTHING
            if lanes_of is not None:
                outer, picked, mask = lanes_of(env)
                if copied is not None:
                    stored, undefined = copied(env)
                    undefined = _stored_lanes(undefined, mask)
                    if undefined and not is_tracked(env):
                        raise ExecutionError(
                            f"thread {env[THREAD_SLOT].describe()} copies what was never written "
                            f"to {buffer.name} (scope {buffer.scope()})",
                            span=span,
                        )
                else:
                    stored = value(env)
                stored = numpy.atleast_1d(stored)
                if inner_lanes > 1:
                    stored = stored.reshape(len(picked), inner_lanes)
                if mask is not None:
                    picked, stored = picked[mask], stored[mask]
                array, place = vector_place(buffer, array, outer, picked, span, "the store")
            elif copied is not None:
                place, (stored, undefined) = place_of(env), copied(env)
            else:
                place, stored = place_of(env), value(env)
            if lanes_of is None and any(not 0 <= i < size for i, size in zip(place, array.shape)):
                out_of_bounds(buffer, array, place, span, "the store")

            if later:
                if observe is not None:
                    array[place] = stored  # what the watch compares with other writes
                    observe(env, array, place, pending=True)
                array[place] = poison(buffer.dtype.element)

            def store() -> None:
                array[place] = stored
                if observe is not None:
                    observe(env, array, place, undefined=undefined)

            return store

        return prepare

    def _copied(self, node: BufferStore) -> Callable[[Environment], tuple[Any, list[int]]] | None:
        """Return the closure of a stored value that is only moved, which also tells which lanes of
        it are not defined; None for other values.

        A copy within allocated memory harms only where it is used: its element may be undefined.
        """
        observer = self.accesses.observer
        if observer is None or not (_is_moved(node.value) or _is_moved_vector(node)):
            return None
        value, is_tracked = self.accesses.compile_expr(node.value), observer.tracked(node.buffer)
        is_wide = has_lanes(node)  # vectors may have undefined lanes anyway

        def copied(env: Environment) -> tuple[Any, list[int]]:
            watch: Watch = env[CONTEXT_SLOT].watch
            watch.is_copying, watch.undefined = not is_wide and is_tracked(env), []
            try:
                found = value(env)
            finally:
                watch.is_copying = False
            return found, watch.undefined

        return copied

    def result(self, target: PrimExpr) -> StoreValue:
        """Return a closure that stores a result in an element of a buffer, or behind a pointer."""
        if isinstance(target, BufferLoad):
            return self._element(target)
        if isinstance(target, Var):
            slot = self.accesses.frame.slot(target)
            annotation = getattr(target.type_annotation, "element_type", None)
            dtype = annotation.dtype if annotation is not None else None
            if dtype is not None:

                def store_first(env: Environment, value: Any) -> None:
                    env[slot].view(dtype, (1,), None, 0)[0] = value

                return store_first
        raise UnsupportedError("tvm_thread_allreduce: a result goes to an element of a buffer")

    def _element(self, target: BufferLoad) -> StoreValue:
        array_of, place_of = (
            self.accesses.array(target.buffer),
            self.accesses.place(target.indices),
        )
        observe = self.accesses.observe(target.buffer, True, target.span)

        def store(env: Environment, value: Any) -> None:
            array, place = array_of(env), place_of(env)
            array[place] = value
            if observe is not None:
                observe(env, array, place)

        return store
