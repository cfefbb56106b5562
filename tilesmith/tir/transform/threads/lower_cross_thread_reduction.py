"""LowerCrossThreadReduction: lowers reductions over loops that are bound to threads.

    for ko in range(4):                         for tx in T.thread_binding(32, "threadIdx.x"):
        for tx in T.thread_binding(                 in_thread[0] = 0.0
                32, "threadIdx.x"):                 for ko in range(4):
            with T.block("sum"):                        in_thread[0] += A[vi, ko * 32 + tx]
                vi, vk = ...                        with T.attr(comm_reducer, "reduce_scope", ...):
                with T.init():                          T.tvm_thread_allreduce(
                    B[vi] = 0.0                             1, in_thread[0], True, cross[0], tx)
                B[vi] += A[vi, vk]                  with T.block("sum_write_back"):
                                                        T.where(tx == 0)
                                                        B[vi] = cross[0]

Each thread first combines the values of its own loops, then the threads combine their results.
Memory that other threads see is written by one thread; each thread gets a copy where the result
lives in registers ("local"). Loops over threads move outside of the serial loops of the reduction;
other statements may stand in a loop over threads as long as they do not need the result there.
Blocks of the kernel that stand outside of these loops and need a result are run by the first
thread, which has written it: the others would have to wait for it. What only moves values from
registers to registers is run by each thread.

The parts of a reduction are blocks of their own, so the accesses through views that the block
declares (``T.match_buffer``) go to the buffers themselves first. Views of blocks around stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import Node, PrimExpr, Range, Var, const, structural_equal
from tilesmith.ir.intrinsics import reinterpret, tvm_thread_allreduce
from tilesmith.ir.operators import all_of, is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import conjuncts, nodes
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.errors import ReductionError
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferRegion, CommReducer, IterVar, IterVarType
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import loads, statements, uses_variable
from tilesmith.tir.stmt import (
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    LetStmt,
    MatchBufferRegion,
    Stmt,
    stmt_seq,
)
from tilesmith.tir.transform.blocks.associativity import identities_of
from tilesmith.tir.transform.blocks.lower_match_buffer import without_matches
from tilesmith.tir.transform.blocks.reducers import BlockReduction, combine, reduction_of

__all__ = ["lower_cross_thread_reduction"]


def _is_thread(loop: For) -> bool:
    return (
        loop.kind is ForKind.THREAD_BINDING
        and loop.thread_binding is not None
        and loop.thread_binding.thread_tag.startswith("threadIdx")
    )


def _tag(loop: For) -> str:
    """Return the name of the thread axis that a bound loop runs over."""
    return loop.thread_binding.thread_tag  # type: ignore[union-attr]


def _is_leaf(block: Block) -> bool:
    """Return whether a block contains neither blocks nor loops over threads."""
    return not any(
        isinstance(stmt, Block) or (isinstance(stmt, For) and stmt.thread_binding is not None)
        for stmt in statements(block.body)
    )


def _is_reduction_over(realize: BlockRealize, variable: Var) -> bool:
    return any(
        iterator.iter_type == IterVarType.CommReduce and uses_variable(value, {variable})
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values)
    )


def _is_spatial_over(realize: BlockRealize, variable: Var) -> bool:
    return any(
        iterator.iter_type != IterVarType.CommReduce and uses_variable(value, {variable})
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values)
    )


def _chain(loop: For) -> tuple[list[For], BlockRealize | None]:
    """Return directly nested loops, and the innermost block."""
    loops, stmt = [loop], loop.body
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt if isinstance(stmt, BlockRealize) else None


class _Memory:
    """Tells which memory buffers lie in: that of the pointer at the end of a chain of views."""

    def __init__(self, func: PrimFunc) -> None:
        self.sources = {
            match.buffer.data: match.source.buffer.data
            for match in nodes(func.body, MatchBufferRegion)
        }

    def of(self, buffer: Buffer) -> Var:
        """Return the pointer to the memory of a buffer."""
        pointer = buffer.data
        while pointer in self.sources:
            pointer = self.sources[pointer]
        return pointer

    def of_writes(self, block: Block) -> set[Var]:
        """Return the memory that a block says it writes."""
        return {self.of(region.buffer) for region in block.writes}

    def count_loads(self, root: Node | Sequence[Node], memory: set[Var]) -> int:
        """Return the number of loads from some memory, through whichever buffer."""
        return sum(self.of(load.buffer) in memory for load in loads(root))


class _BindingsWithoutLets(Rewriter):
    """Writes out what lets around a block stand for in the values of its iterators, so that these
    show the loops that drive them."""

    def __init__(self) -> None:
        self.values: dict[Var, PrimExpr] = {}

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        self.values[let.var] = substitute(let.value, self.values)
        return self.children(let)

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        new = self.children(realize)
        if not uses_variable([*realize.iter_values, realize.predicate], self.values):
            return new
        return new.with_fields(
            iter_values=substitute(realize.iter_values, self.values),
            predicate=substitute(realize.predicate, self.values),
        )

    def visit_default(self, node: Any) -> Any:
        return self.children(node) if isinstance(node, (Stmt, Block)) else node


class _Lowering(Rewriter):
    def __init__(self, memory: _Memory) -> None:
        self.memory = memory
        self.allocations: list[list[Buffer]] = []
        self.around: list[For] = []  # loops of the present block, outermost first
        self.bound: list[For] = []  # loops over blocks and threads around, of all blocks
        # memory → the loops by whose threads it is written in this kernel: by each one in
        # registers, else by the first
        self.written: dict[Var, list[For]] = {}

    def visit_Block(self, block: Block) -> Block:
        self.allocations.append([])
        around, self.around = self.around, []
        body = self.visit(block.body)
        self.around = around
        added = self.allocations.pop()
        if body is block.body:
            return block
        return block.with_fields(body=body, alloc_buffers=(*block.alloc_buffers, *added))

    def visit_For(self, loop: For) -> Stmt:
        loops, realize = _chain(loop)
        if realize is not None and realize.block.init is not None:
            _refuse_blocks_of_threads(realize, [*self.around, *loops])
            outer = self.reduced_around(realize, loops)
            if outer or (
                _is_reduction_over(realize, loop.loop_var)
                and any(
                    _is_thread(one) and _is_reduction_over(realize, one.loop_var) for one in loops
                )
            ):
                return self.lowered(loops, realize, outer)
        self.around.append(loop)
        if loop.thread_binding is not None:
            self.bound.append(loop)
        body = self.visit(loop.body)
        self.around.pop()
        if loop.thread_binding is not None:
            self.bound.pop()
            if not self.bound:  # the end of a kernel, where all threads wait
                self.written = {}
        return loop if body is loop.body else loop.with_fields(body=body)

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        if realize.block.init is not None:
            _refuse_blocks_of_threads(realize, self.around)
            outer = self.reduced_around(realize, [])
            if any(_is_thread(one) for one in outer):
                return self.lowered([], realize, outer)
        else:
            _refuse_updates_of_threads(realize, self.around, self.memory)
        loops = self.missing_threads(realize.block) if self.written else []
        if loops:
            return self.on_threads(realize, loops)
        block = self.visit(realize.block)
        return realize if block is realize.block else realize.with_fields(block=block)

    def missing_threads(self, block: Block) -> list[For]:
        """Return the loops over threads that must be added around a block so that it runs on the
        threads that hold its inputs."""
        tags = [_tag(loop) for loop in self.bound]
        found: dict[str, For] = {}
        for region in (*block.reads, *block.writes):
            for loop in self.written.get(self.memory.of(region.buffer), ()):
                if _tag(loop) not in tags:
                    found.setdefault(_tag(loop), loop)
        return list(found.values()) if found and _is_leaf(block) else []

    def on_threads(self, realize: BlockRealize, loops: list[For]) -> Stmt:
        """Return a block that runs on the first thread only; on each thread where it moves values
        that each thread has in its registers."""
        block = realize.block
        variables = [Var("t" + _tag(loop)[-1], loop.loop_var.dtype) for loop in loops]
        read = [region.buffer for region in block.reads]
        known = [buffer for buffer in read if self.memory.of(buffer) in self.written]
        written = [region.buffer for region in block.writes]
        stmt: Stmt = realize
        if not all(buffer.scope() == "local" for buffer in (*known, *written)):
            first = [var.equal(loop.min) for var, loop in zip(variables, loops)]
            predicate = all_of(*conjuncts(realize.predicate), *first)
            stmt = realize.with_fields(predicate=predicate)
        for var, loop in reversed(list(zip(variables, loops))):
            stmt = loop.with_fields(loop_var=var, body=stmt, annotations={})
        for buffer in written:
            self.written[self.memory.of(buffer)] = loops
        return stmt

    def reduced_around(self, realize: BlockRealize, loops: list[For]) -> list[For]:
        """Return the reduction loops that also enclose other statements; empty unless one of them,
        or of the loops inside, is bound to threads.
        """
        found = [
            one
            for one in self.around
            if _is_reduction_over(realize, one.loop_var)
            and (_is_thread(one) or not is_const(one.extent, 1))
        ]
        inside = [one for one in loops if _is_reduction_over(realize, one.loop_var)]
        return found if any(_is_thread(one) for one in [*found, *inside]) else []

    def lowered(self, loops: list[For], realize: BlockRealize, outer: list[For]) -> Stmt:
        written, count = self.memory.of_writes(realize.block), self.memory.count_loads
        for loop in outer:
            if not _is_thread(loop) or count(loop, written) > count(realize, written):
                raise ReductionError(
                    f"block '{realize.block.name_hint}' reduces over '{loop.loop_var.name}', but "
                    "other statements of that loop need the result in between",
                    span=realize.block.span,
                    notes=("keep the loops of the reduction free of other blocks",),
                )
        reduction = _Reduction(loops, realize, self.allocations[-1], outer)
        _refuse_hidden_memory(realize.block, reduction.reduction, self.memory)
        if any(_tag(loop).startswith("blockIdx") for loop in self.bound):
            threads = [loop for loop in (*self.bound, *loops) if _is_thread(loop)]
            for store in reduction.reduction.stores:
                self.written[self.memory.of(store.buffer)] = threads
        return reduction.lowered()


class _Reduction:
    """One block whose reduction runs over threads."""

    def __init__(
        self, loops: list[For], realize: BlockRealize, allocations: list[Buffer], outer: list[For]
    ) -> None:
        self.realize, self.block = realize, realize.block
        self.allocations = allocations
        self.reduction = _associative(realize.block)
        self.reduced = [one for one in loops if _is_reduction_over(realize, one.loop_var)]
        for loop in self.reduced:
            if _is_spatial_over(realize, loop.loop_var):
                raise ReductionError(
                    f"loop '{loop.loop_var.name}' of block '{self.block.name_hint}' belongs to the "
                    "reduction and to the result",
                    span=loop.span,
                )
        self.reduced += outer  # loops over threads in which other statements stand too
        self.threads = [one for one in self.reduced if _is_thread(one)]
        self.serial = [
            one for one in self.reduced if not _is_thread(one) and not is_const(one.extent, 1)
        ]
        self.outer = [one for one in loops if one not in self.serial]

    def lowered(self) -> Stmt:
        """Return the loops over threads with the lowered reduction inside."""
        partial = self.buffers("in_thread_") if self.serial else []
        total = self.buffers("cross_thread_")
        self.allocations.extend([*total, *partial])
        steps: list[Stmt] = []
        if partial:
            steps += [self.initialise(partial), self.accumulate(partial)]
        steps += [self.exchange(partial, total), *self.write_back(total)]
        body = stmt_seq(*steps)
        for loop in reversed(self.outer):
            body = loop.with_fields(body=body)
        return body

    def buffers(self, prefix: str) -> list[Buffer]:
        return [
            decl_buffer(
                (1,), store.buffer.dtype, prefix + store.buffer.name, strides=(1,), scope="local"
            )
            for store in self.reduction.stores
        ]

    def initialise(self, partial: list[Buffer]) -> Stmt:
        identity = self.reduction.reducer.identity_element
        stores = [BufferStore(buffer, value, (0,)) for buffer, value in zip(partial, identity)]
        block = Block(
            (), (), _first_elements(partial), self.block.name_hint + "_in_thread_init",
            stmt_seq(*stores),
        )  # fmt: skip
        return BlockRealize((), True, block)

    def renewed(self, iterators: list[IterVar]) -> tuple[list[IterVar], dict[Var, PrimExpr]]:
        """Return copies of iterators for another block."""
        copies = [
            IterVar(one.dom, Var(one.var.name, one.var.dtype), one.iter_type) for one in iterators
        ]
        return copies, {old.var: new.var for old, new in zip(iterators, copies)}

    def accumulate(self, partial: list[Buffer]) -> Stmt:
        """Return the reduction of one thread over its own iterations."""
        iterators, mapping = self.renewed(list(self.block.iter_vars))
        values = substitute(self.reduction.values, mapping)
        old = [buffer[0] for buffer in partial]
        combined = combine(self.reduction.reducer, old, values)
        if len(partial) == 1:
            body: Stmt = BufferStore(partial[0], combined[0], (0,))
        else:
            body = _together(partial, combined)
        block = Block(
            iterators, substitute(self.reads(), mapping), _first_elements(partial),
            self.block.name_hint + "_in_thread", body,
            annotations=self.block.annotations, span=self.block.span,
        )  # fmt: skip
        stmt: Stmt = BlockRealize(self.realize.iter_values, self.realize.predicate, block)
        for loop in reversed(self.serial):
            stmt = loop.with_fields(body=stmt)
        return stmt

    def reads(self) -> tuple[BufferRegion, ...]:
        own = {store.buffer for store in self.reduction.stores}
        return tuple([region for region in self.block.reads if region.buffer not in own])

    def exchange(self, partial: list[Buffer], total: list[Buffer]) -> Stmt:
        """Return the reduction over threads."""
        values: list[Any] = [buffer[0] for buffer in partial]
        condition: PrimExpr = const(True, "bool")
        reads: Any = _first_elements(partial)
        if not partial:
            # The block names threads, so it has no iterators of its own.
            names = [iterator.var for iterator in self.block.iter_vars]
            mapping = dict(zip(names, self.realize.iter_values))
            values = list(substitute(self.reduction.values, mapping))
            condition = self.realize.predicate
            reads = substitute(self.reads(), mapping)
        call = tvm_thread_allreduce(
            const(len(values), "uint32"),
            *values,
            condition,
            *[buffer[0] for buffer in total],
            *[loop.loop_var for loop in self.threads],
        )
        null = reinterpret("handle", const(0, "uint64"))
        body = AttrStmt(self.reduction.reducer, "reduce_scope", null, Evaluate(call))
        name = self.block.name_hint + "_cross_thread"
        block = Block((), reads, _first_elements(total), name, body, span=self.block.span)
        return BlockRealize((), True, block)

    def write_back(self, total: list[Buffer]) -> list[Stmt]:
        """Return the blocks that store the results in the block's own buffers: in registers of each
        thread, in other memory once."""
        found = [buffer[0] for buffer in total]
        identity = self.reduction.reducer.identity_element
        if not all(structural_equal(a, b) for a, b in zip(identity, self.reduction.starts)):
            found = list(combine(self.reduction.reducer, self.reduction.starts, found))
        pairs = list(zip(self.reduction.stores, found))
        once = [pair for pair in pairs if pair[0].buffer.scope() != "local"]
        each = [pair for pair in pairs if pair[0].buffer.scope() == "local"]
        blocks, name = [], self.block.name_hint + "_write_back"
        if once:
            blocks.append(self.write_back_of(name, once, True))
        if each:
            name += "_local" if once else ""
            blocks.append(self.write_back_of(name, each, False))
        return blocks

    def write_back_of(
        self, name: str, results: list[tuple[BufferStore, PrimExpr]], is_once: bool
    ) -> Stmt:
        """Return the block that stores some of the results, on each thread or on the first one."""
        spatial = [
            (iterator, value)
            for iterator, value in zip(self.block.iter_vars, self.realize.iter_values)
            if iterator.iter_type != IterVarType.CommReduce
        ]
        iterators, mapping = self.renewed([iterator for iterator, _ in spatial])
        buffers = {store.buffer for store, _ in results}
        writes = [region for region in self.block.writes if region.buffer in buffers]
        body = [
            BufferStore(
                store.buffer, substitute(value, mapping), substitute(store.indices, mapping)
            )
            for store, value in results
        ]
        used = [load for _, value in results for load in loads(value)]
        reads = [BufferRegion.from_point(load.buffer, load.indices) for load in used]
        block = Block(
            iterators, substitute(tuple(_different(reads)), mapping),
            substitute(tuple(writes), mapping), name,
            stmt_seq(*body),
        )  # fmt: skip
        return BlockRealize([value for _, value in spatial], self.write_condition(is_once), block)

    def write_condition(self, is_once: bool) -> PrimExpr:
        """Return the condition for the threads that store the result, maybe only the first one."""
        reduced = {loop.loop_var for loop in self.reduced}
        conditions: list[PrimExpr] = []
        for clause in conjuncts(self.realize.predicate):
            if not uses_variable(clause, reduced):
                conditions.append(clause)
        if is_once:
            conditions += [loop.loop_var.equal(loop.min) for loop in self.threads]
        return all_of(*conditions) if conditions else const(True, "bool")


def _associative(block: Block) -> BlockReduction:
    """Return the reduction of a block, whose partial results may be combined in any order."""
    reduction = reduction_of(block)
    identities = identities_of(reduction, lambda reason: _refused(block, reason))
    if len(identities) == 1:
        return reduction
    old = reduction.reducer
    return reduction._replace(reducer=CommReducer(old.lhs, old.rhs, old.result, tuple(identities)))


def _refused(block: Block, reason: str) -> ReductionError:
    return ReductionError(
        f"block '{block.name_hint}' cannot be reduced over threads: it {reason}",
        span=block.span,
        notes=("known are C[i] = C[i] + value, and *, T.min, T.max, a choice in its place",),
    )


def _refuse_hidden_memory(block: Block, reduction: BlockReduction, memory: _Memory) -> None:
    """Raise ReductionError if what is combined depends on the result itself, under another name, or
    on memory that only the block has: neither is there for the parts of the reduction."""
    if memory.count_loads(
        reduction.values, {memory.of(store.buffer) for store in reduction.stores}
    ):
        raise _refused(block, "reads the memory of its result through another buffer")
    own = {memory.of(buffer) for buffer in block.alloc_buffers}
    used = memory.count_loads((*reduction.values, *reduction.starts), own)
    if used or any(memory.of(store.buffer) in own for store in reduction.stores):
        raise _refused(block, "uses a buffer that it allocates itself")


def _refuse_blocks_of_threads(realize: BlockRealize, loops: list[For]) -> None:
    """Raise ReductionError if a reduction runs over blocks of threads, which know nothing of each
    other."""
    for loop in loops:
        if loop.thread_binding is None or not _tag(loop).startswith("blockIdx"):
            continue
        if _is_reduction_over(realize, loop.loop_var):
            raise ReductionError(
                f"block '{realize.block.name_hint}' reduces over '{loop.loop_var.name}', which is "
                f"bound to {_tag(loop)}",
                span=realize.block.span,
                notes=("bind a loop of the result to it, or split the reduction with rfactor",),
            )


def _refuse_updates_of_threads(realize: BlockRealize, loops: list[For], memory: _Memory) -> None:
    """Raise ReductionError if threads update one element in a block whose init stands elsewhere:
    from which value each of them starts is not known.
    """
    block = realize.block
    if not memory.count_loads(block.body, memory.of_writes(block)):
        return
    for loop in loops:
        if loop.thread_binding is not None and _is_reduction_over(realize, loop.loop_var):
            raise ReductionError(
                f"block '{block.name_hint}' has no init and reduces over '{loop.loop_var.name}', "
                f"which is bound to {_tag(loop)}",
                span=block.span,
                notes=(
                    "bind the loop of a block with its init: before decompose_reduction, and not "
                    "within a reduction that blockize has split",
                ),
            )


def _first_elements(buffers: list[Buffer]) -> list[BufferRegion]:
    return [BufferRegion(buffer, (Range(0, 1),)) for buffer in buffers]


def _together(buffers: list[Buffer], values: tuple[PrimExpr, ...]) -> Stmt:
    """Store several values that are all computed before the first store."""
    names = [Var("v_" + buffer.name, buffer.dtype) for buffer in buffers]
    body = stmt_seq(*[BufferStore(buffer, name, (0,)) for buffer, name in zip(buffers, names)])
    for name, value in reversed(list(zip(names, values))):
        body = LetStmt(name, value, body)
    return body


@compiler_pass("tir.LowerCrossThreadReduction")
def lower_cross_thread_reduction(func: PrimFunc) -> PrimFunc:
    """Lowers reductions over threads to exchanges between threads.

    Returns ``func`` with reductions over threads split into a part for each thread and an exchange.
    """
    threads = {loop.loop_var for loop in nodes(func.body, For) if _is_thread(loop)}
    if threads:
        func = func.with_body(_BindingsWithoutLets().visit(func.body))
    reducing = {
        realize.block
        for realize in nodes(func.body, BlockRealize)
        if realize.block.init is not None
        and realize.block.match_buffers
        and _is_leaf(realize.block)
        and any(_is_reduction_over(realize, thread) for thread in threads)
    }
    if reducing:
        func = without_matches(func, reducing)
    return func.with_body(_Lowering(_Memory(func)).visit(func.body))


def _different(regions: list[BufferRegion]) -> list[BufferRegion]:
    """Return the regions without repetitions."""
    found: list[BufferRegion] = []
    for region in regions:
        if not any(structural_equal(region, one) for one in found):
            found.append(region)
    return found
