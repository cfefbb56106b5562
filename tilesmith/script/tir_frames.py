"""Defines the frames of the tensor dialect: each makes one statement (or function) when it is
closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.ir import PointerType, PrimExpr, Range, Rewriter, Type, Var, const
from tilesmith.ir.types import prim_type
from tilesmith.runtime.dtype import DataType
from tilesmith.script.builder import Frame, IRBuilder
from tilesmith.support.errors import ScriptError
from tilesmith.tir.analysis import get_block_read_write_region
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferRegion, IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.printer_blocks import has_block
from tilesmith.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    SeqStmt,
    Stmt,
    While,
)

__all__ = [
    "AllocateConstFrame", "AllocateFrame", "AssertFrame", "AttrFrame", "BlockFrame",
    "DeclBufferFrame", "ElseFrame", "ForFrame", "IfFrame", "InitFrame", "LaunchThreadFrame",
    "LetFrame", "PrimFuncFrame", "RealizeFrame", "StmtFrame", "ThenFrame", "WhileFrame", "emit",
]  # fmt: skip


class StmtFrame(Frame):
    """A frame that collects statements."""

    def __init__(self) -> None:
        super().__init__()
        self.statements: list[Stmt] = []

    def body(self) -> Stmt:
        """Return the statements as one."""
        flat: list[Stmt] = []
        for statement in self.statements:
            flat += statement.seq if isinstance(statement, SeqStmt) else (statement,)
        if not flat:
            return Evaluate(const(0, "int32"), self.span)
        return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat), self.span)


def emit(statement: Stmt, builder: IRBuilder | None = None) -> None:
    """Add a statement to the innermost open frame; outside of all frames it is the result."""
    builder = builder or IRBuilder.current()
    frame = builder.find_frame(StmtFrame)
    if frame is not None:
        frame.statements.append(statement)
    elif builder.result is None:
        builder.result = statement
    else:
        flat = list(builder.result.seq) if isinstance(builder.result, SeqStmt) else [builder.result]
        builder.result = SeqStmt((*flat, statement))


# Functions and blocks.


class PrimFuncFrame(StmtFrame):
    """A tensor function."""

    def __init__(self, private: bool = False, implicit_root: bool = True) -> None:
        super().__init__()
        self.private = private
        self.implicit_root = implicit_root
        self.name = ""
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.attrs: dict[str, Any] = {}
        self.ret_type: Type | None = None
        self.alloc_buffers: list[Buffer] = []
        self.buffers: dict[Var, Buffer] = {}  # data pointer → buffer, to complete regions
        self.incomplete: dict[int, tuple[Block, bool, bool]] = {}
        self.function: PrimFunc | None = None

    def finish(self) -> None:
        """Put the root block around the body, complete regions, make the function."""
        body = self.body()
        rootless = self.implicit_root and has_block(body) and not _is_root(body)
        if self.alloc_buffers or rootless:
            block = Block((), (), (), "root", body, None, self.alloc_buffers, span=self.span)
            body = BlockRealize((), const(True, "bool"), block, self.span)
        if self.incomplete:
            root = body.block if isinstance(body, BlockRealize) and _is_root(body) else None
            body = _RegionCompleter(self, root).visit(body)
        attrs = dict(self.attrs)
        if not self.private and self.name:
            attrs.setdefault("global_symbol", self.name)
        self.function = PrimFunc(
            self.params, body, self.ret_type, self.buffer_map, attrs, self.span
        )
        for frame in reversed(self.builder.frames):
            if frame.take_function(self.name, self.function):
                return
        self.builder.result = self.function


def _is_root(body: Stmt) -> bool:
    return isinstance(body, BlockRealize) and not body.block.iter_vars


class _RegionCompleter(Rewriter):
    """Infers the regions of blocks that were written without; those of the root stay empty."""

    def __init__(self, frame: PrimFuncFrame, root: Block | None) -> None:
        self.frame = frame
        self.root = root

    def visit_Block(self, block: Block) -> Block:
        """Complete inner blocks first: their accesses are part of this one's."""
        missing = self.frame.incomplete.get(id(block))
        completed = self.children(block)
        if missing is None or block is self.root:
            return completed
        reads, writes = get_block_read_write_region(completed, self.frame.buffers)
        return completed.with_fields(
            reads=tuple(reads) if missing[1] else completed.reads,
            writes=tuple(writes) if missing[2] else completed.writes,
        )

    def visit_PrimExpr(self, expr: PrimExpr) -> PrimExpr:
        """Return the expression: it contains no blocks."""
        return expr


