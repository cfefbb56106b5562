"""Statements as closures over groups of threads.

Each takes the environments of the threads that are at work and carries the statement out for all of
them before the next statement starts, as if a barrier stood between any two. Programs without races
mean the same under every order of threads; those before ThreadSync mean this order. Stretches in
which no thread sees what another one does run thread by thread (see ``cooperation``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import Call, GlobalVar, IntImm, Var
from tilesmith.support.errors import ExecutionError, UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import IterVar
from tilesmith.tir.interpreter.async_copies import AsyncCompiler
from tilesmith.tir.interpreter.collectives import CollectiveCompiler
from tilesmith.tir.interpreter.cooperation import (
    ASYNC_ATTRIBUTES,
    Cooperation,
    is_collective,
    launched_thread,
    sharing_level,
)
from tilesmith.tir.interpreter.matrix_units import MatrixCompiler
from tilesmith.tir.interpreter.options import Options
from tilesmith.tir.interpreter.statements import StatementCompiler
from tilesmith.tir.interpreter.threads import THREAD_SLOT, by_owner, fork
from tilesmith.tir.interpreter.values import Environment, Evaluate, Pointer, allocate
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from tilesmith.tir.stmt import Evaluate as EvaluateStmt

RunGroup = Callable[[list[Environment]], None]


class GroupCompiler(CollectiveCompiler, AsyncCompiler, MatrixCompiler, StatementCompiler):
    """Makes closures of statements over groups of threads."""

    def __init__(self, cooperation: Cooperation, options: Options) -> None:
        super().__init__()
        self.options = options
        self.cooperation = cooperation
        self.launched: dict[str, int] = {}  # how often each axis is launched around here
        self.local_pointers: list[Var] = []
        self.in_async_scope = False

    def group(self, stmt: Stmt) -> RunGroup:
        """The closure that runs a statement for a group of threads."""
        if self.may_run_alone(stmt):
            alone = self.visit(stmt)

            def each(envs: list[Environment]) -> None:
                for env in envs:
                    alone(env)

            return each
        method = getattr(self, "group_" + type(stmt).__name__, None)
        if method is None:
            raise UnsupportedError(
                f"the interpreter does not run {type(stmt).__name__} for threads that work "
                "together",
                span=getattr(stmt, "span", None),
            )
        return method(stmt)

    def may_run_alone(self, stmt: Stmt) -> bool:
        if self.cooperation.launches(stmt) and (self.options.watched or self.local_pointers):
            return False
        if self.in_async_scope:
            return False
        return self.cooperation.is_private(stmt)

    def in_threads(self) -> bool:
        return super().in_threads() or any(self.launched.values())

    # Sequences and choices.

    def group_SeqStmt(self, node: SeqStmt) -> RunGroup:
        parts = [self.group(stmt) for stmt in node.seq]

        def run(envs: list[Environment]) -> None:
            for part in parts:
                part(envs)

        return run

    def group_IfThenElse(self, node: IfThenElse) -> RunGroup:
        condition = self.visit(node.condition)
        then_case = self.group(node.then_case)
        else_case = None if node.else_case is None else self.group(node.else_case)

        def run(envs: list[Environment]) -> None:
            envs[0][0].active = envs
            answers = [condition(env) for env in envs]
            chosen = [env for env, answer in zip(envs, answers) if answer]
            if chosen:
                then_case(chosen)
            if else_case is not None and len(chosen) < len(envs):
                else_case([env for env, answer in zip(envs, answers) if not answer])

        return run

    def group_While(self, node: While) -> RunGroup:
        condition, body = self.visit(node.condition), self.group(node.body)

        def run(envs: list[Environment]) -> None:
            while True:
                envs[0][0].active = envs
                answers = [condition(env) for env in envs]
                envs = [env for env, answer in zip(envs, answers) if answer]
                if not envs:
                    return
                body(envs)

        return run

    def group_LetStmt(self, node: LetStmt) -> RunGroup:
        slot, value = self.slot(node.var), self.visit(node.value)
        body, stale = self.group(node.body), self.views_of(node.var)

        def run(envs: list[Environment]) -> None:
            envs[0][0].active = envs
            values = [value(env) for env in envs]
            for env, found in zip(envs, values):
                env[slot] = found
                for view in stale:
                    env[view] = None
            body(envs)

        return run

    def group_AssertStmt(self, node: Any) -> RunGroup:
        check = self.visit(node.with_fields(body=EvaluateStmt(IntImm("int32", 0))))
        body = self.group(node.body)

        def run(envs: list[Environment]) -> None:
            for env in envs:
                check(env)
            body(envs)

        return run

    def group_Evaluate(self, node: EvaluateStmt) -> RunGroup:
        call = node.value
        if is_collective(call) and isinstance(call, Call) and not isinstance(call.op, GlobalVar):
            name = call.op.name.removeprefix("tir.")
            together = getattr(self, "together_" + name, None)
            if together is not None:
                return together(call, node.span)
        alone = self.visit(node)

        def run(envs: list[Environment]) -> None:
            envs[0][0].active = envs
            for env in envs:
                alone(env)

        return run

    # Loops and launches.

    def group_For(self, node: For) -> RunGroup:
        low, extent = self.visit(node.min), self.visit(node.extent)
        thread = launched_thread(node)
        if thread is not None:
            slots = [self.slot(node.loop_var), self.slot(thread.var)]
            return self.launch(thread, slots, low, extent, node)
        slot, body = self.slot(node.loop_var), self.group(node.body)

        def run(envs: list[Environment]) -> None:
            firsts = [low(env) for env in envs]
            counts = [extent(env) for env in envs]
            if all(f == firsts[0] for f in firsts) and all(c == counts[0] for c in counts):
                for index in range(firsts[0], firsts[0] + counts[0]):
                    for env in envs:
                        env[slot] = index
                    body(envs)
                return
            for step in range(max(counts)):
                active = []
                for env, first, count in zip(envs, firsts, counts):
                    if step < count:
                        env[slot] = first + step
                        active.append(env)
                body(active)

        return run

    def group_AttrStmt(self, node: AttrStmt) -> RunGroup:
        thread = launched_thread(node)
        if thread is not None:
            zero = self.visit(IntImm("int32", 0))
            return self.launch(thread, [self.slot(thread.var)], zero, self.visit(node.value), node)
        if node.attr_key in ASYNC_ATTRIBUTES:
            return self.asynchronous(node)
        if node.attr_key == "reduce_scope":
            self.reducers.append(node.node)
            body = self.group(node.body)
            self.reducers.pop()
            return body
        return self.group(node.body)

    def launch(
        self, thread: IterVar, slots: list[int], low: Evaluate, extent: Evaluate, node: Any
    ) -> RunGroup:
        """Threads that start here, or an axis that has been started around."""
        tag = thread.thread_tag or "vthread"
        if not tag.startswith(("threadIdx", "blockIdx")):
            tag = f"{tag}:{thread.var.name}"  # virtual threads may be nested
        self.axis_of[thread.var] = tag
        if isinstance(node, For):
            self.axis_of[node.loop_var] = tag
        if self.launched.get(tag):
            return self.same_axis(tag, slots, low, extent, node)
        self.launched[tag] = 1
        body = self.group(node.body)
        self.launched[tag] = 0
        together = self.cooperation.has_global_barrier or not tag.startswith("blockIdx")
        pointers = [] if tag.startswith("blockIdx") else self.local_pointers
        locals_here = [(self.slot(var), self.views_of(var)) for var in pointers]

        def run(envs: list[Environment]) -> None:
            first, count = low(envs[0]), extent(envs[0])
            context = envs[0][0]
            context.check_launch(tag, count, node)
            steps = [range(count)] if together else [range(i, i + 1) for i in range(count)]
            for indices in steps:
                made = fork(envs, tag, indices, count, slots, locals_here)
                if first:
                    for env in made:
                        for slot in slots:
                            env[slot] += first
                if made:
                    body(made)
            context.launch_ended(tag)

        return run

    def same_axis(
        self, tag: str, slots: list[int], low: Evaluate, extent: Evaluate, node: Any
    ) -> RunGroup:
        body = self.group(node.body)

        def run(envs: list[Environment]) -> None:
            for env in envs:
                index, count = env[THREAD_SLOT].axes[tag]
                if extent(env) != count:
                    raise ExecutionError(
                        f"{tag} has {count} threads, a loop inside wants {extent(env)}",
                        span=node.span,
                    )
                for slot in slots:
                    env[slot] = low(env) + index
            body(envs)

        return run

    # Memory.

    def group_Allocate(self, node: Allocate) -> RunGroup:
        level = sharing_level(node.buffer_var.storage_scope)
        dtype = node.dtype
        extents = [self.visit(extent) for extent in node.extents]
        if level == "thread":
            self.local_pointers.append(node.buffer_var)
        body = self.group(node.body)
        if level == "thread":
            self.local_pointers.pop()

        def size(env: Environment) -> int:
            count = 1
            for extent in extents:
                count *= extent(env)
            return count

        place = self.placer(node.buffer_var, dtype, size)

        def run(envs: list[Environment]) -> None:
            place(envs)
            body(envs)

        return run

    def placer(self, pointer: Var, dtype: Any, size: Evaluate) -> RunGroup:
        """Fresh memory for each thread, or for each block or warp of them, by the scope."""
        slot, stale = self.slot(pointer), self.views_of(pointer)
        level = sharing_level(pointer.storage_scope)
        shared, warp = level in ("block", "warp"), level == "warp"

        def place(envs: list[Environment]) -> None:
            parties = by_owner(envs, warp) if shared else {i: [e] for i, e in enumerate(envs)}
            known = envs[0][0].shared_memory if shared else {}
            for owner, party in parties.items():
                count = size(party[0])
                memory: Pointer = self.fresh(party[0], dtype, count, known.get((slot, owner)))
                known[(slot, owner)] = memory
                for env in party:
                    env[slot] = memory
                    for view in stale:
                        env[view] = None

        return place

    def fresh(
        self, env: Environment, dtype: Any, count: int, old: Pointer | None = None
    ) -> Pointer:
        """New memory, or that of the last time without its contents: what threads share stays in
        one place, as on a device. The watched compiler notes that nothing has been written."""
        memory = allocate(dtype, count)
        if old is None or old.memory.nbytes != memory.memory.nbytes:
            return memory
        old.memory[...] = memory.memory
        return old

    def group_DeclBuffer(self, node: Any) -> RunGroup:
        self.binder(node.buffer)
        slot, body = self.slot(node.buffer), self.group(node.body)

        def run(envs: list[Environment]) -> None:
            for env in envs:
                env[slot] = None
            body(envs)

        return run

    def group_AllocateConst(self, node: Any) -> RunGroup:
        # The constant is the same for all: bound first, then the body runs.
        bind = self.visit(node.with_fields(body=EvaluateStmt(IntImm("int32", 0))))
        body = self.group(node.body)
        stale = self.views_of(node.buffer_var)

        def run(envs: list[Environment]) -> None:
            for env in envs:
                bind(env)
                for view in stale:
                    env[view] = None
            body(envs)

        return run

    def buffer_placer(self, buffer: Buffer) -> RunGroup:
        self.binder(buffer)
        slot = self.slot(buffer)
        sizes = [self.visit(size) for size in buffer.shape]
        strides = [self.visit(stride) for stride in buffer.strides]
        offset = self.visit(buffer.elem_offset)

        def size(env: Environment) -> int:
            count = 1
            if strides:
                for one, stride in zip(sizes, strides):
                    count += (one(env) - 1) * stride(env)
            else:
                for one in sizes:
                    count *= one(env)
            return count + offset(env)

        place = self.placer(buffer.data, buffer.dtype, size)

        def run(envs: list[Environment]) -> None:
            place(envs)
            for env in envs:
                env[slot] = None

        return run

    def group_BufferRealize(self, node: BufferRealize) -> RunGroup:
        place, body = self.buffer_placer(node.buffer), self.group(node.body)

        def run(envs: list[Environment]) -> None:
            place(envs)
            body(envs)

        return run

    # Blocks.

    def group_BlockRealize(self, node: BlockRealize) -> RunGroup:
        slots = [self.slot(iterator.var) for iterator in node.block.iter_vars]
        binding = list(zip(slots, [self.visit(value) for value in node.iter_values]))
        predicate = self.visit(node.predicate)
        body = self.group(node.block)

        def run(envs: list[Environment]) -> None:
            chosen = []
            for env in envs:
                for slot, value in binding:
                    env[slot] = value(env)
                if predicate(env):
                    chosen.append(env)
            if chosen:
                body(chosen)

        return run

    def group_Block(self, node: Block) -> RunGroup:
        own = [
            buffer.data
            for buffer in node.alloc_buffers
            if sharing_level(buffer.data.storage_scope) == "thread"
        ]
        matches = [self.match(match) for match in node.match_buffers]
        self.local_pointers += own
        init = None if node.init is None else self.guarded_init(node)
        body = self.group(node.body)
        del self.local_pointers[len(self.local_pointers) - len(own) :]
        placers = [self.buffer_placer(buffer) for buffer in node.alloc_buffers]

        def run(envs: list[Environment]) -> None:
            for place in placers:
                place(envs)
            for env in envs:
                for match in matches:
                    match(env)
                if init is not None:
                    init(env)
            body(envs)

        return run

    # Stores.

    def group_BufferStore(self, node: BufferStore) -> RunGroup:
        prepare = self.prepared_store(node)
        if self.in_async_scope:
            return self.deferred(prepare)

        def run(envs: list[Environment]) -> None:
            envs[0][0].active = envs
            for store in [prepare(env) for env in envs]:
                store()

        return run
