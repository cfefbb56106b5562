"""Calls of functions, and what turns shapes, texts and conditions into values.

``call_tir(f, (x, y), out_sinfo)`` calls a PrimFunc of the module in destination-passing style: its
results are allocated by the caller and handed over after the arguments. ``call_dps_packed`` does
the same with a registered function; ``call_pure_packed`` and ``call_packed`` call one that returns
its result.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import GlobalVar, PrimExpr
from tilesmith.relax.attrs import Schema, anything, ints, text
from tilesmith.relax.expr import (
    Call,
    Expr,
    ExternFunc,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    as_struct_info,
    known_struct_info,
)
from tilesmith.relax.op.common import result, shape_argument, sizes_of, tensor
from tilesmith.relax.op.spec import call, define
from tilesmith.relax.relations import describe
from tilesmith.relax.struct_info import (
    ObjectStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.support.errors import TypeMismatchError

# Results of calls are told by the caller


def _infer_given(call: Call) -> Any:
    if not call.sinfo_args:
        return TupleStructInfo(())
    return call.sinfo_args[0] if len(call.sinfo_args) == 1 else TupleStructInfo(call.sinfo_args)


def _result_info(out_sinfo: Any) -> StructInfo:
    if isinstance(out_sinfo, (list, tuple)):
        return TupleStructInfo(tuple([as_struct_info(info) for info in out_sinfo]))
    return as_struct_info(out_sinfo)


def _arguments(args: Any) -> Expr:
    if isinstance(args, (list, tuple)):
        return Tuple(args)
    if isinstance(args, Expr) and not isinstance(args, Tuple):
        if isinstance(getattr(args, "struct_info", None), TupleStructInfo):
            return args
        return Tuple([args])
    return args


def _function(func: Any) -> Any:
    return ExternFunc(func) if isinstance(func, str) else func


def _extra_sizes(tir_vars: Any) -> Any:
    if tir_vars is None or isinstance(tir_vars, ShapeExpr):
        return tir_vars
    return ShapeExpr(tir_vars)


_CALL_TIR = define("call_tir", "func args tir_vars", _infer_given)
_CALL_TIR_INPLACE = define(
    "call_tir_inplace",
    "func args tir_vars",
    _infer_given,
    schema=Schema(inplace_indices=ints()),
)
_CALL_TIR_WITH_GRAD = define(
    "call_tir_with_grad",
    "func args tir_vars",
    _infer_given,
    schema=Schema(te_grad_name=text(), te_grad_kwargs=anything()),
)
_CALL_DPS_PACKED = define("call_dps_packed", "func args", _infer_given)
_CALL_PURE_PACKED = define("call_pure_packed", "func args", _infer_given)
_CALL_INPLACE_PACKED = define(
    "call_inplace_packed", "func args", _infer_given, schema=Schema(inplace_indices=ints())
)
_CALL_BUILTIN = define("call_builtin_with_ctx", "func args", _infer_given, is_pure=False)


def call_tir(gvar: Any, args: Any, out_sinfo: Any, tir_vars: Any = None) -> Call:
    """Call a PrimFunc of the module: arguments, then the results it writes, then ``tir_vars``."""
    if isinstance(gvar, str):  # as programs of 2022 named registered functions
        return call_dps_packed(gvar, args, out_sinfo)
    operands = [gvar, _arguments(args), _extra_sizes(tir_vars)]
    return Call(_CALL_TIR, operands[: 2 if tir_vars is None else 3], None, _result_info(out_sinfo))


def call_tir_inplace(
    gvar: GlobalVar, args: Any, inplace_indices: Any, out_sinfo: Any, tir_vars: Any = None
) -> Call:
    """Like ``call_tir``; result ``i`` is written over argument ``inplace_indices[i]`` (-1: a new
    one)."""
    operands = [gvar, _arguments(args), _extra_sizes(tir_vars)]
    attrs = {"inplace_indices": inplace_indices}
    return Call(
        _CALL_TIR_INPLACE,
        operands[: 2 if tir_vars is None else 3],
        attrs,
        _result_info(out_sinfo),
    )


def call_tir_with_grad(
    gvar: GlobalVar,
    args: Any,
    out_sinfo: Any,
    te_grad_name: str,
    te_grad_kwargs: Any = None,
    tir_vars: Any = None,
) -> Call:
    """Like ``call_tir``, with the name of the function that gives the gradient."""
    operands = [gvar, _arguments(args), _extra_sizes(tir_vars)]
    attrs = {"te_grad_name": te_grad_name, "te_grad_kwargs": te_grad_kwargs or {}}
    return Call(
        _CALL_TIR_WITH_GRAD,
        operands[: 2 if tir_vars is None else 3],
        attrs,
        _result_info(out_sinfo),
    )


def call_dps_packed(func: Any, args: Any, out_sinfo: Any) -> Call:
    """Call a registered function (its name, or an ExternFunc) that writes its results into the
    last arguments."""
    return Call(
        _CALL_DPS_PACKED, [_function(func), _arguments(args)], None, _result_info(out_sinfo)
    )


def _given_infos(sinfo_args: Any) -> Any:
    if sinfo_args is None:
        return ()
    return sinfo_args if isinstance(sinfo_args, (list, tuple)) else (sinfo_args,)


def call_pure_packed(func: Any, *args: Any, sinfo_args: Any = None) -> Call:
    """Call a registered function that has no effects and returns its result."""
    return Call(_CALL_PURE_PACKED, [_function(func), *args], None, _given_infos(sinfo_args))


def call_packed(func: Any, *args: Any, sinfo_args: Any = None, **attrs: Any) -> Call:
    """Call a registered function that returns its result and may have effects."""
    return Call(_function(func), args, attrs or None, _given_infos(sinfo_args))


def call_inplace_packed(func: Any, *args: Any, inplace_indices: Any, sinfo_args: Any) -> Call:
    """Call a registered function that changes some of its arguments and returns them."""
    attrs = {"inplace_indices": inplace_indices}
    return Call(_CALL_INPLACE_PACKED, [_function(func), *args], attrs, _given_infos(sinfo_args))


def call_builtin_with_ctx(func: Any, args: Any, *, sinfo_args: Any = None) -> Call:
    """Call a function of the runtime."""
    return Call(_CALL_BUILTIN, [_function(func), _arguments(args)], None, _given_infos(sinfo_args))


# Closures


def _infer_closure(call: Call) -> Any:
    return ObjectStructInfo()


_MAKE_CLOSURE = define("make_closure", "func args", _infer_closure)
_INVOKE_CLOSURE = define("invoke_closure", "closure args", _infer_given, is_pure=False)
_INVOKE_PURE_CLOSURE = define("invoke_pure_closure", "closure args", _infer_given)


def make_closure(func: Any, args: Any) -> Call:
    """A function with its first arguments fixed."""
    return call(_MAKE_CLOSURE, func, _arguments(args))


def invoke_closure(closure: Any, args: Any, sinfo_args: Any) -> Call:
    """Call a closure with the rest of its arguments."""
    return Call(_INVOKE_CLOSURE, [closure, _arguments(args)], None, _given_infos(sinfo_args))


def invoke_pure_closure(closure: Any, args: Any, sinfo_args: Any) -> Call:
    """Call a closure that has no effects."""
    return Call(_INVOKE_PURE_CLOSURE, [closure, _arguments(args)], None, _given_infos(sinfo_args))


# Effects


def _infer_nothing(call: Call) -> Any:
    return TupleStructInfo(())


def _print(attrs: Any, template: Any, *values: Any) -> Any:
    from builtins import print as show

    show(template.format(*values) if template else " ".join([str(value) for value in values]))
    return ()


def _assert(attrs: Any, condition: Any, template: Any, *values: Any) -> Any:
    if not bool(numpy.asarray(condition).all()):
        raise AssertionError(template.format(*values) or "assertion failed")
    return ()


_PRINT = define("print", "format values", _infer_nothing, is_pure=False, evaluate=_print)
_ASSERT = define(
    "assert_op", "condition format values", _infer_nothing, is_pure=False, evaluate=_assert
)


def print(*values: Any, format: Any = "") -> Call:
    """Print values when the program runs, by a Python format string."""
    template = format if isinstance(format, StringImm) else StringImm(format)
    if len(values) > 0 and isinstance(values[0], StringImm) and not format:
        template, values = values[0], values[1:]
    return call(_PRINT, template, *values)


def assert_op(condition: Any, *values: Any, format_args: Any = None, format: Any = "") -> Call:
    """Check a condition when the program runs; ``format`` is the message."""
    if isinstance(condition, PrimExpr):
        condition = PrimValue(condition)
    if values and isinstance(values[0], StringImm) and not format:
        format, values = values[0], values[1:]
    elif values and isinstance(values[0], (list, tuple)):
        values = tuple(values[0])
    if format_args is not None:
        values = tuple(format_args) if isinstance(format_args, (list, tuple)) else (format_args,)
    template = format if isinstance(format, StringImm) else StringImm(format)
    return call(_ASSERT, condition, template, *values)


# Shapes as values


def _infer_shape_of(call: Call) -> Any:
    info = known_struct_info(call.args[0])
    if isinstance(info, TensorStructInfo):
        if info.shape is not None and isinstance(info.shape.struct_info, ShapeStructInfo):
            return info.shape.struct_info
        return ShapeStructInfo(None, info.ndim)
    raise TypeMismatchError(f"shape_of needs a tensor, got {describe(info)}")


def _infer_tensor_to_shape(call: Call) -> Any:
    info = tensor(call, 0)
    sizes = sizes_of(info)
    rank = getattr(sizes[0], "value", -1) if sizes else -1
    return ShapeStructInfo(None, rank if isinstance(rank, int) else -1)


def _infer_shape_to_tensor(call: Call) -> Any:
    info = shape_argument(call, 0)
    return result(None if info.ndim == -1 else [info.ndim], "int64", 1)


_SHAPE_OF = define(
    "shape_of", "expr", _infer_shape_of, evaluate=lambda attrs, x: tuple(numpy.shape(x))
)
_TENSOR_TO_SHAPE = define(
    "tensor_to_shape",
    "expr",
    _infer_tensor_to_shape,
    evaluate=lambda attrs, x: tuple([int(value) for value in x]),
)
_SHAPE_TO_TENSOR = define(
    "shape_to_tensor",
    "expr",
    _infer_shape_to_tensor,
    evaluate=lambda attrs, shape: numpy.asarray(shape, "int64"),
)


def shape_of(expr: Any) -> Call:
    """The shape of a tensor as a value."""
    return call(_SHAPE_OF, expr)


def tensor_to_shape(expr: Any) -> Call:
    """A vector of integers as a shape."""
    return call(_TENSOR_TO_SHAPE, expr)


def shape_to_tensor(expr: Any) -> Call:
    """A shape as a vector of int64."""
    return call(_SHAPE_TO_TENSOR, expr)


# Markers


def _infer_same_value(call: Call) -> Any:
    return known_struct_info(call.args[0])


def _infer_to_vdevice(call: Call) -> Any:
    info = tensor(call, 0)
    return TensorStructInfo(info.shape, info.dtype, call.attrs.dst_vdevice, info.ndim)


_NULL = define("null_value", "", lambda call: ObjectStructInfo())
_TO_VDEVICE = define(
    "to_vdevice",
    "data",
    _infer_to_vdevice,
    schema=Schema(dst_vdevice=anything()),
    evaluate=lambda attrs, x: x,
)
_HINT_ON_DEVICE = define(
    "hint_on_device",
    "data",
    _infer_same_value,
    schema=Schema(dst_vdevice=anything()),
    evaluate=lambda attrs, x: x,
)


def null_value() -> Call:
    """The absence of a value."""
    return call(_NULL)


def to_vdevice(data: Any, dst_vdevice: Any) -> Call:
    """A copy of a tensor on another device."""
    return call(_TO_VDEVICE, data, dst_vdevice=dst_vdevice)


def hint_on_device(data: Any, dst_vdevice: Any) -> Call:
    """Say on which device a value should be computed."""
    return call(_HINT_ON_DEVICE, data, dst_vdevice=dst_vdevice)


def register_gradient(op_name: str, fgradient: Any = None, level: int = 10) -> Any:
    """Set the function that gives an operator's gradient; a decorator without ``fgradient``."""
    from tilesmith.ir import register_op_attr

    return register_op_attr(op_name, "FPrimalGradient", fgradient, level)
