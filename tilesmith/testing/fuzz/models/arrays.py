"""Arguments that do not fit a compiled model, and some that fit in an unusual way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.testing.fuzz.models.pick import Pick

__all__ = ["ODD_ARRAYS", "ODD_SHAPES", "odd_arguments", "plain_array"]

Odd = Callable[[Pick, numpy.ndarray], Any]

ODD_SHAPES: tuple[Any, ...] = (
    (), (0,), (2, 0, 3), (-1,), (2**62,), (2**31, 2**31), (2**63,), ("3",), (1.5,), None, "3", 3,
    (None,), ((2,),), [2, 3], (True,), (10**30,), {1, 2}, b"12", numpy.array([2, 3]), (1,) * 100,
)  # fmt: skip


def plain_array(shape: tuple[int, ...], dtype: str, seed: int = 0) -> numpy.ndarray:
    """Return an array that fits: normally distributed floats, integers 0 and 1."""
    from tilesmith.runtime.dtype import DataType

    rng = numpy.random.default_rng(seed)
    wanted = DataType(dtype)
    if wanted.is_float or dtype.startswith("bfloat"):
        return rng.standard_normal(shape).astype(wanted.numpy())
    return rng.integers(0, 2, shape).astype(wanted.numpy())


class _BadTensor:
    """Claims to speak DLPack, and does not."""

    def __init__(self, what: int) -> None:
        self.what = what

    def __dlpack_device__(self) -> Any:
        return (1, 0) if self.what != 1 else "cpu"

    def __dlpack__(self, **_: Any) -> Any:
        if self.what == 0:
            raise ValueError("this tensor cannot be shared")
        return object() if self.what == 2 else None


def _wrong_dtype(pick: Pick, array: numpy.ndarray) -> Any:
    names = ["float64", "float16", "int8", "uint64", "bool", "complex64", "datetime64[s]", "U3",
             "S2", "V4", "longdouble", "object", "int32", "float32"]  # fmt: skip
    with numpy.errstate(all="ignore"):
        try:
            return array.astype(pick.one(names))
        except (TypeError, ValueError):
            return numpy.zeros(array.shape, "datetime64[s]")


def _strided(pick: Pick, array: numpy.ndarray) -> Any:
    wide = numpy.zeros([2 * extent for extent in array.shape], array.dtype)
    index: tuple[Any, ...] = (..., *[slice(None, None, 2)] * array.ndim)
    view = wide[index]
    view[...] = array
    return view


def _unaligned(pick: Pick, array: numpy.ndarray) -> Any:
    memory = numpy.zeros(array.nbytes + 1, "uint8")
    view = memory[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def _read_only(pick: Pick, array: numpy.ndarray) -> Any:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _extreme(pick: Pick, array: numpy.ndarray) -> Any:
    copy = array.copy()
    if copy.dtype.kind == "f":
        copy.reshape(-1)[:] = pick.one([numpy.nan, numpy.inf, -numpy.inf, 1e38, -0.0, 1e-45])
    elif copy.dtype.kind in "iu":
        limits = numpy.iinfo(copy.dtype)
        copy.reshape(-1)[: pick.randint(1, max(copy.size, 1))] = pick.one([limits.min, limits.max])
    return copy


def _resized(pick: Pick, array: numpy.ndarray) -> Any:
    choices = [array[None], numpy.zeros((3,) * array.ndim, array.dtype), array.reshape(-1)]
    choices.append(numpy.zeros((0,) * max(array.ndim, 1), array.dtype))
    if array.size and array.ndim:
        choices += [array[:0], numpy.concatenate([array, array]), array[..., :1], array[0]]
    return pick.one(choices)


def _broadcast(pick: Pick, array: numpy.ndarray) -> Any:
    return numpy.broadcast_to(array.dtype.type(1), array.shape)


def _tensor(pick: Pick, array: numpy.ndarray) -> Any:
    from tilesmith.runtime import nd

    return nd.array(array)


ODD_ARRAYS: dict[str, Odd] = {
    "wrong_dtype": _wrong_dtype,
    "strided": _strided,
    "reversed": lambda pick, array: array[tuple([slice(None, None, -1)] * array.ndim)],
    "fortran": lambda pick, array: numpy.asfortranarray(array),
    "transposed": lambda pick, array: array.T,
    "broadcast": _broadcast,
    "unaligned": _unaligned,
    "other_byte_order": lambda pick, array: array.astype(array.dtype.newbyteorder()),
    "read_only": _read_only,
    "extreme": _extreme,
    "resized": _resized,
    "objects": lambda pick, array: array.astype(object),
    "list": lambda pick, array: array.tolist(),
    "masked": lambda pick, array: numpy.ma.masked_array(array, array > 0),
    "memory": lambda pick, array: memoryview(numpy.ascontiguousarray(array).data),
    "records": lambda pick, array: numpy.zeros(array.shape, [("a", "f4"), ("b", "i4")]),
    "tensor": _tensor,
    "bad_tensor": lambda pick, array: _BadTensor(pick.randrange(4)),
    "something_else": lambda pick, array: pick.one(
        [None, "text", b"bytes", 3, 2.5, True, 1j, object(), {}, {"x": array}, (array,), len, []]
    ),
    "huge": lambda pick, array: numpy.broadcast_to(array.dtype.type(0), (2**20, 2**20)),
}


def odd_arguments(
    pick: Pick, names: list[str], arrays: list[numpy.ndarray]
) -> tuple[list[Any], dict[str, Any]]:
    """Change how arguments are given: too many, too few, by name, by a name that is not there."""
    what = pick.randrange(6)
    by_name: dict[str, Any] = dict(zip(names, arrays))
    if what == 0:
        return list(arrays[:-1]), {}
    if what == 1:
        return [*arrays, pick.one(arrays) if arrays else None], {}
    if what == 2:
        return [], by_name
    if what == 3:
        return list(arrays), dict(list(by_name.items())[:1])
    if what == 4:
        return [], {**by_name, pick.one(["y", "", "X", "self", "é"]): 1}
    return list(arrays[:1]), dict(list(by_name.items())[1:])
