"""Compiles statements to closures for one thread; each runs on an environment and returns None."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import Dispatcher, IntImm, PrimExpr, Var
from tilesmith.support.errors import ExecutionError, UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import IterVar, IterVarType
from tilesmith.tir.interpreter.expressions import ExpressionCompiler
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT
from tilesmith.tir.interpreter.raised import raised_error
from tilesmith.tir.interpreter.threads import THREAD_ATTRIBUTES
from tilesmith.tir.interpreter.values import (
    Environment,
    Evaluate,
    allocate,
    as_array,
    pointer_to,
)  # fmt: skip
from tilesmith.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Prefetch,
    SeqStmt,
    Stmt,
    While,
)  # fmt: skip
from tilesmith.tir.stmt import (
    Evaluate as EvaluateStmt,
)

__all__ = ["StatementCompiler"]


class StatementCompiler(Dispatcher[Evaluate]):
    """Compiles statements to closures, with the parts of the compiler of expressions."""

    def __init__(self, expressions: ExpressionCompiler) -> None:
        self.expressions = expressions
        self.frame = expressions.frame
        self.scope = expressions.scope
        self.views = expressions.views

    def visit(self, node: Any) -> Evaluate:
        """Compile a statement."""
        self.scope.span = node.span
        return super().visit(node)

    def visit_default(self, node: Any) -> Evaluate:
        raise UnsupportedError(
            f"the interpreter does not run {type(node).__name__}", span=getattr(node, "span", None)
        )

    # Sequences and choices.

    def visit_SeqStmt(self, node: SeqStmt) -> Evaluate:
        parts = [self.visit(stmt) for stmt in node.seq]

        def run(env: Environment) -> None:
            for part in parts:
                part(env)

        return run

    def visit_Evaluate(self, node: EvaluateStmt) -> Evaluate:
        if isinstance(node.value, (IntImm, Var)):
            return lambda env: None
        return self.expressions.visit(node.value)

    def visit_IfThenElse(self, node: IfThenElse) -> Evaluate:
        condition, then_case = self.expressions.visit(node.condition), self.visit(node.then_case)
        if node.else_case is None:

            def run(env: Environment) -> None:
                if condition(env):
                    then_case(env)

            return run
        else_case = self.visit(node.else_case)

        def choose(env: Environment) -> None:
            if condition(env):
                then_case(env)
            else:
                else_case(env)

        return choose

    def visit_While(self, node: While) -> Evaluate:
        condition, body = self.expressions.visit(node.condition), self.visit(node.body)

        def run(env: Environment) -> None:
            while condition(env):
                body(env)

        return run

    def visit_AssertStmt(self, node: AssertStmt) -> Evaluate:
        condition, message = (
            self.expressions.visit(node.condition),
            self.expressions.visit(node.message),
        )
        body, span = self.visit(node.body), node.span

        def run(env: Environment) -> None:
            if not condition(env):
                raise raised_error(message(env), span)
            body(env)

        return run

    def visit_LetStmt(self, node: LetStmt) -> Evaluate:
        slot, value = self.frame.slot(node.var), self.expressions.visit(node.value)
        body, stale = self.visit(node.body), self.views.stale_views(node.var)

        def run(env: Environment) -> None:
            env[slot] = value(env)
            for view in stale:
                env[view] = None
            body(env)

        return run

    # Loops.

    def visit_For(self, node: For) -> Evaluate:
        low, extent = self.expressions.visit(node.min), self.expressions.visit(node.extent)
        slots = [self.frame.slot(node.loop_var)]
        thread = node.thread_binding
        if node.kind is ForKind.THREAD_BINDING and thread is not None:
            slots.append(self.frame.slot(thread.var))
            return self.thread_loop(slots, low, extent, thread, node.body)
        slot, body = slots[0], self.visit(node.body)

        def run(env: Environment) -> None:
            first = low(env)
            for index in range(first, first + extent(env)):
                env[slot] = index
                body(env)

        return run

    def thread_loop(
        self, slots: list[int], low: Evaluate, extent: Evaluate, thread: IterVar, body: Stmt
    ) -> Evaluate:
        """Return a closure that runs threads one after the other, which is correct if they do not
        wait for each other.
        """
        outer, self.scope.threads = self.scope.threads, {*self.scope.threads, thread.var}
        inside = self.visit(body)
        self.scope.threads = outer

        def run(env: Environment) -> None:
            first = low(env)
            for index in range(first, first + extent(env)):
                for slot in slots:
                    env[slot] = index
                inside(env)

        return run

    def visit_AttrStmt(self, node: AttrStmt) -> Evaluate:
        thread = node.node
        if node.attr_key not in THREAD_ATTRIBUTES or not isinstance(thread, IterVar):
            return self.visit(node.body)
        if thread.var in self.scope.threads:
            return self.visit(node.body)
        zero = self.expressions.visit(IntImm("int32", 0))
        return self.thread_loop(
            [self.frame.slot(thread.var)],
            zero,
            self.expressions.visit(node.value),
            thread,
            node.body,
        )

    # Memory.

    def visit_Allocate(self, node: Allocate) -> Evaluate:
        slot, dtype = self.frame.slot(node.buffer_var), node.dtype
        extents = [self.expressions.visit(extent) for extent in node.extents]
        body = self.visit(node.body)
        stale = self.views.stale_views(node.buffer_var)

        def run(env: Environment) -> None:
            count = 1
            for extent in extents:
                count *= extent(env)
            env[slot] = allocate(dtype, count)
            for view in stale:
                env[view] = None
            body(env)

        return run

    def visit_AllocateConst(self, node: AllocateConst) -> Evaluate:
        slot, body = self.frame.slot(node.buffer_var), self.visit(node.body)
        stale, contents = self.views.stale_views(node.buffer_var), node.data_or_idx
        name = node.buffer_var.name

        def run(env: Environment) -> None:
            if isinstance(contents, int):
                constants = env[CONTEXT_SLOT].constants
                if constants is None:
                    raise ExecutionError(
                        f"constant '{name}' is number {contents} of the module's attribute "
                        "'constants', which the function alone does not have",
                        notes=("run the module instead of the function",),
                    )
                array = as_array(constants[contents])
            else:
                array = as_array(contents)
            env[slot] = pointer_to(numpy.ascontiguousarray(array).copy())
            for view in stale:
                env[view] = None
            body(env)

        return run

    def visit_DeclBuffer(self, node: DeclBuffer) -> Evaluate:
        self.views.binder(node.buffer)
        slot, body = self.frame.slot(node.buffer), self.visit(node.body)

        def run(env: Environment) -> None:
            env[slot] = None
            body(env)

        return run

    def visit_BufferRealize(self, node: BufferRealize) -> Evaluate:
        make, body = self.allocation(node.buffer), self.visit(node.body)

        def run(env: Environment) -> None:
            make(env)
            body(env)

        return run

    def allocation(self, buffer: Buffer) -> Evaluate:
        """Return a closure that allocates memory for a buffer."""
        slot, data_slot = self.frame.slot(buffer), self.frame.slot(buffer.data)
        count = self.views.element_count(buffer)

        def make(env: Environment) -> None:
            env[data_slot] = allocate(buffer.dtype, count(env))
            env[slot] = None

        return make

    def visit_Prefetch(self, node: Prefetch) -> Evaluate:
        return lambda env: None

    def visit_BufferStore(self, node: BufferStore) -> Evaluate:
        return self.expressions.stores.store(node)

    # Blocks.

    def visit_BlockRealize(self, node: BlockRealize) -> Evaluate:
        block = node.block
        slots = [self.frame.slot(iterator.var) for iterator in block.iter_vars]
        values = [self.expressions.visit(value) for value in node.iter_values]
        binding = list(zip(slots, values))
        predicate = None if _is_true(node.predicate) else self.expressions.visit(node.predicate)
        body = self.visit(block)

        def run(env: Environment) -> None:
            for slot, value in binding:
                env[slot] = value(env)
            if predicate is None or predicate(env):
                body(env)

        return run

    def visit_Block(self, node: Block) -> Evaluate:
        makers = [self.allocation(buffer) for buffer in node.alloc_buffers]
        makers += [self.views.match(match) for match in node.match_buffers]
        init = None if node.init is None else self.guarded_init(node)
        body = self.visit(node.body)
        if not makers and init is None:
            return body

        def run(env: Environment) -> None:
            for make in makers:
                make(env)
            if init is not None:
                init(env)
            body(env)

        return run

    def guarded_init(self, node: Block) -> Evaluate:
        """Return a closure that runs ``init`` if all reduction iterators are at their first
        value."""
        assert node.init is not None
        init = self.visit(node.init)
        firsts = [
            (self.frame.slot(iterator.var), self.expressions.visit(iterator.dom.min))
            for iterator in node.iter_vars
            if iterator.iter_type == IterVarType.CommReduce and iterator.dom is not None
        ]

        def run(env: Environment) -> None:
            for slot, first in firsts:
                if env[slot] != first(env):
                    return
            init(env)

        return run


def _is_true(expr: PrimExpr) -> bool:
    return isinstance(expr, IntImm) and bool(expr.value)
