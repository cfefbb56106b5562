"""Prints buffers, regions, loads, iterators and reductions."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import (
    IntImm,
    PrimExpr,
    PrimType,
    Ramp,
    Var,
    const,
    is_const,
)
from tilesmith.ir.printer import declaration
from tilesmith.ir.printing import Doc, Printer, call, joined, prints, quoted
from tilesmith.ir.printing.doc import Piece, listed, tupled
from tilesmith.ir.queries import nodes, variables
from tilesmith.runtime.dtype import DataType
from tilesmith.tir import unknown
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import (
    BufferLoad,
    BufferRegion,
    CommReducer,
    IterVar,
    ProducerLoad,
    Reduce,
)
from tilesmith.tir.index_map import IndexMap
from tilesmith.tir.ranges import extent_between, stop_of

__all__ = [
    "buffer_arguments", "declare_sizes", "define_buffer", "index_docs",
    "pointer_fits", "points_to", "range_arguments", "region_doc",
    "write_buffer",
]  # fmt: skip


# Ranges: the text has their ends, the nodes have their extents.


def range_arguments(low: PrimExpr, extent: PrimExpr, printer: Printer) -> list[Piece]:
    """Return the arguments of ``range``: the extent alone when the range starts at zero."""
    if is_const(low, 0):
        return [printer.doc(extent)]
    return [printer.doc(low), printer.doc(stop_of(low, extent))]


def region_doc(region: Any, printer: Printer) -> Doc:
    """Return ``i`` for a point, ``a:b`` for a range."""
    if is_const(region.extent, 1) and region.extent.dtype is region.min.dtype:
        return Doc(printer.doc(region.min), node=region)
    return Doc(
        printer.doc(region.min),
        ":",
        printer.doc(stop_of(region.min, region.extent)),
        node=region,
    )


# Buffers.


def buffer_arguments(
    buffer: Buffer, printer: Printer, data: Piece | None = None, annotation: bool = False
) -> tuple[list[Piece], dict[str, Piece | None]]:
    """Return the positional and named arguments of a call that declares a buffer (or of an
    annotation)."""
    named: dict[str, Piece | None] = {"data": data}
    own = {id(var) for var, _ in _own_variables(buffer, printer)}
    if buffer.strides:
        strides = [
            quoted(stride.name)
            if isinstance(stride, Var) and id(stride) in own
            else printer.doc(stride)
            for stride in buffer.strides
        ]
        named["strides"] = tupled(strides)
    index_dtype = buffer.shape[0].dtype if buffer.shape else DataType("int32")
    offset = buffer.elem_offset
    # without an offset, a factor says that there is one that the call binds
    is_default = is_const(offset, 0) and offset.dtype is index_dtype and buffer.offset_factor == 1
    if id(offset) not in own and not is_default:
        named["elem_offset"] = _offset(offset, index_dtype, printer)
    if buffer.scope() != "global" and data is None:
        named["scope"] = quoted(buffer.scope())
    if buffer.data_alignment != 64:
        named["align"] = str(buffer.data_alignment)
    if buffer.offset_factor != 1 or id(offset) in own:
        named["offset_factor"] = str(buffer.offset_factor)
    if buffer.buffer_type:
        named["buffer_type"] = quoted(buffer.buffer_type)
    if buffer.axis_separators:
        named["axis_separators"] = listed([str(axis) for axis in buffer.axis_separators])
    shape: Piece = tupled(printer.docs(buffer.shape))
    if buffer.dtype == printer.config.buffer_dtype and not annotation:
        return [shape], named  # if it is not float32, the head of the text says so
    return [shape, quoted(str(buffer.dtype))], named


def _own_variables(buffer: Buffer, printer: Printer) -> list[tuple[Var, str]]:
    """Return the variables that the declaration of a buffer creates, with their names in the
    printed program.

    ``A = T.match_buffer(a, (16, 16), strides=("s", 1), offset_factor=4)`` makes ``A.strides[0]``
    and ``A.elem_offset``.
    """
    index_dtype = buffer.shape[0].dtype if buffer.shape else DataType("int32")
    candidates = [(value, f".strides[{n}]") for n, value in enumerate(buffer.strides)]
    if buffer.offset_factor > 0:
        candidates.append((buffer.elem_offset, ".elem_offset"))
    used = [
        id(var)
        for value in (*buffer.shape, *buffer.strides, buffer.elem_offset)
        for var in nodes(value, Var)
    ]
    return [
        (value, text)
        for value, text in candidates
        if value.__class__ is Var
        and value.dtype is index_dtype
        and used.count(id(value)) == 1
        and not printer.is_known(value)
    ]


def pointer_fits(buffer: Buffer) -> bool:
    """Return whether a buffer declared without ``data`` gets a pointer of this buffer's type."""
    type_ = buffer.data.type_annotation
    return points_to(type_, buffer.dtype)


