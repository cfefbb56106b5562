"""Sums whose rounding errors stay small: of narrow floats, and over long axes.

Floats of fewer than 32 bits are added in float32, and the result is rounded once. Reductions of
more than ``LONGEST`` elements go by blocks of at most ``BLOCK``, and so do the blocks' results:

    S = sum over k < 10 000 000 of A[k]
  becomes
    P[b] = sum over i < 400 of A[b * 400 + i]          (25 000 blocks)
    Q[c] = sum over i < 400 of P[c * 400 + i]          (62 blocks, and 200 elements behind them)
    S = sum over c < 62 of Q[c] + sum over i < 200 of P[24 800 + i]

So the error of a sum of n elements is at most about ``BLOCK * ceil(log(n, BLOCK)) * u`` (up to
LONGEST elements ``n * u``, as in a single loop) times the sum of the absolute values, with u =
2 ** -24 for float32. The sizes decide the blocks, never the target nor the number of threads. Where
a reduced axis has a symbolic size there is one loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilesmith import te
from tilesmith.ir import IntImm, PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.runtime.dtype import DataType
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute_several
from tilesmith.topi.math import cast

__all__ = ["BLOCK", "LONGEST", "Axis", "accumulator", "reduce_axes", "rounded", "widened"]

LONGEST = 4096
"""The largest number of elements that are reduced in one loop."""
BLOCK = 512
"""The largest number of elements in a block of a longer reduction."""

_VECTOR = 16  # blocks of a multiple of so many elements fill the vectors of all targets


def accumulator(dtype: DataType | str) -> DataType:
    """Return the dtype in which values of a dtype are added: float32 for narrower floats."""
    dtype = DataType(dtype)
    return DataType("float32") if dtype.is_float and dtype.bits < 32 else dtype


def widened(value: PrimExpr) -> PrimExpr:
    """Return a value in the dtype in which it is added."""
    return op.cast(accumulator(value.dtype), value)


def rounded(total: Tensor, dtype: DataType | str) -> Tensor:
    """Return a result in another dtype than that of its accumulator."""
    return total if total.dtype == dtype else cast(total, dtype)


@dataclass(frozen=True)
class Axis:
    """An axis of what is reduced: its size, and whether it is reduced or kept."""

    size: PrimExpr
    is_reduced: bool


Element = Callable[..., Any]
"""Gives the value (or values, for a reducer of tuples) at an index of all axes."""


def reduce_axes(
    axes: Sequence[Axis],
    element: Element,
    reducer: Callable[..., Any],
    name: str,
    keepdims: bool = False,
    tag: str = tag.COMM_REDUCE,
) -> Any:
    """Return a tensor over the kept axes (``keepdims``: with size 1 for the others), or a list of
    them for a reducer of tuples. Long reductions go by blocks, see the top of this file.
    """
    return _reduce_by_blocks(LONGEST, axes, element, reducer, name, keepdims, tag)


def _reduce_by_blocks(
    longest: int,
    axes: Sequence[Axis],
    element: Element,
    reducer: Callable[..., Any],
    name: str,
    keepdims: bool,
    tag: str,
) -> Any:
    """Reduce in one loop up to ``longest`` elements, else by blocks."""
    blocks = _blocks(axes, longest)
    if blocks is None:
        return _reduce(axes, element, reducer, name, keepdims, tag)
    partial = _Split(axes, blocks, element, reducer, name + "_block", tag)
    if partial.rest is None:
        return _reduce_by_blocks(
            BLOCK, partial.axes, partial.blocks(), reducer, name, keepdims, tag
        )
    total = _reduce_by_blocks(
        BLOCK, partial.axes, partial.blocks(), reducer, name + "_blocks", keepdims, tag
    )
    rest = _reduce_by_blocks(
        BLOCK, partial.rest, partial.tail(), reducer, name + "_rest", keepdims, tag
    )
    return _joined(total, rest, reducer, name)


def _reduce(
    axes: Sequence[Axis],
    element: Element,
    reducer: Callable[..., Any],
    name: str,
    keepdims: bool,
    tag: str,
) -> Any:
    reduced = [number for number, axis in enumerate(axes) if axis.is_reduced]
    longer = [number for number in reduced if not op.is_const(axes[number].size, 1)]
    iterators = {}
    for number in longer or reduced:
        size = axes[number].size
        iterators[number] = te.reduce_axis((const(0, size.dtype), size), name=f"k{number}")
    shape = [
        const(1, axis.size.dtype) if axis.is_reduced else axis.size
        for axis in axes
        if keepdims or not axis.is_reduced
    ]

    def value(*indices: Any) -> Any:
        given = list(indices)
        place = []
        for number, axis in enumerate(axes):
            own = given.pop(0) if keepdims or not axis.is_reduced else const(0, axis.size.dtype)
            place.append(iterators[number].var if number in iterators else own)
        return reducer(element(*place), axis=list(iterators.values()))

    return compute_several(shape, value, name=name, tag=tag)


def _blocks(axes: Sequence[Axis], longest: int) -> list[int] | None:
    """Return how many elements of each reduced axis one block reduces; None without blocks."""
    sizes = [axis.size for axis in axes if axis.is_reduced]
    if not all(isinstance(size, IntImm) for size in sizes):
        return None
    numbers = [int(size) for size in sizes]
    count = math.prod(numbers)
    if count <= longest:
        return None
    room = BLOCK
    blocks = [1] * len(numbers)
    for place in reversed(range(len(numbers))):
        if numbers[place] > room:
            blocks[place] = _block(numbers[place], room)
            break
        blocks[place] = numbers[place]
        room //= numbers[place]
    return blocks


def _block(size: int, room: int) -> int:
    """Return the size of the blocks of an axis: the largest number of whole vectors in ``room``
    that divides the axis, unless the blocks were small.
    """
    if room < _VECTOR:
        return room
    largest = room // _VECTOR * _VECTOR
    return next((b for b in range(largest, room // 4, -_VECTOR) if size % b == 0), largest)


class _Split:
    """The results of the blocks, and the axes that are left to reduce."""

    def __init__(
        self,
        axes: Sequence[Axis],
        blocks: Sequence[int],
        element: Element,
        reducer: Callable[..., Any],
        name: str,
        tag: str,
    ) -> None:
        self._element = element
        inner: list[Axis] = []
        self.axes: list[Axis] = []
        self.rest: list[Axis] | None = None
        """The axes of the elements behind the last block, where there are any."""
        self._places: list[tuple[int, int | None, int]] = []
        """For each axis of the input its place in ``axes``, among the blocks' own axes, and the
        size of its blocks.
        """
        self._skipped: dict[int, int] = {}
        sizes = iter(blocks)
        for number, axis in enumerate(axes):
            if not axis.is_reduced:
                self._places.append((len(self.axes), None, 1))
                self.axes.append(axis)
                continue
            block, size = next(sizes), int(axis.size)
            outer = size // block
            self._places.append((len(self.axes), len(inner) if block > 1 else None, block))
            self.axes.append(Axis(const(outer, axis.size.dtype), True))
            if block > 1:
                inner.append(Axis(const(block, axis.size.dtype), True))
            if size % block:
                self._skipped[number] = outer * block
                left = Axis(const(size % block, axis.size.dtype), True)
                self.rest = [*axes[:number], left, *axes[number + 1 :]]
        kept = [Axis(axis.size, False) for axis in self.axes]
        made = _reduce([*kept, *inner], self._block_element, reducer, name, False, tag)
        self._made = made

    def _block_element(self, *indices: Any) -> Any:
        outer, inner = indices[: len(self.axes)], indices[len(self.axes) :]
        place = []
        for at, within, block in self._places:
            index = outer[at]
            if within is not None:
                is_one = op.is_const(self.axes[at].size, 1)
                index = inner[within] if is_one else index * block + inner[within]
            place.append(index)
        return self._element(*place)

    def blocks(self) -> Element:
        """Return the function that computes the result of a block."""
        made = self._made
        if isinstance(made, Tensor):
            return lambda *i: made(*i)
        return lambda *i: tuple([one(*i) for one in made])

    def tail(self) -> Element:
        """Return the function that computes an element after the last block."""
        skipped = self._skipped
        return lambda *i: self._element(
            *[index + skipped.get(number, 0) for number, index in enumerate(i)]
        )


def _joined(total: Any, rest: Any, reducer: Callable[..., Any], name: str) -> Any:
    """Combine the results of the blocks with that of the elements behind the last one."""
    if isinstance(total, Tensor):
        return compute_several(
            total.shape, lambda *i: reducer(total(*i), rest(*i)), name=name, tag=tag.ELEMWISE
        )

    def values(*i: Any) -> tuple:
        return tuple(reducer(tuple([one(*i) for one in total]), tuple([one(*i) for one in rest])))

    return compute_several(total[0].shape, values, name=name, tag=tag.ELEMWISE)
