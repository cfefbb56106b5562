"""DecomposeOpsForInference: replaces training operators by what they compute at inference.

    y = R.nn.batch_norm(x, gamma, beta, mean, var)[0]     ->    y = x * scale + shift

with ``scale`` and ``shift`` in a shape that broadcasts; constants fold them later. Dropout becomes
its argument.
"""

from __future__ import annotations

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
_DROPOUT = operators.nn.dropout.op


def _unit_shape(data: Any, axis: int) -> list[Any]:
    info = known_struct_info(data)
    shape: list[Any] = [1] * info.ndim
    shape[axis] = info.shape[axis]
    return shape


def _in_dtype(expr: Any, dtype: DataType) -> Any:
    return expr if known_struct_info(expr).dtype == dtype else operators.astype(expr, dtype)


def scale_and_shift(builder: Any, call: Call) -> tuple[Any, Any]:
    """Return the factor and the summand that a batch normalisation amounts to, along its axis.

    They are computed in float32 at least, and rounded to the dtype of the data.
    """
    data, *parameters = call.args
    attrs, out = call.attrs, known_struct_info(data).dtype
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


def decompose_batch_norm(builder: Any, call: Call) -> Any:
    """Return ``x * scale + shift`` and the statistics, or the call itself if the rank is not
    known.
    """
    data = call.args[0]
    info = known_struct_info(data)
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


@compiler_pass("DecomposeOpsForInference")
def decompose_ops_for_inference(mod: IRModule, func_name: str | None = None) -> IRModule:
    """Replaces batch normalisation by multiply and add, dropout by its argument."""
    for name, function in list(mod.functions.items()):
        if not isinstance(function, Function) or function.body is None:
            continue
        if func_name in (None, name.name_hint):
            updated = _Decompose(mod).visit_expr(function)
            if updated is not function:
                mod[name] = canonicalize(updated)
    return mod
