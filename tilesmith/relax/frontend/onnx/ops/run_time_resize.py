"""Resizing by factors or sizes that are known only when the model runs.

What `resizing.py` computes with numpy at import is computed by the model itself: the positions of
the new elements on the old axis, their neighbours, and the weights of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.relax import op
from tilesmith.relax.expr import ShapeExpr
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.ops.run_time import long_vector, size_vector
from tilesmith.relax.frontend.onnx.values import Size, dtype_of, scalar, shape_of
from tilesmith.support.errors import OpAttributeInvalid

__all__ = ["RunTimeResize"]

_WIDE = "float64"


def _number(value: float) -> Any:
    return scalar(value, _WIDE)


class RunTimeResize:
    """Resizes axes of a tensor; make the plan by `by_scales` or `by_sizes`, then ask for the
    result.
    """

    def __init__(
        self, node: OnnxNode, x: Any, axes: list[int], settings: dict[str, Any], region: Any
    ) -> None:
        self.node, self.x, self.axes, self.settings = node, x, axes, settings
        sizes = shape_of(x)
        self.old = size_vector(node, [sizes[axis] for axis in axes])
        self.before = node.emit(op.astype(self.old, _WIDE))
        self.region = None if region is None else node.emit(op.astype(region, _WIDE))
        self.scales: Any = None
        self.after: list[Size] = []
        self.new: Any = None

    def by_scales(self, scales: Any) -> None:
        """Make sizes that are the old ones times factors, rounded down."""
        single = op.astype(scales, "float32")
        sizes = op.floor(op.multiply(op.astype(self.old, "float32"), single))
        self._plan(op.astype(scales, _WIDE), op.astype(sizes, "int64"))

    def by_sizes(self, sizes: Any, policy: str) -> None:
        """Take given sizes, or such that keep the aspect ratio."""
        sizes = long_vector(self.node, sizes)
        scales = self.node.emit(op.divide(op.astype(sizes, _WIDE), self.before))
        if policy != "stretch":
            factor = (op.min if policy == "not_larger" else op.max)(scales, [0], True)
            scales = self.node.emit(op.multiply(factor, op.ones_like(scales)))
            wanted = op.add(op.multiply(scales, self.before), _number(0.5))
            sizes = op.astype(op.floor(wanted), "int64")
        self._plan(scales, sizes)

    def _plan(self, scales: Any, sizes: Any) -> None:
        self.scales, self.new = self.node.emit(scales), self.node.emit(sizes)
        self.after = self.node.run_time_sizes(self.new, "size")

    def result(self) -> Any:
        """Return the resized tensor."""
        x, dtype = self.x, dtype_of(self.x)
        outside = None
        for i, axis in enumerate(self.axes):
            places = self.node.emit(self._positions(i))
            if self.settings["mode"] == "nearest":
                x = op.take(x, self.node.emit(self._nearest(i, places)), axis)
            else:
                x = self._weighted(x, i, axis, places)
            x = self.node.emit(x)
            if self.settings["coordinates"] == "tf_crop_and_resize":
                mask = self._outside(i, places, axis)
                outside = mask if outside is None else op.logical_or(outside, mask)
        if outside is not None:
            x = op.where(outside, scalar(self.settings["outside"], dtype_of(x)), x)
        return x if dtype_of(x) == dtype else op.astype(x, dtype)

    # Positions

    def _of(self, values: Any, i: int) -> Any:
        return op.take(values, scalar(i, "int64"), 0)

    def _last(self, i: int) -> Any:
        return op.subtract(self._of(self.before, i), _number(1))

    def _positions(self, i: int) -> Any:
        name = self.settings["coordinates"]
        if name not in _POSITIONS:
            raise OpAttributeInvalid(
                f"its attribute 'coordinate_transformation_mode' is '{name}'",
                notes=("known: " + ", ".join(_POSITIONS),),
            )
        steps = op.astype(op.arange(0, self.after[i], 1, "int64"), _WIDE)
        return _POSITIONS[name](self, i, self.node.emit(steps))

    def half_pixel(self, i: int, steps: Any) -> Any:
        """Return positions of which pixels are squares around them."""
        middle = op.divide(op.add(steps, _number(0.5)), self._of(self.scales, i))
        return op.subtract(middle, _number(0.5))

    def symmetric(self, i: int, steps: Any) -> Any:
        """Return positions from which what rounding cut off is missing equally on both sides."""
        size = self._of(self.before, i)
        wanted = op.multiply(self._of(self.scales, i), size)
        share = op.divide(op.astype(self._of(self.new, i), _WIDE), wanted)
        shift = op.multiply(op.divide(size, _number(2)), op.subtract(_number(1), share))
        return op.add(shift, self.half_pixel(i, steps))

    def unless_one(self, i: int, places: Any, single: Any) -> Any:
        """Return positions, those of ``single`` if the new size is 1."""
        is_one = op.equal(self._of(self.new, i), scalar(1, "int64"))
        return op.where(is_one, single, places)

    def corners(self, i: int, steps: Any) -> Any:
        """Return positions of which the first and last ones are those of the old axis."""
        length = op.multiply(self._of(self.scales, i), self._of(self.before, i))
        intervals = op.subtract(length, _number(1))
        is_zero = op.equal(intervals, _number(0))
        intervals = op.where(is_zero, _number(1), intervals)
        places = op.divide(op.multiply(steps, self._last(i)), intervals)
        return op.where(is_zero, op.multiply(steps, _number(0)), places)

    def cropped(self, i: int, steps: Any) -> Any:
        """Return positions in the region of the axis that is kept."""
        last = self._last(i)
        if self.region is None:
            start, end = _number(0), _number(1)
        else:
            start, end = self._of(self.region, i), self._of(self.region, i + len(self.axes))
        intervals = op.subtract(op.astype(self._of(self.new, i), _WIDE), _number(1))
        intervals = op.maximum(intervals, _number(1))
        step = op.divide(op.multiply(op.subtract(end, start), last), intervals)
        places = op.add(op.multiply(start, last), op.multiply(steps, step))
        middle = op.multiply(op.divide(op.add(start, end), _number(2)), last)
        return self.unless_one(i, places, middle)

    def _outside(self, i: int, places: Any, axis: int) -> Any:
        beyond = op.logical_or(op.less(places, _number(0)), op.greater(places, self._last(i)))
        rank = len(shape_of(self.x))
        return op.reshape(beyond, [self.after[i] if k == axis else 1 for k in range(rank)])

    # Elements

    def _bounded(self, places: Any, i: int) -> Any:
        """Return the indices of the nearest elements of the axis."""
        places = op.minimum(op.maximum(places, _number(0)), self._last(i))
        return op.astype(places, "int64")

    def _nearest(self, i: int, places: Any) -> Any:
        name = self.settings["rounding"]
        if name not in _ROUNDINGS:
            raise OpAttributeInvalid(f"its attribute 'nearest_mode' is '{name}'")
        # Positions carry rounding errors of the factor: 1.9999999 should be 2.
        places = op.divide(op.round(op.multiply(places, _number(1e9))), _number(1e9))
        return self._bounded(_ROUNDINGS[name](places), i)

    def _weighted(self, x: Any, i: int, axis: int, places: Any) -> Any:
        """Return weighted sums of neighbours: a new axis of them, which is summed."""
        x = x if dtype_of(x).is_float else op.astype(x, "float32")
        taps, weights, count = self._taps(i, places)
        index = self.node.emit(op.reshape(self._bounded(taps, i), [count * self.after[i]]))
        sizes = shape_of(x)
        around = [sizes[:axis], sizes[axis + 1 :]]
        wide = op.reshape(
            op.take(x, index, axis), ShapeExpr([*around[0], count, self.after[i], *around[1]])
        )
        factor = op.reshape(
            op.astype(weights, dtype_of(x)),
            ShapeExpr([1] * axis + [count, self.after[i]] + [1] * len(around[1])),
        )
        return op.sum(op.multiply(wide, self.node.emit(factor)), [axis])

    def _taps(self, i: int, places: Any) -> tuple[Any, Any, Size]:
        """Return the neighbours' positions and weights, of the shape (count, new size)."""
        settings = self.settings
        reach = 1 if settings["mode"] == "linear" else 2
        count: Size = 2 * reach
        first: Any = _number(1 - reach)
        width: Any = None
        if settings["antialias"]:  # the kernel covers all old elements that map to one new one
            width = self.node.emit(op.minimum(self._of(self.scales, i), _number(1)))
            radius = op.add(op.ceil(op.divide(_number(reach), width)), _number(1))
            number = op.add(op.multiply(radius, _number(2)), _number(1))
            (count,) = self.node.run_time_sizes(
                self.node.emit(op.reshape(op.astype(number, "int64"), [1])), "count"
            )
            first = op.negative(radius)
        steps = op.add(op.astype(op.arange(0, count, 1, "int64"), _WIDE), first)
        row = op.expand_dims(places, 0)
        taps = self.node.emit(op.add(op.floor(row), op.expand_dims(steps, 1)))
        distance = op.abs(op.subtract(taps, row))
        distance = distance if width is None else op.multiply(distance, width)
        kernel = _triangle if settings["mode"] == "linear" else _cubic
        weights = self.node.emit(kernel(self.node.emit(distance), settings["alpha"]))
        if settings["exclude_outside"]:
            inside = op.logical_and(
                op.greater_equal(taps, _number(0)), op.less_equal(taps, self._last(i))
            )
            weights = self.node.emit(op.where(inside, weights, _number(0)))
        if settings["exclude_outside"] or settings["antialias"]:
            weights = self.node.emit(op.divide(weights, op.sum(weights, [0], True)))
        return taps, weights, count


