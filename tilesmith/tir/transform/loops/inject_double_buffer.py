"""InjectDoubleBuffer: fills a buffer for the next iteration while the current one uses its other
half.

    for k in range(8):                          A_s = T.allocate([2 * 16], ...)
        A_s = T.allocate([16], ...)             A_s[0 + ...] = A[..., 0]
        T.attr(A_s, "double_buffer_scope", 1)   for k in range(7):
        A_s[...] = A[..., k]                        if k + 1 < 8:
        use A_s[...]                                    T.attr(A_s, "double_buffer_write", 1)
                                                        A_s[(k + 1) % 2 * 16 + ...] = A[..., k + 1]
                                                    use A_s[k % 2 * 16 + ...]
                                                use A_s[7 % 2 * 16 + ...]

A marked buffer has constant size, is allocated in a loop, and is filled by its first statements;
the mark is around these, or around the whole body. The last iteration stands apart. The option
``tir.InjectDoubleBuffer`` with ``split_loop = n`` (even) writes the loop out in groups of ``n``
iterations, so that the versions are constants; with 0 the loop stays one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import IntImm, PrimExpr, Var, const
from tilesmith.ir.operators import all_of, floormod, moved
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.errors import ConfigError, UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import renew_defs, substitute
from tilesmith.tir.redirection import AccessRedirection
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    stmt_list,
    stmt_seq,
)
from tilesmith.tir.transform.loops.inject_software_pipeline import touched

__all__ = ["inject_double_buffer", "inject_double_buffer_as_configured"]

MARK = "double_buffer_scope"
WRITE = "double_buffer_write"


class _Versions(AccessRedirection):
    """Redirects the accesses of a buffer to one of its two versions."""

    def __init__(self, pointer: Var, size: int, version: PrimExpr) -> None:
        self.pointer, self.size, self.version = pointer, size, version
        self.buffers: dict[Buffer, Buffer] = {}

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
        (index,) = indices
        start = self.version * self.size
        wanted = index.dtype.element
        return [(start if start.dtype is wanted else start.astype(wanted)) + index]

    def redirected(self, old: Buffer) -> Buffer | None:
        if old.data is not self.pointer:
            return None
        if len(old.shape) != 1:
            raise UnsupportedError(
                f"double buffers have one dimension, '{old.name}' has {len(old.shape)}",
                notes=("run FlattenBuffer before",),
            )
        found = self.buffers.get(old)
        if found is None:
            found = self.buffers[old] = old.with_fields(shape=(old.shape[0] * 2,))
        return found

    def visit_Var(self, node: Var) -> Var:
        if node is self.pointer:
            raise UnsupportedError(
                f"the memory of the double buffer '{node.name}' is used as a whole"
            )
        return node


class _Injector(Rewriter):
    def __init__(self, split_loop: int) -> None:
        self.split_loop = split_loop

    def visit_For(self, loop: For) -> Stmt:
        body = self.visit(loop.body)
        if body is not loop.body:
            loop = loop.with_fields(body=body)
        frames, rest = _frames(loop.body)
        marks = [f.node for f in frames if isinstance(f, AttrStmt) and f.attr_key == MARK]
        parts = []
        for stmt in stmt_list(rest):  # a mark around the statements that fill the buffer
            if isinstance(stmt, AttrStmt) and stmt.attr_key == MARK:
                marks.append(stmt.node)
                stmt = stmt.body
            parts.append(stmt)
        rest = stmt_seq(*parts)
        if not marks or loop.kind is ForKind.THREAD_BINDING:
            return loop
        return self.doubled(loop, frames, rest, [_pointer(mark) for mark in marks])

    def doubled(self, loop: For, frames: list[Stmt], rest: Stmt, marked: list[Var]) -> Stmt:
        """Return the loop with the contents for the next iteration loaded ahead."""
        allocations = {f.buffer_var: f for f in frames if isinstance(f, Allocate)}
        sizes = {}
        for pointer in marked:
            allocation = allocations.get(pointer)
            size = None if allocation is None else _constant_size(allocation)
            if size is None:
                raise UnsupportedError(
                    f"the double buffer '{pointer.name}' is not allocated with a constant size "
                    f"right inside of loop '{loop.loop_var.name}'",
                    span=loop.span,
                )
            sizes[pointer] = size
        fill, use = _divide(rest, set(marked), loop)
        number = loop.loop_var - loop.min
        two = const(2, number.dtype)
        filled = self.versioned(fill, sizes, floormod(number, two))
        following = substitute(filled, {loop.loop_var: loop.loop_var + 1})
        following = renew_defs(PrimFunc((), following)).body
        condition = loop.loop_var + 1 < loop.min + loop.extent
        used = self.versioned(use, sizes, floormod(number, two))
        inner = [f for f in frames if not _belongs_to(f, set(marked))]
        for pointer in marked:
            following = AttrStmt(pointer, WRITE, const(1, "int32"), following)
        body = stmt_seq(IfThenElse(condition, following), used)
        again = self.split(_rewrap(inner, loop.with_fields(body=body)))
        zero = Var("version", number.dtype)
        first = self.versioned(fill, sizes, zero)
        first = substitute(first, {loop.loop_var: loop.min, zero: const(0, number.dtype)})
        if not _has_iterations(loop):
            first = IfThenElse(loop.extent > 0, first)
        result = stmt_seq(first, again)
        for frame in reversed(frames):
            if isinstance(frame, DeclBuffer) and frame.buffer.data in sizes:
                old = frame.buffer
                result = DeclBuffer(old.with_fields(shape=(old.shape[0] * 2,)), result)
            elif isinstance(frame, Allocate) and frame.buffer_var in sizes:
                extent = const(2 * sizes[frame.buffer_var], frame.extents[0].dtype)
                result = frame.with_fields(extents=(extent,), body=result)
        return _Redeclare().visit(result)

    def versioned(self, stmt: Stmt, sizes: dict[Var, int], version: PrimExpr) -> Stmt:
        for pointer, size in sizes.items():
            stmt = _Versions(pointer, size, version).visit(stmt)
        return stmt

    def split(self, stmt: For) -> Stmt:
        """Unroll the iterations in groups, with the remaining ones after the loop."""
        count, name = self.split_loop, stmt.loop_var.name
        if count == 0:
            return stmt
        if count != 1 and count % 2:
            raise ConfigError(f"tir.InjectDoubleBuffer: split_loop must be even, got {count}")
        analyzer = Analyzer()
        outer = Var(name + "_outer", stmt.loop_var.dtype)
        groups = analyzer.simplify(moved(stmt.extent, -1) // const(count, stmt.extent.dtype))
        parts = [self.iteration(stmt, outer * count + number) for number in range(count)]
        loop = For(outer, 0, groups, stmt.kind, stmt_seq(*parts), None, stmt.annotations, stmt.span)
        last = analyzer.simplify(groups * count)
        rest = []
        for number in range(count):
            body = self.iteration(stmt, analyzer.simplify(last + number))
            exists = last + number < stmt.extent
            if not _has_iterations(stmt):
                exists = all_of(last + number >= 0, exists)
            rest.append(IfThenElse(exists, _Unmark(WRITE).visit(body)))
        return stmt_seq(loop, *rest)

    def iteration(self, loop: For, number: PrimExpr) -> Stmt:
        """Return the body of a loop for one iteration, counted from zero, with renamed
        definitions.
        """
        body = substitute(loop.body, {loop.loop_var: loop.min + number})
        return renew_defs(PrimFunc((), body)).body


class _Redeclare(Rewriter):
    """Merges buffers that are declared over the same memory with the same shape."""

    def __init__(self) -> None:
        self.known: dict[tuple[Var, Any], Buffer] = {}

    def visit_Buffer(self, node: Buffer) -> Buffer:
        if len(node.shape) != 1 or not isinstance(node.shape[0], IntImm):
            return node
        return self.known.setdefault((node.data, (node.dtype, node.shape[0].value)), node)

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        buffer, body = self.visit_Buffer(node.buffer), self.visit(node.body)
        if buffer is node.buffer and body is node.body:
            return node
        return DeclBuffer(buffer, body, node.span)


def _frames(body: Stmt) -> tuple[list[Stmt], Stmt]:
    """Return the allocations, declarations and attributes around the statements of a loop."""
    frames: list[Stmt] = []
    while isinstance(body, (Allocate, DeclBuffer)) or (
        isinstance(body, AttrStmt) and body.attr_key == MARK
    ):
        frames.append(body)
        body = body.body
    return frames, body


def _pointer(mark: Any) -> Var:
    return mark.data if isinstance(mark, Buffer) else mark


def _belongs_to(frame: Stmt, marked: set[Var]) -> bool:
    if isinstance(frame, Allocate):
        return frame.buffer_var in marked
    if isinstance(frame, DeclBuffer):
        return frame.buffer.data in marked
    return True


def _rewrap(frames: list[Stmt], loop: For) -> For:
    """Put the remaining frames around the body of the loop again."""
    body = loop.body
    for frame in reversed(frames):
        body = frame.with_fields(body=body)
    return loop.with_fields(body=body)


def _constant_size(allocation: Allocate) -> int | None:
    size = 1
    for extent in allocation.extents:
        if not isinstance(extent, IntImm):
            return None
        size *= extent.value
    return size


def _has_iterations(loop: For) -> bool:
    return isinstance(loop.extent, IntImm) and loop.extent.value > 0


def _divide(body: Stmt, marked: set[Var], loop: For) -> tuple[Stmt, Stmt]:
    """Divide statements into those that fill the buffers and all others."""
    stmts = stmt_list(body)
    count = 0
    for stmt in stmts:
        reads, writes = touched(stmt)
        if not writes & marked or reads & marked or writes - marked:
            break
        count += 1
    later = [touched(stmt) for stmt in stmts[count:]]
    if count == 0 or any(writes & marked for _, writes in later):
        raise UnsupportedError(
            f"the first statements of loop '{loop.loop_var.name}' do not fill its double buffers",
            span=loop.span,
        )
    filled = set().union(*[touched(stmt)[0] for stmt in stmts[:count]])
    if any(writes & filled for _, writes in later):
        raise UnsupportedError(
            f"loop '{loop.loop_var.name}' writes memory from which its double buffers are filled",
            span=loop.span,
        )
    return stmt_seq(*stmts[:count]), stmt_seq(*stmts[count:])


class _Unmark(Rewriter):
    """Removes attributes with a key, but keeps their bodies."""

    def __init__(self, key: str) -> None:
        self.key = key

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        body = self.visit(node.body)
        if node.attr_key == self.key:
            return body
        return node if body is node.body else node.with_fields(body=body)


def inject_double_buffer(func: PrimFunc, split_loop: int = 1) -> PrimFunc:
    """Return ``func`` with its marked buffers filled one iteration ahead."""
    return func.with_body(_Unmark(MARK).visit(_Injector(split_loop).visit(func.body)))


@compiler_pass("tir.InjectDoubleBuffer", options={"split_loop": 1})
def inject_double_buffer_as_configured(func: PrimFunc, options: Mapping[str, Any]) -> PrimFunc:
    """Fills marked buffers one iteration ahead; ``split_loop`` iterations are split off."""
    return inject_double_buffer(func, int(options["split_loop"]))
