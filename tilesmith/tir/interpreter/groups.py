"""Compiles statements to closures over groups of threads.

A closure takes the environments of the active threads and runs the statement for all of them
before the next statement starts, as if there were a barrier between any two statements. Programs
without races give the same result under every order of threads; those before ThreadSync rely on
this order. Code whose threads are independent runs thread by thread (see ``cooperation``).

A closure returns None, or the steps that are left where threads wait for others (see ``strands``);
the launch takes them.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, Dispatcher, IntImm
from tilesmith.support.errors import ExecutionError, UnsupportedError
from tilesmith.tir.expr import IterVar
from tilesmith.tir.interpreter.async_copies import copies_of, hand_on_copies
from tilesmith.tir.interpreter.call_rules import GROUP_CALLS, is_collective
from tilesmith.tir.interpreter.cooperation import (
    ASYNC_ATTRIBUTES,
    Cooperation,
    launched_thread,
    waiting_statements,
)
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.placement import Placement
from tilesmith.tir.interpreter.statements import StatementCompiler
from tilesmith.tir.interpreter.stores import Prepare
from tilesmith.tir.interpreter.strands import Left, Rest, Split, after, drive
from tilesmith.tir.interpreter.threads import fork, sharing_level
from tilesmith.tir.interpreter.values import Environment, Evaluate, RunGroup
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
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from tilesmith.tir.stmt import Evaluate as EvaluateStmt

__all__ = ["GroupCompiler"]

_NOTHING = EvaluateStmt(IntImm("int32", 0))


class GroupCompiler(Dispatcher[RunGroup]):
    """Compiles statements to closures over groups of threads; the compiler for one thread compiles
    code whose threads are independent."""

    def __init__(
        self, statements: StatementCompiler, cooperation: Cooperation, body: Stmt
    ) -> None:  # fmt: skip
        self.statements = statements
        self.expressions = statements.expressions
        self.frame = statements.frame
        self.scope = statements.scope
        self.views = statements.views
        self.cooperation = cooperation
        self.waiting = waiting_statements(body)
        self.scope.waits = bool(self.waiting)
        self.placement = Placement(self.frame, self.views, self.scope.waits)

    def program(self, body: Stmt) -> Evaluate:
        """Return the closure that runs the body of a function, which one thread begins."""
        together = self.visit(body)
        return lambda env: drive(together, [env], len)

    def visit(self, node: Stmt) -> RunGroup:
        """Return the closure that runs a statement for a group of threads."""
        self.scope.span = getattr(node, "span", None)
        if not self._may_run_alone(node):
            return super().visit(node)
        alone = self.statements.visit(node)

        def each(envs: list[Environment]) -> None:
            for env in envs:
                alone(env)

        return each

    def visit_default(self, node: Any) -> RunGroup:
        raise UnsupportedError(
            f"the interpreter does not run {type(node).__name__} for threads that work together",
            span=getattr(node, "span", None),
        )

    def _may_run_alone(self, stmt: Stmt) -> bool:
        """Return whether each thread may run a statement to its end before the next thread
        begins."""
        watched = self.expressions.options.watched
        if self.cooperation.launches(stmt) and (watched or self.scope.local_pointers):
            return False
        if watched and self.cooperation.allocates(stmt):
            return False
        return not self.scope.is_async and self.cooperation.is_private(stmt)

    # Sequences and choices.

    def visit_SeqStmt(self, node: SeqStmt) -> RunGroup:
        parts = [self.visit(stmt) for stmt in node.seq]

        def run(envs: list[Environment]) -> Left:
            for place, part in enumerate(parts, 1):
                left = part(envs)
                if left is not None:
                    return [*left, *parts[place:]]
            return None

        return run

    def _split(
        self, envs: list[Environment], answers: list[Any], yes: list[Any], no: list[Any]
    ) -> Left:
        """Return the step of threads that go two ways, where one way may wait for the other."""
        chosen = [env for env, answer in zip(envs, answers) if answer]
        others = [env for env, answer in zip(envs, answers) if not answer]
        return [Split(envs, [(chosen, yes), (others, no)])]

    def visit_IfThenElse(self, node: IfThenElse) -> RunGroup:
        condition = self.expressions.visit(node.condition)
        then_case = self.visit(node.then_case)
        else_case = None if node.else_case is None else self.visit(node.else_case)
        waits, otherwise = id(node) in self.waiting, [] if else_case is None else [else_case]

        def run(envs: list[Environment]) -> Left:
            envs[0][CONTEXT_SLOT].active = envs
            answers = [condition(env) for env in envs]
            chosen = [env for env, answer in zip(envs, answers) if answer]
            if len(chosen) == len(envs):
                return then_case(envs)
            if not chosen:
                return None if else_case is None else else_case(envs)
            if waits:
                return self._split(envs, answers, [then_case], otherwise)
            then_case(chosen)
            if else_case is not None:
                else_case([env for env, answer in zip(envs, answers) if not answer])
            return None

        return run

    def visit_While(self, node: While) -> RunGroup:
        condition, body = self.expressions.visit(node.condition), self.visit(node.body)
        waits = id(node) in self.waiting

        def run(envs: list[Environment]) -> Left:
            while True:
                envs[0][CONTEXT_SLOT].active = envs
                answers = [condition(env) for env in envs]
                going = [env for env, answer in zip(envs, answers) if answer]
                if not going:
                    return None
                if waits and len(going) < len(envs):
                    return self._split(envs, answers, [body, run], [])
                envs = going
                left = body(envs)
                if left is not None:
                    return [*left, run]

        return run

    def visit_LetStmt(self, node: LetStmt) -> RunGroup:
        slot, value = self.frame.slot(node.var), self.expressions.visit(node.value)
        body, stale = self.visit(node.body), self.views.stale_views(node.var)

        def run(envs: list[Environment]) -> Left:
            envs[0][CONTEXT_SLOT].active = envs
            values = [value(env) for env in envs]
            for env, found in zip(envs, values):
                env[slot] = found
                for view in stale:
                    env[view] = None
            return body(envs)

        return run

    def visit_AssertStmt(self, node: AssertStmt) -> RunGroup:
        check = self.statements.visit(node.with_fields(body=_NOTHING))
        body = self.visit(node.body)

        def run(envs: list[Environment]) -> Left:
            for env in envs:
                check(env)
            return body(envs)

        return run

    def visit_Evaluate(self, node: EvaluateStmt) -> RunGroup:
        call = node.value
        if isinstance(call, Call) and is_collective(call):
            rule = GROUP_CALLS.get(call.op.name)
            if rule is not None:
                return rule(self.expressions, call, node.span)
        alone = self.statements.visit(node)

        def run(envs: list[Environment]) -> None:
            envs[0][CONTEXT_SLOT].active = envs
            for env in envs:
                alone(env)

        return run

    # Loops and launches.

    def visit_For(self, node: For) -> RunGroup:
        low, extent = self.expressions.visit(node.min), self.expressions.visit(node.extent)
        thread = launched_thread(node)
        if thread is not None:
            slots = [self.frame.slot(node.loop_var), self.frame.slot(thread.var)]
            return self._launch(thread, slots, low, extent, node)
        slot, body = self.frame.slot(node.loop_var), self.visit(node.body)
        waits = id(node) in self.waiting

        def run(envs: list[Environment]) -> Left:
            firsts = [low(env) for env in envs]
            counts = [extent(env) for env in envs]
            if all(f == firsts[0] for f in firsts) and all(c == counts[0] for c in counts):
                return even(envs, firsts[0], firsts[0] + counts[0])
            return uneven(envs, 0, {id(env): n for env, n in zip(envs, zip(firsts, counts))})

        def even(envs: list[Environment], begin: int, end: int) -> Left:
            for index in range(begin, end):
                for env in envs:
                    env[slot] = index
                left = body(envs)
                if left is not None:
                    return [*left, Rest(even, index + 1, end)]
            return None

        def uneven(
            envs: list[Environment], step: int, bounds: dict[int, tuple[int, int]]
        ) -> Left:  # fmt: skip
            while True:
                answers = [step < bounds[id(env)][1] for env in envs]
                active = [env for env, answer in zip(envs, answers) if answer]
                if not active:
                    return None
                if waits and len(active) < len(envs):
                    return self._split(envs, answers, [Rest(uneven, step, bounds)], [])
                for env in active:
                    env[slot] = bounds[id(env)][0] + step
                left = body(active)
                step += 1
                if left is not None:
                    return [*left, Rest(uneven, step, bounds)]

        return run

    def visit_AttrStmt(self, node: AttrStmt) -> RunGroup:
        thread = launched_thread(node)
        if thread is not None:
            zero = self.expressions.visit(IntImm("int32", 0))
            return self._launch(
                thread,
                [self.frame.slot(thread.var)],
                zero,
                self.expressions.visit(node.value),
                node,
            )
        if node.attr_key in ASYNC_ATTRIBUTES:
            return self._asynchronous(node)
        if node.attr_key == "reduce_scope":
            self.scope.reducers.append(node.node)
            body = self.visit(node.body)
            self.scope.reducers.pop()
            return body
        return self.visit(node.body)

    def _launch(
        self,
        thread: IterVar,
        slots: list[int],
        low: Evaluate,
        extent: Evaluate,
        node: For | AttrStmt,
    ) -> RunGroup:
        """Compile the launch of threads, or of an axis that is launched around already."""
        tag = self._axis_name(thread)
        self.scope.axis_of[thread.var] = tag
        if isinstance(node, For):
            self.scope.axis_of[node.loop_var] = tag
        if self.scope.launched.get(tag):
            return self._same_axis(tag, slots, low, extent, node)
        self.scope.launched[tag] = True
        body = self.visit(node.body)
        self.scope.launched[tag] = False
        together = self.cooperation.has_global_barrier or not tag.startswith("blockIdx")
        pointers = [] if tag.startswith("blockIdx") else self.scope.local_pointers
        locals_here = [(self.frame.slot(var), self.views.stale_views(var)) for var in pointers]

        def run(envs: list[Environment]) -> None:
            first, count = low(envs[0]), extent(envs[0])
            context = envs[0][CONTEXT_SLOT]
            context.check_launch(tag, count, node)
            steps = [range(count)] if together else [range(i, i + 1) for i in range(count)]
            for indices in steps:
                made = fork(envs, tag, indices, count, slots, locals_here)
                if first:
                    for env in made:
                        for slot in slots:
                            env[slot] += first
                if made:
                    drive(body, made, len)
                    hand_on_copies(envs, made)
            context.launch_ended(tag)

        return run

    def _axis_name(self, thread: IterVar) -> str:
        """Return the name of an axis of threads: its tag, that of virtual threads with the name of
        the variable, since they may be nested.

        The tags "vthread" and "cthread" of classic schedules are those of several axes at a time.
        """
        tag = thread.thread_tag or "vthread"
        if tag.startswith(("threadIdx", "blockIdx")):
            return tag
        name = f"{tag}:{thread.var.name}"
        if tag in ("vthread", "cthread"):
            axes = {
                one: axis
                for one, axis in self.scope.axis_of.items()
                if self.scope.launched.get(axis) and (axis == name or axis.startswith(name + ":"))
            }
            if thread.var in axes:
                return axes[thread.var]
            if axes:
                return f"{name}:{len(axes)}"
        return name

    def _same_axis(
        self, tag: str, slots: list[int], low: Evaluate, extent: Evaluate, node: For | AttrStmt
    ) -> RunGroup:
        body = self.visit(node.body)

        def run(envs: list[Environment]) -> Left:
            for env in envs:
                index, count = env[THREAD_SLOT].axes[tag]
                if extent(env) != count:
                    raise ExecutionError(
                        f"{tag} has {count} threads, a loop inside wants {extent(env)}",
                        span=node.span,
                    )
                for slot in slots:
                    env[slot] = low(env) + index
            return body(envs)

        return run

    # Memory.

    def visit_Allocate(self, node: Allocate) -> RunGroup:
        level = sharing_level(node.buffer_var.storage_scope)
        dtype = node.dtype
        extents = [self.expressions.visit(extent) for extent in node.extents]
        if level == "thread":
            self.scope.local_pointers.append(node.buffer_var)
        body = self.visit(node.body)
        if level == "thread":
            self.scope.local_pointers.pop()

        def size(env: Environment) -> int:
            count = 1
            for extent in extents:
                count *= extent(env)
            return count

        place = self.placement.pointer(node.buffer_var, dtype, size)

        def run(envs: list[Environment]) -> Left:
            place(envs)
            return body(envs)

        return run

    def visit_DeclBuffer(self, node: DeclBuffer) -> RunGroup:
        self.views.binder(node.buffer)
        slot, body = self.frame.slot(node.buffer), self.visit(node.body)

        def run(envs: list[Environment]) -> Left:
            for env in envs:
                env[slot] = None
            return body(envs)

        return run

    def visit_AllocateConst(self, node: AllocateConst) -> RunGroup:
        # The constant is the same for all: bound first, then the body runs.
        bind = self.statements.visit(node.with_fields(body=_NOTHING))
        body = self.visit(node.body)
        stale = self.views.stale_views(node.buffer_var)

        def run(envs: list[Environment]) -> Left:
            for env in envs:
                bind(env)
                for view in stale:
                    env[view] = None
            return body(envs)

        return run

    def visit_BufferRealize(self, node: BufferRealize) -> RunGroup:
        place, body = self.placement.buffer(node.buffer), self.visit(node.body)

        def run(envs: list[Environment]) -> Left:
            place(envs)
            return body(envs)

        return run

    # Blocks.

    def visit_BlockRealize(self, node: BlockRealize) -> RunGroup:
        slots = [self.frame.slot(iterator.var) for iterator in node.block.iter_vars]
        binding = list(zip(slots, [self.expressions.visit(value) for value in node.iter_values]))
        predicate = self.expressions.visit(node.predicate)
        body, waits = self.visit(node.block), id(node) in self.waiting

        def run(envs: list[Environment]) -> Left:
            answers = []
            for env in envs:
                for slot, value in binding:
                    env[slot] = value(env)
                answers.append(predicate(env))
            chosen = [env for env, answer in zip(envs, answers) if answer]
            if waits and chosen and len(chosen) < len(envs):
                return self._split(envs, answers, [body], [])
            return body(chosen) if chosen else None

        return run

    def visit_Block(self, node: Block) -> RunGroup:
        own = [
            buffer.data
            for buffer in node.alloc_buffers
            if sharing_level(buffer.data.storage_scope) == "thread"
        ]
        matches = [self.views.match(match) for match in node.match_buffers]
        self.scope.local_pointers += own
        init = None if node.init is None else self.statements.guarded_init(node)
        body = self.visit(node.body)
        del self.scope.local_pointers[len(self.scope.local_pointers) - len(own) :]
        placers = [self.placement.buffer(buffer) for buffer in node.alloc_buffers]

        def run(envs: list[Environment]) -> Left:
            for place in placers:
                place(envs)
            for env in envs:
                for match in matches:
                    match(env)
                if init is not None:
                    init(env)
            return body(envs)

        return run

    # Stores.

    def visit_BufferStore(self, node: BufferStore) -> RunGroup:
        prepare = self.expressions.stores.prepared(node)
        if self.scope.is_async:
            return _deferred(prepare)

        def run(envs: list[Environment]) -> None:
            envs[0][CONTEXT_SLOT].active = envs
            for store in [prepare(env) for env in envs]:
                store()

        return run

    def _asynchronous(self, node: AttrStmt) -> RunGroup:
        """Compile ``async_scope``, ``async_commit_queue_scope`` and ``async_wait_queue_scope``."""
        if node.attr_key == "async_scope":
            outer, self.scope.is_async = self.scope.is_async, True
            body = self.visit(node.body)
            self.scope.is_async = outer
            return body
        queue = self.expressions.visit(node.value)
        if node.attr_key == "async_commit_queue_scope":
            body = self.visit(node.body)

            def close(envs: list[Environment]) -> None:
                for env in envs:
                    copies_of(env).commit(queue(env))

            def commit(envs: list[Environment]) -> Left:
                return after(body(envs), close, envs)

            return commit
        inner = node.body
        if not isinstance(inner, AttrStmt) or inner.attr_key != "async_wait_inflight_count":
            raise UnsupportedError(
                "async_wait_queue_scope needs async_wait_inflight_count right inside",
                span=node.span,
            )
        pending, rest = self.expressions.visit(inner.value), self.visit(inner.body)

        def wait(envs: list[Environment]) -> Left:
            for env in envs:
                copies_of(env).wait(queue(env), pending(env))
            return rest(envs)

        return wait


def _deferred(prepare: Prepare) -> RunGroup:
    """Return a store that is carried out when the program waits for it."""

    def run(envs: list[Environment]) -> None:
        envs[0][CONTEXT_SLOT].active = envs
        for env, store in [(env, prepare(env, True)) for env in envs]:
            copies_of(env).open.append(store)

    return run
