"""The constants of an executable: compact arrays that are aligned as compiled code wants them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ndarray import ALIGNMENT, aligned_numpy
from tilesmith.support.errors import ArtifactError

if TYPE_CHECKING:
    import numpy

__all__ = ["address_of", "constant_arrays", "pointers_to"]


def constant_arrays(
    names: Sequence[str], values: Mapping[str, Any], late: Mapping[str, Any]
) -> dict[str, numpy.ndarray]:
    """Return the constants in order, each compact and aligned; what comes ``late`` has no memory
    yet.
    """
    import numpy

    missing = [name for name in names if name not in values and name not in late]
    if missing:
        raise ArtifactError(f"constants are missing: {', '.join(missing[:10])}")
    found = {}
    for name in names:
        if name in late:
            found[name] = _without_memory(*late[name])
            continue
        value = values[name]
        if not isinstance(value, numpy.ndarray):
            value = numpy.asarray(value)
        if not value.flags.c_contiguous or address_of(value) % ALIGNMENT:
            aligned = aligned_numpy(value.shape, value.dtype)
            aligned[...] = value
            value = aligned
        found[name] = value
    return found


def _without_memory(dtype: str, shape: Sequence[int]) -> numpy.ndarray:
    import numpy

    return numpy.broadcast_to(numpy.zeros((), DataType(dtype).numpy()), tuple(shape))


def address_of(value: numpy.ndarray) -> int:
    """Return where the elements of an array begin."""
    return int(value.__array_interface__["data"][0])


def pointers_to(arrays: Mapping[str, numpy.ndarray], late: Mapping[str, Any]) -> Any:
    """Return the array of the addresses of constants; those that come ``late`` have none yet."""
    addresses = [0 if name in late else address_of(value) for name, value in arrays.items()]
    return (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
