"""The methods of ``tir.Schedule`` that make or replace whole blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.tir.schedule.base import ScheduleBase
from tilesmith.tir.schedule.primitives.blockize import blockize
from tilesmith.tir.schedule.primitives.buffer_access import (
    annotate_buffer_access,
    as_region_map,
    set_axis_separator,
    unsafe_hide_buffer_access,
    unsafe_set_dtype,
)
from tilesmith.tir.schedule.primitives.decompose_padding import (
    can_decompose_padding,
    decompose_padding,
)
from tilesmith.tir.schedule.primitives.pad_einsum import pad_einsum
from tilesmith.tir.schedule.primitives.reduction_epilogue import fuse_reduction_epilogue
from tilesmith.tir.schedule.primitives.tensorize import as_tensor_intrin, tensorize
from tilesmith.tir.schedule.trace import BlockRV, LoopRV

__all__ = ["BlockMethods"]


class BlockMethods(ScheduleBase):
    """Primitives about blocks: blockize, tensorize, padding."""

    def blockize(self, target: Any, preserve_unit_iters: bool = True) -> BlockRV:
        """Make one block of a loop with all that is in it, or of several blocks of one scope.

          for i_0, i_1 in T.grid(8, 16):
              with T.block("B"):
                  vi = T.axis.spatial(128, i_0 * 16 + i_1)
        blockize(i_1)
          for i_0 in range(8):
              with T.block("B_o"):
                  vi_o = T.axis.spatial(8, i_0)
                  for i_1 in range(16):
                      with T.block("B"):
                          vi_i = T.axis.spatial(16, i_1)

        ``target``: a loop, a block, or a list of blocks that stand beside each other. The init of a
        reduction goes to the new block if that carries the reduction. With ``preserve_unit_iters``
        an iterator that is wholly inside leaves one of extent 1 outside. Gives the new block.

        Refuses iterators that are no ``outer * extent + inner`` at this place, other statements
        between the loops, and blocks of different scopes.
        """
        if isinstance(target, (list, tuple)):
            srefs = [self._block(block, "blockize") for block in target]
            inputs: Any = list(target)
        else:
            srefs, inputs = [self._sref(target)], target
        (block,) = self._new_blocks([self._run(blockize, srefs, bool(preserve_unit_iters))])
        self._record("Blockize", [inputs], [bool(preserve_unit_iters)], [block])
        return block

    def tensorize(
        self, block_or_loop: Any, tensor_intrin: Any, preserve_unit_iters: bool = True
    ) -> None:
        """Replace a block, or a loop with all that is in it, by a tensor intrinsic.

        ``tensor_intrin``: the name of a registered intrinsic, a TensorIntrin, or the pair
        (description, implementation). What is computed must be what the description says, loop by
        loop; names, the places in the buffers, strides, further dimensions in front of the buffers
        and loops of one iteration may differ.
        """
        intrin = as_tensor_intrin(tensor_intrin)
        name = tensor_intrin if isinstance(tensor_intrin, str) else intrin.registered_name()
        called = f"intrinsic '{name}'" if name else "the intrinsic"
        sref = self._sref(block_or_loop)
        self._run(tensorize, sref, intrin, called, bool(preserve_unit_iters))
        attrs = [name or intrin, bool(preserve_unit_iters)]
        self._record("Tensorize", [block_or_loop], attrs, [])

    # --- padding ----------------------------------------------------------------------------------

    def decompose_padding(self, block: BlockRV, loop: LoopRV) -> BlockRV:
        """Split a block that chooses between a value and constant padding into two.

          for i in range(10):
              with T.block("B"):
                  B[vi] = T.if_then_else(1 <= vi and vi < 9, A[vi - 1], 0.0)
        decompose_padding(B, i)
          for i_pad in range(10):
              with T.block("B_pad_const"): B[vi] = 0.0
          for i in range(8):
              with T.block("B"): B[vi + 1] = A[vi]

        The padding is filled in right before ``loop``. Gives the block that fills. Refuses other
        blocks, conditions that are no bounds of single iterators, and loops with other statements.
        """
        block_sref = self._block(block, "decompose_padding")
        loop_sref = self._loop(loop, "decompose_padding")
        (fill,) = self._new_blocks([self._run(decompose_padding, block_sref, loop_sref)])
        self._record("DecomposePadding", [block, loop], [], [fill])
        return fill

    def can_decompose_padding(self, block: BlockRV, loop: LoopRV) -> bool:
        """Whether ``decompose_padding`` of the same arguments would not be refused."""
        block_sref = self._block(block, "can_decompose_padding")
        loop_sref = self._loop(loop, "can_decompose_padding")
        return can_decompose_padding(self.state, block_sref, loop_sref)

    def pad_einsum(self, block: BlockRV, padding: list[int]) -> None:
        """Round the extent of each iterator of an einsum up to a multiple of its factor.

        ``padding``: one factor for each iterator, 1 leaves it. What the block reads is copied into
        padded buffers with zeros around, what it writes is cut out of a padded one:

          C[127, 127] = A[127, 127] @ B[127, 127]
        pad_einsum(C, [16, 16, 16])
          A_pad[128, 128] = A, else 0;  B_pad[128, 128] = B, else 0
          C_pad[128, 128] = A_pad @ B_pad;  C = C_pad[0:127, 0:127]

        Refuses blocks whose iterators are not loops of their own (pad before splitting), indices
        that are no single iterators, and reductions that zeros would change.
        """
        factors = [int(self._expr(factor)) for factor in padding]
        self._run(pad_einsum, self._block(block, "pad_einsum"), factors)
        self._record("PadEinsum", [block], [factors], [])

    def fuse_reduction_epilogue(self, reduction_block: BlockRV, epilogue_block: BlockRV) -> None:
        """Let a reduction start from what its epilogue adds to the result.

          C = sum of A * B;  D = C + bias
        fuse_reduction_epilogue(C, D)
          with T.init(): D = bias
          D = D + A * B

        The epilogue must combine the result by the reduction's own operator with something that
        does not depend on it, and be the only one that reads the result.
        """
        reduction_sref = self._block(reduction_block, "fuse_reduction_epilogue")
        epilogue_sref = self._block(epilogue_block, "fuse_reduction_epilogue")
        self._run(fuse_reduction_epilogue, reduction_sref, epilogue_sref)
        self._record("FuseReductionEpilogue", [reduction_block, epilogue_block], [], [])

    # --- what blocks say of their buffers ---------------------------------------------------------

    def annotate_buffer_access(
        self, block: BlockRV, buffer_index: Any, buf_type: str, gen_new_ranges: Callable[..., Any]
    ) -> None:
        """Let a block declare another region of the buffer that it reads or writes.

        ``gen_new_ranges`` takes the block's iterators and gives for each dimension a pair (start,
        end) or a single index. The annotation ``explicit_read_region`` or ``explicit_write_region``
        notes which regions were given so.
        """
        sref = self._block(block, "annotate_buffer_access")
        index = self._buffer_index(block, buffer_index, buf_type)
        ranges = self._run(as_region_map, sref, index, buf_type, gen_new_ranges)
        self._run(annotate_buffer_access, sref, index, buf_type, ranges)
        self._record("AnnotateBufferAccess", [block], [index, buf_type, ranges], [])

    def unsafe_hide_buffer_access(
        self, block: BlockRV, buf_type: str, buf_index_array: list[int]
    ) -> None:
        """Let a block keep quiet about some buffers that it reads ("read") or writes ("write").

        Unsafe: later primitives and passes go by what blocks declare.
        """
        indices = [int(self._expr(index)) for index in buf_index_array]
        sref = self._block(block, "unsafe_hide_buffer_access")
        self._run(unsafe_hide_buffer_access, sref, buf_type, indices)
        self._record("UnsafeHideBufferAccess", [block], [buf_type, indices], [])

    def unsafe_set_dtype(self, block: BlockRV, buffer_index: Any, dtype: str) -> None:
        """Keep a buffer that a block writes in another dtype; values are cast on the way.

        Unsafe: results lose what the new dtype cannot hold.
        """
        index = self._buffer_index(block, buffer_index, "write")
        self._run(unsafe_set_dtype, self._block(block, "unsafe_set_dtype"), index, dtype)
        self._record("UnsafeSetDType", [block], [index, str(dtype)], [])

    def set_axis_separator(self, block: BlockRV, buffer: Any, axis_separators: list[int]) -> None:
        """Say between which dimensions the physical axes of a buffer are separated.

        Flattening makes one axis of each group of dimensions. ``buffer`` is ``("read", k)``,
        ``("write", k)``, a name or a Buffer.
        """
        index, kind = self._buffer_of(block, buffer)
        separators = [int(axis) for axis in axis_separators or ()]
        sref = self._block(block, "set_axis_separator")
        self._run(set_axis_separator, sref, index, kind, separators)
        self._record("SetAxisSeparator", [block], [(kind, index), separators], [])
