"""Statements of TensorIR.

Semantics. Statements of a sequence run in order. A parallel loop runs its iterations in any order,
possibly at once; a vectorized loop as if all iterations ran in lockstep; an unrolled loop means
what the serial one means. A block is a unit of computation over iterators whose bindings are given
by the BlockRealize around it; where the predicate is false the block does nothing; ``init`` runs
when all reduction iterators are at their first value.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, final

from tilesmith.ir import (
    IntImm,
    Node,
    PrimExpr,
    Var,
    attributes,
    child,
    const,
    convert,
    defines,
    note,
)
from tilesmith.ir import data as data_field
from tilesmith.ir.operators import cast
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError, TypeMismatchError
from tilesmith.tir.buffer import Buffer, DataProducer
from tilesmith.tir.expr import BufferRegion, IterVar, access_dtype, as_indices, check_access

__all__ = [
    "Allocate", "AllocateConst", "AssertStmt", "AttrStmt", "Block", "BlockRealize", "BufferRealize",
    "BufferStore", "DeclBuffer", "Evaluate", "For", "ForKind", "IfThenElse", "LetStmt",
    "MatchBufferRegion", "Prefetch", "ProducerRealize", "ProducerStore", "SeqStmt", "Stmt", "While",
    "stmt_list", "stmt_seq",
]  # fmt: skip


class Stmt(Node, key="tir.Stmt"):
    """Base of all statements."""

    is_program_part = True


def _statement(value: Any) -> Stmt:
    if not isinstance(value, Stmt):
        raise TypeMismatchError(f"a statement is needed here, got {value!r}")
    return value


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeMismatchError(f"a text is needed here, got {value!r}")
    return value


def _statement_or_none(value: Any) -> Stmt | None:
    return None if value is None else _statement(value)


class ForKind(IntEnum):
    """How the iterations of a loop are executed."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4


class LetStmt(Stmt, key="tir.LetStmt"):
    """``body`` with ``var`` bound to ``value``."""

    var: Var = defines(scope="body")
    value: PrimExpr = child(convert=convert)
    body: Stmt = child(convert=_statement)
    span: Any = note(default=None)


class NodeList(Node, key="tir.NodeList"):
    """Several nodes that an attribute is about."""

    items: tuple[Node, ...] = child()

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Node:
        return self.items[index]


def _subject(value: Any) -> Node:
    """Return what an attribute is about: a node, several of them, or a plain value."""
    if isinstance(value, (list, tuple)):
        return NodeList(tuple([_subject(item) for item in value]))
    subject: Node = value if isinstance(value, Node) else convert(value)
    return subject


class AttrStmt(Stmt, key="tir.AttrStmt"):
    """``body`` with an attribute; ``thread_extent`` on an IterVar defines that iterator."""

    node: Any = child(convert=_subject)
    attr_key: str = data_field(convert=_name)
    value: PrimExpr = child(
        convert=lambda value: value if isinstance(value, Node) else convert(value)
    )
    body: Stmt = child(convert=_statement)
    span: Any = note(default=None)


class AssertStmt(Stmt, key="tir.AssertStmt"):
    """``body``, or an error with ``message`` where the condition does not hold."""

    condition: PrimExpr = child(convert=convert)
    message: PrimExpr = child(convert=convert)
    body: Stmt = child(convert=_statement)
    span: Any = note(default=None)


class BufferStore(Stmt, key="tir.BufferStore"):
    """``buffer[indices] = value``; ``predicate`` switches lanes of a vector off."""

    buffer: Buffer = child()
    value: PrimExpr = child()
    indices: tuple[PrimExpr, ...] = child()
    predicate: PrimExpr | None = child(default=None)
    span: Any = note(default=None)

    def __init__(
        self, buffer: Buffer, value: Any, indices: Any, predicate: Any = None, span: Any = None
    ) -> None:
        self.buffer = buffer
        self.indices = as_indices(indices)
        check_access(buffer, self.indices, span)
        dtype = access_dtype(buffer, self.indices)
        if not isinstance(value, PrimExpr):
            value = const(value, dtype) if isinstance(value, (bool, int, float)) else convert(value)
        if value.dtype is not dtype:
            if value.dtype.lanes == 1 and dtype.lanes > 1 and value.dtype is dtype.element:
                value = cast(dtype, value)
            else:
                raise TypeMismatchError(
                    f"a store to buffer '{buffer.name}' needs a value of {dtype}, got"
                    f" {value.dtype}",
                    span=span,
                )
        self.value = value
        self.predicate = predicate
        self.span = span


