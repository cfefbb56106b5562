"""Calls of kernels for products of bytes, with what corrects their sums: a part of PackForVectors.

    y = R.nn.conv2d(x - x0, w)      →    s = R.call_tir(conv2d_nhwc_words, (x, words of w - c))
                                         y = s - x0 * sum(w - c) [+ c * sum of (x - x0)]

The data are bytes with their channels last. Instructions for int16 take them and the weights as
they are, without their zero points, and nothing is corrected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from tilesmith import topi
from tilesmith.relax import op as operators
from tilesmith.relax.analysis.op_pattern import FusionKind
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import Constant, const
from tilesmith.relax.transform.byte_products import (
    Bytes,
    DotProducts,
    centred_bytes,
    in_words,
    joined_groups,
)
from tilesmith.relax.transform.winograd_bytes import WinogradWords, winograd_words
from tilesmith.target.machine import MachineModel

__all__ = ["BytePacking"]


class BytePacking(NamedTuple):
    """Emits kernels of bytes for an instruction; ``tiled`` packs words for vectors."""

    builder: BlockBuilder
    instruction: DotProducts
    tiled: Callable[[numpy.ndarray, int], Constant]
    machine: MachineModel

    def convolution(
        self,
        data: Bytes,
        weights: numpy.ndarray,
        groups: int,
        width: int,
        options: list[list[int]],
    ) -> Any:
        """Return a convolution of NHWC bytes with weights (outputs, inputs of a group, ky, kx);
        None if the weights are no bytes, or the padding stands for a number that is not known.
        """
        centred = self._small(weights)
        if centred is None or not (data.is_fixed or not any(options[1])):
            return None
        values, taken = centred
        if not self.instruction.is_of_bytes and data.is_fixed:
            tiles = winograd_words(data, values, groups, options, self.machine)
            if tiles is not None:
                return self._by_tiles(data, tiles, len(values))
        lanes = self.machine.lanes(32)
        joined: tuple[numpy.ndarray, int] | None = (values, groups)
        if groups > 1:
            joined = joined_groups(values, groups, lanes)
        if joined is None:
            return None
        packed, left = joined
        if left > 1 and (len(weights) // left) % width:
            width = lanes
        words = self.tiled(in_words(packed.transpose(2, 3, 1, 0), str(values.dtype)), width)
        point = data.zero_point if data.is_fixed else 0
        made = self.builder.call_te(
            topi.nn.conv2d_nhwc_words, data.data, words, len(weights), *options, point, left,
            self.instruction.products, primfunc_name_hint="conv2d",
        )  # fmt: skip
        made = self._corrected(made, data, values.sum((1, 2, 3), dtype="int64"))
        if not taken.any():
            return made
        sums: Any = self.builder.call_te(
            topi.nn.window_sums_nhwc, data.data, list(weights.shape[2:]), *options, point, groups,
            primfunc_name_hint="window_sums",
        )  # fmt: skip
        sums = self.builder.emit(sums)
        if not data.is_fixed:
            count = int(numpy.prod(weights.shape[1:]))
            more = self.builder.emit(operators.multiply(data.zero_point, const(count, "int32")))
            sums = self.builder.emit(operators.subtract(sums, more))
        if groups > 1:
            sums = self.builder.emit(operators.repeat(sums, len(weights) // groups, 3))
        return self._with(made, sums, taken)

    def _by_tiles(self, data: Bytes, tiles: WinogradWords, outputs: int) -> Any:
        """Return a convolution by tiles of Winograd."""
        return self.builder.call_te(
            topi.nn.conv2d_nhwc_winograd_words, data.data, const(tiles.words), outputs,
            tiles.padding, tiles.tile, tiles.rows, tiles.stride, data.zero_point,
            primfunc_name_hint="conv2d_winograd",
            primfunc_attrs={"op_pattern": int(FusionKind.OUT_ELEMWISE_FUSABLE)},
        )  # fmt: skip

    def product(self, data: Bytes, wide: Any, weights: numpy.ndarray, width: int) -> Any:
        """Return ``data @ weights``; None if the weights are no bytes. ``wide`` is the data as
        int32, without their zero point.
        """
        centred = self._small(weights.T)
        if centred is None:
            return None
        values, taken = centred
        words = self.tiled(in_words(values.T, str(values.dtype)), width)
        point = data.zero_point if data.is_fixed else 0
        made = self.builder.call_te(
            topi.nn.matmul_words, data.data, words, weights.shape[1], point,
            self.instruction.products, primfunc_name_hint="matmul",
        )  # fmt: skip
        made = self._corrected(made, data, values.sum(1, dtype="int64"))
        if not taken.any():
            return made
        return self._with(made, self.builder.emit(operators.sum(wide, [-1], True)), taken)

    def _small(self, weights: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray] | None:
        """Return weights ``(outputs, …)`` as what the instruction multiplies, and what was taken
        from those of each output; None if it does not fit.
        """
        if self.instruction.is_of_bytes:
            return centred_bytes(weights)
        limits = numpy.iinfo("int16")
        is_small = weights.size and limits.min <= weights.min() and weights.max() <= limits.max
        if weights.dtype.kind not in "iu" or not is_small:
            return None
        return weights.astype("int16"), numpy.zeros(len(weights), "int64")

    def _corrected(self, made: Any, data: Bytes, sums: numpy.ndarray) -> Any:
        """Return sums of products without what the offset of the data added to them."""
        offset = data.moved(self.instruction)
        if offset:
            wrong = const((sums * offset).astype("int32"))
            made = operators.subtract(self.builder.emit(made), wrong)
        if data.is_fixed:
            return made
        moved = operators.multiply(data.zero_point, const(sums.astype("int32")))
        return operators.subtract(self.builder.emit(made), self.builder.emit(moved))

    def _with(self, made: Any, sums: Any, taken: numpy.ndarray) -> Any:
        """Return sums of products with those of what was taken from the weights."""
        factor = taken[0] if (taken == taken[0]).all() else taken  # one: the sums stay few
        missing = operators.multiply(sums, const(numpy.asarray(factor, "int32")))
        return operators.add(self.builder.emit(made), self.builder.emit(missing))
