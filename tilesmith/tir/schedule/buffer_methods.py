"""The methods of ``tir.Schedule`` about buffers: copies of them, their layout, their scope."""

from __future__ import annotations

from typing import Any

from tilesmith.tir.schedule import primitives
from tilesmith.tir.schedule.base import ScheduleBase
from tilesmith.tir.schedule.trace import BlockRV

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
        """Read a buffer through a copy in another scope; gives the block that copies."""
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
        ``index_map(i)``. ``buffer`` is ``("read", k)``, ``("write", k)``, a name or a Buffer."""
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
