"""FoldScaleAxis: folds a constant factor along the output channels into a constant weight.

    y = R.multiply(R.nn.conv2d(x, w), s)              ->    y = R.nn.conv2d(x, w * s)
    y = R.multiply(R.add(R.nn.conv2d(x, w), b), s)    ->    y = R.add(R.nn.conv2d(x, w * s), b * s)

After DecomposeOpsForInference, this folds batch normalisations into convolutions.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import bindings_of, remove_all_unused, used_vars
from tilesmith.relax.expr import Call, Constant, Function, Var, known_struct_info
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.runtime import nd
from tilesmith.support.fallbacks import record_fallback

_MULTIPLY, _ADD = operators.multiply.op, operators.add.op
_CONVOLUTIONS = {operators.nn.conv1d.op, operators.nn.conv2d.op, operators.nn.conv3d.op}
_MATMUL, _DENSE = operators.matmul.op, operators.nn.dense.op


def channel_axes(call: Call) -> tuple[int, int] | None:
    """Return the output channel's axis in the result and in the weight; None for any other
    operator.
    """
    if call.op in _CONVOLUTIONS:
        layout = call.attrs.out_layout or call.attrs.data_layout
        if not layout.isalpha() or not call.attrs.kernel_layout.isalpha():
            return None
        return layout.index("C"), call.attrs.kernel_layout.index("O")
    rank = known_struct_info(call).ndim
    if call.op is _MATMUL and known_struct_info(call.args[1]).ndim == 2:
        return rank - 1, 1
    if call.op is _DENSE:
        return rank - 1, 0
    return None


def _takes_factors(call: Call) -> bool:
    """Return whether a call has a constant weight that can absorb factors."""
    has_weight = len(call.args) > 1 and isinstance(call.args[1], Constant)
    return has_weight and channel_axes(call) is not None


def _record(call: Call, reason: str) -> None:
    record_fallback("folding", f"factor of {call.op.name}", reason)


def _factors(scale: Any, rank: int, axis: int) -> Any:
    """Return a constant as one factor per channel; None if it varies along another axis."""
    array = scale.data.numpy_view()
    shape = (1,) * (rank - array.ndim) + array.shape
    if len(shape) != rank or any(size != 1 for i, size in enumerate(shape) if i != axis):
        return None
    return array.reshape(-1)


class _FoldScale(PyExprMutator):
    def __init__(self, mod: IRModule, func: Function) -> None:
        super().__init__(mod)
        self.uses: dict[Var, int] = {}
        for binding in bindings_of(func):
            for var in _occurrences(binding.value):
                self.uses[var] = self.uses.get(var, 0) + 1
        for var in used_vars(func.body.body):
            self.uses[var] = self.uses.get(var, 0) + 1

    def _single(self, expr: Any) -> Any:
        """Return the value of a variable that is used once."""
        if self.uses.get(expr, 0) == 1:
            return self.lookup_binding(expr)
        value = self.lookup_binding(expr)
        if isinstance(value, Call) and _takes_factors(value):
            _record(value, "its result is also used without the factor")
        return None

    def visit_call_(self, op: Call) -> Any:
        call = self.visit_expr_post_order(op)
        if not isinstance(call, Call) or call.op is not _MULTIPLY:
            return call
        for value, scale in (call.args, call.args[::-1]):
            if isinstance(scale, Constant) and isinstance(value, Var):
                folded = self._fold(self._single(value), scale, known_struct_info(call))
                if folded is not None:
                    return folded
        return call

    def _fold(self, value: Any, scale: Constant, info: Any) -> Any:
        if not isinstance(value, Call):
            return None
        if value.op is _ADD:
            return self._fold_sum(value, scale, info)
        axes = channel_axes(value)
        if axes is None or not _takes_factors(value):
            return None
        own = known_struct_info(value)
        if own.shape is None or own.ndim != info.ndim:
            return None
        factors = _factors(scale, own.ndim, axes[0])
        constant: Any = value.args[1]
        weight = constant.data.numpy_view()
        if factors is None or factors.size not in (1, weight.shape[axes[1]]):
            _record(value, "the factors are not one for each output channel")
            return None
        shape = [1] * weight.ndim
        shape[axes[1]] = -1
        scaled = nd.empty(weight.shape, constant.data.dtype)
        product, factors = scaled.numpy_view(), factors.reshape(shape)
        numpy.multiply(weight, factors, out=product, casting="unsafe")
        args = (value.args[0], Constant(scaled), *value.args[2:])
        return Call(value.op, args, value.attrs, value.sinfo_args, value.span)

    def _fold_sum(self, total: Call, scale: Constant, info: Any) -> Any:
        for value, bias in (total.args, total.args[::-1]):
            if not isinstance(bias, Constant) or not isinstance(value, Var):
                continue
            folded = self._fold(self._single(value), scale, info)
            if folded is None:
                continue
            product = bias.data.numpy_view() * scale.data.numpy_view()
            scaled = Constant(
                numpy.asarray(product.astype(bias.data.numpy_view().dtype), order="C")
            )
            return Call(_ADD, (self.builder_.emit(folded), scaled))
        return None


def _occurrences(value: Any) -> list[Var]:
    """Return the variables that a value uses, with repetitions."""
    if isinstance(value, Call):
        return [var for arg in value.args for var in used_vars(arg)]
    return used_vars(value)


@compiler_pass("FoldScaleAxis")
def fold_scale_axis(func: Function, mod: IRModule) -> Function:
    """Folds constant factors along output channels into constant weights."""
    folded = _FoldScale(mod, func).visit_expr(func)
    return folded if folded is func else remove_all_unused(folded)
