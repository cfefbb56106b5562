"""ComputeInIntegers: products of dequantised tensors become products of their integers.

    y = R.nn.conv2d(R.dequantize(x, s, x0), R.dequantize(w, t, w0))
      ->
    n = R.nn.conv2d(R.astype(x, "int32") - x0, R.astype(w, "int32") - w0)
    y = R.astype(n, "float32") * (s * t)

The sums are exact, so that the result is nearer to the real one than a sum of floats. A bias with
the scale of the product is added to the integers. What moves elements or takes the greatest one
does so before they are dequantised; quantize after dequantize with the same parameters is nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from tilesmith.ir import IRModule, Op
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import remove_all_unused, used_vars
from tilesmith.relax.analysis.variables import bindings_of
from tilesmith.relax.expr import (
    Call,
    Constant,
    Function,
    SeqExpr,
    Var,
    const,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.op.evaluate import NotConstantError, constant_value, evaluate_call
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.relax.transform.requantised import Requantisation

_GREATEST = 1 << 30
"""Sums stay below this, half of what an int32 holds: so a bias below it can be added."""
_DEEPEST = 8
_DEQUANTIZE, _PERMUTE = operators.dequantize.op, operators.permute_dims.op
_RESHAPING = {
    operators.reshape.op, operators.flatten.op, operators.expand_dims.op, operators.squeeze.op,
}  # fmt: skip
_MOVING = {
    _PERMUTE, *_RESHAPING,
    operators.nn.max_pool1d.op, operators.nn.max_pool2d.op, operators.nn.max_pool3d.op,
}  # fmt: skip
_EVALUATED = {
    *_RESHAPING, _PERMUTE, operators.astype.op, operators.quantize.op,
    operators.zeros.op, operators.ones.op, operators.full.op,
}  # fmt: skip
"""Operators of constants that are looked through."""
_CONVOLUTIONS = (
    operators.nn.conv1d, operators.nn.conv2d, operators.nn.conv3d,
    operators.nn.conv1d_transpose, operators.nn.conv2d_transpose, operators.nn.conv3d_transpose,
)  # fmt: skip


class _Data(NamedTuple):
    """A dequantised tensor: its bytes, the scale and the zero point."""

    data: Any
    scale: numpy.ndarray
    point: int


class _Weights(NamedTuple):
    """A dequantised constant: its integers, and for each the scale and the zero point."""

    values: numpy.ndarray
    scales: numpy.ndarray
    points: numpy.ndarray

    def changed(self, change: Callable[[numpy.ndarray], numpy.ndarray]) -> _Weights:
        """Return the constant with its elements moved."""
        return _Weights(change(self.values), change(self.scales), change(self.points))

    def integers(self) -> numpy.ndarray:
        """Return the integers without their zero points."""
        found: numpy.ndarray = self.values.astype("int32") - self.points
        return found

    def factors(self, axis: int) -> numpy.ndarray | None:
        """Return the scales along an axis; None if they differ along another one."""
        found = numpy.moveaxis(self.scales, axis, 0).reshape(self.scales.shape[axis], -1)
        return found[:, 0] if found.size and (found == found[:, :1]).all() else None


def _info(expr: Any) -> TensorStructInfo | None:
    info = known_struct_info(expr)
    return info if isinstance(info, TensorStructInfo) else None


def _any_info(expr: Any) -> Any:
    return known_struct_info(expr)


def _is_float32(call: Call) -> bool:
    info = _info(call)
    return info is not None and info.dtype == "float32"


class _Integers(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.rules: dict[Op, Callable[[Call], Any]] = {
            operators.matmul.op: self.product,
            operators.add.op: self.bias,
            operators.quantize.op: self.back,
        }
        self.rules.update({function.op: self.convolution for function in _CONVOLUTIONS})
        self.rules.update(dict.fromkeys(_MOVING, self.moved))
        self.readers: dict[Var, int] = {}
        self.requantisation = Requantisation(
            self.builder_, self.value, self.data, self.is_real, self.is_shared
        )

    def visit_function_(self, op: Function) -> Any:
        """Count who reads each value before it is rewritten."""
        result = [op.body.body] if isinstance(op.body, SeqExpr) else []
        for value in [*[binding.value for binding in bindings_of(op)], *result]:
            for one in used_vars(value):
                self.readers[one] = self.readers.get(one, 0) + 1
        return super().visit_function_(op)

    def is_shared(self, expr: Any) -> bool:
        """Return whether a value has several readers."""
        return self.readers.get(expr, 1) > 1

    def visit_call_(self, op: Call) -> Any:
        """Rewrite a call after its arguments."""
        call = self.visit_expr_post_order(op)
        if not isinstance(call, Call) or not isinstance(call.op, Op):
            return call
        rule = self.rules.get(call.op)
        made = None if rule is None else rule(call)
        return call if made is None else made

    # What values consist of

    def value(self, expr: Any) -> Any:
        """Return what a variable is bound to, and any other expression as it is."""
        found = self.lookup_binding(expr) if isinstance(expr, Var) else None
        return expr if found is None else found

    def numbers(self, expr: Any, depth: int = 0) -> numpy.ndarray | None:
        """Return the elements of an expression of constants; None if it is none."""
        value = self.value(expr)
        if isinstance(value, Constant):
            return numpy.asarray(value.data)
        if not isinstance(value, Call) or value.op not in _EVALUATED or depth > _DEEPEST:
            return None
        arguments = []
        for arg in value.args:
            known = self.numbers(arg, depth + 1) if _info(arg) is not None else None
            try:
                arguments.append(constant_value(arg) if known is None else known)
            except NotConstantError:
                return None
        return numpy.asarray(evaluate_call(value, arguments))

    def dequantised(self, expr: Any) -> Call | None:
        value = self.value(expr)
        is_one = isinstance(value, Call) and value.op is _DEQUANTIZE and _is_float32(value)
        return value if is_one else None

    def data(self, expr: Any) -> _Data | None:
        """Return the bytes that a value was dequantised from, with one known scale for all."""
        call = self.dequantised(expr)
        info = None if call is None else _info(call.args[0])
        if call is None or info is None or not info.dtype.is_integer or info.dtype.bits != 8:
            return None
        scale, point = [self.numbers(arg) for arg in call.args[1:3]]
        if scale is None or point is None or scale.size != 1 or point.size != 1:
            return None
        if not (0 < float(scale.reshape(())) < numpy.inf):
            return None
        return _Data(call.args[0], scale.reshape(()), int(point.reshape(())))

    def weights(self, expr: Any, depth: int = 0) -> _Weights | None:
        """Return the integers that a constant was dequantised from."""
        value = self.value(expr)
        if isinstance(value, Call) and depth <= _DEEPEST and value.op in {_PERMUTE, *_RESHAPING}:
            inner = self.weights(value.args[0], depth + 1)
            if inner is None:
                return None
            if value.op is _PERMUTE:
                axes = value.attrs.axes
                order = None if axes is None else [int(axis) for axis in axes]
                return inner.changed(lambda array: array.transpose(order))
            shape = _any_info(value).concrete_shape
            return None if shape is None else inner.changed(lambda array: array.reshape(shape))
        call = self.dequantised(value)
        if call is None:
            return None
        values, *parameters = [self.numbers(arg) for arg in call.args]
        if values is None or values.dtype.kind not in "iu" or values.dtype.itemsize > 4:
            return None
        spread = []
        for parameter in parameters:
            if parameter is None:
                return None
            shape = [1] * values.ndim
            if parameter.size != 1:
                shape[int(call.attrs.axis)] = -1
            spread.append(numpy.broadcast_to(parameter.reshape(shape), values.shape))
        return _Weights(values, spread[0], spread[1].astype("int32"))

    # Rules

    def wide(self, data: _Data) -> Any:
        """Return bytes as int32, without their zero point."""
        wide = self.builder_.emit(operators.astype(data.data, "int32"))
        if not data.point:
            return wide
        return self.builder_.emit(operators.subtract(wide, const(data.point, "int32")))

    def product_of(self, call: Any, in_axis: int, out_axis: int, attrs: Any) -> Any:
        """Return a product of integers, times the scales: ``in_axis`` is that of the outputs in the
        weight, ``out_axis`` that in the result.
        """
        if not _is_float32(call) or (data := self.data(call.args[0])) is None:
            return None
        weights = self.weights(call.args[1])
        if weights is None or weights.values.dtype.itemsize != 1:
            return None
        scales, integers = weights.factors(in_axis), weights.integers()
        if scales is None:
            return None
        greatest = numpy.abs(numpy.moveaxis(integers, in_axis, 0)).reshape(len(scales), -1)
        if int(greatest.sum(1, dtype="int64").max()) * 255 >= _GREATEST:
            return None
        total = Call(call.op, [self.wide(data), const(integers)], attrs)
        real = self.builder_.emit(operators.astype(self.builder_.emit(total), "float32"))
        factor = (scales * data.scale).astype("float32")
        shape = [1] * _any_info(call).ndim
        if (factor != factor[0]).any():
            shape[out_axis] = -1
        else:
            factor = factor[:1]
        return operators.multiply(real, const(factor.reshape(shape)))

    def convolution(self, call: Any) -> Any:
        attrs: Any = call.attrs
        layouts = attrs.kernel_layout, attrs.out_layout or attrs.data_layout
        if not all(layout.isalpha() for layout in layouts):
            return None
        weights = self.weights(call.args[1])
        kernel, out = layouts[0].index("O"), layouts[1].index("C")
        if int(attrs.groups) > 1 and "I" in layouts[0] and layouts[0].index("I") < kernel:
            return None  # transposed: an output of the kernel is one of each group
        if weights is None:
            return None
        return self.product_of(call, kernel, out, {**dict(attrs.items()), "out_dtype": "int32"})

    def product(self, call: Any) -> Any:
        info = _info(call.args[1])
        if info is None or info.ndim != 2 or _any_info(call.args[0]).ndim < 2:
            return None
        attrs = dict(call.attrs.items())
        return self.product_of(call, 1, -1, {**attrs, "out_dtype": "int32"})

    def bias(self, call: Any) -> Any:
        """(n * f) + dequantize(b, f) -> (n + b) * f, for sums of products n."""
        for one, other in (call.args, call.args[::-1]):
            product = self.value(one)
            if not isinstance(product, Call) or product.op is not operators.multiply.op:
                continue
            real, factor = self.value(product.args[0]), product.args[1]
            if not isinstance(factor, Constant) or not self.is_sum(real):
                continue
            weights = self.weights(other)
            if weights is None or weights.values.dtype != "int32" or weights.points.any():
                continue
            factors = numpy.asarray(factor.data)
            if weights.values.ndim > factors.ndim or not _agree(weights, factors):
                continue
            total = operators.add(real.args[0], const(weights.values))
            whole = self.builder_.emit(operators.astype(self.builder_.emit(total), "float32"))
            return operators.multiply(whole, factor)
        return None

    def is_sum(self, value: Any) -> bool:
        """Return whether a value is one of the sums that this pass has converted."""
        if not isinstance(value, Call) or value.op is not operators.astype.op:
            return False
        return self.is_product(self.value(value.args[0]))

    def is_product(self, value: Any) -> bool:
        """Return whether a value is a product of integers."""
        if not isinstance(value, Call) or value.op not in self.rules or _is_float32(value):
            return False
        return self.rules[value.op] in (self.convolution, self.product)

    def is_real(self, value: Any) -> bool:
        """Return whether a value is one of the sums, with its bias or without."""
        total = self.value(value.args[0]) if isinstance(value, Call) else None
        if isinstance(total, Call) and total.op is operators.add.op:
            is_bias = value.op is operators.astype.op and self.numbers(total.args[1]) is not None
            return is_bias and self.is_product(self.value(total.args[0]))
        return self.is_sum(value)

    def moved(self, call: Any) -> Any:
        """Move bytes instead of floats."""
        data = self.data(call.args[0])
        info = _info(call)
        if data is None or info is None or info.ndim < 1:
            return None
        source: Any = self.dequantised(call.args[0])
        small = self.builder_.emit(Call(call.op, [data.data, *call.args[1:]], call.attrs))
        points = _any_info(source.args[2]).dtype
        scale, point = const(data.scale), const(data.point, str(points))
        return operators.dequantize(small, scale, point, -1, "float32")

    def back(self, call: Any) -> Any:
        """quantize(dequantize(x, s, z), s, z) -> x; a quantised product is rescaled."""
        scale, point = [self.numbers(arg) for arg in call.args[1:3]]
        if scale is None or point is None or scale.size != 1 or point.size != 1:
            return None
        scale, number = scale.reshape(()), int(point.reshape(()))
        data = self.data(call.args[0])
        if data is None:
            info = _info(call.args[0])
            if info is None or info.dtype != "float32" or scale.dtype != "float32":
                return None
            dtype = str(call.attrs.out_dtype)
            return self.requantisation.quantised(call.args[0], scale, number, dtype)
        if _any_info(data.data).dtype != call.attrs.out_dtype:
            return None
        return data.data if scale == data.scale and number == data.point else None


def _agree(weights: _Weights, factors: numpy.ndarray) -> bool:
    """Return whether a bias has the scales of the sums, and does not exceed what they may be."""
    sizes = numpy.abs(weights.values.astype("int64"))
    if not sizes.size or int(sizes.max()) >= _GREATEST:
        return False
    try:
        wanted, given = numpy.broadcast_arrays(factors, weights.scales)
    except ValueError:
        return False
    return bool(numpy.allclose(wanted, given, rtol=1e-6, atol=0))


@compiler_pass("ComputeInIntegers")
def compute_in_integers(func: Function, mod: IRModule) -> Function:
    """Computes products of dequantised tensors with their integers."""
    changed = _Integers(mod).visit_expr(func)
    return changed if changed is func else remove_all_unused(changed)
