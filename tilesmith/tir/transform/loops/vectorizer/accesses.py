"""The rules of loads and stores."""

from __future__ import annotations

from tilesmith.ir import Cast, IntImm, PrimExpr, Ramp
from tilesmith.ir import operators as ops
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.queries import uses_variable
from tilesmith.tir.stmt import BufferStore
from tilesmith.tir.transform.loops.vectorizer.lanes import (
    VECTORS_ALREADY,
    Lanes,
    NeedsLanes,
    linear,
)
from tilesmith.tir.transform.loops.vectorizer.rules import EXPRESSION_RULES
from tilesmith.tir.transform.loops.vectorizer.values import Values

__all__ = ["vector_store"]


@EXPRESSION_RULES.handles(BufferLoad)
def _load(values: Values, load: BufferLoad) -> PrimExpr:
    memory = values.memory
    if load.dtype.lanes > 1:
        if values.masks.present is not None or load.buffer.data in memory.pointers:
            raise NeedsLanes(VECTORS_ALREADY)
        return load.map_children(values.same)
    indices = _indices(values, load.buffer, load.indices)
    if not indices:
        return load
    predicate = _load_predicate(values, load, indices[-1])
    if indices[-1].dtype.lanes == 1:
        if predicate is None or predicate is load.predicate:
            if all(new is old for new, old in zip(indices, load.indices)):
                return load
            return BufferLoad(load.buffer, indices, predicate, load.span)
        indices = (*indices[:-1], values.lanes.wide(indices[-1]))
    return BufferLoad(memory.buffer(load.buffer), indices, predicate, load.span)


def vector_store(values: Values, store: BufferStore) -> BufferStore:
    """Return a store of all lanes."""
    if store.value.dtype.lanes > 1:
        raise NeedsLanes(VECTORS_ALREADY)
    indices, value = _indices(values, store.buffer, store.indices), values.visit(store.value)
    place = indices[-1] if indices else None
    lanes, masks = values.lanes, values.masks
    if place is None or place.dtype.lanes == 1:
        # All lanes write one element. Once is enough if all write the same, whatever it was.
        if value.dtype.lanes > 1 or masks.present is not None or store.predicate is not None:
            raise NeedsLanes("lanes write different values to one element")
        if uses_variable(store.value, {store.buffer.data}):
            raise NeedsLanes("all lanes read and write one element")
        if value is store.value and all(a is b for a, b in zip(indices, store.indices)):
            return store
        return BufferStore(store.buffer, value, indices, None, store.span)
    distinct = isinstance(place, Ramp) and ops.is_const(place.stride)
    if not distinct and uses_variable(store.value, {store.buffer.data}):
        raise NeedsLanes("lanes may write what other lanes read")
    own = None if store.predicate is None else lanes.wide(values.visit(store.predicate))
    masks.require_guarded(place)
    predicate = masks.restrict(own, masks.present)
    buffer = values.memory.buffer(store.buffer)
    return BufferStore(buffer, lanes.wide(value), indices, predicate, store.span)


def _indices(values: Values, buffer: Buffer, old: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    """Return the indices of an access; with one copy per lane for memory allocated inside the
    loop. What is addressed is evenly spaced where the index is a Ramp.
    """
    new = [values.visit(index) for index in old]
    for index in new[:-1]:
        if index.dtype.lanes > 1:
            raise NeedsLanes("an index other than the last one differs between lanes")
    if buffer.data in values.memory.pointers:
        new[-1] = values.memory.place(new[-1])
    if new and isinstance(new[-1], Ramp) and not values.lanes.stays_even(new[-1]):
        narrow = new[-1].dtype
        dtype = DataType("int32" if narrow.bits < 32 else "int64")
        new[-1] = Cast(dtype.with_lanes(narrow.lanes), new[-1])
    if new[-1:] and new[-1].dtype.lanes > 1 and buffer.dtype.lanes > 1:
        raise NeedsLanes(VECTORS_ALREADY)
    return tuple(new)


def _load_predicate(values: Values, load: BufferLoad, index: PrimExpr) -> PrimExpr | None:
    """Return the mask of a load; None if all lanes may read safely."""
    old, masks = load.predicate, values.masks
    own = None if old is None else values.visit(old)
    mask = masks.present
    masks.require_guarded(index)
    if masks.guarded is None and mask is not None and _is_inside(values.lanes, load.buffer, index):
        mask = None
    if own is not None and not (mask is None and own is old and index.dtype.lanes == 1):
        own = values.lanes.wide(own)
    return masks.restrict(own, mask)


def _is_inside(lanes: Lanes, buffer: Buffer, index: PrimExpr) -> bool:
    """Return whether a load is in bounds for all lanes, masked or not."""
    if len(buffer.shape) != 1 or lanes.is_scalable:
        return False
    parts = linear(index)
    if parts is None:
        return False
    first, last = parts[0], parts[0]
    if parts[1] is not None:
        if not isinstance(parts[1], IntImm):
            return False
        reach = parts[1].value * (lanes.count - 1)
        first, last = (first, last + reach) if reach > 0 else (first + reach, last)
    can_prove = lanes.analyzer.can_prove
    return can_prove(first >= 0) and can_prove(last < ops.cast(last.dtype, buffer.shape[0]))