class BlockFrame(StmtFrame):
    """A block and its realization."""

    def __init__(self, name: str, no_realize: bool = False) -> None:
        super().__init__()
        self.name = name
        self.no_realize = no_realize
        self.iter_vars: list[IterVar] = []
        self.iter_values: list[PrimExpr] = []
        self.predicate: PrimExpr | None = None
        self.reads: list[BufferRegion] | None = None
        self.writes: list[BufferRegion] | None = None
        self.annotations: dict[str, Any] | None = None
        self.init: Stmt | None = None
        self.alloc_buffers: list[Buffer] = []
        self.match_buffers: list[MatchBufferRegion] = []

    def enter(self) -> None:
        """Return None: a block has no value."""

    def finish(self) -> None:
        """Make the block; missing regions are completed with the function."""
        block = Block(
            self.iter_vars, self.reads or (), self.writes or (), self.name, self.body(), self.init,
            self.alloc_buffers, self.match_buffers, self.annotations, self.span,
        )  # fmt: skip
        function = self.builder.find_frame(PrimFuncFrame)
        if self.reads is None or self.writes is None:
            if function is not None:
                missing = (block, self.reads is None, self.writes is None)
                function.incomplete[id(block)] = missing
            else:
                reads, writes = get_block_read_write_region(block, {})
                block = block.with_fields(
                    reads=tuple(reads) if self.reads is None else block.reads,
                    writes=tuple(writes) if self.writes is None else block.writes,
                )
        if self.no_realize:
            emit(block, self.builder)
            return
        predicate = const(True, "bool") if self.predicate is None else self.predicate
        emit(BlockRealize(self.iter_values, predicate, block, self.span), self.builder)


class InitFrame(StmtFrame):
    """What a block does first in a reduction."""

    def enter(self) -> None:
        """Return None: nothing is bound."""

    def finish(self) -> None:
        """Pass the statements to the innermost block."""
        block = self.builder.frames[-1] if self.builder.frames else None
        if not isinstance(block, BlockFrame):
            raise ScriptError("T.init stands directly inside of a T.block")
        if block.init is not None:
            raise ScriptError("the block has a T.init already")
        block.init = self.body()


# Loops and branches.


class ForFrame(StmtFrame):
    """One loop, or a nest of them; entering returns the variable, or a list of them."""

    def __init__(
        self,
        domains: Sequence[tuple[PrimExpr, PrimExpr]],
        kind: ForKind = ForKind.SERIAL,
        thread: str | IterVar | None = None,
        annotations: Mapping[str, Any] | None = None,
        many: bool = False,
    ) -> None:
        super().__init__()
        self.domains = list(domains)
        self.kind = kind
        self.thread = thread
        self.annotations = annotations
        self.many = many
        self.vars = [Var("", extent.dtype) for _, extent in self.domains]

    def enter(self) -> Any:
        """Return the loop variables."""
        return self.vars if self.many else self.vars[0]

    def finish(self) -> None:
        """Make the loops, innermost first."""
        body = self.body()
        for var, (low, extent) in zip(reversed(self.vars), reversed(self.domains)):
            binding = None
            if isinstance(self.thread, IterVar):
                binding = self.thread
            elif self.thread is not None:
                domain = Range.from_min_extent(low, extent)
                tag_var = Var(self.thread, var.dtype)
                binding = IterVar(domain, tag_var, IterVar.ThreadIndex, self.thread)
            body = For(var, low, extent, self.kind, body, binding, self.annotations, self.span)
        emit(body, self.builder)


class WhileFrame(StmtFrame):
    """A ``while`` loop."""

    def __init__(self, condition: PrimExpr) -> None:
        super().__init__()
        self.condition = condition

    def finish(self) -> None:
        """Make the loop."""
        emit(While(self.condition, self.body(), self.span), self.builder)


class IfFrame(Frame):
    """An ``if`` statement: the branches are the two frames inside."""

    def __init__(self, condition: PrimExpr) -> None:
        super().__init__()
        self.condition = condition
        self.then: Stmt | None = None
        self.otherwise: Stmt | None = None

    def finish(self) -> None:
        """Make the statement."""
        if self.then is None:
            raise ScriptError("an If needs a Then")
        emit(IfThenElse(self.condition, self.then, self.otherwise, self.span), self.builder)


class ThenFrame(StmtFrame):
    """The branch for a true condition."""

    def finish(self) -> None:
        """Pass the branch to the enclosing ``IfFrame``."""
        _enclosing_if(self).then = self.body()


class ElseFrame(StmtFrame):
    """The branch for a false condition."""

    def finish(self) -> None:
        """Pass the branch to the enclosing ``IfFrame``."""
        _enclosing_if(self).otherwise = self.body()


def _enclosing_if(branch: StmtFrame) -> IfFrame:
    frame = branch.builder.frames[-1] if branch.builder.frames else None
    if not isinstance(frame, IfFrame):
        raise ScriptError("Then and Else stand directly inside of an If")
    return frame


# Frames that bind something for the rest of a block.


class LetFrame(StmtFrame):
    """A variable with a value."""

    def __init__(self, value: PrimExpr, var: Var) -> None:
        super().__init__()
        self.value = value
        self.var = var

    def enter(self) -> Var:
        """Return the variable."""
        return self.var

    def finish(self) -> None:
        """Make the statement."""
        emit(LetStmt(self.var, self.value, self.body(), self.span), self.builder)


