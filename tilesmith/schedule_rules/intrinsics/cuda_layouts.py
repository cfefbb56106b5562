"""Layouts of the registers of ``mma``: which thread of a warp holds which elements of a tile.

They are the tables of the PTX ISA ("Matrix fragments for mma"). With ``g = lane // 4`` and
``t = lane % 4``, a thread holds

    16-bit A and results (16x16)   rows g, g + 8     columns 2t, 2t + 1, then those + 8
    8-bit A (16x32)                rows g, g + 8     columns 4t … 4t + 3, then those + 16
    16-bit B (16x16)               columns g, g + 8  rows 2t, 2t + 1, then those + 8
    8-bit B (32x16)                columns g, g + 8  rows 4t … 4t + 3, then those + 16
    32-bit A (16x8)                rows g, g + 8     column t, then t + 4
    32-bit B (8x16)                columns g, g + 8  row t, then t + 4

Each function maps a position in a tile to (thread, position among its elements) or back.
"""

from typing import Any

from tilesmith.ir import PrimExpr, convert

__all__ = [
    "HALF_WARP",
    "M_DIM",
    "N_DIM",
    "WARP_SIZE",
    "HALF_WARP_expr",
    "get_index_A",
    "get_index_B",
    "get_index_C",
    "index_map_m16n8k8_matrixC",
    "index_map_shared_16x16_to_ldmatrix_32x8_layout",
    "ldmatrix_32x8_to_shared_16x16_layout",
    "lift",
    "shared_16x16_to_ldmatrix_32x8_b_layout",
    "shared_16x16_to_ldmatrix_32x8_layout",
    "shared_16x16_to_ldmatrix_32x8_trans_layout",
    "shared_16x32_to_ldmatrix_32x16_layout",
    "shared_32x16_to_ldmatrix_32x16_layout",
    "shared_16x8_to_mma_32x4_layout",
    "shared_8x16_to_mma_32x4_layout",
]

lift = convert
M_DIM = N_DIM = 16
WARP_SIZE = 32
HALF_WARP = 16
HALF_WARP_expr: PrimExpr = convert(HALF_WARP)


# Tiles of 16 rows and columns of results; 16 (float16) or 32 (int8) steps of the sum.


def shared_16x16_to_ldmatrix_32x8_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """Return (thread, position in it) of element (i, j) of a left matrix or a result."""
    return 4 * (i % 8) + j % 8 // 2, 4 * (j // 8) + 2 * (i // 8) + j % 2


def ldmatrix_32x8_to_shared_16x16_layout(thread_id: Any, local_id: Any) -> tuple[Any, Any]:
    """Return where a thread's element lies in the tile: the inverse of the layout above."""
    row = 8 * (local_id % 4 // 2) + thread_id // 4
    return row, 8 * (local_id // 4) + 2 * (thread_id % 4) + local_id % 2


def index_map_shared_16x16_to_ldmatrix_32x8_layout(ind: Any) -> list[Any]:
    """Return the layout of a result for a list of two indices."""
    i, j = ind
    return list(shared_16x16_to_ldmatrix_32x8_layout(i, j))


def shared_16x16_to_ldmatrix_32x8_trans_layout(k: Any, j: Any) -> tuple[Any, Any]:
    """Return (thread, position in it) of element (k, j) of a right matrix."""
    return 4 * (j % 8) + k % 8 // 2, 4 * (j // 8) + 2 * (k // 8) + k % 2


def shared_16x16_to_ldmatrix_32x8_b_layout(j: Any, k: Any) -> tuple[Any, Any]:
    """Return (thread, position in it) of element (j, k) of a transposed right matrix."""
    return shared_16x16_to_ldmatrix_32x8_trans_layout(k, j)


def shared_16x32_to_ldmatrix_32x16_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """Return (thread, position in it) of element (i, j) of a left matrix of bytes."""
    return 4 * (i % 8) + j % 16 // 4, 8 * (j // 16) + 4 * (i // 8) + j % 4


def shared_32x16_to_ldmatrix_32x16_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """Return (thread, position in it) of element (i, j) of a right matrix of bytes."""
    return 4 * (j % 8) + i % 16 // 4, 8 * (j // 8) + 4 * (i // 16) + i % 4


def shared_16x8_to_mma_32x4_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """Return (thread, position in it) of element (i, j) of a left matrix of float32 (as tf32)."""
    return 4 * (i % 8) + j % 4, 2 * (j // 4) + i // 8


def shared_8x16_to_mma_32x4_layout(i: Any, j: Any) -> tuple[Any, Any]:
    """Return (thread, position in it) of element (i, j) of a right matrix of float32 (as tf32)."""
    return 4 * (j % 8) + i % 4, 2 * (j // 8) + i // 4


# m16n8k8: a register number from the offset of a tile in its matrix. The matrices lie in the
# scopes m16n8k8.matrixA, B and C, whose memory TransformMmaBufferLayout divides among threads.


def get_index_A(elem_offset: Any, stride: Any) -> Any:
    """Return the register at which a 16x8 tile of the left matrix begins: eight in 32x8."""
    row, column = elem_offset // stride, elem_offset % stride
    return (row // 32 * (stride // 8) + column // 8) * 8 + row % 32 // 16 * 4


def get_index_B(elem_offset: Any, stride: Any) -> Any:
    """Return the register at which an 8x8 tile of the right matrix begins: eight in 8x32."""
    row, column = elem_offset // stride, elem_offset % stride
    return (row // 8 * (stride // 32) + column // 32) * 8 + column % 32 // 8 * 2


def get_index_C(elem_offset: Any, stride: Any) -> Any:
    """Return the register at which an 8x8 tile of the results begins: four in 16x8."""
    row, column = elem_offset // stride, elem_offset % stride
    return (row // 16 * (stride // 8) + column // 8) * 4 + row % 16 // 8 * 2


def index_map_m16n8k8_matrixC(ind: Any) -> list[Any]:
    """Return tile and register of an element of the results, as TransformMmaBufferLayout does."""
    i, j = ind
    return [i // 16, j // 8, i % 16 // 8, j % 2]
