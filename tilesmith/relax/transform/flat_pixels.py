"""Keeps the pixels of an image in one axis around a convolution of single pixels in NCHW.

    y = R.nn.conv2d(x, w)              x1 = R.reshape(x, (N, C, 1, H * W))
    z = R.nn.relu(y)             →     y1 = R.call_tir(conv2d_of_pixels, (x1, w))
                                       z1 = R.nn.relu(y1)
                                       z = R.reshape(z1, (N, O, H, W))

Then its vectors run over all pixels, whatever the width of a row is. Reshaping costs nothing.
"""

from __future__ import annotations

from typing import Any

from tilesmith import topi
from tilesmith.relax import op as operators
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import Call, Constant, ShapeExpr, Var, known_struct_info
from tilesmith.relax.struct_info import TensorStructInfo

__all__ = ["FlatPixels"]


class FlatPixels:
    """The images of a function whose pixels are in one axis."""

    def __init__(self, builder: BlockBuilder, binding_of: Any) -> None:
        self.builder = builder
        self.binding_of = binding_of
        self.known: set[Any] = set()

    def convolution(self, data: Any, weights: Constant, call: Call) -> Any:
        """Return a convolution of single pixels; ``weights`` are (O, I)."""
        shape = _shape(data)
        if shape is None:
            return None
        made = self.builder.call_te(
            topi.nn.conv2d_of_pixels, self.flattened(data), weights, primfunc_name_hint="conv2d"
        )
        return self.restored(made, call)

    def elementwise(self, call: Call) -> Any:
        """Return an elementwise operator of flat images; None if an operand is of another form."""
        operands: list[Any] = []
        tensors = [arg for arg in call.args if isinstance(known_struct_info(arg), TensorStructInfo)]
        if not any(self.behind(arg) is not None for arg in tensors):
            return None
        sizes = _shape(call)
        for arg in call.args:
            shape = _shape(arg)
            if arg not in tensors or _is_same_for_all_pixels(arg):
                operands.append(arg)
            elif shape is None or sizes is None or not _are_equal(shape[2:], sizes[2:]):
                return None
            else:
                operands.append(self.flattened(arg))
        return self.restored(Call(call.op, operands, call.attrs, call.sinfo_args), call)

    def behind(self, expr: Any) -> Any:
        """Return the flat form of a value, if it has one already."""
        binding = self.binding_of(expr) if isinstance(expr, Var) else None
        if isinstance(binding, Call) and binding.op is operators.reshape.op:
            if binding.args[0] in self.known:
                return binding.args[0]
        return None

    def flattened(self, expr: Any) -> Any:
        found = self.behind(expr)
        if found is not None:
            return found
        n, c, h, w = _shape(expr)
        return self.builder.emit(operators.reshape(expr, ShapeExpr([n, c, 1, h * w])))

    def restored(self, made: Any, call: Call) -> Any:
        """Return a flat result in the shape of a call."""
        flat = self.builder.emit(made)
        self.known.add(flat)
        return operators.reshape(flat, ShapeExpr(_shape(call)))


def _shape(expr: Any) -> Any:
    info = known_struct_info(expr)
    shape = info.shape if isinstance(info, TensorStructInfo) else None
    return shape.values if isinstance(shape, ShapeExpr) and len(shape.values) == 4 else None


def _is_one(size: Any) -> bool:
    return getattr(size, "value", None) == 1


def _are_equal(a: Any, b: Any) -> bool:
    return all(x is y or getattr(x, "value", None) == getattr(y, "value", y) for x, y in zip(a, b))


def _is_same_for_all_pixels(arg: Any) -> bool:
    """Return whether an operand has one element for a channel, or one at all."""
    info = known_struct_info(arg)
    shape = info.shape if isinstance(info, TensorStructInfo) else None
    values = shape.values if isinstance(shape, ShapeExpr) else None
    if values is None:
        return False
    return all(_is_one(size) for size in values[-2:]) if len(values) > 1 else not values