class AttrFrame(StmtFrame):
    """An attribute."""

    def __init__(self, node: Any, key: str, value: Any) -> None:
        super().__init__()
        self.node, self.key, self.value = node, key, value

    def enter(self) -> None:
        """Return None: nothing is bound."""

    def finish(self) -> None:
        """Make the statement."""
        emit(AttrStmt(self.node, self.key, self.value, self.body(), self.span), self.builder)


class LaunchThreadFrame(StmtFrame):
    """Threads of a GPU; entering returns the variable that counts them."""

    def __init__(self, iterator: IterVar, extent: PrimExpr) -> None:
        super().__init__()
        self.iterator, self.extent = iterator, extent

    def enter(self) -> Var:
        """Return the variable."""
        return self.iterator.var

    def finish(self) -> None:
        """Make the statement."""
        key = "virtual_thread" if self.iterator.thread_tag == "vthread" else "thread_extent"
        statement = AttrStmt(self.iterator, key, self.extent, self.body(), self.span)
        emit(statement, self.builder)


class AssertFrame(StmtFrame):
    """A condition that must hold."""

    def __init__(self, condition: PrimExpr, message: Any) -> None:
        super().__init__()
        self.condition, self.message = condition, message

    def enter(self) -> None:
        """Return None: nothing is bound."""

    def finish(self) -> None:
        """Make the statement."""
        emit(AssertStmt(self.condition, self.message, self.body(), self.span), self.builder)


class AllocateFrame(StmtFrame):
    """Memory; entering returns the pointer."""

    def __init__(
        self,
        extents: Sequence[Any],
        dtype: DataType,
        scope: str,
        condition: Any,
        annotations: Mapping[str, Any] | None,
        pointer: Type | None,
    ) -> None:
        super().__init__()
        self.extents, self.dtype = extents, dtype
        self.condition, self.annotations = condition, annotations
        self.var = Var("", pointer if pointer is not None else pointer_to(dtype, scope))

    def enter(self) -> Var:
        """Return the pointer."""
        return self.var

    def finish(self) -> None:
        """Make the statement."""
        statement = Allocate(
            self.var, self.dtype, self.extents, self.condition, self.body(), self.annotations,
            self.span,
        )  # fmt: skip
        emit(statement, self.builder)


def pointer_to(dtype: DataType, scope: str = "global") -> PointerType:
    """Return the type of a pointer to elements of a dtype; booleans are stored as bytes."""
    return PointerType(prim_type(DataType("int8") if dtype.is_bool else dtype), scope)


class AllocateConstFrame(StmtFrame):
    """Constant memory; entering returns the pointer."""

    def __init__(
        self,
        data: Any,
        dtype: DataType,
        extents: Sequence[Any],
        annotations: Any,
        pointer: Type | None = None,
    ) -> None:
        super().__init__()
        self.data, self.dtype = data, dtype
        self.extents, self.annotations = extents, annotations
        self.var = Var("", pointer if pointer is not None else pointer_to(dtype))

    def enter(self) -> Var:
        """Return the pointer."""
        return self.var

    def finish(self) -> None:
        """Make the statement."""
        statement = AllocateConst(
            self.var, self.dtype, self.extents, self.data, self.body(), self.annotations, self.span
        )
        emit(statement, self.builder)


class DeclBufferFrame(StmtFrame):
    """A buffer over existing memory, or together with its memory."""

    def __init__(self, buffer: Buffer, allocated: bool) -> None:
        super().__init__()
        self.buffer, self.allocated = buffer, allocated

    def enter(self) -> Buffer:
        """Return the buffer."""
        return self.buffer

    def finish(self) -> None:
        """Make the statement, and the allocation around it where the memory is new."""
        statement: Stmt = DeclBuffer(self.buffer, self.body(), self.span)
        if self.allocated:
            statement = Allocate(
                self.buffer.data, self.buffer.dtype, self.buffer.shape, None, statement, None,
                self.span,
            )  # fmt: skip
        emit(statement, self.builder)


class RealizeFrame(StmtFrame):
    """The part of a buffer that is live."""

    def __init__(self, region: BufferRegion, storage_scope: str, condition: Any) -> None:
        super().__init__()
        self.region, self.storage_scope, self.condition = region, storage_scope, condition

    def enter(self) -> None:
        """Return None: nothing is bound."""

    def finish(self) -> None:
        """Make the statement; the scope is added where it is not that of the buffer."""
        body = self.body()
        statement: Stmt = BufferRealize(
            self.region.buffer, self.region.region, self.condition, body, self.span
        )
        if self.storage_scope:
            statement = AttrStmt(
                self.region.buffer, "realize_scope", self.storage_scope, statement, self.span
            )
        emit(statement, self.builder)
