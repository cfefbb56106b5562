"""The methods of ``tir.Schedule`` about buffers: copies of them, their layout, their scope."""

from __future__ import annotations

from typing import Any

from tilesmith.tir.schedule import primitives
from tilesmith.tir.schedule.base import ScheduleBase
from tilesmith.tir.schedule.trace import BlockRV, LoopRV

__all__ = ["BufferMethods"]


class BufferMethods(ScheduleBase):
    """Primitives about buffers: caches, new layouts, scopes."""

    def cache_read(
        self,
        block: BlockRV,
        read_buffer_index: Any,
        storage_scope: str,
        consumer_blocks: list | None = None,
    ) -> BlockRV:
        """Read a buffer through a copy in another scope; gives the block that copies.

        At most one block of the scope writes the buffer. Made at the top of a block, the copy is as
        large as what the block reads.
        """
        block_sref = self._block(block, "cache_read")
        index = self._buffer_index(block, read_buffer_index, "read")
        consumers = [self._block(consumer, "cache_read") for consumer in consumer_blocks or []]
        made = self._run(primitives.cache_read, block_sref, index, storage_scope, consumers)
        (copy,) = self._new_blocks([made])
        self._record(
            "CacheRead", [block, list(consumer_blocks or [])], [index, storage_scope], [copy]
        )
        return copy

    def cache_write(
        self,
        block: BlockRV,
        write_buffer_index: Any,
        storage_scope: str,
        consumer_blocks: list | None = None,
    ) -> BlockRV:
        """Write a buffer through a copy in another scope; gives the block that copies back."""
        block_sref = self._block(block, "cache_write")
        index = self._buffer_index(block, write_buffer_index, "write")
        consumers = [self._block(consumer, "cache_write") for consumer in consumer_blocks or []]
        made = self._run(primitives.cache_write, block_sref, index, storage_scope, consumers)
        (copy,) = self._new_blocks([made])
        self._record(
            "CacheWrite", [block, list(consumer_blocks or [])], [index, storage_scope], [copy]
        )
        return copy

    def reindex_cache_read(
        self, block: BlockRV, read_buffer_index: Any, storage_scope: str, index_map: Any
    ) -> BlockRV:
        """Read a buffer through a copy at indices that a map gives from the block's iterators.

            B[vi, vj] = A[vi, vj] * 2
          reindex_cache_read(block, 0, "local", lambda vi, vj: (vj, vi))
            A_local[vj, vi] = A[vi, vj]    # a block before
            B[vi, vj] = A_local[vj, vi] * 2

        The block reads one element in each instance; the map must tell which. Gives the block that
        copies.
        """
        return self._reindex_cache(block, read_buffer_index, storage_scope, index_map, "read")

    def reindex_cache_write(
        self, block: BlockRV, write_buffer_index: Any, storage_scope: str, index_map: Any
    ) -> BlockRV:
        """Write a buffer through a copy at indices that a map gives from the block's iterators;
        see ``reindex_cache_read``. Gives the block that copies back."""
        return self._reindex_cache(block, write_buffer_index, storage_scope, index_map, "write")

    def _reindex_cache(
        self, block: BlockRV, buffer_index: Any, storage_scope: str, index_map: Any, kind: str
    ) -> BlockRV:
        block_sref = self._block(block, f"reindex_cache_{kind}")
        index = self._buffer_index(block, buffer_index, kind)
        mapping = primitives.as_block_index_map(self.state, block_sref, index_map)
        made = self._run(primitives.reindex_cache, block_sref, index, kind, storage_scope, mapping)
        (copy,) = self._new_blocks([made])
        name = "ReindexCacheRead" if kind == "read" else "ReindexCacheWrite"
        self._record(name, [block], [index, storage_scope, mapping], [copy])
        return copy

    def reindex(self, block: BlockRV, buffer: Any) -> BlockRV:
        """Access a buffer through a copy that is indexed by the block's own iterators.

            B[vi, vj] = A[vi // 4, vj, vi % 4]
          reindex(block, ("read", 0))
            A_reindex[vi, vj] = A[vi // 4, vj, vi % 4]    # a block before
            B[vi, vj] = A_reindex[vi, vj]

        ``buffer`` is ``("read", k)``, ``("write", k)``, a name or a Buffer. Gives the block that
        copies.
        """
        block_sref = self._block(block, "reindex")
        index, kind = self._buffer_of(block, buffer)
        (copy,) = self._new_blocks([self._run(primitives.reindex, block_sref, index, kind)])
        self._record("ReIndex", [block], [(kind, index)], [copy])
        return copy

    def cache_inplace(
        self, block: BlockRV, read_buffer_index: Any, storage_scope: str
    ) -> list[BlockRV]:
        """Let a block that reads and writes a buffer work on a copy of it.

        Gives two blocks: the one that copies in, and the one that copies back.
        """
        block_sref = self._block(block, "cache_inplace")
        index = self._buffer_index(block, read_buffer_index, "read")
        made = self._run(primitives.cache_inplace, block_sref, index, storage_scope)
        copies = self._new_blocks(list(made))
        self._record("CacheInplace", [block], [index, storage_scope], copies)
        return copies

    def cache_index(self, block: BlockRV, storage_scope: str, cse_thresh: int = 0) -> list[BlockRV]:
        """Compute the indices at which a block accesses its buffers beforehand, into buffers.

            B[vi, vj] = A[vi // 4 + vj // 4, vj // 2]
          cache_index(block, "global")
            index_var_0[vi, vj] = vi // 4 + vj // 4    # a block before
            index_var_1[vj] = vj // 2                  # another one
            B[vi, vj] = A[index_var_0[vi, vj], index_var_1[vj]]

        ``cse_thresh`` above 1: only what occurs so many times, parts of indices included. Gives the
        blocks that compute, none where no index is computed.
        """
        block_sref = self._block(block, "cache_index")
        made = self._run(primitives.cache_index, block_sref, storage_scope, int(cse_thresh))
        blocks = self._new_blocks(made)
        self._record("CacheIndex", [block], [storage_scope, int(cse_thresh)], blocks)
        return blocks

    def read_at(
        self, loop: LoopRV, block: BlockRV, read_buffer_index: Any, storage_scope: str
    ) -> BlockRV:
        """Read a buffer through a copy, made anew in each iteration of a loop around the block.

        The copy holds what all blocks under the loop read of the buffer; the block that makes it
        is marked ``auto_copy``, and its inside is plain loops.
        """
        index = self._buffer_index(block, read_buffer_index, "read")
        loop_sref, block_sref = self._loop(loop, "read_at"), self._block(block, "read_at")
        made = self._run(primitives.read_at, loop_sref, block_sref, index, storage_scope)
        (copy,) = self._new_blocks([made])
        self._record("ReadAt", [loop, block], [index, storage_scope], [copy])
        return copy

    def write_at(
        self, loop: LoopRV, block: BlockRV, write_buffer_index: Any, storage_scope: str
    ) -> BlockRV:
        """Write a buffer through a copy, put back in each iteration of a loop around the block.

        As ``read_at``; the block must have finished what it writes in one iteration.
        """
        index = self._buffer_index(block, write_buffer_index, "write")
        loop_sref, block_sref = self._loop(loop, "write_at"), self._block(block, "write_at")
        made = self._run(primitives.write_at, loop_sref, block_sref, index, storage_scope)
        (copy,) = self._new_blocks([made])
        self._record("WriteAt", [loop, block], [index, storage_scope], [copy])
        return copy

    def rolling_buffer(self, block: BlockRV, write_buffer_index: Any) -> None:
        """Make the buffer of a producer circular, and compute only rows that are new.

        The block stands under a loop of its consumers (``compute_at``), and the parts that it
        writes in successive iterations overlap by constant amounts. Along the first such dimension
        the buffer keeps as many rows as one iteration needs, row r at ``r % rows``.
        """
        index = self._buffer_index(block, write_buffer_index, "write")
        self._run(primitives.rolling_buffer, self._block(block, "rolling_buffer"), index)
        self._record("RollingBuffer", [block], [index], [])

    def set_scope(self, block: BlockRV, buffer_index: Any, storage_scope: str) -> None:
        """Put a buffer that a block writes into another storage scope."""
        index = self._buffer_index(block, buffer_index, "write")
        self._run(primitives.set_scope, self._block(block, "set_scope"), index, storage_scope)
        self._record("SetScope", [block], [index, storage_scope], [])

    def storage_align(
        self, block: BlockRV, buffer_index: int, axis: int, factor: int, offset: int
    ) -> None:
        """Ask that the stride of a buffer's axis be ``k * factor + offset`` elements."""
        index = self._buffer_index(block, buffer_index, "write")
        block_sref = self._block(block, "storage_align")
        self._run(primitives.storage_align, block_sref, index, int(axis), int(factor), int(offset))
        self._record("StorageAlign", [block], [index, int(axis), int(factor), int(offset)], [])

    def transform_layout(
        self,
        block: BlockRV,
        buffer: Any,
        index_map: Any,
        pad_value: Any = None,
        *,
        assume_injective_transform: bool = False,
    ) -> None:
        """Change the layout of a buffer that a block reads or writes: element ``i`` goes to
        ``index_map(i)``. ``buffer`` is ``("read", k)``, ``("write", k)``, a name or a Buffer.

        Where the new shape has more elements, ``pad_value`` fills them: a number, an expression or
        a function of the new indices, in the dtype of the buffer. The producer writes them, or a
        block after it; of a parameter that is only read they are assumed to hold it. Refuses
        padding without a value, unless ``assume_injective_transform`` vouches for the map.
        """
        block_sref = self._block(block, "transform_layout")
        index, kind = self._buffer_of(block, buffer)
        mapping = self._run(primitives.as_index_map, block_sref, index, kind, index_map)
        padding = primitives.as_pad_value(self.state, block_sref, index, kind, mapping, pad_value)
        self._run(
            primitives.transform_layout,
            block_sref,
            index,
            kind,
            mapping,
            padding,
            assume_injective_transform,
        )
        self._record(
            "TransformLayout",
            [block],
            [(kind, index), mapping, padding, assume_injective_transform],
            [],
        )

    def transform_block_layout(self, block: BlockRV, index_map: Any) -> None:
        """Replace the iterators (and loops) of a block by those that ``index_map`` gives."""
        block_sref = self._block(block, "transform_block_layout")
        mapping = primitives.as_block_index_map(self.state, block_sref, index_map)
        self._run(primitives.transform_block_layout, block_sref, mapping)
        self._record("TransformBlockLayout", [block], [mapping], [])
