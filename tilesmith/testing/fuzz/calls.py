"""Calls compiled functions with other arguments than the program gets: wrong ones, which have to be
refused before anything is written, and unusual ones that mean the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import IntImm
from tilesmith.runtime.nd import array as as_tensor
from tilesmith.runtime.nd import from_dlpack
from tilesmith.support.errors import TilesmithError
from tilesmith.testing.fuzz.layouts import LAID_OUT
from tilesmith.tir import Buffer, PrimFunc

__all__ = ["strange_arguments", "unusual_array", "wrong_call"]

Arguments = list[Any]


def wrong_call(
    call: Callable[..., Any], function: PrimFunc, arrays: Arguments, rng: random.Random
) -> tuple[str, str] | None:
    """Call a function with one wrong argument. Return how it failed, and details, unless it was
    refused with an error that the runtime knows, and nothing was written.
    """
    given = [one.copy() if isinstance(one, numpy.ndarray) else one for one in arrays]
    if not given:
        return None
    number, how, wrong = strange_arguments(function, given, rng)
    if how is None:
        return None
    tensors = [_tensor(one) for one in given]
    before = [_numbers(one) for one in tensors]
    passed = [*tensors[:number], *wrong, *tensors[number + 1 :]]
    name = function.params[number].name
    try:
        call(*passed)
    except TilesmithError:
        if [_numbers(one) for one in tensors] == before:
            return None
        return "refused a call and wrote", f"argument '{name}': {how}"
    except TypeError as error:  # the runtime's own, before compiled code is asked
        return None if str(error) else ("an error that says nothing", how)
    return "accepts a wrong argument", f"argument '{name}': {how}"


def _tensor(one: Any) -> Any:
    return as_tensor(one) if isinstance(one, numpy.ndarray) else one


def _numbers(one: Any) -> Any:
    return one.numpy().tobytes() if hasattr(one, "numpy") else None


def strange_arguments(
    function: PrimFunc, arrays: Arguments, rng: random.Random
) -> tuple[int, str | None, list[Any]]:
    """Return the number of a parameter, what is wrong, and what is passed instead (none or more
    arguments); None where nothing wrong was drawn.
    """
    number = rng.randrange(len(arrays))
    buffer = function.buffer_map.get(function.params[number])
    array = arrays[number]
    if rng.random() < 0.1:
        return number, "it is missing", []
    if rng.random() < 0.1:
        return number, "there is one more after it", [_tensor(array), 1]
    if buffer is None:
        wrong = rng.choice([None, "text", as_tensor(numpy.zeros(3, "float32"))])
        return number, f"not a number: {wrong!r}", [wrong]
    kind = rng.choice(["number", "dtype", "rank", "size", "strides", "strides"])
    if kind == "number":
        return number, "a number for a tensor", [rng.choice([1, 2.5])]
    if kind == "dtype":
        others = ["float32", "int32", "int8", "uint8", "float64", "int64", "float16"]
        if buffer.dtype.is_bool:  # bytes may be truth values
            others = [one for one in others if one not in ("int8", "uint8")]
        other = rng.choice([one for one in others if one != str(buffer.dtype)])
        return number, f"of dtype {other}", [as_tensor(numpy.ones(array.shape, other))]
    if kind == "rank":
        longer = numpy.ones((*array.shape, 1), array.dtype)
        return number, "one more dimension", [as_tensor(longer)]
    fixed = [k for k, size in enumerate(buffer.shape) if isinstance(size, IntImm)]
    if kind == "size" and fixed:
        axis = rng.choice(fixed)
        shape = list(array.shape)
        shape[axis] += rng.choice([1, 2])
        return number, f"axis {axis} of size {shape[axis]}", [
            as_tensor(numpy.ones(shape, array.dtype))
        ]  # fmt: skip
    strided = _not_compact(buffer, array, rng) if kind == "strides" else None
    if strided is not None:
        steps = [step // array.dtype.itemsize for step in strided.strides]
        return number, f"strides {steps} of shape {list(array.shape)}", [from_dlpack(strided)]
    return number, None, []


def _not_compact(buffer: Buffer, array: numpy.ndarray, rng: random.Random) -> Any:
    """Return numbers of the same shape with gaps between them, for a buffer that declares no
    strides; None where there can be none.
    """
    axes = [k for k, size in enumerate(array.shape) if size > 1]
    if buffer.strides or not axes or array.size == 0 or str(buffer.dtype) not in LAID_OUT:
        return None
    axis = rng.choice(axes)
    shape = list(array.shape)
    shape[axis] *= 2
    places = tuple([slice(None, None, 2 if k == axis else None) for k in range(len(shape))])
    return numpy.ones(shape, array.dtype)[places]


def unusual_array(buffer: Buffer | None, array: Any, rng: random.Random) -> Any:
    """Return the same numbers with any strides along dimensions of one element, for a buffer that
    declares no strides; None where there are no such dimensions.
    """
    if buffer is None or buffer.strides or str(buffer.dtype) not in LAID_OUT:
        return None
    axes = [k for k, size in enumerate(array.shape) if size == 1]
    if not axes or array.size == 0:
        return None
    strides = list(array.strides)
    for axis in axes:
        strides[axis] = array.dtype.itemsize * rng.choice([1, 3, 5, 64])
    return numpy.lib.stride_tricks.as_strided(array.copy(), array.shape, strides)