class BufferRealize(Stmt, key="tir.BufferRealize"):
    """The part of a buffer that is live in ``body``; from classic schedules."""

    buffer: Buffer = child()
    bounds: tuple[Any, ...] = child()
    condition: PrimExpr = child(convert=convert)
    body: Stmt = child(convert=_statement)
    span: Any = note(default=None)


class ProducerStore(Stmt, key="tir.ProducerStore"):
    """A store to a tensor of a tensor expression; from classic schedules."""

    producer: DataProducer = child()
    value: PrimExpr = child(convert=convert)
    indices: tuple[PrimExpr, ...] = child(convert=as_indices)
    span: Any = note(default=None)


class ProducerRealize(Stmt, key="tir.ProducerRealize"):
    """The part of a tensor that is live in ``body``; from classic schedules."""

    producer: DataProducer = child()
    bounds: tuple[Any, ...] = child()
    condition: PrimExpr = child(convert=convert)
    body: Stmt = child(convert=_statement)
    storage_scope: str = data_field(default="")
    span: Any = note(default=None)


class Prefetch(Stmt, key="tir.Prefetch"):
    """A hint that a region of a buffer will be used soon."""

    buffer: Buffer = child()
    bounds: tuple[Any, ...] = child()
    span: Any = note(default=None)


class Allocate(Stmt, key="tir.Allocate"):
    """Memory of ``extents`` elements behind ``buffer_var``, live in ``body``."""

    buffer_var: Var = defines(scope="body")
    dtype: DataType = data_field(convert=DataType)
    extents: tuple[PrimExpr, ...] = child(convert=as_indices)
    condition: PrimExpr = child(
        convert=lambda value: const(True, "bool") if value is None else convert(value)
    )
    body: Stmt = child(convert=_statement)
    annotations: Mapping[str, Any] = data_field(default=None, convert=attributes)
    span: Any = note(default=None)


class AllocateConst(Stmt, key="tir.AllocateConst"):
    """Constant memory behind ``buffer_var``, live in ``body``: an array, or its number in the
    module.
    """

    buffer_var: Var = defines(scope="body")
    dtype: DataType = data_field(convert=DataType)
    extents: tuple[PrimExpr, ...] = child(convert=as_indices)
    data_or_idx: Any = data_field()
    body: Stmt = child(convert=_statement)
    annotations: Mapping[str, Any] = data_field(default=None, convert=attributes)
    span: Any = note(default=None)


class DeclBuffer(Stmt, key="tir.DeclBuffer"):
    """``body`` with ``buffer``, a view of memory that is allocated already."""

    buffer: Buffer = defines(scope="body")
    body: Stmt = child(convert=_statement)
    span: Any = note(default=None)


class Evaluate(Stmt, key="tir.Evaluate"):
    """An expression evaluated for its side effects."""

    value: PrimExpr = child(convert=convert)
    span: Any = note(default=None)


class IfThenElse(Stmt, key="tir.IfThenElse"):
    """A choice between statements."""

    condition: PrimExpr = child(convert=convert)
    then_case: Stmt = child(convert=_statement)
    else_case: Stmt | None = child(default=None, convert=_statement_or_none)
    span: Any = note(default=None)


