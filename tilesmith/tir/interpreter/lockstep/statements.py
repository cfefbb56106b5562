"""Compiles statements for all active threads of a block at once.

A branch on what differs between threads runs with the threads that take it; a loop whose length
differs goes on with those that are left.

A closure returns None, or the steps that are left where threads wait for others (see ``strands``);
the kernel takes them.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import Call, Dispatcher, GlobalVar, IntImm, PrimExpr, Var
from tilesmith.ir.queries import called_name
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, IterVar, IterVarType
from tilesmith.tir.interpreter.cooperation import (
    ASYNC_ATTRIBUTES,
    launched_thread,
    waiting_statements,
)
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.lockstep import kernels
from tilesmith.tir.interpreter.lockstep.copies import BlockCopies
from tilesmith.tir.interpreter.lockstep.expressions import LockstepExpressions, describe
from tilesmith.tir.interpreter.lockstep.masks import masked_store
from tilesmith.tir.interpreter.lockstep.memory import Memory
from tilesmith.tir.interpreter.lockstep.observers import Launch
from tilesmith.tir.interpreter.lockstep.operations import operations_of
from tilesmith.tir.interpreter.lockstep.rules import STATEMENT_RULES
from tilesmith.tir.interpreter.lockstep.state import Group, LockstepOptions, State
from tilesmith.tir.interpreter.strands import Left, Rest, Split, Step, after, drive
from tilesmith.tir.interpreter.values import Environment, Evaluate, as_array
from tilesmith.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
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

__all__ = ["LockstepStatements"]

Run = Step


class LockstepStatements(Dispatcher[Run]):
    """Compiles statements; ``granules`` are the bytes of a record by pointer."""

    def __init__(
        self, expressions: LockstepExpressions, options: LockstepOptions, name: str,
        granules: dict[Var, int],
    ) -> None:  # fmt: skip
        self.expressions = expressions
        self.frame = expressions.frame
        self.options = options
        self.name = name
        self.granules = granules
        self.kernels = 0
        self.in_kernel = False
        self.is_async = False
        self.outside: list[Run] = []  # allocations around kernels that belong to their blocks
        self.cut: set[int] = set()
        self.waiting: set[int] = set()  # statements of the kernel in which threads wait for others

    def visit(self, node: Stmt) -> Run:
        """Return the closure that runs a statement."""
        outer, self.expressions.statement = self.expressions.statement, node
        found = super().visit(node)
        self.expressions.statement = outer
        return found

    def visit_default(self, node: Any) -> Run:
        raise UnsupportedError(
            f"threads in lockstep do not run {type(node).__name__}",
            span=getattr(node, "span", None),
        )

    def visit_SeqStmt(self, node: SeqStmt) -> Run:
        parts = [self.visit(stmt) for stmt in node.seq]

        def run(env: Environment) -> Left:
            for place, part in enumerate(parts, 1):
                left = part(env)
                if left is not None:
                    return [*left, *parts[place:]]
            return None

        return run

    # Branches.

    def visit_IfThenElse(self, node: IfThenElse) -> Run:
        condition = self.expressions.visit(node.condition)
        then_case = self.visit(node.then_case)
        else_case = None if node.else_case is None else self.visit(node.else_case)
        if not self.expressions.differs(node.condition):

            def choose(env: Environment) -> Left:
                if condition(env):
                    return then_case(env)
                return None if else_case is None else else_case(env)

            return choose
        return self._divergent(node, condition, then_case, else_case)

    def _divergent(
        self, node: Any, condition: Evaluate, then_case: Run, else_case: Run | None
    ) -> Run:
        narrow = self.expressions.narrowed()
        text = f"if {describe(node.condition)}" if hasattr(node, "condition") else "block predicate"
        site = self.expressions.site("branch", "if", "", getattr(node, "span", None), text)
        waits, otherwise = id(node) in self.waiting, [] if else_case is None else [else_case]

        def branch(env: Environment) -> Left:
            answers = condition(env)
            state: State = env[CONTEXT_SLOT]
            if state.launch is not None:
                for observer in state.observers:
                    observer.branched(site, answers, env[THREAD_SLOT].warps_of, state.weight)
            if answers.all():
                return then_case(env)
            if not answers.any():
                return None if else_case is None else else_case(env)
            chosen = narrow(env, numpy.flatnonzero(answers))
            others = narrow(env, numpy.flatnonzero(~answers)) if waits or otherwise else None
            if waits:
                return [Split(env, [(chosen, [then_case]), (others, otherwise)])]
            then_case(chosen)
            return None if else_case is None else else_case(others)

        return branch

    def visit_While(self, node: While) -> Run:
        condition, body = self.expressions.visit(node.condition), self.visit(node.body)
        if not self.expressions.differs(node.condition):

            def repeat(env: Environment) -> Left:
                while condition(env):
                    left = body(env)
                    if left is not None:
                        return [*left, repeat]
                return None

            return repeat
        narrow, waits = self.expressions.narrowed(), id(node) in self.waiting

        def run(env: Environment) -> Left:
            while True:
                answers = condition(env)
                if not answers.any():
                    return None
                if not answers.all():
                    going = narrow(env, numpy.flatnonzero(answers))
                    if waits:
                        others = narrow(env, numpy.flatnonzero(~answers))
                        return [Split(env, [(going, [body, run]), (others, [])])]
                    env = going
                left = body(env)
                if left is not None:
                    return [*left, run]

        return run

    def visit_LetStmt(self, node: LetStmt) -> Run:
        differs = self.expressions.differs(node.value)
        if node.var.dtype.is_handle:
            raise UnsupportedError("threads in lockstep do not bind pointers", span=node.span)
        value = self.expressions.visit(node.value)
        slot = self.expressions.bind(node.var, differs)
        body = self.visit(node.body)
        self.expressions.unbind(node.var, differs)

        def run(env: Environment) -> Left:
            found = value(env)
            env[slot] = found.copy() if isinstance(found, numpy.ndarray) else found
            return body(env)

        return run

    def visit_AssertStmt(self, node: AssertStmt) -> Run:
        return self.visit(node.body)

    # Loops and launches.

    def visit_For(self, node: For) -> Run:
        thread = launched_thread(node)
        if thread is not None:
            return self._launch(node, thread, [node.loop_var, thread.var], node.min)
        differs = self.expressions.differs(node.min) or self.expressions.differs(node.extent)
        if differs:
            return self._uneven(node)
        low, extent = self.expressions.visit(node.min), self.expressions.visit(node.extent)
        self.expressions.loops.append(node.loop_var.name)
        slot = self.expressions.bind(node.loop_var, False)
        body = self.visit(node.body)
        self.expressions.loops.pop()
        if id(node) not in self.cut:

            def run(env: Environment) -> Left:
                first = low(env)
                return go_on(env, first, first + extent(env))

            def go_on(env: Environment, begin: int, end: int) -> Left:
                for index in range(begin, end):
                    env[slot] = index
                    left = body(env)
                    if left is not None:
                        return [*left, Rest(go_on, index + 1, end)]
                return None

            return run

        def run_some(env: Environment) -> None:
            first, state = low(env), env[CONTEXT_SLOT]
            outer = state.weight
            for index, weight in kernels.iterations(extent(env), True):
                state.weight = outer * weight
                env[slot] = first + index
                body(env)
            state.weight = outer

        return run_some

    def _uneven(self, node: For) -> Run:
        """Compile a loop whose bounds differ between threads."""
        low, extent = self.expressions.array(node.min), self.expressions.array(node.extent)
        narrow_outside, waits = self.expressions.narrowed(), id(node) in self.waiting
        self.expressions.loops.append(node.loop_var.name)
        slot = self.expressions.bind(node.loop_var, True)
        body = self.visit(node.body)
        self.expressions.unbind(node.loop_var, True)
        self.expressions.loops.pop()

        def run(env: Environment) -> Left:
            group: Group = env[THREAD_SLOT]
            bounds = numpy.zeros((2, int(group.ids.max()) + 1), numpy.int64)
            bounds[:, group.ids] = low(env), extent(env)
            return go_on(env, 0, _Bounds(*bounds))

        def go_on(env: Environment, step: int, bounds: _Bounds) -> Left:
            while True:
                going = bounds.counts[env[THREAD_SLOT].ids] > step
                if not going.any():
                    return None
                if not going.all():
                    chosen = narrow_outside(env, numpy.flatnonzero(going))
                    if waits:
                        others = narrow_outside(env, numpy.flatnonzero(~going))
                        rest = Rest(go_on, step, bounds)
                        return [Split(env, [(chosen, [rest]), (others, [])])]
                    env = chosen
                env[slot] = bounds.firsts[env[THREAD_SLOT].ids] + step
                left = body(env)
                step += 1
                if left is not None:
                    return [*left, Rest(go_on, step, bounds)]

        return run

    def visit_AttrStmt(self, node: AttrStmt) -> Run:
        thread = launched_thread(node)
        if thread is not None:
            return self._launch(node, thread, [thread.var], IntImm("int32", 0))
        if node.attr_key in ASYNC_ATTRIBUTES:
            return self._asynchronous(node)
        return self.visit(node.body)

    def _launch(
        self, node: For | AttrStmt, thread: IterVar, names: list[Var], low: PrimExpr
    ) -> Run:
        """Compile a launch: the outermost one starts a kernel, those inside bind an axis."""
        if not self.in_kernel:
            return self._kernel(node)
        tag, differs = thread.thread_tag, thread.thread_tag.startswith("threadIdx")
        first = self.expressions.number(low)
        slots = [self.expressions.bind(var, differs) for var in names]
        body = self.visit(node.body)
        for var in names:
            self.expressions.unbind(var, differs)
        axis = kernels.AXES.index(tag[-1])

        def run(env: Environment) -> Left:
            state: State = env[CONTEXT_SLOT]
            if differs:
                group: Group = env[THREAD_SLOT]
                index = state.coordinates[tag][group.ids]
            else:
                index = state.block[axis]
            for slot in slots:
                env[slot] = index + first(env)
            return body(env)

        return run

    def _kernel(self, node: For | AttrStmt) -> Run:
        """Compile a kernel: its chosen blocks run one after the other."""
        axes = kernels.launch_axes(node)
        extents = {tag: self.expressions.number(extent) for tag, extent in axes.items()}
        outer_cut = self.cut
        self.waiting = waiting_statements(node)
        waits = self.expressions.waits = bool(self.waiting)
        self.cut, loses = kernels.loops_to_cut(node, self.options, self.waiting)
        number, self.kernels = self.kernels, self.kernels + 1
        name = f"{self.name}_kernel" + (f"_{number}" if number else "")
        self.in_kernel = True
        body, is_cut = self.visit(node), bool(self.cut)
        placers = list(self.outside)
        self.in_kernel, self.cut = False, outer_cut

        def size(env: Environment, kind: str) -> tuple[int, int, int]:
            x, y, z = [
                int(extents[f"{kind}.{axis}"](env)) if f"{kind}.{axis}" in extents else 1
                for axis in kernels.AXES
            ]
            return x, y, z

        def run(env: Environment) -> None:
            state: State = env[CONTEXT_SLOT]
            grid, block = size(env, "blockIdx"), size(env, "threadIdx")
            if not grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2]:
                return
            blocks = kernels.chosen_blocks(grid, self.options.blocks)
            launch = Launch(name, grid, block, tuple(blocks), self.options.warp_size)
            state.begin_kernel(launch, is_cut, loses)
            whole = Group(numpy.arange(state.threads), True, self.options.warp_size)
            for place, each in enumerate(blocks):
                state.begin_block(each, place, waits)
                state.copies = BlockCopies(state.threads)
                inner = env.copy()
                inner[THREAD_SLOT] = whole
                for allocate in placers:
                    allocate(inner)
                if not drive(body, inner, _size):
                    state.waits_forever()
            state.end_kernel()

        return run

    # Memory.

    def _placed(self, pointer: Var, dtype: Any, count: Evaluate) -> Run:
        """Return the closure that allocates memory for its owners."""
        slot, name = self.frame.slot(pointer), pointer.name
        space = self.expressions.accesses.space(pointer)
        granule = self.granules.get(pointer, max(dtype.element.nbytes, 1))
        warp_size, scope = self.options.warp_size, pointer.storage_scope or "global"
        waits = bool(self.waiting)

        def place(env: Environment) -> None:
            state: State = env[CONTEXT_SLOT]
            owners = state.threads if space == "local" else -(-state.threads // warp_size)
            made = Memory.fresh(name, space, dtype, int(count(env)), granule, owners)
            if space == "shared":
                known = state.shared.get(slot)
                if known is not None and known.nbytes == made.nbytes:
                    made.shadow = known.shadow  # it stays in one place: earlier accesses count
                state.shared[slot] = made
            env[slot] = made if not waits else state.placed(slot, made, env[THREAD_SLOT].ids)
            for observer in state.observers:
                observer.allocated(name, scope, made.nbytes, slot)

        if self.in_kernel or space == "global":
            return place
        self.outside.append(place)
        return lambda env: None

    def visit_Allocate(self, node: Allocate) -> Run:
        extents = [self.expressions.number(extent) for extent in node.extents]

        def count(env: Environment) -> int:
            total = 1
            for extent in extents:
                total *= extent(env)
            return total

        place, body = self._placed(node.buffer_var, node.dtype, count), self.visit(node.body)

        def run(env: Environment) -> Left:
            place(env)
            return body(env)

        return run

    def _buffer(self, buffer: Buffer) -> Run:
        sizes = [self.expressions.number(size) for size in buffer.shape]
        strides = [self.expressions.number(stride) for stride in buffer.strides]

        def count(env: Environment) -> int:
            total = 1
            for place, size in enumerate(sizes):
                if strides:
                    total += (size(env) - 1) * strides[place](env)
                else:
                    total *= size(env)
            return int(total)

        return self._placed(buffer.data, buffer.dtype, count)

    def visit_DeclBuffer(self, node: DeclBuffer) -> Run:
        return self.visit(node.body)

    def visit_AllocateConst(self, node: AllocateConst) -> Run:
        if isinstance(node.data_or_idx, int):
            raise UnsupportedError("a constant of the module is not at hand", span=node.span)
        array = numpy.ascontiguousarray(as_array(node.data_or_idx)).reshape(-1)
        memory = Memory(
            node.buffer_var.name, "global", node.dtype, array.copy().view(numpy.uint8),
            max(node.dtype.element.nbytes, 1), True,
        )  # fmt: skip
        slot, body = self.frame.slot(node.buffer_var), self.visit(node.body)

        def run(env: Environment) -> Left:
            env[slot] = memory
            return body(env)

        return run

    # Blocks.

    def visit_BlockRealize(self, node: BlockRealize) -> Run:
        block = node.block
        if block.match_buffers:
            raise UnsupportedError("threads in lockstep do not match regions", span=block.span)
        bound = []
        for iterator, value in zip(block.iter_vars, node.iter_values):
            differs = self.expressions.differs(value)
            closure = self.expressions.visit(value)
            bound.append((iterator.var, differs, closure))
        slots = [(self.expressions.bind(var, differs), closure) for var, differs, closure in bound]
        predicate, varies = (
            self.expressions.visit(node.predicate),
            self.expressions.differs(node.predicate),
        )
        body = self.visit(block)
        guarded = self._divergent(block, predicate, body, None) if varies else None
        for var, differs, _ in reversed(bound):
            self.expressions.unbind(var, differs)

        def run(env: Environment) -> Left:
            for slot, value in slots:
                env[slot] = value(env)
            if guarded is not None:
                return guarded(env)
            return body(env) if predicate(env) else None

        return run

    def visit_Block(self, node: Block) -> Run:
        placers = [self._buffer(buffer) for buffer in node.alloc_buffers]
        init = None if node.init is None else self.visit(node.init)
        body = self.visit(node.body)
        firsts = []
        for iterator in node.iter_vars:
            if iterator.iter_type == IterVarType.CommReduce and iterator.dom is not None:
                if self.expressions.differs(iterator.var):
                    raise UnsupportedError(
                        "a reduction over threads is not lowered", span=node.span
                    )
                firsts.append(
                    (self.frame.slot(iterator.var), self.expressions.number(iterator.dom.min))
                )

        def run(env: Environment) -> Left:
            for place in placers:
                place(env)
            if init is not None and all(env[slot] == first(env) for slot, first in firsts):
                init(env)
            return body(env)

        return run

    # Effects.

    def visit_Evaluate(self, node: EvaluateStmt) -> Run:
        call = node.value
        if not isinstance(call, Call):
            return lambda env: None
        rule = None if isinstance(call.op, GlobalVar) else STATEMENT_RULES.get(call.op.name)
        if rule is not None:
            return rule(self.expressions, call, node.span)
        if not self.in_kernel:
            raise UnsupportedError(
                f"'{called_name(call) or call.op}' outside of kernels is not run", span=node.span
            )
        value = self.expressions.visit(call)

        def run(env: Environment) -> None:
            value(env)

        return run

    def visit_BufferStore(self, node: BufferStore) -> Run:
        expressions = self.expressions
        is_copy = isinstance(node.value, BufferLoad)
        if isinstance(node.value, BufferLoad):
            value = expressions.accesses.load(node.value, True)
        else:
            value = expressions.visit(node.value)
        is_row = not expressions.differs(node.value) and node.value.dtype.lanes > 1

        def evaluated(env: Environment) -> tuple[Any, Any]:
            """Return the value, and which elements of it are defined (None: all)."""
            state: State = env[CONTEXT_SLOT]
            state.last_defined = None
            state.masked = None if is_copy or node.predicate is None else env[THREAD_SLOT]
            found = value(env)
            defined, state.last_defined, state.masked = state.last_defined, None, None
            return found, defined

        if self.is_async:
            if node.predicate is not None:
                begin = masked_store(expressions.accesses, node, in_background=True)
            else:
                begin = expressions.accesses.deferred(node.buffer, node.indices, node.span)
            return lambda env: begin(env, *evaluated(env))
        if node.predicate is not None:
            store = masked_store(expressions.accesses, node)
        else:
            store = expressions.accesses.store(node.buffer, node.indices, node.span)
        work, kind = operations_of(node.value), str(node.value.dtype.element)

        def run(env: Environment) -> None:
            state: State = env[CONTEXT_SLOT]
            found, defined = evaluated(env)
            store(env, found[None, :] if is_row else found, defined)
            if work and state.launch is not None:
                for observer in state.observers:
                    observer.computed(work * env[THREAD_SLOT].count * state.weight, kind)

        return run

    def _asynchronous(self, node: AttrStmt) -> Run:
        """Compile ``async_scope``, ``async_commit_queue_scope`` and ``async_wait_queue_scope``."""
        if node.attr_key == "async_scope":
            outer, self.is_async = self.is_async, True
            body = self.visit(node.body)
            self.is_async = outer
            return body
        queue = self.expressions.number(node.value)
        if node.attr_key == "async_commit_queue_scope":
            body = self.visit(node.body)

            def close(env: Environment) -> None:
                env[CONTEXT_SLOT].copies.commit(env[THREAD_SLOT].ids, queue(env))

            return lambda env: after(body(env), close, env)
        inner = node.body
        if not isinstance(inner, AttrStmt) or inner.attr_key != "async_wait_inflight_count":
            raise UnsupportedError(
                "async_wait_queue_scope without async_wait_inflight_count", span=node.span
            )
        pending, rest = self.expressions.visit(inner.value), self.visit(inner.body)

        def wait(env: Environment) -> Left:
            env[CONTEXT_SLOT].copies.wait(env, queue(env), pending(env))
            return rest(env)

        return wait


class _Bounds:
    """The bounds of a loop by thread."""

    def __init__(self, firsts: Any, counts: Any) -> None:
        self.firsts = firsts
        self.counts = counts


def _size(env: Environment) -> int:
    count: int = env[THREAD_SLOT].count
    return count
