"""Matches the beginning of a kernel against kernels with symbolic sizes.

    found = match_kernel(pattern, statements)     # MatchedKernel or None

A pattern is a PrimFunc whose scalar parameters (and the free sizes of whose buffers) stand for any
size; variables, buffers and names may be others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import IntImm, Mul, Node, PrimExpr, Var
from tilesmith.ir.node import Role
from tilesmith.ir.queries import variables
from tilesmith.runtime.dtype import DataType
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import Block, BlockRealize, SeqStmt, Stmt

__all__ = ["MatchedKernel", "match_kernel", "root_statements"]


def root_statements(func: PrimFunc) -> tuple[list[Stmt], list[Buffer]]:
    """Return the statements of a kernel in order, and the buffers that it allocates for all."""
    body, allocated = func.body, []
    if isinstance(body, BlockRealize) and not body.block.iter_vars:
        allocated = list(body.block.alloc_buffers)
        body = body.block.body
    return (list(body.seq) if isinstance(body, SeqStmt) else [body]), allocated


@dataclass
class MatchedKernel:
    """The symbols of a pattern with their values, its buffers with those that they matched, and how
    many statements it took.
    """

    symbols: dict[Var, Any] = field(default_factory=dict)
    buffers: dict[Buffer, Buffer] = field(default_factory=dict)
    count: int = 0


class _Match:
    """One attempt."""

    def __init__(self, symbols: set[Var]) -> None:
        self.symbols = symbols
        self.values: dict[Var, Any] = {}
        self.pairs: dict[Var, Var] = {}
        self.taken: set[Var] = set()
        self.buffers: dict[Buffer, Buffer] = {}
        self.deferred: list[tuple[PrimExpr, PrimExpr]] = []

    def node(self, pattern: Any, given: Any) -> bool:
        """Return whether something is what the pattern says."""
        if isinstance(pattern, Var):
            return self._variable(pattern, given)
        if isinstance(pattern, Buffer):
            return isinstance(given, Buffer) and self.buffer(pattern, given)
        if isinstance(pattern, PrimExpr) and self._is_size(pattern):
            self.deferred.append((pattern, given))
            return isinstance(given, PrimExpr)
        if isinstance(pattern, Mul) and self._is_open(pattern.b) and not isinstance(given, Mul):
            factor: Any = pattern.b
            self.values[factor] = IntImm(factor.dtype, 1)  # x * 1 is written as x
            return self.node(pattern.a, given)
        if isinstance(pattern, Node):
            return self._fields(pattern, given)
        if isinstance(pattern, (tuple, list)):
            if not isinstance(given, (tuple, list)) or len(pattern) != len(given):
                return False
            return all(self.node(one, other) for one, other in zip(pattern, given))
        if isinstance(pattern, Mapping):
            if not isinstance(given, Mapping) or set(pattern) != set(given):
                return False
            return all(self.node(value, given[key]) for key, value in pattern.items())
        return bool(pattern == given)

    def _is_open(self, expr: Any) -> bool:
        return isinstance(expr, Var) and expr in self.symbols and expr not in self.values

    def _is_size(self, expr: PrimExpr) -> bool:
        """Return whether an integer is computed from symbols alone."""
        if not expr.dtype.is_integer or isinstance(expr, IntImm):
            return False
        used = variables(expr)
        return bool(used) and all(var in self.symbols for var in used)

    def _fields(self, pattern: Node, given: Any) -> bool:
        if type(pattern) is not type(given):
            return False
        for one, value in pattern.field_values():
            if one.role is Role.NOTE:
                continue
            if isinstance(pattern, Block) and one.name in ("reads", "writes"):
                continue  # they follow from the body
            if not self.node(value, getattr(given, one.name)):
                return False
        return getattr(pattern, "dtype", None) == getattr(given, "dtype", None)

    def _variable(self, pattern: Var, given: Any) -> bool:
        if pattern in self.symbols:
            if pattern in self.values:
                return _equal(self.values[pattern], given)
            if not isinstance(given, PrimExpr) or not _same_kind(pattern.dtype, given.dtype):
                return False
            self.values[pattern] = given
            return True
        if not isinstance(given, Var) or pattern.dtype != given.dtype:
            return False
        if pattern in self.pairs:
            return self.pairs[pattern] is given
        if given in self.taken:
            return False
        self.pairs[pattern] = given
        self.taken.add(given)
        return True

    def buffer(self, pattern: Buffer, given: Buffer) -> bool:
        """Return whether a buffer can stand for that of the pattern."""
        if pattern in self.buffers:
            return self.buffers[pattern] is given
        if given in self.buffers.values() or len(pattern.shape) != len(given.shape):
            return False
        if pattern.dtype != given.dtype or pattern.scope() != given.scope():
            return False
        self.buffers[pattern] = given
        for size, other in zip(pattern.shape, given.shape):
            if isinstance(size, Var):
                if not self._variable(size, other):
                    return False
            else:
                self.deferred.append((size, other))
        return True

    def agrees(self) -> bool:
        """Return whether the sizes that are computed from symbols are what they have to be."""
        for pattern, given in self.deferred:
            used = [var for var in variables(pattern) if var in self.symbols]
            if any(var not in self.values for var in used):
                return False
            if not _equal(substitute(pattern, {var: self.values[var] for var in used}), given):
                return False
        return True


def _same_kind(symbol: DataType, given: DataType) -> bool:
    """Return whether a symbol can stand for a number: a size for integers, others for their own
    dtype.
    """
    return symbol == given or (symbol.is_integer and given.is_integer)


def _equal(a: PrimExpr, b: PrimExpr) -> bool:
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    return a is b or bool(Analyzer().can_prove_equal(a, b))


def match_kernel(pattern: PrimFunc, statements: Sequence[Stmt]) -> MatchedKernel | None:
    """Return how a pattern matches the first statements of a kernel; None if it does not."""
    wanted, _ = root_statements(pattern)
    if len(wanted) > len(statements):
        return None
    symbols = {param for param in pattern.params if param not in pattern.buffer_map}
    for buffer in pattern.buffer_map.values():
        symbols |= {size for size in buffer.shape if isinstance(size, Var)}
    match = _Match(symbols)
    with deep_recursion():
        for one, given in zip(wanted, statements):
            if not match.node(one, given):
                return None
        if not match.agrees():
            return None
    if any(buffer not in match.buffers for buffer in pattern.buffer_map.values()):
        return None
    return MatchedKernel(match.values, match.buffers, len(wanted))
