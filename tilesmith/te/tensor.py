"""Tensors of tensor expressions and the operations that make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import (
    ExprOp,
    IntImm,
    Node,
    PrimExpr,
    Range,
    attributes,
    convert,
    note,
    operators,
)
from tilesmith.ir import data as data_field
from tilesmith.ir.queries import nodes
from tilesmith.runtime.dtype import DataType
from tilesmith.support.caller import CallerPlace
from tilesmith.support.errors import ShapeError, TilesmithError, TypeMismatchError
from tilesmith.support.lazy import resolve
from tilesmith.te.bodies import read_other_tensors
from tilesmith.tir.buffer import Buffer, DataProducer
from tilesmith.tir.expr import IterVar, ProducerLoad, Reduce
from tilesmith.tir.stmt import Stmt

__all__ = [
    "BaseComputeOp", "ComputeOp", "ExternOp", "HybridOp", "Operation", "PlaceholderOp", "ScanOp",
    "Tensor", "TensorComputeOp", "TensorIntrinCall", "TensorSlice",
]  # fmt: skip


class TensorSlice(ExprOp):
    """A tensor with some of its indices; converts to the element once all are given."""

    __slots__ = ("indices", "tensor")

    def __init__(self, tensor: Tensor, indices: Any) -> None:
        if not isinstance(indices, tuple):
            indices = (indices,)
        self.tensor = tensor
        self.indices = indices

    def __getitem__(self, indices: Any) -> TensorSlice:
        more = indices if isinstance(indices, tuple) else (indices,)
        return TensorSlice(self.tensor, self.indices + more)

    def asobject(self) -> PrimExpr:
        """Return the element."""
        return self.tensor(*self.indices)

    @property
    def dtype(self) -> DataType:
        """The dtype of an element."""
        return self.tensor.dtype


class Tensor(DataProducer, key="te.Tensor"):
    """The result of an operation: a shape and a value for each index.

    ``T[i, j]`` or ``T(i, j)`` is an element. Arithmetic on whole tensors is elementwise, by TOPI.
    """

    is_leaf = True

    shape: tuple[PrimExpr, ...] = data_field()
    dtype: DataType = data_field(convert=DataType)
    op: Operation = data_field()
    value_index: int = data_field()

    def __eq__(self, other: object) -> bool:
        """Tell whether both are the same result of one operation."""
        if self is other:
            return True
        return (
            isinstance(other, Tensor)
            and self.op is other.op
            and self.value_index == other.value_index
        )

    def __hash__(self) -> int:
        return hash((id(self.op), self.value_index))

    @property
    def name(self) -> str:
        """The name of the operation; of one with several results, with the number."""
        return self.op.name if self.op.num_outputs == 1 else f"{self.op.name}.v{self.value_index}"

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The data-parallel iterators of the operation."""
        return self.op.axis  # type: ignore[attr-defined]

    def __call__(self, *indices: Any) -> PrimExpr:
        if len(indices) != len(self.shape):
            ndim, given = len(self.shape), len(indices)
            raise ShapeError(
                f"tensor '{self.name}' has {ndim} dimension{'' if ndim == 1 else 's'}, got "
                f"{given} {'index' if given == 1 else 'indices'}",
                notes=(f"its shape is {self.shape}: give one index for each dimension",),
            )
        converted = []
        for index in indices:
            if isinstance(index, IterVar):
                index = index.var
            if isinstance(index, slice):
                raise TypeMismatchError(
                    f"a part of tensor '{self.name}' cannot be taken as a whole",
                    notes=(
                        "index one element, or use topi.strided_slice; only a tensor intrinsic "
                        "takes parts of tensors",
                    ),
                )
            expression = index if isinstance(index, PrimExpr) else convert(index)
            if not (expression.dtype.is_integer or expression.dtype.is_bool):
                raise TypeMismatchError(
                    f"an index of tensor '{self.name}' is {expression.dtype}, an integer is needed",
                    notes=('divide by `//`, or convert it: index.astype("int32")',),
                )
            converted.append(expression)
        return ProducerLoad(self, tuple(converted))

    def __getitem__(self, indices: Any) -> TensorSlice:
        return TensorSlice(self, indices)

    def __len__(self) -> int:
        return int(self.shape[0])  # type: ignore[call-overload]

    def __iter__(self) -> Any:
        """Return the elements of a vector of integers: sizes or bounds of another tensor."""
        if self.dtype.is_integer and self.ndim == 1 and isinstance(self.shape[0], IntImm):
            return iter([self(number) for number in range(len(self))])
        raise TypeMismatchError(
            f"tensor '{self.name}' has no elements to iterate over before it is computed",
            notes=("index it: A[i]; a list of tensors is written [A]",),
        )

    def asobject(self) -> PrimExpr:
        """Refuse to be an expression: a tensor stands for all of its elements."""
        indices = ", ".join("ijklmn"[: self.ndim])
        raise TypeMismatchError(
            f"tensor '{self.name}' is used where a single value is needed",
            notes=(f"index it: {self.name}[{indices}]; topi has functions of whole tensors",),
        )

    def __neg__(self) -> Any:
        return _topi("negative", self)

    def __add__(self, other: Any) -> Any:
        return _topi("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _topi("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _topi("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _topi("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return _topi("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _topi("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _divide(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _topi("floor_divide", self, other)

    def __mod__(self, other: Any) -> Any:
        return _topi("mod", self, other)

    def astype(self, dtype: str) -> Any:
        """Return this tensor with its elements converted."""
        return _topi("cast", self, dtype)

    def __repr__(self) -> str:
        shape = ", ".join(
            [str(getattr(size, "value", getattr(size, "name", "?"))) for size in self.shape]
        )
        return f"Tensor(shape=[{shape}], op.name={self.op.name})"

    __str__ = __repr__


def _topi(name: str, *arguments: Any) -> Any:
    """Return TOPI, which implements elementwise arithmetic on a floor above (through a door)."""
    return resolve(f"tilesmith.topi:{name}")(*arguments)


def _divide(left: Any, right: Any) -> Any:
    """Return ``left / right`` of whole tensors; signed integers have several divisions."""
    if operators.is_signed(left) and operators.is_signed(right):
        raise operators.ambiguous_division()
    return _topi("divide", left, right)


def _replaced(tensors: tuple[Tensor, ...], mapping: Mapping[Tensor, Tensor]) -> tuple[Tensor, ...]:
    """Return tensors with others in the place of some; the same tuple where nothing changes."""
    if not any(tensor in mapping for tensor in tensors):
        return tensors
    return tuple([mapping.get(tensor, tensor) for tensor in tensors])


class Operation(Node, key="te.Operation"):
    """An operation that makes one or several tensors."""

    name: str = note()
    tag: str = data_field(default="")
    attrs: Mapping[str, Any] = data_field(default=None, convert=attributes)

    @property
    def num_outputs(self) -> int:
        """The number of tensors that the operation makes."""
        return 1

    @property
    def input_tensors(self) -> list[Tensor]:
        """The distinct tensors that the operation reads, in order of first use."""
        return []

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        """The iterators that a schedule starts from: data-parallel ones, then those of a
        reduction.
        """
        return ()

    def output(self, index: int) -> Tensor:
        """Return a result of the operation, by number."""
        raise TypeError(f"{type(self).__name__} '{self.name}' has no output {index}")

    def replace_inputs(self, mapping: Mapping[Tensor, Tensor]) -> Operation:
        """Return this operation with other tensors read in the place of some; the same one if it
        reads none of them.
        """
        if any(tensor in mapping for tensor in self.input_tensors):
            raise TypeError(f"{type(self).__name__} '{self.name}' cannot read other tensors")
        return self


class PlaceholderOp(Operation, key="te.PlaceholderOp", slots=("_tensor",)):
    """An input of the program: its values are passed in."""

    shape: tuple[PrimExpr, ...] = data_field()
    dtype: DataType = data_field(convert=DataType)

    def __init__(self, name: str, tag: str, attrs: Any, shape: Any, dtype: str) -> None:
        self.name, self.tag, self.attrs = name, tag, attributes(attrs)
        self.shape, self.dtype = tuple(shape), DataType(dtype)
        self._tensor = Tensor(self.shape, self.dtype, self, 0)

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The iterators: a placeholder has none."""
        return ()

    def output(self, index: int) -> Tensor:
        return self._tensor


class BaseComputeOp(Operation, key="te.BaseComputeOp"):
    """Base of operations over a grid of iterators."""

    axis: tuple[IterVar, ...] = data_field()

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        """The iterators that the values are reduced over."""
        return ()


class ComputeOp(BaseComputeOp, key="te.ComputeOp", slots=("_tensors", "place", "read_refusal")):
    """Elements given by expressions over the iterators ``axis``; several for a tuple reduction."""

    body: tuple[PrimExpr, ...] = data_field()
    place: CallerPlace | None
    """Where the user's program made it, for errors that show later."""
    read_refusal: TilesmithError | None
    """What is wrong with its reads unless it is the update of a scan (see ``te.checks``)."""

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Any,
        axis: Any,
        body: Any,
        place: CallerPlace | None = None,
        read_refusal: TilesmithError | None = None,
    ) -> None:
        self.name, self.tag, self.attrs = name, tag, attributes(attrs)
        self.axis, self.body, self.place = tuple(axis), tuple(body), place
        self.read_refusal = read_refusal
        shape = tuple([iterator.dom.extent for iterator in self.axis])
        self._tensors = [Tensor(shape, value.dtype, self, k) for k, value in enumerate(self.body)]

    @property
    def num_outputs(self) -> int:
        return len(self.body)

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        """The iterators that the value is reduced over."""
        first = self.body[0]
        return first.axis if isinstance(first, Reduce) else ()

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        return (*self.axis, *self.reduce_axis)

    @property
    def input_tensors(self) -> list[Tensor]:
        read = [load.producer for load in nodes(self.body, ProducerLoad)]
        return list(dict.fromkeys([one for one in read if isinstance(one, Tensor)]))

    def replace_inputs(self, mapping: Mapping[Tensor, Tensor]) -> ComputeOp:
        return self.with_body(read_other_tensors(self.body, mapping))

    def with_body(self, body: tuple[PrimExpr, ...]) -> ComputeOp:
        """Return the operation with other values, over the same iterators."""
        if body is self.body:
            return self
        return ComputeOp(
            self.name, self.tag, self.attrs, self.axis, body, self.place, self.read_refusal
        )

    def output(self, index: int) -> Tensor:
        return self._tensors[index]


class TensorIntrinCall(Node, key="te.TensorIntrinCall"):
    """A tensor intrinsic applied to parts of tensors: what ``fcompute`` of a computation gives
    instead of the value of one element.
    """

    is_leaf = True

    intrin: Any = data_field()
    tensors: tuple[Tensor, ...] = data_field()
    regions: tuple[tuple[Range, ...], ...] = data_field()
    reduce_axis: tuple[IterVar, ...] = data_field()
    scalar_inputs: tuple[PrimExpr, ...] = data_field()


class TensorComputeOp(BaseComputeOp, key="te.TensorComputeOp", slots=("_tensors",)):
    """Parts of tensors made by a tensor intrinsic.

    The first ``schedulable_ndim`` axes are loops, the others belong to the intrinsic: one call
    makes all elements along them. ``input_regions`` are the parts of ``inputs`` that a call reads.
    """

    reduce_axis: tuple[IterVar, ...] = data_field()
    schedulable_ndim: int = data_field()
    intrin: Any = data_field()
    inputs: tuple[Tensor, ...] = data_field()
    input_regions: tuple[tuple[Range, ...], ...] = data_field()
    scalar_inputs: tuple[PrimExpr, ...] = data_field()

    def __init__(
        self,
        name: str,
        tag: str,
        axis: Any,
        reduce_axis: Any,
        schedulable_ndim: int,
        intrin: Any,
        tensors: Any,
        regions: Any,
        scalar_inputs: Any = (),
        attrs: Any = None,
    ) -> None:
        self.name, self.tag, self.attrs = name, tag, attributes(attrs)
        self.axis, self.reduce_axis = tuple(axis), tuple(reduce_axis)
        self.schedulable_ndim, self.intrin = int(schedulable_ndim), intrin
        self.inputs = tuple(tensors)
        self.input_regions = tuple([tuple(region) for region in regions])
        self.scalar_inputs = tuple(scalar_inputs)
        shape = tuple([iterator.dom.extent for iterator in self.axis])
        made = intrin.buffers[len(self.inputs) :]
        self._tensors = [Tensor(shape, buffer.dtype, self, k) for k, buffer in enumerate(made)]

    @property
    def num_outputs(self) -> int:
        return len(self._tensors)

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        return (*self.axis, *self.reduce_axis)

    @property
    def input_tensors(self) -> list[Tensor]:
        inside = [load.producer for load in nodes(self.scalar_inputs, ProducerLoad)]
        return list(dict.fromkeys([*self.inputs, *inside]))

    def replace_inputs(self, mapping: Mapping[Tensor, Tensor]) -> Operation:
        if not any(tensor in mapping for tensor in self.input_tensors):
            return self
        return self.with_parts(
            _replaced(self.inputs, mapping), read_other_tensors(self.scalar_inputs, mapping)
        )

    def with_parts(
        self, inputs: tuple[Tensor, ...], scalar_inputs: tuple[PrimExpr, ...]
    ) -> TensorComputeOp:
        """Return the operation with the same parts of other tensors, and other scalars."""
        return TensorComputeOp(
            self.name, self.tag, self.axis, self.reduce_axis, self.schedulable_ndim, self.intrin,
            inputs, self.input_regions, scalar_inputs, self.attrs,
        )  # fmt: skip

    def output(self, index: int) -> Tensor:
        return self._tensors[index]


class ExternOp(Operation, key="te.ExternOp", slots=("_tensors",)):
    """Tensors made by a statement over buffers, such as a library call or handwritten loops."""

    inputs: tuple[Tensor, ...] = data_field()
    input_placeholders: tuple[Buffer, ...] = data_field()
    output_placeholders: tuple[Buffer, ...] = data_field()
    body: Stmt = data_field()

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Any,
        inputs: Any,
        in_buffers: Any,
        out_buffers: Any,
        body: Stmt,
    ) -> None:
        self.name, self.tag, self.attrs = name, tag, attributes(attrs)
        self.inputs = tuple(inputs)
        self.input_placeholders = tuple(in_buffers)
        self.output_placeholders = tuple(out_buffers)
        self.body = body
        self._tensors = [
            Tensor(buffer.shape, buffer.dtype, self, k)
            for k, buffer in enumerate(self.output_placeholders)
        ]

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The iterators: those of an extern operation are not known."""
        return ()

    @property
    def num_outputs(self) -> int:
        return len(self._tensors)

    @property
    def input_tensors(self) -> list[Tensor]:
        return list(dict.fromkeys(self.inputs))

    def replace_inputs(self, mapping: Mapping[Tensor, Tensor]) -> Operation:
        inputs = _replaced(self.inputs, mapping)
        return self if inputs is self.inputs else self.with_fields(inputs=inputs)

    def output(self, index: int) -> Tensor:
        return self._tensors[index]


class ScanOp(Operation, key="te.ScanOp", slots=("_tensors",)):
    """Tensors whose elements along the first axis, the time, follow from earlier ones.

    ``state_placeholder`` stand for the whole results; ``init`` computes their first rows,
    ``update`` the row ``scan_axis`` from rows of the state before it. ``inputs`` are read besides.
    """

    scan_axis: IterVar = data_field()
    init: tuple[Tensor, ...] = data_field()
    update: tuple[Tensor, ...] = data_field()
    state_placeholder: tuple[Tensor, ...] = data_field()
    inputs: tuple[Tensor, ...] = data_field()
    spatial_axis_: tuple[IterVar, ...] = data_field()

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Any,
        scan_axis: IterVar,
        init: Any,
        update: Any,
        state_placeholder: Any,
        inputs: Any = (),
        spatial_axis_: Any = None,
    ) -> None:
        self.name, self.tag, self.attrs = name, tag, attributes(attrs)
        self.scan_axis = scan_axis
        self.init, self.update = tuple(init), tuple(update)
        self.state_placeholder, self.inputs = tuple(state_placeholder), tuple(inputs)
        if spatial_axis_ is None:
            spatial_axis_ = [
                IterVar(Range(0, size), f"{name}.out{k}.i{number}", IterVar.Opaque)
                for k, state in enumerate(self.state_placeholder)
                for number, size in enumerate(state.shape[1:], 1)
            ]
        self.spatial_axis_ = tuple(spatial_axis_)
        self._tensors = [
            Tensor(state.shape, state.dtype, self, k)
            for k, state in enumerate(self.state_placeholder)
        ]

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        return (self.scan_axis, *self.spatial_axis_)

    @property
    def num_outputs(self) -> int:
        return len(self.update)

    @property
    def input_tensors(self) -> list[Tensor]:
        return list(dict.fromkeys([*self.init, *self.update]))

    def replace_inputs(self, mapping: Mapping[Tensor, Tensor]) -> Operation:
        init, update = _replaced(self.init, mapping), _replaced(self.update, mapping)
        if init is self.init and update is self.update:
            return self
        return self.with_fields(init=init, update=update)

    def output(self, index: int) -> Tensor:
        return self._tensors[index]


class HybridOp(Operation, key="te.HybridOp", slots=("_tensors",)):
    """Tensors made by loops that a hybrid script describes.

    ``outputs`` stand for the results inside of ``body``, which reads and stores elements of
    tensors; ``axis`` are its loops, each with the variable of its ``For``.
    """

    inputs: tuple[Tensor, ...] = data_field()
    outputs: tuple[Tensor, ...] = data_field()
    axis: tuple[IterVar, ...] = data_field()
    body: Stmt = data_field()

    def __init__(
        self, name: str, tag: str, attrs: Any, inputs: Any, outputs: Any, axis: Any, body: Stmt
    ) -> None:
        self.name, self.tag, self.attrs = name, tag, attributes(attrs)
        self.inputs, self.outputs, self.axis = tuple(inputs), tuple(outputs), tuple(axis)
        self.body = body
        self._tensors = [
            Tensor(one.shape, one.dtype, self, k) for k, one in enumerate(self.outputs)
        ]

    @property
    def num_outputs(self) -> int:
        return len(self._tensors)

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        return self.axis

    @property
    def input_tensors(self) -> list[Tensor]:
        return list(dict.fromkeys(self.inputs))

    def replace_inputs(self, mapping: Mapping[Tensor, Tensor]) -> Operation:
        inputs = _replaced(self.inputs, mapping)
        if inputs is self.inputs:
            return self
        (body,) = read_other_tensors((self.body,), mapping)
        return self.with_fields(inputs=inputs, body=body)

    def output(self, index: int) -> Tensor:
        return self._tensors[index]
