"""Describes the operands of ``ptx_wgmma``: where their elements lie in shared memory and registers.

A matrix in shared memory consists of rows of 16, 32, 64 or 128 bytes that lie one after the other,
eight of them in a group. The word of a layout says along which axis a row runs and how wide it is:

    k:128       rows of 128 bytes along the sum (k), one for each row of A or column of B
    mn:128      rows of 128 bytes along the rows of A or the columns of B, one for each step k
    …:rows128   the same before InjectPermutedLayout: pieces of 16 bytes still lie in their order,
                and rows may lie further apart (an eighth of ``stride``)
    registers   A lies in registers, as for the instruction ``mma`` of four warps

In rows of more than 16 bytes, the hardware expects the pieces of 16 bytes in an order that differs
from row to row: bits 4 to 6 of an address are combined with bits 7 to 9 by an exclusive or (two
bits for rows of 64 bytes, one for 32). Tiles therefore begin at multiples of 1024 bytes.

Two distances in bytes complete the description. With rows along k, ``stride`` is that of groups of
eight rows, and ``leading`` that of the two pieces of 16 bytes that one step reads (it matters with
16 bytes only, as a wider row holds both). With rows along mn, ``leading`` is that of neighbouring
rows' ends along mn, and ``stride`` that of groups of eight steps k; with 16 bytes, the two trade
places. This is the chapter "Asynchronous warpgroup-level matrix instructions" of the PTX ISA.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

__all__ = [
    "WARPGROUP", "Operand", "OperandLayout", "byte_offsets", "operand_layout", "product_sizes",
    "result_places", "shared_operands", "swizzled",
]  # fmt: skip

WARPGROUP = 128
"""Threads of a warpgroup: four warps, the first of which has a number divisible by four."""

WIDTHS = (16, 32, 64, 128)
GROUP = 8  # rows


class OperandLayout(NamedTuple):
    """Along which axis the rows run ("k", "mn" or "registers"), their bytes, and whether their
    pieces are permuted as the hardware expects.
    """

    major: str
    width: int
    is_permuted: bool


class Operand(NamedTuple):
    """An operand in shared memory: the place of its pointer among the arguments, and its layout;
    its offset, layout, leading and stride distances follow.
    """

    place: int
    layout: OperandLayout


def operand_layout(word: str) -> OperandLayout:
    """Return what the word of a layout means. Raises ValueError."""
    if word == "registers":
        return OperandLayout("registers", 0, True)
    found = re.fullmatch(r"(k|mn):(rows)?(16|32|64|128)", word)
    if found is None:
        raise ValueError(
            f"'{word}' is no layout of ptx_wgmma; layouts are 'k:128', 'mn:128', the same with 64, "
            "32 or 16 bytes, and 'registers' for A"
        )
    width = int(found[3])
    return OperandLayout(found[1], width, found[2] is None or width == WIDTHS[0])


def product_sizes(shape: str) -> tuple[int, int]:
    """Return the columns and the steps of a product "m64n128k16". Raises ValueError."""
    found = re.fullmatch(r"m64n(\d+)k(\d+)", shape)
    if found is None:
        raise ValueError(f"ptx_wgmma has no shape '{shape}'; shapes are 'm64nNkK'")
    return int(found[1]), int(found[2])


def shared_operands(args: tuple[object, ...]) -> list[Operand]:
    """Return the operands that lie in shared memory, of the arguments of ``ptx_wgmma``."""
    found = [Operand(place, operand_layout(str(args[place + 2].value))) for place in (4, 9)]  # type: ignore[attr-defined]
    return [operand for operand in found if operand.layout.major != "registers"]


def byte_offsets(
    layout: OperandLayout, sizes: tuple[int, int], leading: int, stride: int, element: int
) -> np.ndarray:
    """Return where the elements [row or column, k] lie behind the start, before permutation.

    ``sizes``: rows or columns, steps; ``element``: bytes of one.
    """
    outer, k = np.arange(sizes[0])[:, None], np.arange(sizes[1])[None, :]
    width = layout.width
    pitch = width if layout.is_permuted else stride // GROUP
    if layout.major == "k":
        inside = k * element
        rows = outer % GROUP * pitch + outer // GROUP * stride
        return rows + (inside if width > 16 else inside % 16 + inside // 16 * leading)
    along, group = (leading, stride) if width > 16 else (stride, leading)
    inside = outer * element
    return inside % width + inside // width * along + k % GROUP * pitch + k // GROUP * group


def swizzled(address: np.ndarray, width: int) -> np.ndarray:
    """Return the addresses at which elements lie in permuted rows of so many bytes."""
    permuted: np.ndarray = address ^ (address >> 3 & (width - 16))
    return permuted


def result_places(columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of the results of each thread: arrays [thread, its result]."""
    thread, number = np.arange(WARPGROUP)[:, None], np.arange(columns // 2)[None, :]
    row = thread // 32 * 16 + thread % 32 // 4 + number // 2 % 2 * 8
    return row, number // 4 * 8 + thread % 4 * 2 + number % 2
