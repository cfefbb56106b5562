"""Products and convolutions by oneDNN, through its C interface."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from tilesmith.runtime.libraries.find import libraries_of_prefix, open_first, system_libraries
from tilesmith.support.errors import (
    ExecutionError,
    MissingDependencyError,
    ShapeError,
    TypeMismatchError,
    UnsupportedError,
)

if TYPE_CHECKING:
    import numpy

    from tilesmith.runtime.ndarray import NDArray

__all__ = ["conv2d", "find_dnnl", "matmul"]

# numbers of oneDNN's C interface, version 3
_CPU, _FLOAT32, _INFERENCE, _DIRECT, _IN_ORDER = 1, 3, 96, 1, 1
_SOURCE, _WEIGHTS, _RESULT = 1, 33, 17


@cache
def _library() -> ctypes.CDLL | None:
    names = ("libdnnl.so*", "libdnnl*.dylib", "dnnl*.dll")
    found = chain(libraries_of_prefix(names), system_libraries(("dnnl",)))
    return open_first(found, ("dnnl_sgemm",))


def find_dnnl() -> ctypes.CDLL:
    """Return oneDNN; MissingDependencyError where it is not installed."""
    found = _library()
    if found is None:
        raise MissingDependencyError("onednn-cpu-gomp", purpose="calling oneDNN")
    return found


def _call(name: str, *arguments: Any) -> None:
    status = getattr(find_dnnl(), name)(*arguments)
    if status != 0:
        raise ExecutionError(f"oneDNN refused {name} (status {status})")


def _floats(*tensors: NDArray) -> list[numpy.ndarray]:
    import numpy

    others = [str(tensor.dtype) for tensor in tensors if tensor.dtype != "float32"]
    if others:
        raise TypeMismatchError(f"dnnl: float32 is multiplied, not {', '.join(others)}")
    return [numpy.ascontiguousarray(tensor.numpy_view()) for tensor in tensors]


def matmul(
    lhs: NDArray, rhs: NDArray, out: NDArray, transa: bool = False, transb: bool = False
) -> None:
    """Store the product of two matrices of float32."""
    import numpy

    find_dnnl()
    left, right = _floats(lhs, rhs)
    rows, depth = left.shape[::-1] if transa else left.shape
    inner, columns = right.shape[::-1] if transb else right.shape
    if inner != depth or out.shape != (rows, columns):
        raise ShapeError(f"matrices {left.shape} and {right.shape} do not make {out.shape}")
    result = numpy.zeros((rows, columns), "float32")
    if result.size and depth:
        letters = [ctypes.c_char(b"T" if turned else b"N") for turned in (transa, transb)]
        sizes = [ctypes.c_int64(size) for size in (rows, columns, depth)]
        places = [
            part
            for array in (left, right)
            for part in (ctypes.c_void_p(array.ctypes.data), ctypes.c_int64(array.shape[1]))
        ]
        _call(
            "dnnl_sgemm", *letters, *sizes, ctypes.c_float(1), *places, ctypes.c_float(0),
            ctypes.c_void_p(result.ctypes.data), ctypes.c_int64(columns),
        )  # fmt: skip
    out.copyfrom(result)


class _Argument(ctypes.Structure):
    _fields_ = [("number", ctypes.c_int), ("memory", ctypes.c_void_p)]


@contextmanager
def _made(kind: str, creator: str, *arguments: Any) -> Iterator[ctypes.c_void_p]:
    """Make an object of oneDNN, and destroy it at the end."""
    made = ctypes.c_void_p()
    _call(creator, ctypes.byref(made), *arguments)
    try:
        yield made
    finally:
        _call(f"dnnl_{kind}_destroy", made)


def _numbers(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * 12)(*values)  # oneDNN reads up to 12 dimensions


def _described(shape: Sequence[int], strides: Sequence[int]) -> tuple[Any, ...]:
    return (
        "memory_desc", "dnnl_memory_desc_create_with_strides", ctypes.c_int(len(shape)),
        _numbers(shape), ctypes.c_int(_FLOAT32), _numbers(strides),
    )  # fmt: skip


def _strides(sizes: Sequence[int]) -> list[int]:
    found = [1]
    for size in reversed(sizes[1:]):
        found.insert(0, found[0] * size)
    return found


def _as_nchw(shape: Sequence[int], order: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the sizes and strides of a tensor in oneDNN's order of its axes."""
    strides = _strides(shape)
    return [shape[axis] for axis in order], [strides[axis] for axis in order]


def conv2d(
    src: NDArray,
    weights: NDArray,
    dst: NDArray,
    pad_top: int,
    pad_left: int,
    pad_bottom: int,
    pad_right: int,
    stride_y: int,
    stride_x: int,
    dilation_y: int,
    dilation_x: int,
    groups: int,
    channel_last: bool,
) -> None:
    """Store a convolution of float32: of NCHW data by OIHW filters, or of NHWC data by HWIO
    filters.
    """
    import numpy

    library = find_dnnl()
    if not hasattr(library, "dnnl_memory_desc_create_with_strides"):
        raise UnsupportedError("dnnl.conv2d needs oneDNN 3", notes=("pip install onednn-cpu-gomp",))
    data, filters = _floats(src, weights)
    result = numpy.empty(dst.shape, "float32")
    sizes, strides = _as_nchw(data.shape, (0, 3, 1, 2) if channel_last else (0, 1, 2, 3))
    taps, steps = _as_nchw(filters.shape, (3, 2, 0, 1) if channel_last else (0, 1, 2, 3))
    made, places = _as_nchw(result.shape, (0, 3, 1, 2) if channel_last else (0, 1, 2, 3))
    if sizes[1] != taps[1] * groups:
        raise ShapeError(f"{sizes[1]} channels, filters of {taps[1]} in {groups} groups")
    if groups > 1:  # filters of one group lie together along the output channels
        taps = [groups, taps[0] // groups, *taps[1:]]
        steps = [steps[0] * taps[1], *steps]
    with ExitStack() as stack:
        enter = stack.enter_context
        engine = enter(_made("engine", "dnnl_engine_create", _CPU, ctypes.c_size_t(0)))
        stream = enter(_made("stream", "dnnl_stream_create", engine, _IN_ORDER))
        shapes = ((sizes, strides), (taps, steps), (made, places))
        described = [enter(_made(*_described(*one))) for one in shapes]
        plan = enter(
            _made(
                "primitive_desc", "dnnl_convolution_forward_primitive_desc_create", engine,
                _INFERENCE, _DIRECT, described[0], described[1], None, described[2],
                _numbers((stride_y, stride_x)), _numbers((dilation_y - 1, dilation_x - 1)),
                _numbers((pad_top, pad_left)), _numbers((pad_bottom, pad_right)), None,
            )
        )  # fmt: skip
        primitive = enter(_made("primitive", "dnnl_primitive_create", plan))
        memories = [
            enter(_made("memory", "dnnl_memory_create", one, engine,
                        ctypes.c_void_p(array.ctypes.data)))
            for one, array in zip(described, (data, filters, result))
        ]  # fmt: skip
        arguments = (_Argument * 3)(
            *[_Argument(number, memory.value) for number, memory in
              zip((_SOURCE, _WEIGHTS, _RESULT), memories)]
        )  # fmt: skip
        _call("dnnl_primitive_execute", primitive, stream, 3, arguments)
        _call("dnnl_stream_wait", stream)
    dst.copyfrom(result)
