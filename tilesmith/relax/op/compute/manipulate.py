"""Moves of elements as tensor expressions."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir, topi
from tilesmith.ir.operators import cast, const, equal, is_const
from tilesmith.support.errors import UnsupportedError
from tilesmith.topi import tag
from tilesmith.topi.utils import product, simplify


def reshape(attrs: Any, x: Any, shape: Any) -> Any:
    """Other sizes, elements in the same order."""
    return topi.reshape(x, shape)


def flatten(attrs: Any, x: Any) -> Any:
    """All elements in one axis."""
    return topi.reshape(x, [product(x.shape)])


def batch_flatten(attrs: Any, x: Any) -> Any:
    """All axes but the first in one."""
    return topi.reshape(x, [x.shape[0], product(x.shape[1:])])


def expand_dims(attrs: Any, x: Any) -> Any:
    """New axes of size 1."""
    ndim = len(x.shape) + len(attrs.axis)
    for axis in sorted([axis % ndim for axis in attrs.axis]):
        x = topi.expand_dims(x, axis)
    return x


def squeeze(attrs: Any, x: Any) -> Any:
    """Without axes of size 1."""
    return topi.squeeze(x, attrs.axis)


def permute_dims(attrs: Any, x: Any) -> Any:
    """Axes in another order."""
    return topi.transpose(x, attrs.axes)


def broadcast_to(attrs: Any, x: Any, shape: Any) -> Any:
    """Repeated along axes of size 1."""
    return topi.broadcast_to(x, shape)


def concat(attrs: Any, tensors: Any) -> Any:
    """One after the other."""
    return topi.concatenate(tensors, attrs.axis or 0)


def stack(attrs: Any, tensors: Any) -> Any:
    """Along a new axis."""
    return topi.stack(tensors, attrs.axis)


def split(attrs: Any, x: Any) -> Any:
    """Parts along an axis; with a number of sections the last may be smaller."""
    sections, axis = attrs.indices_or_sections, attrs.axis % len(x.shape)
    if isinstance(sections, int):
        size = x.shape[axis]
        step = simplify((size + (sections - 1)) // sections)
        sections = [step * i for i in range(1, sections)]
        if all(is_const(place) for place in sections):
            sections = [int(place) for place in sections]
    return topi.split(x, list(sections), axis)


def repeat(attrs: Any, x: Any) -> Any:
    """Each element several times."""
    if attrs.axis is None:
        return topi.repeat(topi.reshape(x, [product(x.shape)]), attrs.repeats, 0)
    return topi.repeat(x, attrs.repeats, attrs.axis % len(x.shape))


def tile(attrs: Any, x: Any) -> Any:
    """The whole several times."""
    return topi.tile(x, attrs.repeats)


def flip(attrs: Any, x: Any) -> Any:
    """An axis backwards."""
    return topi.flip(x, attrs.axis)


def layout_transform(attrs: Any, x: Any) -> Any:
    """Elements at other places: an index map and its inverse."""
    index_map = attrs.index_map
    inverse, padding = index_map.non_surjective_inverse(list(x.shape))
    shape = index_map.map_shape(list(x.shape))

    def element(*indices: Any) -> Any:
        value = x(*inverse.map_indices(list(indices)))
        outside = substitute_padding(padding, inverse, indices)
        if is_const(outside, 0):
            return value
        fill = const(attrs.pad_value or 0, x.dtype)
        return tir.if_then_else(outside, fill, value)

    return te.compute(shape, element, name="te_layout_transform", tag=tag.INJECTIVE)


def substitute_padding(padding: Any, inverse: Any, indices: Any) -> Any:
    """The condition that a place of the result holds no element, at given indices."""
    from tilesmith.tir.functor import substitute

    return simplify(substitute(padding, dict(zip(inverse.initial_indices, indices))))


def _collapse(x: Any, shape: Any) -> Any:
    extra = len(x.shape) - len(shape)
    if extra:
        x = topi.sum(x, list(range(extra)))
    axes = [
        i for i, (a, b) in enumerate(zip(x.shape, shape)) if is_const(b, 1) and not is_const(a, 1)
    ]
    return topi.sum(x, axes, keepdims=True) if axes else x


def collapse_sum_to(attrs: Any, x: Any, shape: Any) -> Any:
    """The sum over what broadcasting repeats."""
    return _collapse(x, shape)


def collapse_sum_like(attrs: Any, x: Any, target: Any) -> Any:
    """The sum over what broadcasting to ``x`` repeats."""
    return _collapse(x, target.shape)


def _combine(reduction: str, old: Any, new: Any) -> Any:
    if reduction in ("update", "none"):
        return new
    functions = {"add": tir.Add, "mul": tir.Mul, "min": tir.Min, "max": tir.Max}
    if reduction not in functions:
        raise UnsupportedError(f"scatter with reduction '{reduction}' has no compute")
    return functions[reduction](old, new)


def _scan_updates(data: Any, count: Any, hit: Any, value: Any, reduction: str, name: str) -> Any:
    """Every element looks through the updates in order: no two writers meet."""
    step = te.reduce_axis((0, count), name="k")

    def combine(left: Any, right: Any) -> Any:
        old, was_set = left
        new, sets = right
        both = _combine(reduction, old, new)
        merged = tir.Select(tir.And(was_set, sets), both, tir.Select(sets, new, old))
        return merged, tir.Or(was_set, sets)

    def identity(first: Any, second: Any) -> Any:
        return const(0, first), const(False, second)

    reducer = tir.comm_reducer(combine, identity, name="scatter")

    def element(*i: Any) -> Any:
        place = hit(step.var, i)
        return reducer((value(step.var, i), place), axis=step)

    found, was_set = te.compute(data.shape, element, name=name)

    def result(*i: Any) -> Any:
        return tir.Select(was_set(*i), _combine(reduction, data(*i), found(*i)), data(*i))

    return te.compute(data.shape, result, name="T_" + name, tag=tag.INJECTIVE)


def scatter_elements(attrs: Any, data: Any, indices: Any, updates: Any) -> Any:
    """Updates at the places that indices give along an axis."""
    axis = attrs.axis % len(data.shape)
    size = data.shape[axis]

    def at(k: Any, i: Any) -> Any:
        return [*i[:axis], k, *i[axis + 1 :]]

    def inside(k: Any, i: Any) -> Any:
        conditions = [
            index < extent
            for number, (index, extent) in enumerate(zip(i, indices.shape))
            if number != axis
        ]
        return tir.all(const(True, "bool"), *conditions)

    def hit(k: Any, i: Any) -> Any:
        index = tir.if_then_else(
            inside(k, i), indices(*at(k, i)), const(-1, indices.dtype) - cast(indices.dtype, size)
        )
        index = tir.Select(index < 0, index + cast(index.dtype, size), index)
        return equal(cast("int64", index), cast("int64", i[axis]))

    def value(k: Any, i: Any) -> Any:
        return tir.if_then_else(inside(k, i), updates(*at(k, i)), const(0, data.dtype))

    return _scan_updates(data, indices.shape[axis], hit, value, attrs.reduction, "scatter_elements")


def scatter_nd(attrs: Any, data: Any, indices: Any, updates: Any) -> Any:
    """Updates at places whose indices are the last axis."""
    depth = int(indices.shape[-1])
    outer = list(indices.shape[:-1])
    count = product(outer)

    def unflatten(k: Any) -> list[Any]:
        return topi.unravel_index(k, outer)

    def hit(k: Any, i: Any) -> Any:
        place = unflatten(k)
        conditions = [
            equal(cast("int64", indices(*place, n)), cast("int64", i[n])) for n in range(depth)
        ]
        return tir.all(const(True, "bool"), *conditions)

    def value(k: Any, i: Any) -> Any:
        return updates(*unflatten(k), *i[depth:])

    return _scan_updates(data, count, hit, value, attrs.reduction, "scatter_nd")
