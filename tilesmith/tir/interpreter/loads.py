"""Compiles loads to closures; common ones have one closure per number of indices."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.runtime.dtype import DataType
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.interpreter.frame import Frame
from tilesmith.tir.interpreter.values import (
    CompileExpr,
    Environment,
    Evaluate,
    element_type,
)
from tilesmith.tir.interpreter.views import BufferViews, check_vector, out_of_bounds
from tilesmith.tir.interpreter.watch import AccessObserver

__all__ = ["Loads", "item"]


def item(value: Any, dtype: DataType) -> Any:
    """Return an element of an array as the interpreter represents values of its dtype."""
    if dtype.is_integer:
        return int(value)
    return bool(value) if dtype.is_bool else value


class Loads:
    """Compiles loads to closures; ``observer`` is notified of each access."""

    def __init__(
        self,
        frame: Frame,
        views: BufferViews,
        compile_expr: CompileExpr,
        observer: AccessObserver | None = None,
    ) -> None:
        self.frame = frame
        self.views = views
        self.compile_expr = compile_expr
        self.observer = observer

    def load(self, node: BufferLoad) -> Evaluate:
        """Return the closure of a load, with a call of the observer."""
        found = self._plain_load(node)
        if self.observer is None:
            return found
        observe = self.observer.access(node.buffer, False)
        return found if observe is None else self._observed(node, found, observe)

    def _plain_load(self, node: BufferLoad) -> Evaluate:
        dtype = node.buffer.dtype
        if node.predicate is not None or node.dtype.lanes != dtype.lanes:
            return self._vector_load(node)
        if dtype.lanes > 1 or dtype.is_handle or len(node.indices) > 4:
            return self._general_load(node)
        as_item = (dtype.is_integer and dtype.bits >= 8) or dtype.is_bool
        return self._scalar_load(node, numpy.ndarray.item if as_item else numpy.ndarray.__getitem__)

    def _scalar_load(self, node: BufferLoad, get: Any) -> Evaluate:
        """Return a load of one element, with one closure per number of dimensions."""
        buffer, span = node.buffer, node.span
        slot, bind = self.frame.slot(buffer), self.views.binder(buffer)
        indices = [self.compile_expr(index) for index in node.indices]
        is_int4 = buffer.dtype.is_integer and buffer.dtype.bits < 8

        def array_of(env: Environment) -> Any:
            array = env[slot]
            return bind(env) if array is None else array

        if not indices:
            return lambda env: item(array_of(env)[()], buffer.dtype)
        if is_int4:
            general = self._general_load(node)
            return lambda env: int(general(env))
        if len(indices) == 1:
            (first,) = indices

            def load(env: Environment) -> Any:
                array = env[slot]
                if array is None:
                    array = bind(env)
                i = first(env)
                if i >= 0:
                    try:
                        return get(array, i)
                    except IndexError:
                        pass
                return out_of_bounds(buffer, array, (i,), span, "the load")

        elif len(indices) == 2:
            first, second = indices

            def load(env: Environment) -> Any:
                array = env[slot]
                if array is None:
                    array = bind(env)
                i, j = first(env), second(env)
                if i >= 0 and j >= 0:
                    try:
                        return get(array, (i, j))
                    except IndexError:
                        pass
                return out_of_bounds(buffer, array, (i, j), span, "the load")

        else:

            def load(env: Environment) -> Any:
                array = env[slot]
                if array is None:
                    array = bind(env)
                place = tuple([index(env) for index in indices])
                if min(place) >= 0:
                    try:
                        return get(array, place)
                    except IndexError:
                        pass
                return out_of_bounds(buffer, array, place, span, "the load")

        return load

    def _general_load(self, node: BufferLoad) -> Evaluate:
        """Return a load of an element that is itself a vector, or a pointer, or of many
        dimensions."""
        buffer, span = node.buffer, node.span
        slot, bind = self.frame.slot(buffer), self.views.binder(buffer)
        indices = [self.compile_expr(index) for index in node.indices]
        dtype = buffer.dtype

        def load(env: Environment) -> Any:
            array = env[slot]
            if array is None:
                array = bind(env)
            place = tuple([index(env) for index in indices])
            if not place or min(place) >= 0:
                try:
                    found = array[place]
                    return found.copy() if dtype.lanes > 1 else item(found, dtype)
                except IndexError:
                    pass
            return out_of_bounds(buffer, array, place, span, "the load")

        return load

    def _vector_load(self, node: BufferLoad) -> Evaluate:
        """Return a load along a vector of last indices, with lanes masked by the predicate."""
        buffer, span = node.buffer, node.span
        slot, bind = self.frame.slot(buffer), self.views.binder(buffer)
        outer = [self.compile_expr(index) for index in node.indices[:-1]]
        last = self.compile_expr(node.indices[-1])
        predicate = None if node.predicate is None else self.compile_expr(node.predicate)
        kind = element_type(node.dtype)

        def load(env: Environment) -> Any:
            array = env[slot]
            if array is None:
                array = bind(env)
            place = tuple([index(env) for index in outer])
            picked = numpy.atleast_1d(last(env))
            mask = None if predicate is None else numpy.atleast_1d(predicate(env))
            wanted = picked if mask is None else picked[mask]
            check_vector(buffer, array, place, wanted, span, "the load")
            if mask is None:
                return array[(*place, picked)].reshape(-1)
            found = numpy.zeros(len(picked), kind)
            found[mask] = array[(*place, wanted)]
            return found

        return load

    def _observed(self, node: BufferLoad, load: Evaluate, observe: Any) -> Evaluate:
        """Return the same load, followed by a call of the observer."""
        slot = self.frame.slot(node.buffer)
        indices = [self.compile_expr(index) for index in node.indices]
        predicate = None if node.predicate is None else self.compile_expr(node.predicate)

        def observed(env: Environment) -> Any:
            value = load(env)
            place: Any = tuple([index(env) for index in indices])
            if predicate is not None:
                mask = numpy.atleast_1d(predicate(env))
                place = (*place[:-1], numpy.atleast_1d(place[-1])[mask])
            observe(env, env[slot], place)
            return value

        return observed
