"""Forwards stored values to later loads.

    for i in range(16):                         for i in range(16):
        A[i] = i * 2                                A[i] = i * 2
    for i in range(16):                         for i in range(16):
        if A[i] < 32:                               B[i] = i * 2
            B[i] = A[i]

It tracks integers that are formulas of the indices, and constants: what is stored, and what
``T.assume`` or the condition of a branch states about elements. A later store takes its elements
out of what is known. A thread, or an iteration of a parallel or vectorized loop, knows nothing of
memory that others write at the same time; a call may write all memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilesmith.ir import (
    EQ,
    Broadcast,
    Call,
    FloatImm,
    IntImm,
    Or,
    PrimExpr,
    Ramp,
    Range,
    Rewriter,
    Var,
    const,
)
from tilesmith.ir.queries import is_call, walk
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import reads_memory
from tilesmith.tir.stmt import (
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    stmt_seq,
)
from tilesmith.tir.transform.scoped import ScopedAnalyzer
from tilesmith.tir.transform.simplification.buffer_elements import (
    Elements,
    conditions_of,
    negated,
)
from tilesmith.tir.transform.simplification.touched_elements import (
    bound,
    each,
    has_pointer_names,
    is_of_threads,
    may_write,
    stored_buffers,
    under,
    written_elements,
    written_pointers,
)

__all__ = ["IN_TURN", "ValueFollower", "has_other_names", "with_known_values"]

_MOST_SETS = 32  # known at a time; the oldest are forgotten
_LONGEST_VALUE = 16  # nodes of a formula that is put in place of a load
IN_TURN = (ForKind.SERIAL, ForKind.UNROLLED)
"""Loops of other kinds run several iterations at the same time."""


class ValueFollower(ScopedAnalyzer, Rewriter):
    """Tracks known elements. ``everywhere``: loads of them become their values in all expressions;
    else only in conditions that this decides.

    ``outer``: what was known before the present loop, branch or block; ``made``: what became known
    inside of it.
    """

    def __init__(self, everywhere: bool, conditions: bool) -> None:
        super().__init__()
        self.everywhere = everywhere
        self.conditions = conditions
        self.outer: list[Elements] = []
        self.made: list[Elements] = []
        self.together = False  # among threads, or iterations that run at the same time

    # -- expressions

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        new = load.map_children(self.visit)
        if load.predicate is None and not any(reads_memory(index) for index in new.indices):
            for elements in (*reversed(self.made), *reversed(self.outer)):
                if elements.buffer is load.buffer:
                    value = elements.value_at(new.indices, self.analyzer)
                    if value is not None:
                        return value
        return new

    def visit_Call(self, call: Call) -> PrimExpr:
        """Visit a call; the address of an element stays one, and the values of a lazy choice are
        known under its condition."""
        if is_call(call, "tir.address_of"):
            return call
        if not is_call(call, "tir.if_then_else"):
            return self.children(call)
        condition = self.condition(call.args[0])
        if isinstance(condition, IntImm):
            return self.visit(call.args[1] if condition.value else call.args[2])
        yes = self.visit_under(condition, call.args[1])
        no = self.visit_under(negated(condition), call.args[2])
        if condition is call.args[0] and yes is call.args[1] and no is call.args[2]:
            return call
        return Call(call.dtype, call.op, (condition, yes, no))

    def value(self, expr: PrimExpr) -> PrimExpr:
        return self.visit(expr) if self.everywhere else expr

    def condition(self, expr: PrimExpr) -> PrimExpr:
        if not reads_memory(expr):
            return expr
        new = self.visit(expr)
        if new is expr:
            return expr
        simple = self.analyzer.simplify(new)
        if isinstance(simple, IntImm):
            return simple
        return new if self.everywhere else expr

    # -- what is known

    def know(self, elements: Elements) -> None:
        """Record elements whose value is a constant or a short formula."""
        if self.together and elements.buffer.scope() != "local":
            return
        if elements.value is not None and elements.indices is not None:
            if _is_formula(elements.value):
                self.made.append(elements)
                del self.made[:-_MOST_SETS]

    def forget_after(self, *expressions: PrimExpr) -> None:
        """Drop everything where evaluating one of the expressions may write memory."""
        if any(may_write(expr) for expr in expressions):
            self.forget({None})

    def without(self, sets: list[Elements], written: Sequence[Elements]) -> list[Elements]:
        for part in written:
            rest = [elements.without(part, self.analyzer) for elements in sets]
            sets = [elements for elements in rest if elements is not None]
        return sets

    def forget(self, written: set[Var | None]) -> None:
        """Drop elements whose memory may have been written."""
        for name in ("outer", "made"):
            kept = [e for e in getattr(self, name) if not {None, e.buffer.data} & written]
            setattr(self, name, kept)

    def inside(self, stmt: Stmt, before: list[Elements]) -> tuple[Stmt, list[Elements]]:
        """Visit a part of the program; ``before`` is known where it begins. Return it and what
        becomes known in it."""
        saved = self.outer, self.made
        self.outer, self.made = before[-_MOST_SETS:], []
        new = self.visit(stmt)
        made = self.made
        self.outer, self.made = saved
        return new, made

    def alone(self, stmt: Stmt, before: list[Elements]) -> Stmt:
        """Visit a part of the program of which nothing is known afterwards that it writes."""
        return self.inside(stmt, before)[0]

    def leave(self, written: Sequence[Elements], made: Sequence[Elements]) -> None:
        """Go on after a part of the program."""
        self.outer = self.without(self.outer, written)
        self.made = self.without(self.made, written)
        for elements in made:
            self.know(elements)

    @property
    def known(self) -> list[Elements]:
        return [*self.outer, *self.made]

    # -- statements

    def visit_SeqStmt(self, sequence: SeqStmt) -> Stmt:
        parts = [self.visit(stmt) for stmt in sequence.seq]
        if all(a is b for a, b in zip(parts, sequence.seq)):
            return sequence
        return stmt_seq(*parts, span=sequence.span)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        indices = tuple([self.value(index) for index in store.indices])
        value = self.value(store.value)
        new = store
        if value is not store.value or any(a is not b for a, b in zip(indices, store.indices)):
            new = BufferStore(store.buffer, value, indices, store.predicate, store.span)
        held = value if self.everywhere else self.visit(value)
        self.forget_after(*indices, value)
        self.leave([Elements.of_access(new.buffer, indices)], [])
        if new.predicate is None:
            self.know(Elements.of_access(new.buffer, indices, held))
        return new

    def visit_Evaluate(self, evaluation: Evaluate) -> Stmt:
        call = evaluation.value
        if is_call(call, "tir.assume"):
            self.assume(call.args[0])
            return evaluation
        if None in written_pointers(evaluation):
            self.forget({None})
            return evaluation
        value = self.value(call)
        return evaluation if value is call else evaluation.with_fields(value=value)

    def assume(self, condition: PrimExpr) -> None:
        """Record ``A[i] == value``, also as ``excluded or A[i] == value``."""
        otherwise: list[PrimExpr] = []
        while isinstance(condition, Or):
            memory = [reads_memory(part) for part in (condition.a, condition.b)]
            if all(memory):
                return
            otherwise.append(negated(condition.b if memory[0] else condition.a))
            condition = condition.a if memory[0] else condition.b
        parts = conditions_of(condition)
        if parts is not None or not isinstance(condition, EQ):
            return
        for load, value in ((condition.a, condition.b), (condition.b, condition.a)):
            if isinstance(load, BufferLoad) and load.predicate is None:
                stated = Elements.of_access(load.buffer, load.indices, value)
                for elements in each([stated], lambda e: e.where(otherwise)):
                    self.know(elements)

    def visit_For(self, loop: For) -> Stmt:
        low, extent = self.value(loop.min), self.value(loop.extent)
        self.forget_after(low, extent)
        written, var = written_elements(loop.body), loop.loop_var
        everything = each(written, lambda e: e.over(var, low, extent))
        calls_write = None in written_pointers(loop.body)
        if calls_write:
            self.forget({None})
        outside = self.together
        if loop.kind in IN_TURN:
            earlier = each(written, lambda e: e.over(var, low, var - low))
            later = each(written, lambda e: e.over(var, var + 1, low + extent - var - 1))
            self.bind_loop(loop)
            body, made = self.inside(loop.body, self.without(self.known, earlier))
            self.bind_loop(loop)  # another loop may have the same variable
            # what one iteration makes known, a call in the next may overwrite
            made = [] if calls_write else self.without(made, later)
            made = each(made, lambda e: e.over(var, low, extent))
        else:
            self.together = True
            self.bind_loop(loop)
            body = self.alone(loop.body, self.without(self.known, stored_buffers(loop.body)))
            made = []
        self.together = outside
        self.leave(everything, made)
        if body is loop.body and low is loop.min and extent is loop.extent:
            return loop
        return loop.with_fields(min=low, extent=extent, body=body)

    def bind_loop(self, loop: For) -> None:
        self.analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))

    def visit_While(self, loop: While) -> Stmt:
        self.forget(written_pointers(loop))
        body = self.alone(loop.body, self.known)
        return loop if body is loop.body else loop.with_fields(body=body)

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        condition = self.condition(branch.condition)
        if isinstance(condition, IntImm):
            taken = branch.then_case if condition.value else branch.else_case
            return Evaluate(const(0, "int32")) if taken is None else self.visit(taken)
        self.forget_after(branch.condition)
        written: list[Elements] = []
        made: list[Elements] = []
        cases: list[Stmt | None] = []
        opposite = negated(branch.condition)
        for held, case in ((branch.condition, branch.then_case), (opposite, branch.else_case)):
            if case is None:
                cases.append(None)
                continue
            with self.analyzer.constraint_scope(held):
                saved, self.made = self.made, []
                self.assume(held)
                stated, self.made = self.made, saved
                new, found = self.inside(case, [*self.known, *stated])
            cases.append(new)
            if None in written_pointers(case):
                self.forget({None})
            written += under(written_elements(case), held)
            made += under(found, held)
        self.leave(written, made)
        if (
            condition is branch.condition
            and cases[0] is branch.then_case
            and cases[1] is branch.else_case
        ):
            return branch
        return IfThenElse(condition, cases[0], cases[1], branch.span)

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        value = self.value(let.value)
        self.forget_after(value)
        if let.var.dtype.is_integer and let.var.dtype.lanes == 1:
            self.analyzer.update(let.var, self.analyzer.const_int_bound(value))
        body = self.visit(let.body)
        self.outer = each(self.outer, lambda e: e.replaced(let.var, value))
        self.made = each(self.made, lambda e: e.replaced(let.var, value))
        if value is let.value and body is let.body:
            return let
        return LetStmt(let.var, value, body, let.span)

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        if attribute.attr_key == "volatile_scope":  # devices read and write it at any time
            self.forget({None})
            return attribute
        if not is_of_threads(attribute):
            self.forget_after(attribute.value)
            return super().visit_AttrStmt(attribute)
        self.forget(written_pointers(attribute))
        outside, self.together = self.together, True
        saved = self.known
        new = super().visit_AttrStmt(attribute)
        self.together = outside
        self.outer, self.made = saved, []
        return new

    def visit_AssertStmt(self, check: AssertStmt) -> Stmt:
        self.forget_after(check.condition)
        return self.children(check)

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        block = realize.block
        if block.match_buffers:  # views of memory that has another name outside
            self.forget({None})
            return realize
        written = written_elements(realize)
        starts: list[Elements] = [] if block.init is None else stored_buffers(block)
        saved = self.known
        self.outer, self.made = self.without(saved, starts), []
        if None in written_pointers(realize):
            self.forget({None})
            saved = []
        new = super().visit_BlockRealize(realize)
        made = [] if block.init is not None else self.made
        self.outer, self.made = saved, []
        self.leave(written, bound(under(made, realize.predicate), realize))
        return new

    def visit_Block(self, block: Block) -> Block:
        init = None if block.init is None else self.alone(block.init, self.known)
        body = self.visit(block.body)
        if init is block.init and body is block.body:
            return block
        return block.with_fields(init=init, body=body)


def _is_formula(value: PrimExpr) -> bool:
    if isinstance(value, (IntImm, FloatImm)):
        return True
    if not value.dtype.is_integer:
        return isinstance(value, Broadcast) and isinstance(value.value, FloatImm)
    found = list(walk(value))
    return len(found) <= _LONGEST_VALUE and not any(
        isinstance(node, (BufferLoad, Call, Ramp)) for node in found
    )


def has_other_names(func: PrimFunc) -> bool:
    """Return whether memory may have names that its buffer does not tell."""
    if not func.attrs.get("tir.noalias", True):
        return True
    return has_pointer_names(func)


def with_known_values(func: PrimFunc, everywhere: bool, conditions: bool) -> PrimFunc:
    """Return ``func`` with values in place of loads of elements that are known to hold them.

    ``everywhere``: in all expressions. ``conditions``: in conditions that become constant.
    """
    if has_other_names(func):
        return func
    return func.with_body(ValueFollower(everywhere, conditions).visit(func.body))
