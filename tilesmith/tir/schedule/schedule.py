"""``tir.Schedule``: rewriting a module step by step, each step checked.

Every primitive is a method here that resolves random variables, calls the function of the same name
in ``primitives/`` on the state, and records an instruction in the trace. Those that make or replace
whole blocks are in ``block_methods``, those about buffers in ``buffer_methods``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import GlobalVar, PrimExpr, Var
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.schedule import primitives
from tilesmith.tir.schedule.base import plain_decision
from tilesmith.tir.schedule.block_methods import BlockMethods
from tilesmith.tir.schedule.buffer_methods import BufferMethods
from tilesmith.tir.schedule.state import StmtSRef
from tilesmith.tir.schedule.trace import BlockRV, LoopRV

__all__ = ["BlockRV", "ExprRV", "LoopRV", "Schedule", "ScheduleError"]

ExprRV = Var


class Schedule(BlockMethods, BufferMethods):
    """Rewrites a module (or a single PrimFunc) by primitives.

    ``seed`` makes sampling repeatable; ``debug_mask="all"`` verifies the program after each
    primitive; ``error_render_level`` is "detail" (reason and program), "fast" (reason only).
    """

    # --- looking at the program -------------------------------------------------------------------

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block of that name; it must be the only one."""
        variable = self._function(func_name)
        sref = self._run(primitives.get_block, name, variable)
        (block,) = self._new_blocks([sref])
        self._record("GetBlock", [], [name, variable.name_hint], [block])
        return block

    get_sblock = get_block

    def _function(self, func_name: str | None) -> GlobalVar:
        if func_name is not None:
            return self.state.mod.get_global_var(func_name)
        if self._working_on is None:
            names = ", ".join(v.name_hint for v in self.state.mod.get_global_vars())
            raise ScheduleError(
                f"the module has several functions ({names})",
                notes=("name one: sch.get_block(name, func_name=...) or sch.work_on(func_name)",),
            )
        return self._working_on

    def get_loops(self, block: BlockRV) -> list[LoopRV]:
        """The loops around a block up to the next block, outermost first."""
        sref = self._block(block) if isinstance(block, str) else self._sref(block)
        loops = self._new_loops(self.state.loops(sref))
        self._record("GetLoops", [block], [], loops)
        return loops

    def get_child_blocks(self, block_or_loop: Any) -> list[BlockRV]:
        """The blocks right inside of a block or loop."""
        blocks = self._new_blocks(self.state.blocks_below(self._sref(block_or_loop)))
        self._record("GetChildBlocks", [block_or_loop], [], blocks)
        return blocks

    def get_producers(self, block: BlockRV) -> list[BlockRV]:
        """The blocks of the same scope that write what this block reads."""
        blocks = self._new_blocks(
            self._run(primitives.get_producers, self._block(block, "get_producers"))
        )
        self._record("GetProducers", [block], [], blocks)
        return blocks

    def get_consumers(self, block: BlockRV) -> list[BlockRV]:
        """The blocks of the same scope that read what this block writes."""
        blocks = self._new_blocks(
            self._run(primitives.get_consumers, self._block(block, "get_consumers"))
        )
        self._record("GetConsumers", [block], [], blocks)
        return blocks

    def get_output_blocks(self, scope_block: BlockRV) -> list[BlockRV]:
        """The blocks inside of a scope that write to buffers from outside of it."""
        found = self._run(
            primitives.get_output_blocks, self._block(scope_block, "get_output_blocks")
        )
        blocks = self._new_blocks(found)
        self._record("GetOutputBlocks", [scope_block], [], blocks)
        return blocks

    # --- loops ------------------------------------------------------------------------------------

    def split(
        self,
        loop: LoopRV,
        factors: list,
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Replace one loop by nested loops; at most one factor is None and found from the extent.

            for i in range(64): A[i] = f(i)
          split(i, [None, 16])
            for i_0 in range(4):
                for i_1 in range(16): A[i_0 * 16 + i_1] = f(i_0 * 16 + i_1)

        Factors whose product exceeds the extent add a predicate, unless ``disable_predication``
        says that it is not needed. The new loops are serial. With ``preserve_unit_iters`` loops of
        one iteration stay visible in the bindings. Refuses loops bound to threads, loops with
        annotations, and loops that do not start at 0.
        """
        values = [self._expr(factor) for factor in factors]
        made = self._run(
            primitives.split,
            self._loop(loop, "split"),
            values,
            preserve_unit_iters,
            disable_predication,
        )
        loops = self._new_loops(made)
        self._record(
            "Split", [loop, list(factors)], [preserve_unit_iters, disable_predication], loops
        )
        return loops

    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """Make one loop of directly nested ones, outermost first.

          for i in range(4):
              for j in range(16): A[i, j] = f(i, j)
        fuse(i, j)
          for i_j_fused in range(64): A[i_j_fused // 16, i_j_fused % 16] = ...

        The new loop is serial.
        """
        srefs = [self._loop(loop, "fuse") for loop in loops]
        (fused,) = self._new_loops([self._run(primitives.fuse, srefs, preserve_unit_iters)])
        self._record("Fuse", [list(loops)], [preserve_unit_iters], [fused])
        return fused

    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Put loops of one nest into the given order; other loops between them stay where they are.

        Refuses loops of different nests, nests with statements between the loops, blocks that are
        not bound affinely, and orders in which an outer loop would depend on an inner one.
        """
        srefs = [self._loop(loop, "reorder") for loop in ordered_loops]
        self._run(primitives.reorder, srefs)
        self._record("Reorder", [list(ordered_loops)], [], [])

    def merge(self, *loops: LoopRV) -> LoopRV:
        """Make one loop of several that stand one after the other; their bodies follow in turn.

        Refuses loops of different kinds or extents, and nests of which one uses in an iteration
        what another one writes in other iterations.
        """
        srefs = [self._loop(loop, "merge") for loop in loops]
        (merged,) = self._new_loops([self._run(primitives.merge, srefs)])
        self._record("Merge", [list(loops)], [], [merged])
        return merged

    def loop_partition(
        self, loop: LoopRV, factors: list, preserve_unit_iters: bool = True
    ) -> list[LoopRV]:
        """Replace one loop by consecutive loops over parts of its range, of the given lengths.

          for i in range(10): f(i)
        loop_partition(i, [3, None])
          for i_0 in range(3): f(i_0)
          for i_1 in range(7): f(i_1 + 3)
        """
        values = [self._expr(factor) for factor in factors]
        made = self._run(
            primitives.loop_partition,
            self._loop(loop, "loop_partition"),
            values,
            preserve_unit_iters,
        )
        loops = self._new_loops(made)
        self._record("LoopPartition", [loop, list(factors)], [preserve_unit_iters], loops)
        return loops

    def add_unit_loop(self, block_or_loop: Any) -> LoopRV:
        """Put a loop of one iteration around a block or loop."""
        (loop,) = self._new_loops([self._run(primitives.add_unit_loop, self._sref(block_or_loop))])
        self._record("AddUnitLoop", [block_or_loop], [], [loop])
        return loop

    def reorder_block_iter_var(self, block: BlockRV, new_order: list[int]) -> None:
        """Put the iterators of a block into another order: position k takes ``new_order[k]``."""
        order = [int(self._expr(index)) for index in new_order]
        self._run(
            primitives.reorder_block_iter_var, self._block(block, "reorder_block_iter_var"), order
        )
        self._record("ReorderBlockIterVar", [block], [order], [])

    def parallel(self, loop: LoopRV) -> None:
        """Run the iterations of a loop in parallel.

        Refuses loops that carry a reduction or dependence, or whose iterations write one element.
        """
        self._run(primitives.parallel, self._loop(loop, "parallel"))
        self._record("Parallel", [loop], [], [])

    def vectorize(self, loop: LoopRV) -> None:
        """Run the iterations of a loop as lanes of vectors. Refuses as ``parallel`` does."""
        self._run(primitives.vectorize, self._loop(loop, "vectorize"))
        self._record("Vectorize", [loop], [], [])

    def unroll(self, loop: LoopRV) -> None:
        """Unroll a loop."""
        self._run(primitives.unroll, self._loop(loop, "unroll"))
        self._record("Unroll", [loop], [], [])

    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind a loop to a thread axis ("blockIdx.x", "threadIdx.y", "vthread.x", ...)."""
        self._run(primitives.bind, self._loop(loop, "bind"), thread_axis)
        self._record("Bind", [loop], [thread_axis], [])

    def annotate(self, block_or_loop: Any, ann_key: str, ann_val: Any) -> None:
        """Set an annotation of a block or loop."""
        value = self._annotation(ann_val)
        self._run(primitives.annotate, self._sref(block_or_loop), ann_key, value)
        self._record("Annotate", [block_or_loop, ann_val], [ann_key], [])

    def _annotation(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple([self._annotation(item) for item in value])
        if isinstance(value, dict):
            return {key: self._annotation(item) for key, item in value.items()}
        return self._expr(value) if isinstance(value, PrimExpr) else value

    def unannotate(self, block_or_loop: Any, ann_key: str) -> None:
        """Remove an annotation."""
        self._run(primitives.unannotate, self._sref(block_or_loop), ann_key)
        self._record("Unannotate", [block_or_loop], [ann_key], [])

    # --- where blocks are computed ----------------------------------------------------------------

    def compute_at(
        self, block: BlockRV, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a producer under a loop of its consumers, computing only what they need there.

        ``index``: where among the statements of the loop: -1 the last possible place, -2 the first,
        k the k-th. Refuses output blocks, consumers outside of the loop, blocks that are not
        complete or reduction blocks. A mark instead of a loop (``sample_compute_location``) leaves
        the block where it is or inlines it.
        """
        block_sref = self._block(block, "compute_at")
        if not self._serve_mark(loop, primitives.compute_inline, block_sref):
            loop_sref = self._loop(loop, "compute_at")
            self._run(primitives.compute_at, block_sref, loop_sref, preserve_unit_loops, int(index))
        self._record("ComputeAt", [block, loop], [preserve_unit_loops, int(index)], [])

    def reverse_compute_at(
        self, block: BlockRV, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a consumer under a loop of its producers, for the part that they have made there.

        All producers have to be under the loop. Refuses places inside of a producer's reduction,
        and consumers that would read what is not there yet, run several times, or not run for all
        that they write. Marks as in ``compute_at``.
        """
        block_sref = self._block(block, "reverse_compute_at")
        if not self._serve_mark(loop, primitives.reverse_compute_inline, block_sref):
            loop_sref = self._loop(loop, "reverse_compute_at")
            self._run(
                primitives.reverse_compute_at,
                block_sref,
                loop_sref,
                preserve_unit_loops,
                int(index),
            )
        self._record("ReverseComputeAt", [block, loop], [preserve_unit_loops, int(index)], [])

    def _serve_mark(self, loop: Any, inline: Callable[..., None], block_sref: StmtSRef) -> bool:
        """Do what a mark in the place of a loop says; False for a loop."""
        mark = self._table.get(loop) if isinstance(loop, LoopRV) else loop
        if mark is StmtSRef.inline_mark():
            self._run(inline, block_sref)
        return mark is StmtSRef.inline_mark() or mark is StmtSRef.root_mark()

    def compute_inline(self, block: BlockRV) -> None:
        """Put the value of a block into the expressions that read it, and remove the block."""
        self._run(primitives.compute_inline, self._block(block, "compute_inline"))
        self._record("ComputeInline", [block], [], [])

    def reverse_compute_inline(self, block: BlockRV) -> None:
        """Put a consumer's expression into its only producer, and remove the consumer."""
        self._run(primitives.reverse_compute_inline, self._block(block, "reverse_compute_inline"))
        self._record("ReverseComputeInline", [block], [], [])

    # --- reductions -------------------------------------------------------------------------------

    def decompose_reduction(self, block: BlockRV, loop: LoopRV) -> BlockRV:
        """Split a reduction block into an initialisation, put before ``loop``, and the update.

        Gives the block of the initialisation.
        """
        made = self._run(
            primitives.decompose_reduction,
            self._block(block, "decompose_reduction"),
            self._loop(loop, "decompose_reduction"),
        )
        (init,) = self._new_blocks([made])
        self._record("DecomposeReduction", [block, loop], [], [init])
        return init

    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """Make the iterations of a reduction loop independent: partial results in a buffer with one
        more dimension (at ``factor_axis``), combined by a second block; gives the first block."""
        made = self._run(primitives.rfactor, self._loop(loop, "rfactor"), int(factor_axis))
        (block,) = self._new_blocks([made])
        self._record("RFactor", [loop], [int(factor_axis)], [block])
        return block

    # --- sampling ---------------------------------------------------------------------------------

    def sample_categorical(
        self, candidates: list[int], probs: list[float], decision: int | None = None
    ) -> Var:
        """One of some numbers, with given probabilities; ``decision`` is the position chosen."""
        chosen = primitives.sample_categorical(
            self._random, candidates, probs, plain_decision(decision)
        )
        (variable,) = self._new_exprs([int(candidates[chosen])])
        attrs = [[int(c) for c in candidates], [float(p) for p in probs]]
        self._record("SampleCategorical", [], attrs, [variable], chosen)
        return variable

    def sample_perfect_tile(
        self, loop: LoopRV, n: int, max_innermost_factor: int = 16, decision: list | None = None
    ) -> list[Var]:
        """``n`` factors whose product is the extent of a loop.

        The last is at most ``max_innermost_factor``. A ``decision`` for another extent is fitted.
        """
        loop_sref = self._loop(loop, "sample_perfect_tile")
        limit = int(max_innermost_factor)
        factors = self._run(
            primitives.sample_perfect_tile,
            self._random,
            loop_sref,
            int(n),
            limit,
            plain_decision(decision),
        )
        variables = self._new_exprs(factors)
        self._record("SamplePerfectTile", [loop], [int(n), limit], variables, factors)
        return variables

    def sample_partitioned_tile(
        self,
        loop: LoopRV,
        n: int,
        partition_pos: int = 0,
        innerpart_factor: int = 1,
        decision: list | None = None,
    ) -> list[Var]:
        """``n`` factors whose product is the extent of a loop; the product of those from
        ``partition_pos`` on is a multiple of ``innerpart_factor``."""
        limits = [int(n), int(partition_pos), int(innerpart_factor)]
        factors = self._run(
            primitives.sample_partitioned_tile,
            self._random,
            self._loop(loop, "sample_partitioned_tile"),
            *limits,
            plain_decision(decision),
        )
        variables = self._new_exprs(factors)
        self._record("SamplePartitionedTile", [loop], limits, variables, factors)
        return variables

    def sample_compute_location(self, block: BlockRV, decision: int | None = None) -> LoopRV:
        """A loop around all consumers of a block under which it can be computed, or a mark.

        ``decision`` is the number of the loop among those, outermost first; -1 stands for leaving
        the block where it is, -2 for inlining it. ``compute_at`` understands all three.
        """
        chosen, sref = self._run(
            primitives.sample_compute_location,
            self._random,
            self._block(block, "sample_compute_location"),
            plain_decision(decision),
        )
        (loop,) = self._new_loops([sref])
        self._record("SampleComputeLocation", [block], [], [loop], chosen)
        return loop

    def enter_postproc(self) -> None:
        """Mark that what follows in the trace is post-processing."""
        self._record("EnterPostproc", [], [], [])
