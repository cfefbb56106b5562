"""Describes the operands of ``ptx_cp_async_bulk_tensor``: which elements it copies, and where they
lie in shared memory.

The instruction copies a box of a tensor, of which the hardware knows sizes and strides: one thread
names the place of the box, and everything else happens in the background. The box may lie partly or
wholly outside of the tensor; zeros arrive for what is outside. In shared memory it lies densely, or
with ``swizzle`` as ``wgmma`` reads it: in rows of 32, 64 or 128 bytes whose pieces of 16 bytes are
permuted (``warpgroup_products`` says how), so that reads along and across rows meet no conflicts.

The rules are those of the chapter "Tensors" of the PTX ISA and of the driver's function
cuTensorMapEncodeTiled, which makes the description that the hardware reads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tilesmith.ir import Call, IntImm, PrimExpr, StringImm, Var
from tilesmith.ir.queries import is_call, nodes
from tilesmith.runtime.tensor_maps import SWIZZLES
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.stmt import Stmt
from tilesmith.tir.warpgroup_products import swizzled

__all__ = [
    "NAME", "TensorCopy", "box_places", "pointer_base", "tensor_copy", "tile_alignment",
    "tile_alignments",
]  # fmt: skip

NAME = "ptx_cp_async_bulk_tensor"
SIZES, BOX, PLACE, BARRIER, SWIZZLE, STRIDES = 3, 4, 5, 6, 7, 8  # places of arguments
_UNIT = 16  # bytes
_ALIGNMENTS = {0: 128, 32: 256, 64: 512, 128: 1024}
_MOST_AXES = 5
_LARGEST_BOX = 256  # elements along an axis


class TensorCopy(NamedTuple):
    """The constants of a copy, outermost axis first; strides are in elements."""

    element: int
    """Bytes of an element."""
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int

    @property
    def nbytes(self) -> int:
        """The bytes that arrive, zeros included."""
        return self.element * int(np.prod(self.box))


def tensor_copy(call: Call) -> TensorCopy:
    """Return what a call copies. Raises ValueError for what the hardware cannot do."""
    dtype = call.dtype
    if dtype.lanes != 1 or dtype.bits not in (8, 16, 32, 64):
        raise ValueError(f"{NAME} copies elements of 8, 16, 32 or 64 bits, not {dtype}")
    parts = [_numbers(call.args[at], word) for at, word in _WORDS.items()]
    sizes, box, strides = parts
    count = len(sizes)
    axes = (*parts, _list(call.args[PLACE], "the place of the box"))
    if not 1 <= count <= _MOST_AXES or any(len(part) != count for part in axes):
        raise ValueError(
            f"{NAME} copies boxes of 1 to {_MOST_AXES} axes; sizes, strides, box and place have as "
            f"many numbers each, not {', '.join([str(len(part)) for part in axes])}"
        )
    swizzle = call.args[SWIZZLE]
    if not isinstance(swizzle, IntImm) or swizzle.value not in SWIZZLES:
        raise ValueError(f"the swizzle of {NAME} is 0, 32, 64 or 128 bytes, not {swizzle}")
    copy = TensorCopy(dtype.bits // 8, sizes, strides, box, int(swizzle.value))
    _check(copy)
    return copy


_WORDS = {SIZES: "the sizes", BOX: "the box", STRIDES: "the strides"}


def _list(arg: PrimExpr, what: str) -> tuple[PrimExpr, ...]:
    if not is_call(arg, "tir.tvm_tuple"):
        raise ValueError(f"{what} of {NAME} must be a tuple, as T.tvm_tuple(8, 64), not {arg}")
    return tuple(arg.args)


def _numbers(arg: PrimExpr, what: str) -> tuple[int, ...]:
    found = []
    for one in _list(arg, what):
        if not isinstance(one, IntImm):
            raise ValueError(
                f"{what} of {NAME} are part of a description that exists before the kernel runs: "
                f"they must be constants, not {one}"
            )
        found.append(int(one.value))
    return tuple(found)


def _check(copy: TensorCopy) -> None:
    """Raise ValueError where the driver or the hardware would refuse a copy."""
    element, sizes, strides, box, swizzle = copy
    row = box[-1] * element
    if not all(0 < size < 1 << 32 for size in sizes):
        raise ValueError(f"sizes of {NAME} are 1 to 2**32 - 1, not {sizes}")
    if not all(0 < size <= _LARGEST_BOX for size in box):
        raise ValueError(f"the box of {NAME} has 1 to {_LARGEST_BOX} elements an axis, not {box}")
    if strides[-1] != 1:
        raise ValueError(f"the last axis of {NAME} has the stride 1, not {strides[-1]}")
    for stride in strides[:-1]:
        if stride * element % _UNIT or not 0 < stride * element < 1 << 40:
            raise ValueError(
                f"strides of {NAME} are multiples of {_UNIT} bytes below 2**40, not "
                f"{stride * element} bytes: pad the rows of the tensor"
            )
    if row % _UNIT:
        raise ValueError(f"rows of the box of {NAME} are whole pieces of {_UNIT} bytes, not {row}")
    if swizzle and row != swizzle:
        raise ValueError(
            f"with a swizzle of {swizzle} bytes, rows of the box of {NAME} have as many, not {row}"
        )


def tile_alignment(swizzle: int) -> int:
    """Return the bytes of which the place of a box in shared memory is a multiple."""
    return _ALIGNMENTS[swizzle]


def box_places(copy: TensorCopy) -> np.ndarray:
    """Return where the bytes of a box lie behind its begin in shared memory, in their order."""
    places = np.arange(copy.nbytes)
    return swizzled(places, copy.swizzle) if copy.swizzle else places


def tile_alignments(body: Stmt) -> dict[Var, int]:
    """Return the shared memory that such copies write, and to what it has to be aligned."""
    found: dict[Var, int] = {}
    for call in nodes(body, Call):
        if not is_call(call, f"tir.{NAME}"):
            continue
        base, swizzle = pointer_base(call.args[0]), call.args[SWIZZLE]
        if base is not None and isinstance(swizzle, IntImm) and swizzle.value in _ALIGNMENTS:
            found[base] = max(found.get(base, 0), _ALIGNMENTS[swizzle.value])
    return found


def pointer_base(arg: PrimExpr) -> Var | None:
    """Return the variable from which a pointer is computed; None where there is none."""
    if isinstance(arg, BufferLoad):
        return arg.buffer.data
    if isinstance(arg, Var):
        return arg
    for inner in arg.args if isinstance(arg, Call) else ():
        if isinstance(inner, StringImm):
            continue
        if inner.dtype.is_handle or isinstance(inner, BufferLoad):
            return pointer_base(inner)
    return None
