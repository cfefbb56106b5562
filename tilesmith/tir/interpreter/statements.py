"""Statements as closures: each runs on an environment and gives nothing."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import Call, IntImm, PrimExpr, Var
from tilesmith.support.errors import ExecutionError, UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferRegion, IterVar, IterVarType
from tilesmith.tir.interpreter.expressions import _check_vector, out_of_bounds
from tilesmith.tir.interpreter.options import DEFAULT_OPTIONS, Options
from tilesmith.tir.interpreter.transfers import TransferCompiler
from tilesmith.tir.interpreter.values import (
    Environment,
    Evaluate,
    Pointer,
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
    MatchBufferRegion,
    Prefetch,
    SeqStmt,
    Stmt,
    While,
)  # fmt: skip
from tilesmith.tir.stmt import (
    Evaluate as EvaluateStmt,
)
from tilesmith.tir.struct_fields import joined

THREAD_ATTRIBUTES = ("thread_extent", "virtual_thread")


class StatementCompiler(TransferCompiler):
    """Makes closures of statements."""

    def __init__(self, options: Options = DEFAULT_OPTIONS) -> None:
        super().__init__()
        self.options = options
        self.threads: set[Var] = set()  # iterators over threads that are in scope

    def call_ret(self, node: Call) -> Evaluate:
        if self.in_threads():
            raise UnsupportedError(
                "a thread of a kernel cannot leave the function with a value",
                notes=("put what follows into a branch instead",),
            )
        return super().call_ret(node)

    def in_threads(self) -> bool:
        """Whether the statement at hand is inside of a launch."""
        return bool(self.threads)

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
        return self.visit(node.value)

    def visit_IfThenElse(self, node: IfThenElse) -> Evaluate:
        condition, then_case = self.visit(node.condition), self.visit(node.then_case)
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
        condition, body = self.visit(node.condition), self.visit(node.body)

        def run(env: Environment) -> None:
            while condition(env):
                body(env)

        return run

    def visit_AssertStmt(self, node: AssertStmt) -> Evaluate:
        condition, message = self.visit(node.condition), self.visit(node.message)
        body, span = self.visit(node.body), node.span

        def run(env: Environment) -> None:
            if not condition(env):
                text = message(env)
                if isinstance(text, tuple):  # texts and numbers, to be joined
                    text = joined(text)
                raise ExecutionError(str(text), span=span)
            body(env)

        return run

    def visit_LetStmt(self, node: LetStmt) -> Evaluate:
        slot, value = self.slot(node.var), self.visit(node.value)
        body, stale = self.visit(node.body), self.views_of(node.var)

        def run(env: Environment) -> None:
            env[slot] = value(env)
            for view in stale:
                env[view] = None
            body(env)

        return run

    # Loops.

    def visit_For(self, node: For) -> Evaluate:
        low, extent = self.visit(node.min), self.visit(node.extent)
        slots = [self.slot(node.loop_var)]
        thread = node.thread_binding
        if node.kind is ForKind.THREAD_BINDING and thread is not None:
            slots.append(self.slot(thread.var))
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
        """Threads one after the other: right as long as they do not wait for each other."""
        outer, self.threads = self.threads, {*self.threads, thread.var}
        inside = self.visit(body)
        self.threads = outer

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
        if thread.var in self.threads:
            return self.visit(node.body)
        zero = self.visit(IntImm("int32", 0))
        return self.thread_loop(
            [self.slot(thread.var)], zero, self.visit(node.value), thread, node.body
        )

    # Memory.

    def views_of(self, variable: Var) -> list[int]:
        """Slots of buffers over a pointer: their views are stale once the pointer changes."""
        return [self.slot(buffer) for buffer in self.binders if buffer.data is variable]

    def visit_Allocate(self, node: Allocate) -> Evaluate:
        slot, dtype = self.slot(node.buffer_var), node.dtype
        extents = [self.visit(extent) for extent in node.extents]
        body = self.visit(node.body)
        stale = self.views_of(node.buffer_var)

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
        slot, body = self.slot(node.buffer_var), self.visit(node.body)
        stale, contents = self.views_of(node.buffer_var), node.data_or_idx
        name = node.buffer_var.name

        def run(env: Environment) -> None:
            if isinstance(contents, int):
                constants = env[0].constants
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
        self.binder(node.buffer)
        slot, body = self.slot(node.buffer), self.visit(node.body)

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
        """Fresh memory for a buffer."""
        slot, data_slot = self.slot(buffer), self.slot(buffer.data)
        self.binder(buffer)
        sizes = [self.visit(size) for size in buffer.shape]
        strides = [self.visit(stride) for stride in buffer.strides]
        offset = self.visit(buffer.elem_offset)

        def make(env: Environment) -> None:
            count = 1
            if strides:
                for size, stride in zip(sizes, strides):
                    count += (size(env) - 1) * stride(env)
            else:
                for size in sizes:
                    count *= size(env)
            env[data_slot] = allocate(buffer.dtype, count + offset(env))
            env[slot] = None

        return make

    def visit_Prefetch(self, node: Prefetch) -> Evaluate:
        return lambda env: None

    # Stores.

    def visit_BufferStore(self, node: BufferStore) -> Evaluate:
        lanes = node.indices[-1].dtype.lanes if node.indices else 1
        if node.predicate is not None or lanes > 1:
            return self.vector_store(node)
        buffer, span = node.buffer, node.span
        slot, bind = self.slot(buffer), self.binder(buffer)
        value = self.visit(node.value)
        indices = [self.visit(index) for index in node.indices]
        if len(indices) == 1:
            return self.store_one_dimension(node, indices[0], value)
        if len(indices) == 2:
            return self.store_two_dimensions(node, indices, value)

        def store(env: Environment) -> None:
            array = env[slot]
            if array is None:
                array = bind(env)
            place = tuple([index(env) for index in indices])
            stored = value(env)
            if not place or min(place) >= 0:
                try:
                    array[place] = stored
                    return
                except IndexError:
                    pass
            out_of_bounds(buffer, array, place, span, "the store")

        return store

    def store_one_dimension(self, node: BufferStore, index: Evaluate, value: Evaluate) -> Evaluate:
        buffer, span = node.buffer, node.span
        slot, bind = self.slot(buffer), self.binder(buffer)

        def store(env: Environment) -> None:
            array = env[slot]
            if array is None:
                array = bind(env)
            place = index(env)
            stored = value(env)
            if place >= 0:
                try:
                    array[place] = stored
                    return
                except IndexError:
                    pass
            out_of_bounds(buffer, array, (place,), span, "the store")

        return store

    def store_two_dimensions(
        self, node: BufferStore, indices: list[Evaluate], value: Evaluate
    ) -> Evaluate:
        buffer, span = node.buffer, node.span
        slot, bind = self.slot(buffer), self.binder(buffer)
        first, second = indices

        def store(env: Environment) -> None:
            array = env[slot]
            if array is None:
                array = bind(env)
            i, j = first(env), second(env)
            stored = value(env)
            if i >= 0 and j >= 0:
                try:
                    array[i, j] = stored
                    return
                except IndexError:
                    pass
            out_of_bounds(buffer, array, (i, j), span, "the store")

        return store

    def vector_store(self, node: BufferStore) -> Evaluate:
        buffer, span = node.buffer, node.span
        slot, bind = self.slot(buffer), self.binder(buffer)
        value = self.visit(node.value)
        outer = [self.visit(index) for index in node.indices[:-1]]
        last = self.visit(node.indices[-1])
        predicate = None if node.predicate is None else self.visit(node.predicate)
        inner_lanes = buffer.dtype.lanes

        def store(env: Environment) -> None:
            array = env[slot]
            if array is None:
                array = bind(env)
            place = tuple([index(env) for index in outer])
            picked = numpy.atleast_1d(last(env))
            stored = numpy.atleast_1d(value(env))
            if inner_lanes > 1:
                stored = stored.reshape(len(picked), inner_lanes)
            if predicate is not None:
                mask = numpy.atleast_1d(predicate(env))
                picked, stored = picked[mask], stored[mask]
            _check_vector(buffer, array, place, picked, span, "the store")
            array[(*place, picked)] = stored

        return store

    # Blocks.

    def visit_BlockRealize(self, node: BlockRealize) -> Evaluate:
        block = node.block
        slots = [self.slot(iterator.var) for iterator in block.iter_vars]
        values = [self.visit(value) for value in node.iter_values]
        binding = list(zip(slots, values))
        predicate = None if _is_true(node.predicate) else self.visit(node.predicate)
        body = self.visit(block)

        def run(env: Environment) -> None:
            for slot, value in binding:
                env[slot] = value(env)
            if predicate is None or predicate(env):
                body(env)

        return run

    def visit_Block(self, node: Block) -> Evaluate:
        makers = [self.allocation(buffer) for buffer in node.alloc_buffers]
        makers += [self.match(match) for match in node.match_buffers]
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
        """``init``, run when all reduction iterators are at their first value."""
        assert node.init is not None
        init = self.visit(node.init)
        firsts = [
            (self.slot(iterator.var), self.visit(iterator.dom.min))
            for iterator in node.iter_vars
            if iterator.iter_type == IterVarType.CommReduce and iterator.dom is not None
        ]

        def run(env: Environment) -> None:
            for slot, first in firsts:
                if env[slot] != first(env):
                    return
            init(env)

        return run

    def match(self, node: MatchBufferRegion) -> Evaluate:
        """A buffer over a region of another; binds its pointer, offset, strides and sizes."""
        buffer, region = node.buffer, self.region_view(node.source)
        slot, data_slot = self.slot(buffer), self.slot(buffer.data)
        source_data = self.slot(node.source.buffer.data)
        offset = self.target(buffer.elem_offset)
        strides = [self.target(stride) for stride in buffer.strides]
        sizes = [self.target(size) for size in buffer.shape]
        self.binders.setdefault(buffer, lambda env: env[slot])
        missing = len(node.source.region) - len(buffer.shape)

        def run(env: Environment) -> None:
            array = region(env)
            pointer: Pointer = env[source_data]
            place = pointer.address_of(array, ())
            if missing > 0:
                array = array[(0,) * missing]
            itemsize = array.itemsize
            env[data_slot] = pointer
            _bind(env, offset, (place.offset - pointer.offset) // itemsize)
            for target, stride in zip(strides, array.strides):
                _bind(env, target, stride // itemsize)
            for target, size in zip(sizes, array.shape):
                _bind(env, target, size)
            env[slot] = array

        return run

    def target(self, expr: PrimExpr) -> int | None:
        """The slot of a variable that a matched buffer binds; None for any other expression."""
        return self.slot(expr) if isinstance(expr, Var) else None

    def region_view(self, source: BufferRegion) -> Evaluate:
        slot, bind = self.slot(source.buffer), self.binder(source.buffer)
        lows = [self.visit(one.min) for one in source.region]
        extents = [self.visit(one.extent) for one in source.region]
        buffer = source.buffer

        def view(env: Environment) -> Any:
            array = env[slot]
            if array is None:
                array = bind(env)
            picked = []
            for low, extent, size in zip(lows, extents, array.shape):
                start, count = low(env), extent(env)
                if start < 0 or start + count > size:
                    shown = tuple(
                        [f"{lo(env)}:{lo(env) + ex(env)}" for lo, ex in zip(lows, extents)]
                    )
                    out_of_bounds(buffer, array, shown, None, "the matched region")
                picked.append(slice(start, start + count))
            return array[tuple(picked)]

        return view

    def visit_Stmt(self, node: Stmt) -> Evaluate:
        raise UnsupportedError(
            f"the interpreter does not run {type(node).__name__}", span=getattr(node, "span", None)
        )


def _bind(env: Environment, slot: int | None, value: int) -> None:
    if slot is not None:
        env[slot] = value


def _is_true(expr: PrimExpr) -> bool:
    return isinstance(expr, IntImm) and bool(expr.value)
