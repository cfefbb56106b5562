"""Calls of functions, and operators that turn shapes, strings and conditions into values.

``call_tir(f, (x, y), out_sinfo)`` calls a PrimFunc of the module in destination-passing style: its
results are allocated by the caller and handed over after the arguments. ``call_dps_packed`` does
the same with a registered function; ``call_pure_packed`` and ``call_packed`` call one that returns
its result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import GlobalVar, PrimExpr, register_op_attr
from tilesmith.relax.attrs import REQUIRED, Schema, anything, ints, text
from tilesmith.relax.expr import (
    Call,
    Expr,
    ExternFunc,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    as_struct_info,
    known_struct_info,
)
from tilesmith.relax.op.common import result, shape_argument, sizes_of, tensor
from tilesmith.relax.op.declaration import call, define, function, function_of
from tilesmith.relax.relations import describe
from tilesmith.relax.spec import Execution, no_gradient
from tilesmith.relax.struct_info import (
    ObjectStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.registry import Registry

# The caller declares the results of these calls


def _infer_given(call: Call) -> Any:
    if not call.sinfo_args:
        return TupleStructInfo(())
    return call.sinfo_args[0] if len(call.sinfo_args) == 1 else TupleStructInfo(call.sinfo_args)


def _result_info(out_sinfo: Any) -> StructInfo:
    if isinstance(out_sinfo, (list, tuple)):
        return TupleStructInfo(tuple([as_struct_info(info) for info in out_sinfo]))
    return as_struct_info(out_sinfo)


def _outputs(shapes: Any, dtype: Any) -> Any:
    """Return the struct info of results given as shapes and dtypes; without dtypes, what is
    given.
    """
    if dtype is None:
        return shapes
    if isinstance(dtype, (list, tuple)):
        return [TensorStructInfo(shape, each) for shape, each in zip(shapes, dtype, strict=True)]
    return TensorStructInfo(shapes, dtype)


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


_call_tir = define("call_tir", "func args tir_vars?", _infer_given, execution=Execution.CALL_TIR)
_call_tir_inplace = define(
    "call_tir_inplace",
    "func args tir_vars?",
    _infer_given,
    schema=Schema(inplace_indices=ints()),
    execution=Execution.CALL_TIR,
)
TE_GRADIENTS: Registry[Callable[..., Any]] = Registry("gradient of a tensor expression")
"""Gradients that ``call_tir_with_grad`` names: functions of te tensors."""


def _te_gradient(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    """Emit the tensor expression that the call names as its gradient."""
    attrs, given = orig_call.attrs, orig_call.args[1]
    info = known_struct_info(given)
    count = len(info.fields) if isinstance(info, TupleStructInfo) else 1
    arguments = [given[number] for number in range(count)]
    name = attrs["te_grad_name"]
    made = ctx.emit_te(
        TE_GRADIENTS.get(name),
        output_grad,
        *arguments,
        **(attrs["te_grad_kwargs"] or {}),
        primfunc_name_hint=name,
    )
    several = isinstance(made.struct_info, TupleStructInfo)
    parts = [TupleGetItem(made, number) for number in range(count)] if several else [made]
    return [None, Tuple(parts)]


_call_tir_with_grad = define(
    "call_tir_with_grad",
    "func args tir_vars?",
    _infer_given,
    schema=Schema(te_grad_name=text(), te_grad_kwargs=anything()),
    gradient=_te_gradient,
    execution=Execution.CALL_TIR,
)
_call_dps_packed = define(
    "call_dps_packed", "func args", _infer_given, execution=Execution.CALL_DPS_PACKED
)
_call_pure_packed = define(
    "call_pure_packed", "func args", _infer_given, execution=Execution.CALL_PACKED
)
_call_inplace_packed = define(
    "call_inplace_packed",
    "func args",
    _infer_given,
    schema=Schema(inplace_indices=ints()),
    execution=Execution.CALL_PACKED,
)
_call_builtin_with_ctx = define(
    "call_builtin_with_ctx",
    "func args",
    _infer_given,
    execution=Execution.CALL_BUILTIN,
    is_pure=False,
)


@function_of(_call_tir)
def call_tir(gvar: Any, args: Any, out_sinfo: Any, tir_vars: Any = None, dtype: Any = None) -> Call:
    """Call a PrimFunc of the module: arguments, then the results it writes, then ``tir_vars``.

    Programs of 2022 give the shape of the result in place of its struct info, and its ``dtype``
    (several of each for several results); the name of a registered function, or an ExternFunc,
    then stands for ``call_dps_packed``.
    """
    out_sinfo = _outputs(out_sinfo, dtype)
    if isinstance(gvar, (str, ExternFunc)):
        return call_dps_packed(gvar, args, out_sinfo)
    operands = [gvar, _arguments(args), _extra_sizes(tir_vars)]
    return Call(
        _call_tir.op, operands[: 2 if tir_vars is None else 3], None, _result_info(out_sinfo)
    )


@function_of(_call_tir_inplace)
def call_tir_inplace(
    gvar: GlobalVar, args: Any, inplace_indices: Any, out_sinfo: Any, tir_vars: Any = None
) -> Call:
    """Like ``call_tir``; result ``i`` is written over argument ``inplace_indices[i]`` (-1: a new
    one)."""
    arguments = _arguments(args)
    if not isinstance(arguments, Tuple):
        raise TypeMismatchError(
            "call_tir_inplace needs its arguments as a written tuple: (x, y)",
            notes=("which of them are overwritten must be seen at the call",),
        )
    operands = [gvar, arguments, _extra_sizes(tir_vars)]
    attrs = {"inplace_indices": inplace_indices}
    return Call(
        _call_tir_inplace.op,
        operands[: 2 if tir_vars is None else 3],
        attrs,
        _result_info(out_sinfo),
    )


@function_of(_call_tir_with_grad)
def call_tir_with_grad(
    gvar: GlobalVar,
    args: Any,
    out_sinfo: Any,
    te_grad_name: str,
    te_grad_kwargs: Any = None,
    tir_vars: Any = None,
) -> Call:
    """Like ``call_tir``, with the name of the function that computes the gradient."""
    operands = [gvar, _arguments(args), _extra_sizes(tir_vars)]
    attrs = {"te_grad_name": te_grad_name, "te_grad_kwargs": te_grad_kwargs or {}}
    return Call(
        _call_tir_with_grad.op,
        operands[: 2 if tir_vars is None else 3],
        attrs,
        _result_info(out_sinfo),
    )


@function_of(_call_dps_packed)
def call_dps_packed(func: Any, args: Any, out_sinfo: Any, dtype: Any = None) -> Call:
    """Call a registered function (its name, or an ExternFunc) that writes its results into the
    last arguments; ``dtype`` as for ``call_tir``."""
    info = _result_info(_outputs(out_sinfo, dtype))
    return Call(_call_dps_packed.op, [_function(func), _arguments(args)], None, info)


def _given_infos(sinfo_args: Any) -> Any:
    if sinfo_args is None:
        return ()
    return sinfo_args if isinstance(sinfo_args, (list, tuple)) else (sinfo_args,)


@function_of(_call_pure_packed)
def call_pure_packed(func: Any, *args: Any, sinfo_args: Any = None) -> Call:
    """Call a registered function that has no effects and returns its result."""
    return Call(_call_pure_packed.op, [_function(func), *args], None, _given_infos(sinfo_args))


@function("call_packed")
def call_packed(func: Any, *args: Any, sinfo_args: Any = None, **attrs: Any) -> Call:
    """Call a registered function that returns its result and may have effects."""
    return Call(_function(func), args, attrs or None, _given_infos(sinfo_args))


@function_of(_call_inplace_packed)
def call_inplace_packed(func: Any, *args: Any, inplace_indices: Any, sinfo_args: Any) -> Call:
    """Call a registered function that changes some of its arguments and returns them."""
    attrs = {"inplace_indices": inplace_indices}
    return Call(_call_inplace_packed.op, [_function(func), *args], attrs, _given_infos(sinfo_args))


@function_of(_call_builtin_with_ctx)
def call_builtin_with_ctx(func: Any, args: Any, *, sinfo_args: Any = None) -> Call:
    """Call a function of the runtime."""
    return Call(
        _call_builtin_with_ctx.op,
        [_function(func), _arguments(args)],
        None,
        _given_infos(sinfo_args),
    )


# Closures


def _infer_closure(call: Call) -> Any:
    return ObjectStructInfo()


_make_closure = define(
    "make_closure", "func args", _infer_closure, execution=Execution.MAKE_CLOSURE
)
_invoke_closure = define(
    "invoke_closure",
    "closure args",
    _infer_given,
    execution=Execution.INVOKE_CLOSURE,
    is_pure=False,
)
_invoke_pure_closure = define(
    "invoke_pure_closure", "closure args", _infer_given, execution=Execution.INVOKE_CLOSURE
)


@function_of(_make_closure)
def make_closure(func: Any, args: Any) -> Call:
    """Make a closure: a function with its first arguments fixed."""
    return call(_make_closure.op, func, _arguments(args))


@function_of(_invoke_closure)
def invoke_closure(closure: Any, args: Any, sinfo_args: Any) -> Call:
    """Call a closure with the rest of its arguments."""
    return Call(_invoke_closure.op, [closure, _arguments(args)], None, _given_infos(sinfo_args))


@function_of(_invoke_pure_closure)
def invoke_pure_closure(closure: Any, args: Any, sinfo_args: Any) -> Call:
    """Call a closure that has no effects."""
    return Call(
        _invoke_pure_closure.op, [closure, _arguments(args)], None, _given_infos(sinfo_args)
    )


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


_print_call = define(
    "print",
    "format values?",
    _infer_nothing,
    evaluate=_print,
    execution=Execution.HOST,
    host="print",
    is_pure=False,
)
_assert_call = define(
    "assert_op",
    "condition format values?",
    _infer_nothing,
    evaluate=_assert,
    execution=Execution.HOST,
    host="assert",
    is_pure=False,
)


@function_of(_print_call)
def print(*values: Any, format: Any = "") -> Call:
    """Print values when the program runs, by a Python format string."""
    template = format if isinstance(format, StringImm) else StringImm(format)
    if len(values) > 0 and isinstance(values[0], StringImm) and not format:
        template, values = values[0], values[1:]
    return call(_print_call.op, template, *values)


@function_of(_assert_call)
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
    return call(_assert_call.op, condition, template, *values)


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


shape_of = define(
    "shape_of",
    "expr",
    _infer_shape_of,
    description="The shape of a tensor as a value.",
    evaluate=lambda attrs, x: tuple(numpy.shape(x)),
    gradient=no_gradient,
    execution=Execution.SHAPE_OF,
)
tensor_to_shape = define(
    "tensor_to_shape",
    "expr",
    _infer_tensor_to_shape,
    description="A vector of integers as a shape.",
    evaluate=lambda attrs, x: tuple([int(value) for value in x]),
    execution=Execution.TENSOR_TO_SHAPE,
)
shape_to_tensor = define(
    "shape_to_tensor",
    "expr",
    _infer_shape_to_tensor,
    description="A shape as a vector of int64.",
    evaluate=lambda attrs, shape: numpy.asarray(shape, "int64"),
    execution=Execution.SHAPE_TO_TENSOR,
)


# Markers


def _infer_same_value(call: Call) -> Any:
    return known_struct_info(call.args[0])


def _infer_to_vdevice(call: Call) -> Any:
    info = tensor(call, 0)
    return TensorStructInfo(info.shape, info.dtype, call.attrs.dst_vdevice, info.ndim)


null_value = define(
    "null_value",
    "",
    lambda call: ObjectStructInfo(),
    description="The absence of a value.",
    evaluate=lambda attrs: None,
    execution=Execution.HOST,
    host="null",
)
to_vdevice = define(
    "to_vdevice",
    "data",
    _infer_to_vdevice,
    description="A copy of a tensor on another device.",
    schema=Schema(dst_vdevice=anything(REQUIRED)),
    evaluate=lambda attrs, x: x,
    execution=Execution.HOST,
    host="to_device",
)
hint_on_device = define(
    "hint_on_device",
    "data",
    _infer_same_value,
    description="Say on which device a value should be computed.",
    schema=Schema(dst_vdevice=anything(REQUIRED)),
    evaluate=lambda attrs, x: x,
    execution=Execution.HOST,
    host="same",
)


@function("register_gradient")
def register_gradient(op_name: str, fgradient: Any = None, level: int = 10) -> Any:
    """Set the function that computes an operator's gradient; a decorator without ``fgradient``."""
    return register_op_attr(op_name, "FPrimalGradient", fgradient, level)
