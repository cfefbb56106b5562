"""Functions that users write tensor expressions with."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any

from tilesmith.ir import IntImm, PrimExpr, Range, SizeVar, StringImm, Var, const, convert
from tilesmith.runtime.dtype import DataType
from tilesmith.support.caller import is_internal, place_of_caller
from tilesmith.support.errors import ShapeError, TypeMismatchError
from tilesmith.te.checks import check_reads, element_values
from tilesmith.te.tag import TagScope
from tilesmith.te.tensor import ComputeOp, ExternOp, PlaceholderOp, Tensor
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import IterVar
from tilesmith.tir.stmt import Evaluate, Stmt

__all__ = [
    "compute", "extern", "extern_primfunc", "placeholder", "reduce_axis", "size_var", "thread_axis",
    "var",
]  # fmt: skip


def _shape(shape: Any) -> tuple[PrimExpr, ...]:
    if isinstance(shape, (int, float, str, PrimExpr)):
        shape = (shape,)
    if not isinstance(shape, Iterable):
        raise TypeMismatchError(
            f"a shape is a size or a sequence of sizes, got {shape!r}",
            notes=("for example (8, 16); the shape of a scalar is ()",),
        )
    return tuple([_size(size) for size in shape])


def _size(given: Any) -> PrimExpr:
    """Return a size as an expression: an integer that is not negative, or a symbolic one."""
    size: PrimExpr = given if isinstance(given, PrimExpr) else convert(given)
    if not size.dtype.is_integer:
        raise TypeMismatchError(
            f"the sizes of a shape are integers or expressions, got {size} ({size.dtype})"
            if not isinstance(size, StringImm)
            else f"the sizes of a shape are integers or expressions, got the text '{size.value}'",
            notes=('a size that is known later is a variable: te.var("n")',),
        )
    if isinstance(size, IntImm) and size.value < 0:
        raise ShapeError(f"a size cannot be negative, got {size.value}")
    return size


def placeholder(shape: Any, dtype: str | None = None, name: str = "placeholder") -> Tensor:
    """Make an input tensor of a shape and dtype (float32 by default)."""
    return PlaceholderOp(name, "", None, _shape(shape), DataType(dtype or "float32")).output(0)


def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: dict[str, Any] | None = None,
    varargs_names: list[str] | None = None,
) -> Any:
    """Make a tensor whose element at ``indices`` is ``fcompute(*indices)``.

    The names of the iterators are those of the function's parameters. A function that gives several
    values (of one tuple reduction) makes as many tensors.
    """
    tag = tag or TagScope.current_tag()
    shape = _shape(shape)
    if not callable(fcompute):
        raise TypeMismatchError(
            f"te.compute takes a function of the indices, got {fcompute!r}",
            notes=("for example te.compute((8,), lambda i: A[i] + 1.0)",),
        )
    names = _iterator_names(fcompute, len(shape), varargs_names)
    axis = [
        IterVar(
            Range.from_min_extent(const(0, size.dtype), size),
            Var(label, size.dtype),
            IterVar.DataPar,
        )
        for label, size in zip(names, shape)
    ]
    values = element_values(name, fcompute(*[iterator.var for iterator in axis]))
    if not is_internal(sys._getframe(1)):  # what TOPI reads is checked by its tests
        check_reads(name, values, axis)
    op = ComputeOp(name, tag, attrs, axis, values, place_of_caller())
    outputs = tuple([op.output(k) for k in range(op.num_outputs)])
    return outputs[0] if len(outputs) == 1 else outputs


def _counted(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def _iterator_names(
    function: Callable[..., Any], ndim: int, varargs_names: list[str] | None
) -> list[str]:
    """Return the iterator names: the parameters' names, those of ``*args`` given or numbered."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [f"i{k}" for k in range(ndim)]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    if rest is None:
        required = [p for p in parameters if p.kind is not p.KEYWORD_ONLY and p.default is p.empty]
        if not len(required) <= ndim <= len(names) and len(names) != ndim:
            raise ShapeError(
                f"fcompute takes {_counted(len(names), 'index', 'indices')}, the shape has "
                f"{_counted(ndim, 'dimension', 'dimensions')}",
                notes=("give it one parameter for each dimension, or take all: lambda *indices:",),
            )
        return names[:ndim]
    if varargs_names is not None:
        if len(names) + len(varargs_names) != ndim:
            raise ShapeError(
                f"varargs_names has {_counted(len(varargs_names), 'name', 'names')} for "
                f"{_counted(ndim - len(names), 'index', 'indices')}",
                notes=("give one name for each index that no parameter of its own takes",),
            )
        return names + list(varargs_names)
    return names + [f"i{k}" for k in range(ndim - len(names))]


