"""Describes the tensors of bulk copies as CUDA's driver wants them: data that it encodes in 128
bytes, a tensor map, which a launch passes to the kernel.

Axes are in the driver's order: the one along which elements are neighbours comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["DATA_TYPES", "SWIZZLES", "TensorMap"]

DATA_TYPES = {1: 0, 2: 1, 4: 2, 8: 4}
"""Bytes of an element → the driver's number of the type: unsigned integers, as copies look at no
values, and what is outside of a tensor is 0 in all types."""
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""Bytes of permuted rows (0: none) → the driver's number of the mode."""
_MOST_AXES = 5


@dataclass(frozen=True)
class TensorMap:
    """A tensor in global memory, and the box of it that a copy brings to shared memory."""

    parameter: int
    """The number of the kernel's parameter that points to the tensor."""
    element: int
    """Bytes of an element."""
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """Bytes from an element to the next, of all axes but the first."""
    box: tuple[int, ...]
    swizzle: int = 0
    """Bytes of the rows in shared memory whose pieces are permuted; 0: none are."""

    def export(self) -> dict[str, Any]:
        """Return the description as values of JSON."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}

    @staticmethod
    def read(given: Mapping[str, Any], parameters: int) -> TensorMap:
        """Return the description of what `export` has made, of a kernel with so many parameters.
        Raises ValueError for other values.
        """
        lists = [tuple([int(one) for one in given[key]]) for key in ("sizes", "strides", "box")]
        sizes, strides, box = lists
        numbers = [int(given[key]) for key in ("parameter", "element", "swizzle")]
        found = TensorMap(numbers[0], numbers[1], sizes, strides, box, numbers[2])
        is_whole = (
            0 <= found.parameter < parameters
            and found.element in DATA_TYPES
            and found.swizzle in SWIZZLES
            and 1 <= len(sizes) == len(box) == len(strides) + 1 <= _MOST_AXES
            and min(*sizes, *strides, *box, 1) > 0
        )
        if not is_whole:
            raise ValueError(f"no tensor map has {dict(given)}")
        return found

    def __str__(self) -> str:
        sizes, box = (" x ".join([str(one) for one in part]) for part in (self.sizes, self.box))
        strides = ", ".join([str(stride) for stride in self.strides])
        text = f"{sizes} elements of {8 * self.element} bits"
        text += f", {strides} bytes apart" if strides else ""
        return f"{text}, box {box}" + (f", swizzle {self.swizzle}" if self.swizzle else "")
