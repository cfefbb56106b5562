"""Expressions of the tensor level: loads, iterators, reductions, regions."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from tilesmith.ir import ExprOp, Node, PrimExpr, Range, Var, child, const, convert, defines, note
from tilesmith.ir import data as data_field
from tilesmith.ir.operators import ambiguous_division
from tilesmith.support.errors import ShapeError, TypeMismatchError
from tilesmith.tir.buffer import Buffer, DataProducer
from tilesmith.tir.ranges import extent_between

__all__ = [
    "BufferLoad", "BufferRegion", "CommReducer", "IterVar", "ProducerLoad", "Reduce",
    "buffer_slice",
]  # fmt: skip


def as_indices(values: Any) -> tuple[PrimExpr, ...]:
    """Return the indices of an access as expressions."""
    if isinstance(values, (int, PrimExpr)):
        values = (values,)
    indices = [value if isinstance(value, PrimExpr) else convert(value) for value in values]
    for index in indices:
        if not isinstance(index, PrimExpr):
            raise TypeMismatchError(
                f"an index is an integer, got {len(index)} values",
                notes=("a nest of loops has a variable for each: for i, j in T.grid(4, 4):",),
            )
    return tuple(indices)


def check_rank(buffer: Buffer, indices: tuple[PrimExpr, ...], span: Any = None) -> None:
    """Check that an access has one index per dimension."""
    if len(indices) != len(buffer.shape):
        raise ShapeError(
            f"buffer '{buffer.name}' has {len(buffer.shape)} dimensions, got {len(indices)}"
            " indices",
            span=span,
        )


def check_access(buffer: Buffer, indices: tuple[PrimExpr, ...], span: Any = None) -> None:
    """Check that an access has one index per dimension, and that they are numbers that count."""
    check_rank(buffer, indices, span)
    for number, index in enumerate(indices):
        if index.dtype.is_float:
            raise TypeMismatchError(
                f"index {number} of buffer '{buffer.name}' is not an integer, but {index.dtype}",
                span,
                (f'convert it: T.Cast("int32", {index})',),
            )
        if index.dtype.is_handle:
            raise TypeMismatchError(
                f"index {number} of buffer '{buffer.name}' is not a number: {index}", span
            )


def access_dtype(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Any:
    """Return the dtype that an access reads or writes: a vector where the last index is one."""
    lanes = indices[-1].dtype.lanes if indices else 1
    return buffer.dtype.with_lanes(buffer.dtype.lanes * lanes)


class BufferLoad(PrimExpr, key="tir.BufferLoad"):
    """The element (a vector where the last index is one) of a buffer at ``indices``.

    ``predicate``: a vector of booleans; lanes that are off are not read and have no value.
    """

    buffer: Buffer = child()
    indices: tuple[PrimExpr, ...] = child()
    predicate: PrimExpr | None = child(default=None)
    span: Any = note(default=None)

    def __init__(
        self, buffer: Buffer, indices: Any, predicate: Any = None, span: Any = None
    ) -> None:
        self.buffer = buffer
        self.indices = as_indices(indices)
        self.predicate = predicate
        self.span = span
        check_access(buffer, self.indices, span)
        self.dtype = access_dtype(buffer, self.indices)

    def __getitem__(self, indices: Any) -> Any:
        raise TypeMismatchError(
            f"buffer '{self.buffer.name}' is fully indexed already; write all indices in one pair"
            " of brackets"
        )


class ProducerLoad(PrimExpr, key="tir.ProducerLoad"):
    """The element of a tensor of a tensor expression; lowering to a PrimFunc removes it."""

    producer: DataProducer = child()
    indices: tuple[PrimExpr, ...] = child()
    span: Any = note(default=None)

    def __init__(self, producer: Any, indices: Any, span: Any = None) -> None:
        self.producer = producer
        self.indices = as_indices(indices)
        self.span = span
        self.dtype = producer.dtype


class BufferRegion(Node, key="tir.BufferRegion"):
    """A box in a buffer: one range per dimension."""

    buffer: Buffer = child()
    region: tuple[Range, ...] = child()

    def __init__(self, buffer: Buffer, region: Any) -> None:
        """Raises ShapeError unless there is a range for each dimension."""
        self.buffer = buffer
        self.region = tuple(region)
        for bounds in self.region:
            if not isinstance(bounds, Range):
                raise TypeMismatchError(f"a region has ranges, got {bounds!r}")
        if len(self.region) != len(buffer.shape):
            raise ShapeError(
                f"buffer '{buffer.name}' has {len(buffer.shape)} dimensions, got"
                f" {len(self.region)} ranges"
            )

    @staticmethod
    def full_region(buffer: Buffer) -> BufferRegion:
        """Return the region of all elements of a buffer."""
        return BufferRegion(
            buffer,
            tuple([Range.from_min_extent(const(0, size.dtype), size) for size in buffer.shape]),
        )

    @staticmethod
    def from_point(buffer: Buffer, indices: Any) -> BufferRegion:
        """Return the region of one element."""
        return BufferRegion(
            buffer,
            tuple(
                [
                    Range.from_min_extent(index, const(1, index.dtype))
                    for index in as_indices(indices)
                ]
            ),
        )

    def __getitem__(self, indices: Any) -> Any:
        return self.buffer[indices]


def buffer_slice(buffer: Buffer, indices: Any) -> BufferRegion | BufferLoad:
    """Return ``A[0:4, i]`` as a region; a slice with a step reads a vector (``A[0:8:2]``)."""
    from tilesmith.ir import Ramp

    check_rank(buffer, tuple(indices))
    if any(isinstance(index, slice) and index.step is not None for index in indices):
        loaded = []
        for index in indices:
            if isinstance(index, slice):
                start, stop = convert(index.start or 0), convert(index.stop)
                lanes = int((stop - start + index.step - 1) // index.step)
                index = Ramp(start, index.step, lanes) if lanes > 1 else start
            loaded.append(index)
        return BufferLoad(buffer, loaded)
    region = []
    for index, size in zip(indices, buffer.shape):
        if isinstance(index, slice):
            start = const(0, size.dtype) if index.start is None else convert(index.start)
            stop = size if index.stop is None else convert(index.stop)
            region.append(Range.from_min_extent(start, extent_between(start, stop)))
        else:
            index = convert(index)
            region.append(Range.from_min_extent(index, const(1, index.dtype)))
    return BufferRegion(buffer, tuple(region))


class IterVarType(IntEnum):
    """The kind of an iterator. The numbers and names are those that users know."""

    DataPar = 0
    ThreadIndex = 1
    CommReduce = 2
    Ordered = 3
    Opaque = 4
    Unrolled = 5
    Vectorized = 6
    Parallelized = 7
    Tensorized = 8


class IterVar(Node, ExprOp, key="tir.IterVar"):
    """An iterator: a variable with domain and kind; in arithmetic it stands for its variable."""

    DataPar = 0
    ThreadIndex = 1
    CommReduce = 2
    Ordered = 3
    DimInfo = 4
    Opaque = 4
    Unrolled = 5
    Vectorized = 6
    Parallelized = 7
    Tensorized = 8

    dom: Range | None = child()
    var: Var = defines()
    iter_type: int = data_field()
    thread_tag: str = data_field(default="")
    span: Any = note(default=None)

    @property
    def domain(self) -> Range:
        """The domain of an iterator that must have one, as iterators of blocks and reductions
        do.
        """
        assert self.dom is not None
        return self.dom

    def __init__(
        self, dom: Any, var: Any, iter_type: int, thread_tag: str = "", span: Any = None
    ) -> None:
        if dom is not None and not isinstance(dom, Range):
            dom = Range(*dom) if isinstance(dom, (tuple, list)) else Range(0, dom)
        self.dom = dom
        if isinstance(var, str):
            var = Var(var, dom.extent.dtype if dom is not None else "int32")
        if not isinstance(var, Var):
            raise TypeMismatchError(f"an iterator has a variable or a name, got {var!r}")
        if not isinstance(iter_type, int) or not 0 <= iter_type <= 8:
            raise TypeMismatchError(f"{iter_type!r} is not a kind of iterator; see tir.IterVar")
        self.var = var
        self.iter_type = int(iter_type)
        self.thread_tag = thread_tag
        self.span = span

    @property
    def dtype(self) -> Any:
        """The dtype of the variable."""
        return self.var.dtype

    def asobject(self) -> Var:
        """Return the variable."""
        return self.var


class CommReducer(Node, key="tir.CommReducer"):
    """A commutative, associative combination: ``result`` of ``lhs`` and ``rhs``; its identity."""

    lhs: tuple[Var, ...] = defines(scope="result")
    rhs: tuple[Var, ...] = defines(scope="result")
    result: tuple[PrimExpr, ...] = child()
    identity_element: tuple[PrimExpr, ...] = child()
    span: Any = note(default=None)


class Reduce(PrimExpr, key="tir.Reduce"):
    """A reduction over ``axis`` in a tensor expression; one of its values, by ``value_index``."""

    structural_order = ("value_index", "combiner", "axis", "condition", "source", "init")

    combiner: CommReducer = child()
    source: tuple[PrimExpr, ...] = child()
    axis: tuple[IterVar, ...] = child()
    condition: PrimExpr = child()
    value_index: int = data_field()
    init: tuple[PrimExpr, ...] = child(default=())
    span: Any = note(default=None)

    def __init__(
        self,
        combiner: CommReducer,
        src: Any,
        rdom: Any,
        condition: Any,
        value_index: int,
        init: Any = None,
        span: Any = None,
    ) -> None:
        """``src`` are the values that are reduced, ``rdom`` the iterators."""
        self.combiner = combiner
        self.source = tuple([convert(value) for value in src])
        self.axis = tuple(rdom)
        self.condition = convert(condition)
        self.value_index = int(value_index)
        self.init = tuple([convert(value) for value in init or ()])
        self.span = span
        self.dtype = self.source[self.value_index].dtype


def div_ambiguity_error() -> TypeMismatchError:
    """Return the error that ``/`` of integers raises."""
    return ambiguous_division()