def _offset(offset: PrimExpr, index_dtype: DataType, printer: Printer) -> Piece:
    """Print an offset; a bare number would get the dtype of the shape."""
    if isinstance(offset, IntImm) and offset.dtype is not index_dtype:
        return f"{printer.word('T')}.{offset.dtype}({offset.value})"
    return printer.doc(offset)


def points_to(type_: Any, dtype: DataType) -> bool:
    """Return whether this is the type of a pointer to elements of a dtype; booleans are stored as
    bytes."""
    element = getattr(type_, "element_type", None)
    storage = DataType("int8") if dtype.is_bool else dtype
    return isinstance(element, PrimType) and element.dtype is storage


def declare_sizes(buffer: Buffer, printer: Printer) -> None:
    """Write ``n = T.int32()`` for each variable of a shape that has no name yet."""
    own = {id(var) for var, _ in _own_variables(buffer, printer)}
    for value in (*buffer.shape, *buffer.strides, buffer.elem_offset):
        for var in variables(value):
            if id(var) not in own and printer.defined(var) is None:
                name = printer.define(var, var.name)
                printer.line(Doc(name, node=var), " = ", declaration(var, printer))


def define_buffer(buffer: Buffer, printer: Printer) -> Doc:
    """Name a buffer; its pointer is known as ``A.data`` from here unless it has a name."""
    own = _own_variables(buffer, printer)
    name = printer.define(buffer, buffer.name)
    for var, text in own:
        printer.bind(var, name + text)
    if printer.defined(buffer.data) is None:
        printer.bind(buffer.data, name + ".data")
    return Doc(name, node=buffer)


def write_buffer(buffer: Buffer, printer: Printer, function: str, *first: Piece) -> None:
    """Write ``A = T.function(first, shape, dtype, …)``."""
    data = printer.defined(buffer.data)
    if data is None and not pointer_fits(buffer):
        pointer = printer.define(buffer.data, buffer.data.name)
        printer.line(Doc(pointer, node=buffer.data), " = ", declaration(buffer.data, printer))
        data = pointer
    positional, named = buffer_arguments(buffer, printer, data)
    name = define_buffer(buffer, printer)
    word = printer.word("T")
    printer.line(name, " = ", call(f"{word}.{function}", [*first, *positional], None, **named))


@prints(Buffer)
def _buffer(node: Buffer, printer: Printer) -> Doc:
    name = printer.defined(node)
    if name is None:
        data = printer.defined(node.data)
        own = _own_variables(node, printer)
        positional, named = buffer_arguments(node, printer, data)
        how = call(f"{printer.word('T')}.Buffer", positional, None, **named)
        name = printer.declare_free(node, node.name, how)
        for var, text in own:
            printer.bind(var, name + text, outermost=True)
        if data is None:
            printer.bind(node.data, name + ".data", outermost=True)
    return Doc(name, node=node)


# Expressions.


def index_docs(indices: tuple[PrimExpr, ...], printer: Printer) -> list[Piece]:
    """Return the indices of an access; neighbouring elements are a slice: ``A[i * 4:i * 4 +
    4]``."""
    written: list[Piece] = []
    for index in indices:
        written.append(_slice_of(index, printer) or printer.doc(index))
    return written


def _slice_of(index: PrimExpr, printer: Printer) -> Doc | None:
    """Print a ramp as a slice, if parsing the slice gives the same ramp."""
    if not isinstance(index, Ramp) or type(index.lanes) is not int:
        return None
    low, stride = index.base, index.stride
    if not isinstance(stride, IntImm) or stride.value < 1 or index.lanes < 2:
        return None
    length = index.lanes * stride.value
    stop = stop_of(low, const(length, low.dtype))
    if not is_const(extent_between(low, stop), length):
        return None
    step = [":", printer.doc(stride)] if stride.value > 1 else []
    return Doc(printer.doc(low), ":", printer.doc(stop), *step, node=index)


