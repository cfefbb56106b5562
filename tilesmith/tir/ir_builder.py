"""The classic builder of statements: loops are ``with`` blocks and stores are assignments.

    ib = ir_builder.create()
    A = ib.pointer("float32", name="A")
    with ib.for_range(0, n, name="i") as i:
        with ib.if_scope(i % 2 == 0):
            A[i] = A[i] + 1.0
    statement = ib.get()

Blocks are built with the script's frames (``script.IRBuilder``); this one makes loops, branches,
allocations and attributes.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.ir import PointerType, PrimExpr, StringImm, Var, const, convert, operators
from tilesmith.ir.types import prim_type
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ConfigError, ShapeError, TypeMismatchError
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.op import likely
from tilesmith.tir.ranges import extent_between
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)

__all__ = ["BufferVar", "IRBuilder", "WithScope", "create"]


class WithScope:
    """The context manager of a scope: gives ``enter_value``, calls ``exit_cb`` at the end."""

    def __init__(self, enter_value: Any, exit_cb: Callable[[], None]) -> None:
        self._enter_value = enter_value
        self._exit_cb = exit_cb

    def __enter__(self) -> Any:
        return self._enter_value

    def __exit__(self, kind: type | None, error: Any, traceback: Any) -> None:
        if kind is None:
            self._exit_cb()


class BufferVar:
    """A buffer whose elements are read and written with brackets."""

    def __init__(self, builder: IRBuilder, buffer: Buffer, content_type: Any) -> None:
        self._builder = builder
        self._buffer = buffer
        self._content_type = DataType(content_type)

    def asobject(self) -> Buffer:
        """Return the buffer; ``asobject().data`` is the pointer."""
        return self._buffer

    @property
    def dtype(self) -> DataType:
        """The type of an element as it is read and written."""
        return self._content_type

    def _indices(self, index: Any) -> list[PrimExpr]:
        indices = list(index) if isinstance(index, (tuple, list)) else [index]
        shape = self._buffer.shape
        if len(indices) == 1 and len(shape) > 1:
            raise ShapeError(
                f"buffer '{self._buffer.name}' has {len(shape)} dimensions, got one index"
            )
        return [convert(value) for value in indices]

    def __getitem__(self, index: Any) -> PrimExpr:
        return BufferLoad(self._buffer, self._indices(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        indices = self._indices(index)
        dtype = BufferLoad(self._buffer, indices).dtype
        if not isinstance(value, (bool, int, float)):
            value = convert(value)
            if value.dtype is not dtype:
                raise TypeMismatchError(
                    f"a store to buffer '{self._buffer.name}' needs {dtype}, got {value.dtype}"
                )
        self._builder.emit(BufferStore(self._buffer, value, indices))


class IRBuilder:
    """Collects statements in the order in which they are written."""

    def __init__(self) -> None:
        self._scopes: list[list[Any]] = [[]]  # statements, and functions that wrap what follows
        self._after_if = False

    def emit(self, stmt: Any) -> None:
        """Add a statement, an expression, or a function that puts a statement around the rest."""
        self._after_if = False
        if isinstance(stmt, PrimExpr):
            stmt = Evaluate(stmt)
        if not (isinstance(stmt, Stmt) or callable(stmt)):
            raise ConfigError(f"cannot emit {stmt!r}: neither a statement nor an expression")
        self._scopes[-1].append(stmt)

    def _pop(self) -> Stmt:
        """Return the statements of the innermost scope as one."""
        rest: list[Stmt] = []
        for item in reversed(self._scopes.pop()):
            if isinstance(item, Stmt):
                rest[:0] = item.seq if isinstance(item, SeqStmt) else (item,)
            else:
                rest = [item(_sequence(rest))]
        return _sequence(rest)

    def _scope(self, value: Any, finish: Callable[[Stmt], None]) -> WithScope:
        self._scopes.append([])
        self._after_if = False
        return WithScope(value, lambda: finish(self._pop()))

    def scope_attr(self, node: Any, attr_key: str, value: Any) -> None:
        """Put an attribute around the rest of this scope."""
        if isinstance(node, str):
            node = StringImm(node)
        self.emit(lambda rest: AttrStmt(node, attr_key, value, rest))

    def for_range(
        self,
        begin: Any,
        end: Any,
        name: str = "i",
        dtype: Any = None,
        kind: str = "serial",
        *,
        for_type: str | None = None,
    ) -> WithScope:
        """Open a loop over ``[begin, end)``; ``kind``: serial, parallel, vectorize, unroll.

        ``for_type`` is the older name of ``kind``. Raises ConfigError for an unknown kind.
        """
        kinds = {
            "serial": ForKind.SERIAL,
            "parallel": ForKind.PARALLEL,
            "vectorize": ForKind.VECTORIZED,
            "unroll": ForKind.UNROLLED,
        }
        kind = kind if for_type is None else for_type
        if kind not in kinds:
            near = difflib.get_close_matches(str(kind), kinds, n=1)
            advice = f"did you mean '{near[0]}'?" if near else "known: " + ", ".join(kinds)
            raise ConfigError(f"unknown kind of loop '{kind}'", notes=(advice,))
        low, stop = operators.match_types(begin, end)
        if dtype is not None:
            low, stop = operators.cast(dtype, low), operators.cast(dtype, stop)
        extent = extent_between(low, stop)
        var = Var(name, extent.dtype)
        return self._scope(var, lambda body: self.emit(For(var, low, extent, kinds[kind], body)))

    def while_loop(self, condition: Any) -> WithScope:
        """Open a loop that runs while the condition holds."""
        return self._scope(None, lambda body: self.emit(While(condition, body)))

    def if_scope(self, cond: Any) -> WithScope:
        """Open a branch that runs where the condition holds."""

        def finish(body: Stmt) -> None:
            self.emit(IfThenElse(cond, body))
            self._after_if = True

        return self._scope(None, finish)

    def else_scope(self) -> WithScope:
        """Open the else branch of the ``if_scope`` just before."""
        if not self._after_if:
            raise ConfigError("else_scope stands right behind an if_scope")
        before = self._scopes[-1].pop()

        def finish(body: Stmt) -> None:
            self.emit(IfThenElse(before.condition, before.then_case, body))

        return self._scope(None, finish)

    def new_scope(self) -> WithScope:
        """Open a scope for attributes and allocations."""
        return self._scope(None, self.emit)

    def let(self, var_name: str, value: Any) -> Var:
        """Bind a variable to a value for the rest of this scope."""
        value = convert(value)
        var = Var(var_name, value.dtype)
        self.emit(lambda rest: LetStmt(var, value, rest))
        return var

    def allocate(
        self,
        dtype: Any,
        shape: Any,
        name: str = "buf",
        axis_separators: Sequence[int] | None = None,
        scope: str = "",
    ) -> BufferVar:
        """Allocate memory for the rest of this scope."""
        dtype = DataType(dtype)
        extents = shape if isinstance(shape, (list, tuple)) else [shape]
        buffer = decl_buffer(extents, dtype, name, scope=scope, axis_separators=axis_separators)
        true = const(True, "bool")
        self.emit(lambda rest: Allocate(buffer.data, dtype, buffer.shape, true, rest))
        return BufferVar(self, buffer, dtype)

    def pointer(self, content_type: Any, name: str = "ptr", scope: str = "") -> BufferVar:
        """Return a pointer that is defined outside."""
        dtype = DataType(content_type)
        storage = DataType("int8") if dtype.is_bool else dtype
        data = Var(name, PointerType(prim_type(storage), scope))
        return BufferVar(self, decl_buffer([1], dtype, name, data), dtype)

    def buffer_ptr(self, buf: Buffer) -> BufferVar:
        """Return a buffer that is defined outside."""
        return BufferVar(self, buf, buf.dtype)

    def likely(self, expr: Any) -> PrimExpr:
        """Return a condition marked as mostly true."""
        return likely(expr)

    def get(self) -> Stmt:
        """Return all emitted statements as one."""
        if len(self._scopes) != 1:
            raise ConfigError("get stands outside of all scopes")
        statement = self._pop()
        self._scopes.append([])
        return statement


def _sequence(statements: list[Stmt]) -> Stmt:
    if not statements:
        return Evaluate(const(0, "int32"))
    return statements[0] if len(statements) == 1 else SeqStmt(tuple(statements))


def create() -> IRBuilder:
    """Return a new builder."""
    return IRBuilder()
