"""Compiles loads to closures; common ones have one closure per number of indices."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.runtime.dtype import DataType
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.interpreter.accesses import Accesses, has_lanes
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT
from tilesmith.tir.interpreter.values import Environment, Evaluate, element_type, poison
from tilesmith.tir.interpreter.views import out_of_bounds, vector_place
from tilesmith.tir.interpreter.watch import Observe, Watch

__all__ = ["Loads", "item"]


def item(value: Any, dtype: DataType) -> Any:
    """Return an element of an array as the interpreter represents values of its dtype."""
    if dtype.is_integer:
        return int(value)
    return bool(value) if dtype.is_bool else value


class Loads:
    """Compiles loads to closures."""

    def __init__(self, accesses: Accesses) -> None:
        self.accesses = accesses

    def load(self, node: BufferLoad) -> Evaluate:
        """Return the closure of a load, with a call of the observer."""
        found = self._plain_load(node)
        observe = self.accesses.observe(node.buffer, False, node.span)
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
        (slot, bind), indices = self.accesses.slot(buffer), self.accesses.indices(node.indices)
        is_int4 = buffer.dtype.is_integer and buffer.dtype.bits < 8

        if not indices:
            array_of = self.accesses.array(buffer)
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
        buffer, span, dtype = node.buffer, node.span, node.buffer.dtype
        array_of, place_of = self.accesses.array(buffer), self.accesses.place(node.indices)

        def load(env: Environment) -> Any:
            array, place = array_of(env), place_of(env)
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
        array_of, lanes_of = self.accesses.array(buffer), self.accesses.lanes(node)
        kind = element_type(node.dtype)

        def load(env: Environment) -> Any:
            array = array_of(env)
            place, picked, mask = lanes_of(env)
            wanted = picked if mask is None else picked[mask]
            array, where = vector_place(buffer, array, place, wanted, span, "the load")
            if mask is None:
                return array[where].reshape(-1)
            found = numpy.zeros(len(picked), kind)
            found[mask] = array[where]
            return found

        return load

    def _observed(self, node: BufferLoad, load: Evaluate, observe: Observe) -> Evaluate:
        """Return the same load, followed by a call of the observer.

        Lanes of a vector may be undefined: what a later mask takes out may be loaded in vain. So
        may what is only copied: the store is told.
        """
        array_of, place_of = self.accesses.array(node.buffer), self.accesses.place(node.indices)
        lanes_of = self.accesses.lanes(node) if has_lanes(node) else None
        undefined_value = poison(node.dtype.element)

        def observed(env: Environment) -> Any:
            value, array = load(env), array_of(env)
            watch: Watch = env[CONTEXT_SLOT].watch
            if lanes_of is None:
                if observe(env, array, place_of(env), may_be_undefined=watch.is_copying):
                    watch.undefined = [0]
                    return undefined_value
                return value
            place, picked, mask = lanes_of(env)
            wanted = picked if mask is None else picked[mask]
            array, where = vector_place(node.buffer, array, place, wanted, node.span, "the load")
            undefined = observe(env, array, where, may_be_undefined=mask is None)
            if undefined:
                watch.undefined = undefined
                value = value.copy()
                value[undefined] = undefined_value
            return value

        return observed
