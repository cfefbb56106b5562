"""Computes the operands of expressions: instructions are written when an operand is first used."""

from __future__ import annotations

from tilesmith.codegen.facts import Facts
from tilesmith.codegen.llvm.builder import Builder
from tilesmith.codegen.llvm.dtypes import extension, register_type
from tilesmith.codegen.llvm.exits import Exits
from tilesmith.codegen.llvm.memo import Memo
from tilesmith.codegen.llvm.module_text import ModuleText
from tilesmith.codegen.llvm.pointers import Pointers
from tilesmith.codegen.llvm.rules import NODE_RULES, Processor
from tilesmith.codegen.llvm.scope import Scope
from tilesmith.codegen.llvm.symbols import Symbols
from tilesmith.ir import IntImm, PrimExpr, Var
from tilesmith.runtime.dtype import DataType

__all__ = ["Values"]


class Values:
    """Returns the operand of each expression of one function; rules write the instructions.

    Rules use its parts: ``out`` writes instructions, ``text`` the module's other parts, ``exits``
    the exits of the function; ``symbols`` describes the functions of the module, ``scope`` the
    surroundings of the statement, ``facts`` and ``pointers`` the values of ``variables``;
    ``processor`` has the rules of calls.
    """

    def __init__(
        self, out: Builder, text: ModuleText, symbols: Symbols, processor: Processor, returns: str
    ) -> None:
        self.out = out
        self.text = text
        self.symbols = symbols
        self.processor = processor
        self.machine = out.machine
        self.memo = Memo()
        self.scope = Scope()
        self.facts = Facts()
        self.pointers = Pointers()
        self.variables: dict[Var, str] = {}
        self.exits = Exits(out, text, self.memo, self.scope, returns, processor)
        self.define = out.define
        self.write = out.write
        self._in_index = 0

    def value(self, expr: PrimExpr) -> str:
        """Return the operand that holds `expr`; expressions that a statement shares are computed
        once.
        """
        memo = self.memo
        found = memo.operands.get(id(expr))
        if found is None:
            epoch = memo.epoch
            found = NODE_RULES[expr.__class__](self, expr)
            if (
                epoch == memo.epoch
            ):  # else it contains a call with side effects, which is never shared
                memo.keep(expr, found)
        return found

    def written(self, expr: PrimExpr) -> str:
        """Compute `expr` anew and return its operand."""
        return NODE_RULES[expr.__class__](self, expr)

    def forget(self) -> None:
        """Drop all operands (a new statement, a call with side effects)."""
        self.facts.forget()
        self.memo.forget()

    def typed(self, expr: PrimExpr) -> str:
        """Return an operand with its type."""
        return f"{register_type(expr.dtype)} {self.value(expr)}"

    def argument(self, expr: PrimExpr) -> str:
        """Return an argument of a call of a function with its type."""
        return f"{register_type(expr.dtype)} {extension(expr.dtype)}{self.value(expr)}"

    # -- indices

    @property
    def is_index(self) -> bool:
        """True if the current expression is an index, whose arithmetic does not overflow."""
        return bool(self._in_index)

    def no_wrap(self, dtype: DataType) -> str:
        """LLVM's flag for arithmetic that does not overflow, with a blank before it."""
        return " nsw" if self._in_index and dtype.is_int and dtype.bits >= 32 else ""

    def index(self, expr: PrimExpr) -> str:
        """Return the operand of an index expression, whose arithmetic does not overflow."""
        self._in_index += 1
        value = self.value(expr)
        self._in_index -= 1
        return value

    def index64(self, expr: PrimExpr) -> str:
        """Return a scalar index as an i64."""
        if isinstance(expr, IntImm):
            return str(expr.value)
        return self.extended(self.index(expr), expr, "i64")

    def extended(self, value: str, expr: PrimExpr, to: str) -> str:
        """Extend an integer to a wider (or equal) LLVM type."""
        source = register_type(expr.dtype)
        if source == to:
            return value
        if expr.dtype.is_bool or expr.dtype.is_uint:
            return self.define(f"zext {source} {value} to {to}")
        if self.facts.is_non_negative(expr):
            return self.define(f"zext nneg {source} {value} to {to}")
        return self.define(f"sext {source} {value} to {to}")
