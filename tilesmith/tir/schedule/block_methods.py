"""The methods of ``tir.Schedule`` that make or replace whole blocks."""

from __future__ import annotations

from typing import Any

from tilesmith.tir.schedule.base import ScheduleBase
from tilesmith.tir.schedule.primitives.blockize import blockize
from tilesmith.tir.schedule.primitives.tensorize import as_tensor_intrin, tensorize
from tilesmith.tir.schedule.trace import BlockRV

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
        is_named = isinstance(tensor_intrin, str)
        name = f"intrinsic '{tensor_intrin}'" if is_named else "the intrinsic"
        sref = self._sref(block_or_loop)
        self._run(tensorize, sref, intrin, name, bool(preserve_unit_iters))
        attrs = [tensor_intrin if is_named else intrin, bool(preserve_unit_iters)]
        self._record("Tensorize", [block_or_loop], attrs, [])
