"""Functions that users write tensor expressions with."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any

from tilesmith.ir import (
    IntImm,
    PrimExpr,
    Range,
    SizeVar,
    StringImm,
    Var,
    const,
    convert,
    structural_equal,
)
from tilesmith.runtime.dtype import DataType
from tilesmith.support.caller import is_internal, place_of_caller
from tilesmith.support.errors import ShapeError, TypeMismatchError
from tilesmith.te.checks import check_reads, check_scan, element_values
from tilesmith.te.tag import TagScope
from tilesmith.te.tensor import (
    ComputeOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    Tensor,
    TensorComputeOp,
    TensorIntrinCall,
)
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import IterVar
from tilesmith.tir.stmt import Evaluate, Stmt

__all__ = [
    "compute", "extern", "extern_primfunc", "placeholder", "reduce_axis", "scan", "size_var",
    "thread_axis", "var",
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
    given = fcompute(*[iterator.var for iterator in axis])
    if isinstance(given, TensorIntrinCall):
        return _outputs(_tensor_compute(name, tag, attrs, shape, axis, given))
    if len(axis) < len(shape):
        raise _wrong_parameters(names, len(shape))
    values = element_values(name, given)
    refusal = None
    if not is_internal(sys._getframe(1)):  # what TOPI reads is checked by its tests
        refusal = check_reads(name, values, axis)
    return _outputs(ComputeOp(name, tag, attrs, axis, values, place_of_caller(), refusal))


def _outputs(op: Operation) -> Any:
    """Return the result of an operation, or a tuple of several."""
    outputs = tuple([op.output(k) for k in range(op.num_outputs)])
    return outputs[0] if len(outputs) == 1 else outputs


def _tensor_compute(
    name: str,
    tag: str,
    attrs: Any,
    shape: tuple[PrimExpr, ...],
    axis: list[IterVar],
    call: TensorIntrinCall,
) -> TensorComputeOp:
    """Make the operation of a computation whose parts a tensor intrinsic makes. Dimensions that
    ``fcompute`` has no index for belong to the intrinsic.
    """
    inner = [
        IterVar(Range.from_min_extent(const(0, size.dtype), size), f"ax{k}", IterVar.Opaque)
        for k, size in enumerate(shape[len(axis) :])
    ]
    outputs = call.intrin.buffers[len(call.intrin.inputs) :]
    for buffer in outputs:
        if len(inner) > len(buffer.shape):
            raise ShapeError(
                f"compute '{name}' leaves {_counted(len(inner), 'dimension', 'dimensions')} to the "
                f"intrinsic '{call.intrin.name}', which makes {len(buffer.shape)}",
                notes=("give fcompute a parameter for each dimension that is a loop",),
            )
    return TensorComputeOp(
        name,
        tag,
        [*axis, *inner],
        call.reduce_axis,
        len(axis),
        call.intrin,
        call.tensors,
        call.regions,
        call.scalar_inputs,
        attrs,
    )


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
        if len(required) > ndim:
            raise _wrong_parameters(names, ndim)
        return names[:ndim]  # fewer where a tensor intrinsic makes the other dimensions
    if varargs_names is not None:
        if len(names) + len(varargs_names) != ndim:
            raise ShapeError(
                f"varargs_names has {_counted(len(varargs_names), 'name', 'names')} for "
                f"{_counted(ndim - len(names), 'index', 'indices')}",
                notes=("give one name for each index that no parameter of its own takes",),
            )
        return names + list(varargs_names)
    return names + [f"i{k}" for k in range(ndim - len(names))]


def _wrong_parameters(names: list[str], ndim: int) -> ShapeError:
    return ShapeError(
        f"fcompute takes {_counted(len(names), 'index', 'indices')}, the shape has "
        f"{_counted(ndim, 'dimension', 'dimensions')}",
        notes=("give it one parameter for each dimension, or take all: lambda *indices:",),
    )


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


def scan(
    init: Any,
    update: Any,
    state_placeholder: Any,
    inputs: Any = None,
    name: str = "scan",
    tag: str = "",
    attrs: dict[str, Any] | None = None,
) -> Any:
    """Make a tensor whose rows follow from earlier rows: ``init`` computes the first ones,
    ``update`` each later one from rows of ``state_placeholder``, which stands for the result.

        state = te.placeholder((m, n))
        init = te.compute((1, n), lambda _, i: X[0, i])
        update = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i])
        sums = te.scan(init, update, state, inputs=[X])

    The first axis is the time. Lists of tensors make a scan with several states, and a list of
    results. ``inputs`` are tensors that the update reads besides: what computes them is no part of
    the time loop.
    """
    first, later = _tensors(init, name, "init"), _tensors(update, name, "update")
    states = _tensors(state_placeholder, name, "state_placeholder")
    read = [] if inputs is None else _tensors(inputs, name, "inputs")
    if not len(first) == len(later) == len(states) or not states:
        raise ShapeError(
            f"scan '{name}' has {len(first)} init, {len(later)} update and {len(states)} state "
            "tensors",
            notes=("give one of each for each state",),
        )
    for parts in zip(first, later, states):
        _check_state(name, *parts)
    for one in [*first, *later, *states]:
        if [*first, *later, *states].count(one) > 1:
            raise TypeMismatchError(
                f"scan '{name}': '{one.name}' is given twice",
                notes=("each state has an init, an update and a placeholder of its own",),
            )
    for label, group in (("init", first), ("update", later)):
        for one in group[1:]:
            if not structural_equal(one.shape[0], group[0].shape[0]):
                raise ShapeError(
                    f"scan '{name}': {label} '{group[0].name}' has {group[0].shape[0]} rows, "
                    f"'{one.name}' has {one.shape[0]}",
                    notes=("all states of a scan have the same time axis",),
                )
    rows, end = first[0].shape[0], later[0].shape[0]
    time = IterVar(Range(rows, end), f"{name}.idx", IterVar.Ordered)
    op = ScanOp(name, tag or TagScope.current_tag(), attrs, time, first, later, states, read)
    check_scan(op)
    outputs = [op.output(k) for k in range(op.num_outputs)]
    return outputs[0] if len(outputs) == 1 else outputs


def _tensors(given: Any, name: str, what: str) -> list[Tensor]:
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    for one in listed:
        if not isinstance(one, Tensor):
            raise TypeMismatchError(f"{what} of scan '{name}' is a tensor or a list, got {one!r}")
    return listed


def _check_state(name: str, init: Tensor, update: Tensor, state: Tensor) -> None:
    """Refuse a state whose tensors do not fit together."""
    if not isinstance(state.op, PlaceholderOp):
        raise TypeMismatchError(
            f"scan '{name}': the state '{state.name}' is computed; it stands for the result",
            notes=("make it with te.placeholder, with the shape of the result",),
        )
    for label, one in (("init", init), ("update", update)):
        if isinstance(one.op, (PlaceholderOp, ScanOp)):
            what = "an input" if isinstance(one.op, PlaceholderOp) else "the result of a scan"
            raise TypeMismatchError(
                f"scan '{name}': {label} '{one.name}' is {what}, which has memory of its own",
                notes=("copy it: te.compute(shape, lambda t, i: other[t, i])",),
            )
        if one.dtype is not state.dtype:
            raise TypeMismatchError(
                f"scan '{name}': {label} '{one.name}' is {one.dtype}, the state is {state.dtype}"
            )
        if one.ndim != state.ndim or not state.ndim:
            raise ShapeError(
                f"scan '{name}': {label} '{one.name}' has {one.ndim} dimensions, the state has "
                f"{state.ndim}",
                notes=("the first one is the time, the others are those of one row",),
            )
        compared = range(0 if label == "update" else 1, state.ndim)
        for axis in compared:
            if not structural_equal(one.shape[axis], state.shape[axis]):
                raise ShapeError(
                    f"scan '{name}': axis {axis} of {label} '{one.name}' has the size "
                    f"{one.shape[axis]}, that of the state has {state.shape[axis]}"
                )
    rows = init.shape[0], state.shape[0]
    if isinstance(rows[0], IntImm) and isinstance(rows[1], IntImm):
        if not 0 <= rows[0].value <= rows[1].value:
            raise ShapeError(
                f"scan '{name}': init '{init.name}' has {rows[0]} rows, the state has {rows[1]}"
            )


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


def _given_or_made(given: Any, wanted: list[tuple[Any, Any, str]]) -> list[Buffer]:
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
