"""DecomposeOpsForInference, DecomposeOpsForTraining: replace normalisations by arithmetic.

    y = R.nn.batch_norm(x, gamma, beta, mean, var)[0]     ->    y = x * scale + shift

with ``scale`` and ``shift`` in a shape that broadcasts; constants fold them later. Dropout becomes
its argument.
"""

from __future__ import annotations

import math
from typing import Any

from tilesmith.ir import IntImm, IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.expr import Call, Function, Tuple, TupleGetItem, const, known_struct_info
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.relax.transform.canonicalize import canonicalize
from tilesmith.runtime.dtype import DataType

_BATCH_NORM = operators.nn.batch_norm.op
_LAYER_NORM = operators.nn.layer_norm.op
_DROPOUT = operators.nn.dropout.op


def _info(expr: Any) -> Any:
    return known_struct_info(expr)


def _unit_shape(data: Any, axis: int) -> list[Any]:
    info = _info(data)
    shape: list[Any] = [1] * info.ndim
    shape[axis] = info.shape[axis]
    return shape


def _in_dtype(expr: Any, dtype: DataType) -> Any:
    return expr if _info(expr).dtype == dtype else operators.astype(expr, dtype)


def scale_and_shift(builder: Any, call: Any) -> tuple[Any, Any]:
    """Return the factor and the summand that a batch normalisation amounts to, along its axis.

    They are computed in float32 at least, and rounded to the dtype of the data.
    """
    data, *parameters = call.args
    attrs, out = call.attrs, _info(data).dtype
    dtype = DataType("float32") if out.bits < 32 else out
    gamma, beta, mean, variance = [_in_dtype(one, dtype) for one in parameters]
    scale = operators.rsqrt(operators.add(variance, const(attrs.epsilon, dtype)))
    if attrs.scale:
        scale = operators.multiply(gamma, scale)
    scale = builder.emit(scale)
    shift = operators.negative(operators.multiply(mean, scale))
    if attrs.center:
        shift = operators.add(beta, shift)
    return builder.emit(_in_dtype(scale, out)), builder.emit(_in_dtype(shift, out))


def decompose_batch_norm(builder: Any, call: Any) -> Any:
    """Return ``x * scale + shift`` and the statistics, or the call itself if the rank is not
    known.
    """
    data = call.args[0]
    info = _info(data)
    if not isinstance(info, TensorStructInfo) or info.shape is None or info.ndim < 0:
        return call
    axis = call.attrs.axis % info.ndim
    scale, shift = scale_and_shift(builder, call)
    shape = _unit_shape(data, axis)
    if all(not isinstance(size, IntImm) for size in shape if not isinstance(size, int)):
        scale = operators.expand_dims(scale, [i for i in range(info.ndim) if i != axis])
        shift = operators.expand_dims(shift, [i for i in range(info.ndim) if i != axis])
    else:
        scale, shift = operators.reshape(scale, shape), operators.reshape(shift, shape)
    scaled = builder.emit(operators.multiply(data, scale))
    return Tuple([builder.emit(operators.add(scaled, shift)), call.args[3], call.args[4]])


def _statistics(builder: Any, call: Any) -> Any:
    """Return mean and variance of a batch, and the moving ones after it; None if the sizes are not
    known.
    """
    data, _, _, *moving = call.args
    info = _info(data)
    if not isinstance(info, TensorStructInfo) or info.shape is None or info.ndim < 0:
        return None
    others = [k for k in range(info.ndim) if k != call.attrs.axis % info.ndim]
    dtypes = [_info(one).dtype for one in moving]
    mean = builder.emit(_in_dtype(builder.emit(operators.mean(data, others)), dtypes[0]))
    variance = builder.emit(_in_dtype(builder.emit(operators.variance(data, others)), dtypes[1]))
    shape: Any = info.shape
    sizes = [shape[k] for k in others]
    if not all(isinstance(size, IntImm) for size in sizes):
        return None  # how many numbers the variance is of is not known
    count = math.prod([size.value for size in sizes])
    factor = const(count / (count - 1) if count > 1 else math.nan, dtypes[1])
    unbiased = operators.multiply(variance, factor)  # the moving one estimates that of all data
    updated = []
    for old, new, dtype in zip(moving, (mean, unbiased), dtypes):
        kept = operators.multiply(old, const(1 - call.attrs.momentum, dtype))
        given = operators.multiply(new, const(call.attrs.momentum, dtype))
        updated.append(builder.emit(operators.add(builder.emit(kept), builder.emit(given))))
    return [mean, variance], updated


