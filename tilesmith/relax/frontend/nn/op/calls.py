"""Calls of kernels that the user writes, and of registered functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.relax import op
from tilesmith.relax.expr import (
    Expr,
    ExternFunc,
    PrimValue,
    ShapeExpr,
    StringImm,
    as_expr,
    known_struct_info,
)
from tilesmith.relax.frontend.nn import core
from tilesmith.relax.frontend.nn.core import Tensor, wrap_nested
from tilesmith.relax.frontend.nn.op.arguments import OutType
from tilesmith.relax.struct_info import ObjectStructInfo
from tilesmith.support.errors import DiagnosticError, TypeMismatchError
from tilesmith.support.lazy import resolve
from tilesmith.tir import PrimFunc

__all__ = [
    "debug_func", "extern", "print_", "tensor_expr_op", "tensor_ir_inplace_op", "tensor_ir_op",
]  # fmt: skip


def tensor_expr_op(
    tensor_expr_func: Callable[..., Any],
    name_hint: str,
    args: list[Any],
    *,
    attrs: dict[str, Any] | None = None,
) -> Any:
    """Call the kernel made from a function of te tensors; ``attrs`` are attributes of it."""
    builder = core.current_builder()
    given = [core.as_expression(arg) for arg in args]
    call = builder.call_te(
        tensor_expr_func, *given, primfunc_name_hint=name_hint, primfunc_attrs=attrs or {}
    )
    return wrap_nested(call, name_hint)


def _operands(args: Any, called: str) -> tuple[list[Any], list[Any]]:
    """Return tensors, and the numbers that follow them."""
    if not isinstance(args, (list, tuple)):
        args = [args]
    tensors: list[Any] = []
    numbers: list[Any] = []
    for arg in args:
        if isinstance(arg, Tensor):
            if numbers:
                raise TypeMismatchError(
                    f"nn.op.{called}: a tensor follows a number",
                    notes=("a kernel takes tensors, its results, then numbers",),
                )
            tensors.append(core.as_expression(arg))
        elif isinstance(arg, (int, PrimExpr)) and not isinstance(arg, bool):
            numbers.append(arg)
        elif isinstance(arg, ShapeExpr):
            numbers += arg.values
        else:
            raise TypeMismatchError(
                f"nn.op.{called}: {arg!r} is neither a tensor nor a whole number"
            )
    return tensors, numbers


def _infos(out: OutType, called: str) -> Any:
    """Return the struct info of results, of tensors that are like them."""
    if isinstance(out, Tensor):
        return known_struct_info(core.as_expression(out))
    if isinstance(out, (list, tuple)) and all(isinstance(one, Tensor) for one in out):
        return [known_struct_info(core.as_expression(one)) for one in out]
    raise TypeMismatchError(
        f"nn.op.{called}: 'out' is {out!r}", notes=("Tensor.placeholder(shape, dtype) is needed",)
    )


def _kernel(func: Any, called: str, name_hint: str) -> Any:
    if not isinstance(func, PrimFunc):
        raise TypeMismatchError(f"nn.op.{called} calls a PrimFunc, got {type(func).__name__}")
    # the graph calls it; its own name would make it an entry of the module
    return core.current_builder().add_func(func.without_attr("global_symbol"), name_hint)


def tensor_ir_op(func: PrimFunc, name_hint: str, args: Any, out: OutType) -> Any:
    """Call a kernel: tensors, its results (tensors like ``out``), then whole numbers."""
    tensors, numbers = _operands(args, "tensor_ir_op")
    kernel = _kernel(func, "tensor_ir_op", name_hint)
    infos = _infos(out, "tensor_ir_op")
    return wrap_nested(op.call_tir(kernel, tensors, infos, numbers or None), name_hint)


def tensor_ir_inplace_op(
    func: PrimFunc,
    name_hint: str,
    args: Any,
    inplace_indices: int | list[int],
    out: OutType,
) -> Any:
    """Call a kernel that writes result ``i`` over the argument ``inplace_indices[i]`` (-1: a new
    tensor).
    """
    tensors, numbers = _operands(args, "tensor_ir_inplace_op")
    kernel = _kernel(func, "tensor_ir_inplace_op", name_hint)
    places = [inplace_indices] if isinstance(inplace_indices, int) else list(inplace_indices)
    infos = _infos(out, "tensor_ir_inplace_op")
    call = op.call_tir_inplace(kernel, tensors, places, infos, numbers or None)
    return wrap_nested(call, name_hint)


def extern(name: str, args: Sequence[Any], out: OutType) -> Any:
    """Call a registered function, or one of an external module, that writes its results into its
    last arguments.
    """
    given = [_external(arg) for arg in args]
    return wrap_nested(op.call_dps_packed(name, given, _infos(out, "extern")), name)


def _external(value: Any) -> Any:
    if isinstance(value, (Tensor, core.Object)):
        return core.as_expression(value)
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, Expr):
        return value
    if isinstance(value, (bool, int, float)):
        return as_expr(value)
    if isinstance(value, PrimExpr):
        return PrimValue(value)
    raise TypeMismatchError(f"nn.op.extern: a function cannot be called with {value!r}")


def debug_func(name: str, *args: Any, _line_info: str | None = None) -> None:
    """Call a registered function ``name(place, *args)`` when the program runs, in the order of the
    program. It needs a module that is exported with ``debug=True``.
    """
    io = resolve("tilesmith.relax.frontend.nn.exporter:Exporter").current().io_effect
    if io is None:
        raise DiagnosticError(
            "debug_func and print_ need a state that orders them",
            notes=("export_tvm(spec, debug=True) or jit(spec, debug=True) adds it",),
        )
    if io.effect is None:
        raise DiagnosticError(
            "debug_func and print_ need the method's states",
            notes=('effect_mode "none" leaves states out',),
        )
    if _line_info is None:
        _line_info = _place_of_caller(2)
    call = op.call_pure_packed(
        ExternFunc("vm.builtin.invoke_debug_func"),
        io.effect,
        StringImm(name),
        StringImm(_line_info),
        *[_external(arg) for arg in args],
        sinfo_args=[ObjectStructInfo()],
    )
    io.effect = core.current_builder().emit(call, io.effect.name_hint)


def _place_of_caller(depth: int) -> str:
    frame: Any = inspect.currentframe()
    for _ in range(depth):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def print_(tensor: Tensor) -> None:
    """Print a tensor when the program runs, with the place in the source; see ``debug_func``."""
    debug_func("vm.builtin.debug_print", tensor, _line_info=_place_of_caller(2))