def _triangle(distance: Any, alpha: float) -> Any:
    return op.maximum(_number(0), op.subtract(_number(1), distance))


def _polynomial(x: Any, *factors: float) -> Any:
    total: Any = _number(factors[0])
    for factor in factors[1:]:
        total = op.add(op.multiply(total, x), _number(factor))
    return total


def _cubic(distance: Any, alpha: float) -> Any:
    near = _polynomial(distance, alpha + 2, -(alpha + 3), 0, 1)
    far = _polynomial(distance, alpha, -5 * alpha, 8 * alpha, -4 * alpha)
    far = op.where(op.less(distance, _number(2)), far, _number(0))
    return op.where(op.less_equal(distance, _number(1)), near, far)


_POSITIONS: dict[str, Callable[[RunTimeResize, int, Any], Any]] = {
    "align_corners": RunTimeResize.corners,
    "asymmetric": lambda plan, i, steps: op.divide(steps, plan._of(plan.scales, i)),
    "half_pixel": RunTimeResize.half_pixel,
    "half_pixel_symmetric": RunTimeResize.symmetric,
    "pytorch_half_pixel": lambda plan, i, steps: plan.unless_one(
        i, plan.half_pixel(i, steps), _number(-0.5)
    ),
    "tf_crop_and_resize": RunTimeResize.cropped,
    "tf_half_pixel_for_nn": lambda plan, i, steps: op.divide(
        op.add(steps, _number(0.5)), plan._of(plan.scales, i)
    ),
}
_ROUNDINGS: dict[str, Callable[[Any], Any]] = {
    "ceil": op.ceil,
    "floor": op.floor,
    "round_prefer_ceil": lambda x: op.floor(op.add(x, _number(0.5))),
    "round_prefer_floor": lambda x: op.ceil(op.subtract(x, _number(0.5))),
}
