"""Made by tools/write_stubs.py from the declared primitives; do not edit."""
# fmt: off

import random
from typing import Any as Any
from tilesmith.tir.schedule.trace import BlockRV as BlockRV
from tilesmith.tir.buffer import Buffer as Buffer
from collections.abc import Callable as Callable
from tilesmith.ir.expr import GlobalVar as GlobalVar
from tilesmith.tir.index_map import IndexMap as IndexMap
from tilesmith.tir.schedule.trace import LoopRV as LoopRV
from tilesmith.ir.expr import PrimExpr as PrimExpr
from tilesmith.tir.function import PrimFunc as PrimFunc
from tilesmith.tir.schedule.variables import RandomVariables as RandomVariables
from tilesmith.tir.schedule.state import ScheduleState as ScheduleState
from collections.abc import Sequence as Sequence
from tilesmith.tir.tensor_intrin import TensorIntrin as TensorIntrin
from tilesmith.tir.schedule.trace import Trace as Trace
from tilesmith.ir.expr import Var as Var

class PrimitiveMethods:
    state: ScheduleState
    trace: Trace
    variables: RandomVariables
    random: random.Random
    error_render_level: str
    func_working_on: GlobalVar | None
    def add_unit_loop(self, block_or_loop: BlockRV | LoopRV | str) -> LoopRV:
        """Insert a loop of extent 1 around a block or loop."""
    def annotate(self, block_or_loop: BlockRV | LoopRV | str, ann_key: str, ann_val: Any) -> None:
        """Set an annotation of a block or loop."""
    def annotate_buffer_access(self, block: BlockRV | str, buffer_index: int | str | Buffer, buf_type: str, gen_new_ranges: Callable[..., Any]) -> None:
        """Let a block declare another region of the buffer that it reads or writes."""
    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind a loop to a thread axis ("blockIdx.x", "threadIdx.y", "vthread.x", ...)."""
    def blockize(self, target: BlockRV | LoopRV | Sequence[BlockRV | str], preserve_unit_iters: bool = True) -> BlockRV:
        """Make one block of a loop with its body, or of several blocks of one scope."""
    def cache_index(self, block: BlockRV | str, storage_scope: str, cse_thresh: int = 0) -> list[BlockRV]:
        """Precompute the indices at which a block accesses its buffers, and store them in buffers."""
    def cache_inplace(self, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str) -> list[BlockRV]:
        """Let a block that reads and writes the same buffer work on a copy of it."""
    def cache_read(self, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str, consumer_blocks: Sequence[BlockRV | str] | None = None) -> BlockRV:
        """Read a buffer through a copy in another scope; returns the copying block."""
    def cache_write(self, block: BlockRV | str, write_buffer_index: int | str | Buffer, storage_scope: str, consumer_blocks: Sequence[BlockRV | str] | None = None) -> BlockRV:
        """Write a buffer through a copy in another scope; returns the block that copies back."""
    def can_decompose_padding(self, block: BlockRV | str, loop: LoopRV) -> bool:
        """Return whether ``decompose_padding`` accepts the same arguments."""
    def compute_at(self, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1) -> None:
        """Move a producer under a loop of its consumers; it computes only the region that they read"""
    def compute_inline(self, block: BlockRV | str) -> None:
        """Substitute the value of a block into the expressions that read it, and remove the block."""
    def decompose_padding(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Split a block that chooses between a value and constant padding into two."""
    def decompose_reduction(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Split a reduction block into an initialisation, inserted before ``loop``, and an update."""
    def enter_postproc(self) -> None:
        """Mark all later instructions of the trace as post-processing."""
    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """Fuse directly nested loops, given outermost first, into one loop."""
    def fuse_reduction_epilogue(self, reduction_block: BlockRV | str, epilogue_block: BlockRV | str) -> None:
        """Initialise a reduction with the value that its epilogue adds to the result, and remove the"""
    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """Return the only block of that name."""
    def get_child_blocks(self, block_or_loop: BlockRV | LoopRV | str) -> list[BlockRV]:
        """Return the outermost blocks inside a block or loop."""
    def get_consumers(self, block: BlockRV | str) -> list[BlockRV]:
        """Return the blocks of the same scope that read buffers that this block writes."""
    def get_loops(self, block: BlockRV | LoopRV | str) -> list[LoopRV]:
        """Return the loops around a block up to the next block, outermost first."""
    def get_output_blocks(self, scope_block: BlockRV | str) -> list[BlockRV]:
        """Return the blocks inside a scope that write buffers allocated outside of it."""
    def get_producers(self, block: BlockRV | str) -> list[BlockRV]:
        """Return the blocks of the same scope that write buffers that this block reads."""
    def get_sblock(self, name: str, func_name: str | None = None) -> BlockRV:
        """Return the only block of that name."""
    def loop_partition(self, loop: LoopRV, factors: Sequence[int | PrimExpr | None], preserve_unit_iters: bool = True) -> list[LoopRV]:
        """Replace one loop by consecutive loops over parts of its range, of the given lengths."""
    def merge(self, *loops: LoopRV) -> LoopRV:
        """Merge several consecutive loops into one whose body runs theirs in order."""
    def pad_einsum(self, block: BlockRV | str, padding: Sequence[int]) -> None:
        """Round the extent of each iterator of an einsum up to a multiple of its factor."""
    def parallel(self, loop: LoopRV) -> None:
        """Run the iterations of a loop in parallel."""
    def read_at(self, loop: LoopRV, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str) -> BlockRV:
        """Read a buffer through a copy that is filled in each iteration of a loop around the block."""
    def reindex(self, block: BlockRV | str, buffer: tuple[str, int] | str | Buffer) -> BlockRV:
        """Access a buffer through a copy that is indexed by the block's own iterators."""
    def reindex_cache_read(self, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str, index_map: IndexMap | Callable[..., Any]) -> BlockRV:
        """Read a buffer through a copy whose indices are a map of the block's iterators."""
    def reindex_cache_write(self, block: BlockRV | str, write_buffer_index: int | str | Buffer, storage_scope: str, index_map: IndexMap | Callable[..., Any]) -> BlockRV:
        """Write a buffer through a copy whose indices are a map of the block's iterators; see"""
    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Reorder loops of one nest as given; other loops between them keep their positions."""
    def reorder_block_iter_var(self, block: BlockRV | str, new_order: Sequence[int]) -> None:
        """Reorder the iterators of a block: position k gets the iterator ``new_order[k]``."""
    def reverse_compute_at(self, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1) -> None:
        """Move a consumer under a loop of its producers; it processes only the region that they write"""
    def reverse_compute_inline(self, block: BlockRV | str) -> None:
        """Substitute a consumer's expression into its only producer, and remove the consumer."""
    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """Make the iterations of a reduction loop independent: the first block stores partial results"""
    def rolling_buffer(self, block: BlockRV | str, write_buffer_index: int | str | Buffer) -> None:
        """Make the buffer of a producer circular, so that each iteration computes only new rows."""
    def sample_categorical(self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None) -> Var:
        """Draw one of several numbers with given probabilities; ``decision`` is its position."""
    def sample_compute_location(self, block: BlockRV | str, decision: int | None = None) -> LoopRV:
        """Draw a loop around all consumers of a block under which it can be computed, or a mark."""
    def sample_partitioned_tile(self, loop: LoopRV, n: int, partition_pos: int = 0, innerpart_factor: int = 1, decision: Sequence[int] | None = None) -> list[Var]:
        """Draw ``n`` factors whose product is the extent of a loop; the product of those from"""
    def sample_perfect_tile(self, loop: LoopRV, n: int, max_innermost_factor: int = 16, decision: Sequence[int] | None = None) -> list[Var]:
        """Draw ``n`` factors whose product is the extent of a loop."""
    def set_axis_separator(self, block: BlockRV | str, buffer: tuple[str, int] | str | Buffer, axis_separators: Sequence[int]) -> None:
        """Set the separators between the physical axes of a buffer."""
    def set_scope(self, block: BlockRV | str, buffer_index: int | str | Buffer, storage_scope: str) -> None:
        """Set the storage scope of a buffer that a block writes."""
    def split(self, loop: LoopRV, factors: Sequence[int | PrimExpr | None], preserve_unit_iters: bool = True, disable_predication: bool = False) -> list[LoopRV]:
        """Replace one loop by nested loops; at most one factor may be None, and is inferred from the"""
    def storage_align(self, block: BlockRV | str, buffer_index: int | str | Buffer, axis: int, factor: int, offset: int) -> None:
        """Require that the stride of a buffer's axis is ``k * factor + offset`` elements."""
    def tensorize(self, block_or_loop: BlockRV | LoopRV | str, tensor_intrin: str | TensorIntrin | tuple[PrimFunc, PrimFunc], preserve_unit_iters: bool = True) -> None:
        """Replace a block, or a loop with its body, by a tensor intrinsic."""
    def transform_block_layout(self, block: BlockRV | str, index_map: IndexMap | Callable[..., Any]) -> None:
        """Replace the iterators (and loops) of a block by the results of ``index_map``."""
    def transform_layout(self, block: BlockRV | str, buffer: tuple[str, int] | str | Buffer, index_map: IndexMap | Callable[..., Any], pad_value: Any = None, *, assume_injective_transform: bool = False) -> None:
        """Change the layout of a buffer that a block reads or writes: element ``i`` goes to"""
    def unannotate(self, block_or_loop: BlockRV | LoopRV | str, ann_key: str) -> None:
        """Remove an annotation."""
    def unroll(self, loop: LoopRV) -> None:
        """Unroll a loop. Refuses loops that are bound to threads."""
    def unsafe_hide_buffer_access(self, block: BlockRV | str, buf_type: str, buf_index_array: Sequence[int]) -> None:
        """Drop declared accesses of a block: buffers in its reads ("read") or writes ("write")."""
    def unsafe_set_dtype(self, block: BlockRV | str, buffer_index: int | str | Buffer, dtype: str) -> None:
        """Store a buffer that a block writes in another dtype; values are cast on access."""
    def vectorize(self, loop: LoopRV) -> None:
        """Run the iterations of a loop as lanes of vectors. Refuses as ``parallel`` does."""
    def write_at(self, loop: LoopRV, block: BlockRV | str, write_buffer_index: int | str | Buffer, storage_scope: str) -> BlockRV:
        """Write a buffer through a copy that is written back in each iteration of a loop around the"""
