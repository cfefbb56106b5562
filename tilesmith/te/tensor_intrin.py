"""Tensor intrinsics of classic schedules: an instruction or a routine, and what it computes.

    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] + 1.0, name="b")
    increment = te.decl_tensor_intrin(b.op, lambda ins, outs: …)

``Stage.tensorize(loop, increment)`` replaces a loop by it, once the computation inside is found to
be the same; ``te.compute((n,), lambda i: increment(A[i, 0:16]))`` calls it outright.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.ir import Node, PrimExpr, Range, Var, convert, note
from tilesmith.ir import data as data_field
from tilesmith.support.errors import ShapeError, TypeMismatchError
from tilesmith.te.tensor import ComputeOp, Operation, Tensor, TensorIntrinCall, TensorSlice
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import IterVar
from tilesmith.tir.ranges import extent_between
from tilesmith.tir.stmt import Evaluate, Stmt

__all__ = ["TensorIntrin", "TensorIntrinCall", "decl_tensor_intrin"]


class TensorIntrin(Node, key="te.TensorIntrin"):
    """A tensor intrinsic: the operation ``op`` that it computes, and statements that do it.

    ``buffers`` are those of ``inputs`` and then of the results. ``body`` computes all;
    ``reduce_init`` sets the results to what a reduction begins with, ``reduce_update`` adds one
    part of the reduction: these two serve where loops around it reduce too.
    """

    is_leaf = True

    name: str = note()
    op: Operation = data_field()
    inputs: tuple[Tensor, ...] = data_field()
    buffers: tuple[Buffer, ...] = data_field()
    scalar_params: tuple[Var, ...] = data_field()
    body: Stmt | None = data_field()
    reduce_init: Stmt | None = data_field(default=None)
    reduce_update: Stmt | None = data_field(default=None)

    def __call__(self, *args: Any, **kwargs: Any) -> TensorIntrinCall:
        """Apply the intrinsic to parts of tensors, and to scalars, inside of ``te.compute``.

        ``reduce_axis``: iterators of loops around the call that reduce too.
        """
        unknown = set(kwargs) - {"reduce_axis"}
        if unknown:
            raise TypeMismatchError(
                f"tensor intrinsic '{self.name}' takes parts of tensors, scalars and reduce_axis, "
                f"got '{sorted(unknown)[0]}'"
            )
        tensors = [one for one in args if isinstance(one, (TensorSlice, Tensor))]
        tensors = tensors[: len(self.inputs)] if self.scalar_params else tensors
        parts = [_part(one) for one in tensors]
        scalars = [convert(one) for one in args if not any(one is other for other in tensors)]
        self._check_arguments(parts, scalars)
        axes: Any = kwargs.get("reduce_axis", ())
        axes = tuple(axes) if isinstance(axes, (list, tuple)) else (axes,)
        for axis in axes:
            if not isinstance(axis, IterVar) or axis.iter_type != IterVar.CommReduce:
                raise TypeMismatchError(
                    f"reduce_axis of tensor intrinsic '{self.name}' is {axis!r}",
                    notes=("give iterators that te.reduce_axis makes",),
                )
        read = tuple([tensor for tensor, _ in parts])
        regions = tuple([region for _, region in parts])
        return TensorIntrinCall(self, read, regions, axes, tuple(scalars))

    def _check_arguments(self, parts: list[Any], scalars: list[PrimExpr]) -> None:
        wanted = len(self.inputs), len(self.scalar_params)
        if (len(parts), len(scalars)) != wanted:
            raise ShapeError(
                f"tensor intrinsic '{self.name}' takes {wanted[0]} tensors and {wanted[1]} "
                f"scalars, got {len(parts)} and {len(scalars)}",
                notes=("a part of a tensor is written with slices: A[i, 0:16]",),
            )
        for (tensor, region), buffer in zip(parts, self.buffers):
            if tensor.dtype is not buffer.dtype:
                raise TypeMismatchError(
                    f"tensor intrinsic '{self.name}' takes {buffer.dtype} for '{buffer.name}', "
                    f"tensor '{tensor.name}' is {tensor.dtype}"
                )
            if len(region) < len(buffer.shape):
                raise ShapeError(
                    f"tensor intrinsic '{self.name}' takes {len(buffer.shape)} dimensions for "
                    f"'{buffer.name}', tensor '{tensor.name}' has {len(region)}"
                )


def _part(given: TensorSlice | Tensor) -> tuple[Tensor, tuple[Range, ...]]:
    """Return a tensor and the region that slices and indices select of it."""
    tensor = given if isinstance(given, Tensor) else given.tensor
    indices = () if isinstance(given, Tensor) else given.indices
    if len(indices) > tensor.ndim:
        raise ShapeError(
            f"tensor '{tensor.name}' has {tensor.ndim} dimensions, got {len(indices)} indices"
        )
    region = []
    for axis, size in enumerate(tensor.shape):
        index = indices[axis] if axis < len(indices) else slice(None)
        if not isinstance(index, slice):
            start = convert(index.var if isinstance(index, IterVar) else index)
            region.append(Range.from_min_extent(start, convert(1)))
            continue
        if index.step not in (None, 1):
            raise TypeMismatchError(
                f"a part of tensor '{tensor.name}' has the step {index.step}",
                notes=("a tensor intrinsic takes parts of step 1",),
            )
        start = convert(0 if index.start is None else index.start)
        stop = size if index.stop is None else convert(index.stop)
        region.append(Range.from_min_extent(start, extent_between(start, stop)))
    return tensor, tuple(region)


def decl_tensor_intrin(
    op: Operation,
    fcompute: Callable[..., Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, Buffer] | None = None,
    scalar_params: Any = None,
    default_buffer_params: Mapping[str, Any] | None = None,
) -> TensorIntrin:
    """Declare a tensor intrinsic that computes ``op``.

    ``fcompute(input buffers, output buffers)`` (and the scalars, if there are any) returns a
    statement or call, or three: what computes all, what sets the start of a reduction, and what
    adds one part of it (each may be None). ``binds`` gives the buffers of some tensors, which say
    what strides and offsets the intrinsic takes; the others are compact, with
    ``default_buffer_params``. Raises TypeMismatchError for an operation that reads what is no
    input of the program.
    """
    if not isinstance(op, ComputeOp):
        raise TypeMismatchError(
            f"a tensor intrinsic computes the operation of te.compute, got {op!r}",
            notes=("give it the operation of the result: C.op",),
        )
    inputs = op.input_tensors
    for tensor in inputs:
        if tensor.op.input_tensors or isinstance(tensor.op, ComputeOp):
            raise TypeMismatchError(
                f"tensor intrinsic '{name}' reads '{tensor.name}', which is computed",
                notes=("describe what it computes by one te.compute of placeholders",),
            )
    results = [op.output(k) for k in range(op.num_outputs)]
    buffers = [
        _buffer(tensor, binds or {}, default_buffer_params or {}) for tensor in [*inputs, *results]
    ]
    scalars = [] if scalar_params is None else scalar_params
    scalars = list(scalars) if isinstance(scalars, (list, tuple)) else [scalars]
    ins, outs = buffers[: len(inputs)], buffers[len(inputs) :]
    made = fcompute(ins, outs, scalars) if scalars else fcompute(ins, outs)
    bodies = list(made) if isinstance(made, (list, tuple)) else [made]
    if len(bodies) not in (1, 3):
        raise TypeMismatchError(
            f"fcompute of tensor intrinsic '{name}' gave {len(bodies)} statements",
            notes=("return one, or three: the whole, the start of a reduction, one part of it",),
        )
    statements = [_statement(name, one) for one in bodies]
    if statements[0] is None and (len(statements) < 3 or None in statements[1:]):
        raise TypeMismatchError(f"tensor intrinsic '{name}' has nothing that computes the whole")
    return TensorIntrin(name, op, tuple(inputs), tuple(buffers), tuple(scalars), *statements)


def _buffer(tensor: Tensor, binds: Mapping[Tensor, Buffer], params: Mapping[str, Any]) -> Buffer:
    found = binds.get(tensor)
    if found is None:
        given = {"offset_factor": 1, **params}  # a part seldom lies at the begin of its tensor
        return decl_buffer(tensor.shape, tensor.dtype, tensor.op.name, **given)
    if found.dtype is not tensor.dtype or len(found.shape) != tensor.ndim:
        raise TypeMismatchError(
            f"the buffer '{found.name}' of tensor '{tensor.name}' is {found.dtype} with "
            f"{len(found.shape)} dimensions, the tensor is {tensor.dtype} with {tensor.ndim}"
        )
    return found


def _statement(name: str, given: Any) -> Stmt | None:
    if given is None or isinstance(given, Stmt):
        return given
    if isinstance(given, PrimExpr):
        return Evaluate(given)
    raise TypeMismatchError(
        f"fcompute of tensor intrinsic '{name}' gave {given!r}, a statement or a call is needed",
        notes=("build it with tir.ir_builder, or call tir.call_extern",),
    )