def decompose_training_batch_norm(builder: Any, call: Any) -> Any:
    """Return a batch normalisation by the statistics of the batch, and the updated moving ones."""
    found = _statistics(builder, call)
    if found is None:
        return call
    own, moving = found
    attrs = {**dict(call.attrs.items()), "training": False}
    plain = Call(call.op, [*call.args[:3], *own], attrs, None, call.span)
    return Tuple([decompose_batch_norm(builder, plain).fields[0], *moving])


def decompose_layer_norm(builder: Any, call: Any) -> Any:
    """Return a layer normalisation as arithmetic; the call itself if its axes have no order."""
    data, gamma, beta = call.args
    info = _info(data)
    if not isinstance(info, TensorStructInfo) or info.shape is None or info.ndim < 0:
        return call
    axes = [int(axis) % info.ndim for axis in call.attrs.axes]
    if axes != sorted(axes):
        return call
    emit, out = builder.emit, info.dtype
    dtype = DataType("float32") if out.bits < 32 else out
    wide = emit(_in_dtype(data, dtype))
    mean = emit(operators.mean(wide, axes, keepdims=True))
    variance = emit(operators.variance(wide, axes, keepdims=True))
    centred = emit(operators.subtract(wide, mean))
    scale = emit(operators.rsqrt(emit(operators.add(variance, const(call.attrs.epsilon, dtype)))))
    result = emit(operators.multiply(centred, scale))
    for wanted, parameter, join in (
        (call.attrs.scale, gamma, operators.multiply),
        (call.attrs.center, beta, operators.add),
    ):
        if wanted:
            if axes[0] + len(axes) != info.ndim:
                whole: Any = info.shape
                shape = [whole[k] if k in axes else 1 for k in range(info.ndim)]
                parameter = emit(operators.reshape(parameter, shape))
            result = emit(join(result, emit(_in_dtype(parameter, dtype))))
    return _in_dtype(result, out)


class _Decompose(PyExprMutator):
    def visit_call_(self, op: Call) -> Any:
        call = self.visit_expr_post_order(op)
        if isinstance(call, Call) and call.op is _BATCH_NORM and call.attrs is not None:
            return call if call.attrs.training else decompose_batch_norm(self.builder_, call)
        if isinstance(call, Call) and call.op is _DROPOUT:
            mask = self.builder_.emit(operators.ones_like(call.args[0]))
            return Tuple([call.args[0], mask])
        return call

    def visit_tuple_getitem_(self, op: TupleGetItem) -> Any:
        item = self.visit_expr_post_order(op)
        if isinstance(item, TupleGetItem):
            source = self.lookup_binding(item.tuple_value)
            if isinstance(source, Tuple):
                return source.fields[item.index]
        return item


class _DecomposeForTraining(_Decompose):
    def visit_call_(self, op: Call) -> Any:
        call = self.visit_expr_post_order(op)
        if isinstance(call, Call) and call.op is _BATCH_NORM and call.attrs is not None:
            return decompose_training_batch_norm(self.builder_, call)
        if isinstance(call, Call) and call.op is _LAYER_NORM:
            return decompose_layer_norm(self.builder_, call)
        return call


def _decomposed(mutator: type[_Decompose], mod: IRModule, func_name: str | None) -> IRModule:
    for name, function in list(mod.functions.items()):
        if not isinstance(function, Function) or function.body is None:
            continue
        if func_name in (None, name.name_hint):
            updated = mutator(mod).visit_expr(function)
            if updated is not function:
                mod[name] = canonicalize(updated)
    return mod


@compiler_pass("DecomposeOpsForInference")
def decompose_ops_for_inference(mod: IRModule, func_name: str | None = None) -> IRModule:
    """Replaces batch normalisation by multiply and add, dropout by its argument."""
    return _decomposed(_Decompose, mod, func_name)


@compiler_pass("DecomposeOpsForTraining")
def decompose_ops_for_training(mod: IRModule, func_name: str | None = None) -> IRModule:
    """Replaces batch normalisation by the statistics of the batch and what updates the moving ones,
    layer normalisation by arithmetic, so that gradients of simple operators suffice.
    """
    return _decomposed(_DecomposeForTraining, mod, func_name)