@final
class For(Stmt, key="tir.For"):
    """A loop over ``[min, min + extent)``; ``loop_var`` is bound in ``body``.

    ``thread_binding`` is an IterVar with a thread tag when the kind is THREAD_BINDING.
    """

    loop_var: Var = defines(scope="body")
    min: PrimExpr = child()
    extent: PrimExpr = child()
    kind: ForKind = data_field()
    body: Stmt = child(convert=_statement)
    thread_binding: IterVar | None = child(default=None)
    annotations: Mapping[str, Any] = data_field(default=None)
    span: Any = note(default=None)

    def __init__(
        self,
        loop_var: Var,
        min: Any,
        extent: Any,
        kind: int,
        body: Stmt,
        thread_binding: IterVar | None = None,
        annotations: Mapping[str, Any] | None = None,
        span: Any = None,
    ) -> None:
        self.loop_var = loop_var
        if not isinstance(loop_var, Var):
            raise TypeMismatchError(f"a loop needs a variable, got {loop_var!r}")
        dtype = loop_var.dtype
        if not dtype.is_integer or dtype.lanes != 1:
            raise TypeMismatchError(f"the variable of a loop is an integer, got {dtype}")
        for name, value in (("min", min), ("extent", extent)):
            if not isinstance(value, PrimExpr):
                value = const(value, dtype)
            elif value.dtype is not dtype:
                if not (value.dtype.is_integer and dtype.is_integer):
                    raise TypeMismatchError(
                        f"loop '{loop_var.name}' is {dtype}, its {name} is {value.dtype}"
                    )
                value = cast(dtype, value)
            setattr(self, name, value)
        if kind.__class__ is not ForKind:
            if not isinstance(kind, int) or not 0 <= kind <= 4:
                raise TypeMismatchError(f"{kind!r} is not a kind of loop; see tir.ForKind")
            kind = ForKind(kind)
        self.kind = kind
        self.body = _statement(body)
        self.thread_binding = thread_binding
        self.annotations = attributes(annotations)
        self.span = span


class While(Stmt, key="tir.While"):
    """A loop that runs ``body`` while the condition holds."""

    condition: PrimExpr = child(convert=convert)
    body: Stmt = child(convert=_statement)
    span: Any = note(default=None)


class SeqStmt(Stmt, key="tir.SeqStmt"):
    """Statements in order; never nested and at least two (``stmt_seq`` ensures both)."""

    seq: tuple[Stmt, ...] = child()
    span: Any = note(default=None)

    def __getitem__(self, index: int) -> Stmt:
        return self.seq[index]

    def __len__(self) -> int:
        return len(self.seq)

    def map_children(self, f: Any) -> Stmt:  # type: ignore[override]
        """Rewrite the statements; one that became a sequence is spliced in."""
        new = [f(stmt) for stmt in self.seq]
        for old_stmt, new_stmt in zip(self.seq, new):
            if old_stmt is not new_stmt:
                return stmt_seq(*new, span=self.span)
        return self


class MatchBufferRegion(Node, key="tir.MatchBufferRegion"):
    """``buffer`` as another name for a region of a buffer inside a block."""

    buffer: Buffer = defines()
    source: BufferRegion = child()

    def __init__(self, buffer: Buffer, source: BufferRegion) -> None:
        """Raises TypeMismatchError or ShapeError where the buffer cannot be that region."""
        self.buffer = buffer
        self.source = source
        of = source.buffer
        if buffer.dtype is not of.dtype:
            raise TypeMismatchError(f"'{buffer.name}' is {buffer.dtype}, '{of.name}' {of.dtype}")
        if buffer.scope() != of.scope():
            raise TypeMismatchError(
                f"'{buffer.name}' lies in scope '{buffer.scope()}', '{of.name}' in '{of.scope()}'"
            )
        outer = len(source.region) - len(buffer.shape)
        if outer < 0:
            return  # a view with more dimensions
        sizes = (*[const(1, "int32")] * outer, *buffer.shape)
        for size, bounds in zip(sizes, source.region):
            extent = bounds.extent
            if not isinstance(size, IntImm) or not isinstance(extent, IntImm):
                continue
            if size.value != extent.value:
                raise ShapeError(f"'{buffer.name}' has another shape than the region {source}")


