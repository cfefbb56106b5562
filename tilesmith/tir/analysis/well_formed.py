"""Whether a function keeps the rules that all passes rely on."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule, Node, Var
from tilesmith.ir.instrument import register_module_check
from tilesmith.support.errors import VerifyError
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.analysis.variables import ScopeWalker
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import AttrStmt, Block, BlockRealize, For

__all__ = ["verify_well_formed"]


class _Checker(ScopeWalker):
    """Raises VerifyError at the first broken rule."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.scope: dict[Var | Buffer, Any] = {}
        self.past: set[Var] = set()  # variables whose scope has ended
        self.loops: dict[Var, int] = {}  # loop variable to the number of blocks around the loop
        self.blocks: list[Block] = []  # blocks with iterators, outermost first
        self.threads: set[Var] = set()

    def fail(self, message: str) -> None:
        span = next((n.span for n in reversed(self.parents) if getattr(n, "span", None)), None)
        block = next((n for n in reversed(self.parents) if isinstance(n, Block)), None)
        notes = [f"in the function '{self.name}'"] if self.name else []
        if block is not None:
            notes.insert(0, f"in the block '{block.name_hint}'")
        raise VerifyError(message, span=span, notes=notes)

    def knows(self, variable: Var) -> bool:
        return variable in self.scope

    def define(self, value: Var | Buffer) -> None:
        parent = self.parents[-1]
        if isinstance(parent, IterVar) and self.is_thread(parent):
            # The same thread may be bound again by a loop or attribute further in.
            self.threads.add(value)  # type: ignore[arg-type]
        elif isinstance(value, Var) and value in self.scope and self.scope[value] is not parent:
            self.fail(f"the variable '{value.name}' is bound again inside its own scope")
        self.scope[value] = parent
        if isinstance(parent, For) and isinstance(value, Var):
            self.loops[value] = len(self.blocks)

    def is_thread(self, iterator: IterVar) -> bool:
        return len(self.parents) > 1 and isinstance(self.parents[-2], (AttrStmt, For))

    def leave(self, value: Var | Buffer) -> None:
        self.scope.pop(value, None)
        self.loops.pop(value, None)  # type: ignore[call-overload]
        if isinstance(value, Var):
            self.past.add(value)

    def use(self, value: Var | Buffer) -> None:
        if isinstance(value, Buffer):
            self.use_buffer(value)
            return
        if value not in self.scope:
            after = " after the end of its scope" if value in self.past else ""
            advice = "" if after else "; it is bound nowhere"
            self.fail(f"the variable '{value.name}' is used{after}{advice}")
        depth = self.loops.get(value)
        if depth is not None and depth < len(self.blocks):
            block = self.blocks[-1].name_hint
            self.fail(
                f"the block '{block}' uses the loop variable '{value.name}' from outside; "
                "a block with iterators sees the loops through them only"
            )

    def use_buffer(self, buffer: Buffer) -> None:
        if buffer in self.scope:
            return
        if buffer.data not in self.scope:
            self.fail(f"the buffer '{buffer.name}' is neither a parameter nor allocated here")

    def walk(self, node: Any) -> None:
        if isinstance(node, BlockRealize):
            self.check_realize(node)
        if isinstance(node, Block) and node.iter_vars:
            self.blocks.append(node)
            super().walk(node)
            self.blocks.pop()
        else:
            super().walk(node)

    def check_realize(self, node: BlockRealize) -> None:
        wanted, given = len(node.block.iter_vars), len(node.iter_values)
        if wanted != given:
            self.fail(f"the block '{node.block.name_hint}' has {wanted} iterators, {given} values")
        for iterator, value in zip(node.block.iter_vars, node.iter_values):
            if iterator.var.dtype is not value.dtype:
                self.fail(
                    f"the iterator '{iterator.var.name}' of the block '{node.block.name_hint}' is "
                    f"{iterator.var.dtype}, its value is {value.dtype}"
                )


def verify_well_formed(obj: PrimFunc | IRModule, assert_mode: bool = True) -> bool:
    """Whether a function (each PrimFunc of a module) is well formed.

    Variables are used inside the scope of their one definition, buffers are declared or view
    memory that is, a block with iterators does not look past them at the loops outside, and each
    iterator has a value of its dtype. With ``assert_mode`` a broken rule raises VerifyError.
    """
    try:
        for name, function in _functions(obj):
            with deep_recursion():
                _Checker(name).walk(function)
    except VerifyError:
        if assert_mode:
            raise
        return False
    return True


def _functions(obj: PrimFunc | IRModule) -> list[tuple[str, Node]]:
    if isinstance(obj, IRModule):
        return [
            (variable.name_hint, function)
            for variable, function in obj.functions.items()
            if isinstance(function, PrimFunc)
        ]
    return [(str(obj.attrs.get("global_symbol", "")), obj)]


register_module_check("tir.verify_well_formed", verify_well_formed)
