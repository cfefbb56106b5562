"""Checks that a function is well formed: the rules that all passes rely on."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, GlobalVar, IntImm, IRModule, Node, PrimExpr, Var
from tilesmith.ir.instrument import register_module_check
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import any_node, walk
from tilesmith.support.errors import VerifyError
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.analysis.covered_regions import uncovered_access
from tilesmith.tir.analysis.variables import ScopeWalker
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferRegion, IterVar
from tilesmith.tir.free_variables import free_variables, scope_plan
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import AttrStmt, Block, BlockRealize, For, ForKind, IfThenElse, Stmt

__all__ = ["verify_well_formed"]

_CONTEXT = 4  # lines of the program around a marker

SeenExpressions = dict[int, tuple[PrimExpr, "list[Var] | None"]]
"""The variables that expressions use, by the `id` of the expression, which is held; None for
expressions that bind variables or call functions of the module."""


def _uses(expression: PrimExpr) -> list[Var] | None:
    return None if any_node(expression, _is_special) else free_variables(expression, sizes=False)


def _is_special(node: Node) -> bool:
    if isinstance(node, Call) and isinstance(node.op, GlobalVar):
        return True
    return any(action == "define" for action, _ in scope_plan(node.__class__)[0])


class _Checker(ScopeWalker):
    """Raises VerifyError at the first broken rule."""

    def __init__(
        self,
        name: str,
        function: Node,
        module: IRModule | None,
        strict: bool,
        doubts: list[VerifyError] | None = None,
        seen: SeenExpressions | None = None,
    ) -> None:
        super().__init__()
        self.doubts = doubts
        self.seen = seen
        self.name = name
        self.function = function
        self.module = module
        self.strict = strict
        self.scope: dict[Var | Buffer, Any] = {}
        self.past: dict[Var | Buffer, Any] = {}  # whose scope has ended → what bound them
        self.loops: dict[Var, int] = {}  # loop variable to the number of blocks around the loop
        self.blocks: list[Block] = []  # blocks with iterators, outermost first
        self.threads: set[Var] = set()
        self.bound: dict[tuple[Block, Var], Var] = {}  # block and value → the axis bound to it
        self.launched: dict[str, PrimExpr] = {}  # thread axis → extent, within one kernel

    def fail(self, message: str, advice: str = "", culprit: Node | None = None) -> None:
        """Raise the error at the innermost statement with a known source location."""
        raise self.error(message, advice, culprit)

    def doubt(self, message: str, advice: str, culprit: Node) -> None:
        """Report a likely mistake: recorded if the caller collects doubts, else an error."""
        error = self.error(message, advice, culprit)
        if self.doubts is None:
            raise error
        self.doubts.append(error)

    def error(self, message: str, advice: str, culprit: Node | None) -> VerifyError:
        """Return the error; without a location (a program that a pass made) it shows the
        program."""
        span = next((s for n in reversed(self.parents) if (s := getattr(n, "span", None))), None)
        block = next((n for n in reversed(self.parents) if isinstance(n, Block)), None)
        notes = [f"in the function '{self.name}'"] if self.name else []
        if block is not None and (block.iter_vars or block.name_hint != "root"):
            notes.insert(0, f"in the block '{block.name_hint}'")
        if advice:
            notes.insert(0, advice)
        if span is None or not self.strict:  # a pass has made it: the source shows only part of it
            notes.append(self.shown(culprit or self.statement()))
        return VerifyError(message, span=span, notes=notes)

    def statement(self) -> Node:
        """Return the innermost statement or function being checked."""
        found = [n for n in self.parents if hasattr(n, "span") and not isinstance(n, IterVar)]
        return found[-1] if found else self.function

    def shown(self, culprit: Node) -> str:
        """Return the program around a node, with a marker under it."""
        from tilesmith.ir import printing

        if isinstance(culprit, BlockRealize):
            culprit = culprit.block
        return "the program:\n" + printing.excerpt(self.function, culprit, _CONTEXT)

    # Variables and buffers.

    def knows(self, variable: Var) -> bool:
        return variable in self.scope

    def define(self, value: Var | Buffer) -> None:
        parent = self.parents[-1]
        if isinstance(parent, IterVar) and self.is_thread(parent):
            # The same thread may be bound again by a loop or attribute further in.
            self.threads.add(value)  # type: ignore[arg-type]
        elif isinstance(value, Var) and value in self.scope and self.scope[value] is not parent:
            self.fail(
                f"{_described(value, parent)} is bound again inside its own scope, where it is "
                f"{_described(value, self.scope[value], False)}",
                "make a new variable for the inner one",
            )
        self.scope[value] = parent
        if isinstance(parent, For) and isinstance(value, Var):
            self.loops[value] = len(self.blocks)

    def is_thread(self, iterator: IterVar) -> bool:
        return len(self.parents) > 1 and isinstance(self.parents[-2], (AttrStmt, For))

    def leave(self, value: Var | Buffer) -> None:
        self.past[value] = self.scope.pop(value, None)
        if isinstance(value, Var):
            self.loops.pop(value, None)

    def use(self, value: Var | Buffer) -> None:
        if isinstance(value, Buffer):
            self.use_buffer(value)
            return
        if value not in self.scope:
            self.fail_unbound(value)
        depth = self.loops.get(value)
        if depth is not None and depth < len(self.blocks):
            block = self.blocks[-1]
            axis = self.bound.get((block, value))
            advice = f"bind an axis to it: v = T.axis.spatial(extent, {value.name}), and use v"
            if axis is not None:
                advice = f"use '{axis.name}', the axis that is bound to it"
            self.go_to_user(block, value)
            self.fail(
                f"the block '{block.name_hint}' uses the loop variable '{value.name}' from "
                "outside; a block with iterators sees the loops through them only",
                advice,
            )

    def go_to_user(self, block: Block, value: Var) -> None:
        """Move from a region of a block to the statement inside that causes it."""
        if any(isinstance(node, BufferRegion) for node in self.parents):
            user = _first_user(block.body, value)
            if user is not None:
                self.parents += [block, user]

    def fail_unbound(self, value: Var) -> None:
        """Raise an error that says why a variable is not in scope here."""
        if value in self.past:
            self.fail(
                f"{_described(value, self.past[value])} is used after the end of its scope",
                "move the use inside, or bind the value again",
            )
        twin = next((v for v in self.scope if v.name == value.name and isinstance(v, Var)), None)
        advice = "make it a parameter, or bind it by a loop, an axis or a value"
        if twin is not None:
            advice = f"'{value.name}' in sight here is another variable of the same name"
        self.fail(f"the variable '{value.name}' is used; it is bound nowhere", advice)

    def use_buffer(self, buffer: Buffer) -> None:
        if buffer in self.scope or buffer.data in self.scope:
            return
        if buffer in self.past or buffer.data in self.past:
            made = self.past.get(buffer) or self.past.get(buffer.data)
            where = f"block '{made.name_hint}'" if isinstance(made, Block) else "statement"
            self.fail(
                f"the buffer '{buffer.name}' is used outside of the {where} that allocates it",
                "allocate it in a block around both uses",
            )
        self.fail(
            f"the buffer '{buffer.name}' is neither a parameter nor allocated here",
            "make it a parameter, or allocate it: T.alloc_buffer(shape, dtype)",
        )

    # Statements.

    def walk(self, node: Any) -> None:
        kind = node.__class__
        if kind is Block:
            self.walk_block(node)
        elif kind is For or kind is AttrStmt:
            self.walk_loop(node)
        else:
            if kind is BlockRealize:
                self.check_realize(node)
            elif self.seen is not None and issubclass(kind, PrimExpr) and self.is_right(node):
                return
            elif kind is Call and isinstance(node.op, GlobalVar):
                self.check_call(node.op)
            super().walk(node)

    def is_right(self, node: PrimExpr) -> bool:
        """Return whether an expression is known to use only what may be used here; if not, a walk
        finds what is wrong.
        """
        if isinstance(node, (IntImm, Var)):
            return isinstance(node, IntImm)
        seen: Any = self.seen
        known = seen.get(id(node))
        if known is None:
            known = seen[id(node)] = (node, _uses(node))
        if known[1] is None:
            return False
        scope, loops, depth = self.scope, self.loops, len(self.blocks)
        for used in known[1]:
            if used not in scope or loops.get(used, depth) < depth:
                return False
        return True

    def walk_block(self, node: Block) -> None:
        if not node.iter_vars:
            super().walk(node)
            return
        self.blocks.append(node)
        super().walk(node)
        self.blocks.pop()
        self.check_block(node)

    def walk_loop(self, node: For | AttrStmt) -> None:
        if isinstance(node, For):
            self.check_loop(node)
        tag = _thread_of(node)
        opened = tag is not None and self.launch(tag, node)
        super().walk(node)
        if opened:
            self.launched = {}

    def check_realize(self, node: BlockRealize) -> None:
        block = node.block
        wanted, given = len(block.iter_vars), len(node.iter_values)
        if wanted != given:
            self.fail(
                f"the block '{block.name_hint}' has {wanted} iterators, {given} values",
                "give each axis one value",
                block,
            )
        for iterator, value in zip(block.iter_vars, node.iter_values):
            dtype = iterator.var.dtype
            if isinstance(value, Var):
                self.bound[(block, value)] = iterator.var
            if dtype is not value.dtype:
                self.parents.append(node)
                self.fail(
                    f"the iterator '{iterator.var.name}' of the block '{block.name_hint}' is "
                    f"{dtype}, its value is {value.dtype}",
                    f'convert the value: T.Cast("{dtype}", {value}), or leave dtype= out',
                    block,
                )

        if self.strict and is_const(node.predicate, 1):
            self.check_domains(node)

    def check_domains(self, node: BlockRealize) -> None:
        """Check that an axis that is bound to a loop covers all values of the loop."""
        if any(isinstance(parent, IfThenElse) for parent in self.parents):
            return  # the condition may exclude the values that do not fit
        for iterator, value in zip(node.block.iter_vars, node.iter_values):
            if not isinstance(value, Var) or iterator.dom is None:
                continue
            loop = self.scope.get(value)
            if not isinstance(loop, For):
                continue
            parts = (loop.min, loop.extent, iterator.dom.min, iterator.dom.extent)
            numbers = [part.value for part in parts if isinstance(part, IntImm)]
            if len(numbers) < len(parts):
                continue
            low, count, first, room = numbers
            if count > 0 and (low < first or low + count > first + room):
                self.parents.append(node)
                self.doubt(
                    f"the axis '{iterator.var.name}' has the values {first} to {first + room - 1}, "
                    f"the loop '{value.name}' that it is bound to has {low} to {low + count - 1}",
                    f"give both the same extent, or let only what fits run: "
                    f"T.where({value.name} < {first + room})",
                    node.block,
                )
                self.parents.pop()

    def check_loop(self, node: For) -> None:
        dtype = node.loop_var.dtype
        if node.min.dtype is not dtype or node.extent.dtype is not dtype:
            self.parents.append(node)
            self.fail(
                f"the loop variable '{node.loop_var.name}' is {dtype}, its bounds are "
                f"{node.min.dtype} and {node.extent.dtype}",
                f"make bounds of {dtype}",
                node,
            )

    def check_block(self, block: Block) -> None:
        """Check the rules for a block in the form in which its author wrote it."""
        if not self.strict:
            return
        reduces = any(it.iter_type == IterVar.CommReduce for it in block.iter_vars)
        found = uncovered_access(block)
        if not (block.init is not None and not reduces) and found is None:
            return
        depth = len(self.parents)
        self.parents.append(block)
        if found is None:
            self.doubt(
                f"the block '{block.name_hint}' has an init, but no axis that is reduced over",
                "make the axis that is summed over T.axis.reduce, or move the init out",
                block,
            )
        else:
            self.parents += [node for node in (found.statement,) if node is not None]
            self.doubt(found.message, found.advice, found.statement or block)
        del self.parents[depth:]

    def check_call(self, variable: GlobalVar) -> None:
        names = [known.name_hint for known in self.module.functions] if self.module else []
        name = variable.name_hint
        if self.module is None or name in names:
            return
        import difflib

        near = difflib.get_close_matches(name, names, n=1)
        advice = f"did you mean '{near[0]}'?" if near else "the module has: " + ", ".join(names)
        self.fail(f"a call of '{name}', a function that the module does not have", advice)

    def launch(self, tag: str, node: For | AttrStmt) -> bool:
        """Record the extent of a thread axis; return whether a kernel begins here."""
        begins = not self.launched
        extent = node.extent if isinstance(node, For) else node.value
        known = self.launched.setdefault(tag, extent)
        if (
            isinstance(known, IntImm)
            and isinstance(extent, IntImm)
            and known.value != extent.value
            and not tag.startswith(("vthread", "cthread"))
        ):
            self.parents.append(node)
            self.fail(
                f"'{tag}' has {extent.value} threads here and {known.value} elsewhere in the same "
                "kernel",
                "all loops bound to one thread axis of a kernel need the same extent: split them "
                "alike, the smaller ones with a condition",
                node,
            )
        return begins


def _first_user(body: Stmt, variable: Var) -> Stmt | None:
    """Return the first statement with a source location that uses a variable."""
    statement: Stmt | None = None
    for node in walk(body):
        if isinstance(node, Stmt) and getattr(node, "span", None) is not None:
            statement = node
        elif node is variable:
            return statement
    return None


def _thread_of(node: Any) -> str | None:
    """Return the thread axis that a loop or attribute launches."""
    if isinstance(node, For) and node.kind is ForKind.THREAD_BINDING:
        return node.thread_binding.thread_tag if node.thread_binding is not None else None
    if isinstance(node, AttrStmt) and node.attr_key == "thread_extent":
        return getattr(node.node, "thread_tag", None)
    return None


def _described(variable: Var | Buffer, made: Any, named: bool = True) -> str:
    """Describe a variable by what binds it: "the loop variable 'i'"."""
    kinds = {For: "the loop variable", IterVar: "the block iterator", PrimFunc: "the parameter"}
    kind = next((text for cls, text in kinds.items() if isinstance(made, cls)), "the variable")
    if not named:
        return {"the variable": "bound already"}.get(kind, kind)
    return f"{kind} '{variable.name}'"


def verify_well_formed(
    obj: PrimFunc | IRModule,
    assert_mode: bool = True,
    *,
    strict: bool = True,
    doubts: list[VerifyError] | None = None,
    seen: SeenExpressions | None = None,
) -> bool:
    """Return whether a function (each PrimFunc of a module) is well formed.

    Variables are used inside the scope of their one definition, buffers are declared or view
    memory that is, a block with iterators does not look past them at the loops outside, each
    iterator has a value of its dtype and each loop bounds of its own, the loops of a kernel that
    are bound to one thread axis have one extent, and functions that are called are in the module.

    ``strict`` (for programs as users write them, not for those between passes): the regions of a
    block contain all of its accesses, unless that cannot be decided, an axis has all values of the
    loop that it is bound to, and only a block that reduces has an init. Violations of these rules
    are appended to ``doubts`` where a list is given, and are not errors then.

    With ``assert_mode`` a broken rule raises VerifyError: the place or the program, and advice.
    ``seen`` keeps what expressions use from one call to the next, for functions that share them.
    """
    module = obj if isinstance(obj, IRModule) else None
    try:
        for name, function in _functions(obj):
            with deep_recursion():
                _Checker(name, function, module, strict, doubts, seen).walk(function)
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


def _between_passes(module: IRModule) -> bool:
    return verify_well_formed(module, strict=False)


register_module_check("tir.verify_well_formed", _between_passes)