@final
class Block(Stmt, key="tir.Block"):
    """A unit of computation over iterators, with the regions that it reads and writes.

    A block is opaque where its iterators are bound to nothing that can be analysed; a block without
    iterators is mostly the root or a scope of its own.
    """

    structural_order = (
        "iter_vars", "alloc_buffers", "match_buffers", "reads", "writes", "annotations", "init",
        "body",
    )  # fmt: skip

    iter_vars: tuple[IterVar, ...] = child()
    reads: tuple[BufferRegion, ...] = child()
    writes: tuple[BufferRegion, ...] = child()
    name_hint: str = note()
    body: Stmt = child(convert=_statement)
    init: Stmt | None = child(default=None)
    alloc_buffers: tuple[Buffer, ...] = defines(default=())
    match_buffers: tuple[MatchBufferRegion, ...] = child(default=())
    annotations: Mapping[str, Any] = data_field(default=None)
    span: Any = note(default=None)

    def __init__(
        self,
        iter_vars: Any,
        reads: Any,
        writes: Any,
        name_hint: str,
        body: Stmt,
        init: Stmt | None = None,
        alloc_buffers: Any = None,
        match_buffers: Any = None,
        annotations: Mapping[str, Any] | None = None,
        span: Any = None,
    ) -> None:
        self.iter_vars = tuple(iter_vars)
        for iterator in self.iter_vars:
            if not isinstance(iterator, IterVar):
                raise TypeMismatchError(f"a block has iterators (IterVar), got {iterator!r}")
        self.reads = tuple(reads)
        self.writes = tuple(writes)
        self.name_hint = name_hint
        self.body = _statement(body)
        self.init = init
        self.alloc_buffers = tuple(alloc_buffers or ())
        self.match_buffers = tuple(match_buffers or ())
        self.annotations = attributes(annotations)
        self.span = span


@final
class BlockRealize(Stmt, key="tir.BlockRealize"):
    """An instance of a block: the values of its iterators, and the condition under which it
    runs."""

    iter_values: tuple[PrimExpr, ...] = child()
    predicate: PrimExpr = child()
    block: Block = child()
    span: Any = note(default=None)

    def __init__(self, iter_values: Any, predicate: Any, block: Block, span: Any = None) -> None:
        """Raises TypeMismatchError where values and iterators, or the predicate, do not fit."""
        self.iter_values = as_indices(iter_values)
        self.predicate = predicate if isinstance(predicate, PrimExpr) else const(predicate, "bool")
        self.block = block
        self.span = span
        if len(self.iter_values) != len(block.iter_vars):
            raise TypeMismatchError(
                f"block '{block.name_hint}' has {len(block.iter_vars)} iterators, got"
                f" {len(self.iter_values)} values",
                notes=("give each axis one value",),
            )
        if not self.predicate.dtype.is_bool:
            raise TypeMismatchError(f"a predicate is a boolean, got {self.predicate.dtype}")


def stmt_seq(*args: Any, span: Any = None) -> Stmt:
    """Return statements (and expressions, lists) in order, as one flat statement."""
    flat: list[Stmt] = []
    for arg in args:
        if isinstance(arg, SeqStmt):
            flat.extend(arg.seq)
        elif isinstance(arg, (list, tuple)):
            inner = stmt_seq(*arg)
            flat.extend(inner.seq if isinstance(inner, SeqStmt) else [inner])
        elif isinstance(arg, PrimExpr):
            flat.append(Evaluate(arg))
        elif arg is not None and not is_no_op(arg):
            flat.append(arg)
    if not flat:
        return Evaluate(const(0, "int32"))
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat), span)


def sequence(*args: Any, span: Any = None) -> Stmt:
    """Return statements, and expressions to evaluate, in order (``tir.stmt_seq``), without dropping
    any.
    """
    statements = [arg if isinstance(arg, Stmt) else Evaluate(arg) for arg in args]
    return statements[0] if len(statements) == 1 else SeqStmt(tuple(statements), span)


def is_no_op(stmt: Stmt) -> bool:
    """Return whether a statement is the evaluation of a constant, which has no effect."""
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, IntImm)


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """Return the statements of a (nested) sequence, or the one statement."""
    if not isinstance(stmt, SeqStmt):
        return [stmt]
    return [inner for statement in stmt.seq for inner in stmt_list(statement)]