def reduce_axis(dom: Any, name: str = "rv", thread_tag: str = "", span: Any = None) -> IterVar:
    """Make an iterator to reduce over: ``dom`` is ``(begin, end)`` or a Range."""
    if not isinstance(dom, Range):
        bounds = dom if isinstance(dom, (list, tuple)) else (dom,)
        if len(bounds) not in (1, 2) or any(bound is None for bound in bounds):
            raise TypeMismatchError(
                f"a reduction axis has a begin and an end, got {dom!r}",
                notes=("for example te.reduce_axis((0, 16), name='k')",),
            )
        dom = Range(*bounds) if len(bounds) == 2 else Range(0, bounds[0])
    if isinstance(dom.extent, IntImm) and dom.extent.value < 0:
        raise ShapeError(
            f"the end of a reduction axis lies before its begin: ({dom.min}, "
            f"{dom.min + dom.extent})"
        )
    return IterVar(dom, name, IterVar.CommReduce, thread_tag, span)


def thread_axis(dom: Any = None, tag: str = "", name: str = "", span: Any = None) -> IterVar:
    """Make an iterator over threads: ``thread_axis("blockIdx.x")`` or ``thread_axis((0, 32),
    "threadIdx.x")``.
    """
    if isinstance(dom, str):
        tag, dom = dom, None
    if not tag:
        raise TypeMismatchError("thread_axis needs a tag, such as 'threadIdx.x'")
    if isinstance(dom, int):
        dom = Range(0, dom)
    return IterVar(dom, name or tag, IterVar.ThreadIndex, tag, span)


def var(name: str = "tindex", dtype: str = "int32", span: Any = None) -> Var:
    """Make a variable."""
    return Var(name, dtype, span)


def size_var(name: str = "size", dtype: str = "int32", span: Any = None) -> SizeVar:
    """Make a variable that is not negative: the size of a dimension."""
    return SizeVar(name, dtype, span)


def extern(
    shape: Any,
    inputs: list[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], Any],
    name: str = "extern",
    dtype: Any = None,
    in_buffers: Any = None,
    out_buffers: Any = None,
    tag: str = "",
    attrs: dict[str, Any] | None = None,
) -> Any:
    """Make tensors from a statement that ``fcompute(input buffers, output buffers)`` returns.

    ``shape`` is one shape or a list of them; ``dtype`` likewise (default: that of the inputs).
    """
    tag = tag or TagScope.current_tag()
    if isinstance(shape, (int, PrimExpr)) or not shape or isinstance(shape[0], (int, PrimExpr)):
        shape = [shape if isinstance(shape, (list, tuple)) else (shape,)]
    if isinstance(inputs, Tensor):
        inputs = [inputs]
    input_buffers = _given_or_made(
        in_buffers, [(tensor.shape, tensor.dtype, tensor.op.name) for tensor in inputs]
    )
    if out_buffers is None:
        dtypes = _extern_dtypes(name, dtype, inputs, len(shape))
        wanted = [(_shape(one), kind, name) for one, kind in zip(shape, dtypes)]
    else:
        wanted = []
    output_buffers = _given_or_made(out_buffers, wanted)
    try:
        inspect.signature(fcompute).bind(input_buffers, output_buffers)
    except TypeError:
        raise TypeMismatchError(
            f"fcompute of extern '{name}' takes two lists of buffers: the inputs' and the outputs'",
            notes=('for example lambda ins, outs: tir.call_packed("name", ins[0], outs[0])',),
        ) from None
    body = fcompute(input_buffers, output_buffers)
    if isinstance(body, PrimExpr):
        body = Evaluate(body)
    if not isinstance(body, Stmt):
        raise TypeMismatchError(
            f"fcompute of extern '{name}' gave {body!r}, a statement or a call is needed",
            notes=('for example lambda ins, outs: tir.call_packed("name", ins[0], outs[0])',),
        )
    op = ExternOp(name, tag, attrs, inputs, input_buffers, output_buffers, body)
    outputs = [op.output(k) for k in range(op.num_outputs)]
    return outputs[0] if len(outputs) == 1 else outputs


def _given_or_made(given: Any, wanted: list[tuple]) -> list[Buffer]:
    if given is not None:
        return list(given) if isinstance(given, (list, tuple)) else [given]
    return [decl_buffer(shape, dtype, label) for shape, dtype, label in wanted]


def _extern_dtypes(name: str, dtype: Any, inputs: list[Tensor], count: int) -> list[Any]:
    if dtype is None:
        kinds = {tensor.dtype for tensor in inputs}
        if len(kinds) != 1:
            raise TypeMismatchError(f"extern '{name}' needs a dtype: that of its inputs is not one")
        return [kinds.pop()] * count
    return list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * count


def extern_primfunc(input_tensors: list[Tensor], primfunc: Any, **kwargs: Any) -> Any:
    """Make tensors from a PrimFunc: its first parameters are the inputs, the others the outputs."""
    buffers = primfunc.buffers
    if len(buffers) <= len(input_tensors):
        raise ShapeError(
            f"the PrimFunc has {len(buffers)} buffers, {len(input_tensors)} inputs leave none for"
            " the outputs"
        )
    ins, outs = buffers[: len(input_tensors)], buffers[len(input_tensors) :]
    return extern(
        [buffer.shape for buffer in outs],
        input_tensors,
        lambda *_: primfunc.body,
        in_buffers=ins,
        out_buffers=outs,
        **{"name": primfunc.attrs.get("global_symbol", "extern"), **kwargs},
    )