@prints(BufferLoad)
def _buffer_load(node: BufferLoad, printer: Printer) -> Doc:
    buffer = printer.doc(node.buffer)
    if node.predicate is not None:
        indices = printer.docs(node.indices)
        predicate = printer.doc(node.predicate)
        return call(Doc(buffer, ".vload"), [listed(indices)], node=node, predicate=predicate)
    indices = index_docs(node.indices, printer)
    return Doc(buffer, "[", joined(indices) if indices else "()", "]", node=node)


@prints(BufferRegion)
def _buffer_region(node: BufferRegion, printer: Printer) -> Doc:
    region = [region_doc(item, printer) for item in node.region]
    return Doc(printer.doc(node.buffer), "[", joined(region) if region else "()", "]", node=node)


@prints(ProducerLoad)
def _producer_load(node: ProducerLoad, printer: Printer) -> Doc:
    name = getattr(node.producer, "name", type(node.producer).__name__)
    return Doc(name, "[", joined(printer.docs(node.indices)), "]", node=node)


@prints(unknown.Any)
def _unknown(node: unknown.Any, printer: Printer) -> Doc:
    return Doc(f"{printer.word('T')}.Any()", node=node)


@prints(IterVar)
def _iter_var(node: IterVar, printer: Printer) -> Doc:
    """Write ``T.iter_var(v, T.Range(min, stop), "DataPar", "")``; its variable is declared
    before."""
    name = printer.defined(node.var)
    if name is None:
        name = printer.define(node.var, node.var.name)
        printer.line(Doc(name, node=node.var), " = ", declaration(node.var, printer))
    domain: Piece = "None"
    if node.dom is not None:
        stop = stop_of(node.dom.min, node.dom.extent)
        bounds = [printer.doc(node.dom.min), printer.doc(stop)]
        if is_const(node.dom.min, 0) or is_const(stop):
            domain = call(f"{printer.word('T')}.Range", bounds)
        else:  # a pair is read with the difference worked out
            domain = tupled(bounds)
    kind = quoted(_ITER_TYPES[node.iter_type])
    return call(
        f"{printer.word('T')}.iter_var", [name, domain, kind, quoted(node.thread_tag)], node=node
    )


_ITER_TYPES = (
    "DataPar", "ThreadIndex", "CommReduce", "Ordered", "Opaque", "Unrolled", "Vectorized",
    "Parallelized", "Tensorized",
)  # fmt: skip


@prints(CommReducer)
def _comm_reducer(node: CommReducer, printer: Printer) -> Doc:
    with printer.scope():
        names = [printer.define(var, var.name) for var in (*node.lhs, *node.rhs)]
        results = printer.docs(node.result)
    body = results[0] if len(results) == 1 else tupled(results)
    function = Doc("lambda ", ", ".join(names), ": ", body)
    identity = listed(printer.docs(node.identity_element))
    return call(f"{printer.word('T')}.comm_reducer", [function, identity], node=node)


@prints(IndexMap)
def _index_map(node: IndexMap, printer: Printer) -> Doc:
    with printer.scope():
        names = [printer.define(var, var.name) for var in node.initial_indices]
        indices = tupled(printer.docs(node.final_indices))
    function = Doc("lambda ", ", ".join(names), ": ", indices)
    dtypes = {str(var.dtype) for var in node.initial_indices}
    named: dict[str, Piece | None] = {}
    if dtypes and dtypes != {"int64"}:
        named["index_dtype"] = quoted(sorted(dtypes)[0])
    if node.inverse_index_map is not None:
        named["inverse_index_map"] = printer.doc(node.inverse_index_map)
    return call(f"{printer.word('T')}.index_map", [function], node, **named)


@prints(Reduce)
def _reduce(node: Reduce, printer: Printer) -> Doc:
    axes = listed(printer.docs(node.axis))  # first, because this declares their variables
    named = {
        "source": listed(printer.docs(node.source)),
        "init": listed(printer.docs(node.init)),
        "axis": axes,
        "condition": printer.doc(node.condition),
        "value_index": str(node.value_index),
    }
    return call(f"{printer.word('T')}.reduce", [printer.doc(node.combiner)], node, **named)
