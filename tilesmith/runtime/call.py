"""Calls a compiled function from Python: checks inputs, provides outputs and workspace.

Everything that does not depend on the call is prepared once. A call with static shapes costs the
comparison of each input with what is expected, one allocation per output, and the packed call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from sys import getrefcount
from typing import Any, cast

import numpy

from tilesmith.runtime.container import ShapeTuple
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ffi import Function, tvm_ffi
from tilesmith.runtime.frame import Frame
from tilesmith.runtime.ndarray import (
    ALIGNMENT,
    NDArray,
    aligned_numpy,
    array,
    empty_cpu,
    from_dlpack,
)
from tilesmith.runtime.signature import Parameter, Result, Signature, describe
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnknownNameError

_from_dlpack = cast("Callable[[Any], NDArray]", tvm_ffi.from_dlpack)
_SMALL = 4096  # bytes; outputs up to this size come from slabs
_SLAB_ROWS = 16
_MOST_KEPT, _KEPT = 2 << 20, 2
"""Bytes of results whose memory is used again, and of how many a function keeps it. Two, as a
program often holds a result until it has the next one."""


class _Workspace:
    """Scratch memory of one running call, and the buffer that receives the sizes."""

    __slots__ = ("address", "frame", "memory", "sizes", "sizes_tensor")

    def __init__(self, size: int, extents: int = 0, has_frame: bool = False) -> None:
        self.frame = Frame() if has_frame else None
        self.memory: Any = None
        self.address = 0
        self.grow(size)
        if extents:
            self.sizes = aligned_numpy((extents,), numpy.dtype("int64"))
            self.sizes_tensor = _from_dlpack(self.sizes)

    def grow(self, size: int) -> None:
        """Make sure that there are at least `size` bytes."""
        if size > 0 and (self.memory is None or self.memory.nbytes < size):
            self.memory = aligned_numpy((size,), numpy.dtype("uint8"))
            self.address = int(self.memory.__array_interface__["data"][0])


class Expected:
    """What one leaf of the parameters must be, prepared for comparison."""

    __slots__ = ("dtype", "is_static", "numpy_dtype", "param", "shape")

    def __init__(self, param: Parameter) -> None:
        self.param = param
        self.shape = param.shape
        self.dtype = param.dtype
        self.is_static = param.is_static
        self.numpy_dtype: Any = None
        if param.kind == "tensor":
            assert param.dtype is not None
            native = param.dtype.code in (
                "int",
                "uint",
                "float",
                "bool",
            ) and param.dtype.bits not in (2, 4)
            self.numpy_dtype = param.dtype.numpy() if native else None


# `carray`: compact, aligned to its elements and writable (DLPack refuses others)
_COMPARISON = """(
    x{k}.dtype is numpy_{k} and x{k}.shape == shape_{k} and x{k}.flags.carray
    if x{k}.__class__ is ndarray else
    x{k}.__class__ is NDArray and x{k}.dtype is dtype_{k} and x{k}.shape == shape_{k}
    and x{k}.is_contiguous() and x{k}.__dlpack_device__()[0] == 1
)"""


def _comparison(expected: Sequence[Expected]) -> Callable[[Sequence[Any]], bool]:
    """Return a function that tells whether tensors can be used as they are. Without a loop it takes
    half the time. Its text depends on their number alone: what a signature says, which may come
    from a file, are values of its variables.
    """
    names: dict[str, Any] = {"ndarray": numpy.ndarray, "NDArray": NDArray}
    for k, one in enumerate(expected):
        names |= {f"dtype_{k}": one.dtype, f"numpy_{k}": one.numpy_dtype, f"shape_{k}": one.shape}
    count = range(len(expected))
    given = "".join([f"x{k}, " for k in count])
    wanted = " and ".join([_COMPARISON.format(k=k) for k in count]) or "True"
    exec(f"def fits(inputs):\n    [{given}] = inputs\n    return {wanted}", names)
    made: Callable[[Sequence[Any]], bool] = names["fits"]
    return made


class CompiledFunction:
    """A function of an executable. Call it with NDArrays, numpy arrays or DLPack tensors, by
    position or by name; several threads may call it at once."""

    def __init__(
        self,
        signature: Signature,
        function: Function,
        shapes_function: Function | None,
        constants_address: int,
        keep_alive: Any = None,
    ) -> None:
        self.signature = signature
        self._function = function
        self._shapes_function = shapes_function
        self._constants = constants_address
        self._keep_alive = keep_alive
        self._count = len(signature.params)
        leaves = [leaf for param in signature.params for leaf in param.leaves()]
        self._expected = [Expected(leaf) for leaf in leaves]
        self._fits: Callable[[Sequence[Any]], bool] | None = None
        results = list(enumerate(signature.result.leaves()))
        self._same_as = [(number, leaf.argument) for number, leaf in results if leaf.argument >= 0]
        self._is_plain = (
            shapes_function is None
            and not signature.has_frame
            and not self._same_as
            and all(param.kind == "tensor" for param in signature.params)
            and all(leaf.is_static for leaf in leaves)
        )
        self._results = [
            (number, leaf)
            for number, leaf in results
            if not leaf.is_made_inside and leaf.argument < 0
        ]
        self._makers = [result_maker(leaf) for _, leaf in self._results if leaf.kind != "shape"]
        self._is_single = signature.result.kind == "tensor"
        self._extents = sum([len(leaf.shape) for _, leaf in self._results]) + 1
        self._workspace_bytes = signature.workspace_bytes or 0
        self._is_small = self._is_plain and self._is_single and not self._workspace_bytes
        self._free: list[_Workspace] = []

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.signature.name

    @property
    def input_names(self) -> list[str]:
        """Names of the parameters, in order."""
        return [param.name for param in self.signature.params]

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        if named or len(inputs) != self._count:
            inputs = self._bind(inputs, named)
        if not self._is_plain:
            return self._call_general(inputs)
        fits = self._fits
        if fits is None:
            fits = self._fits = _comparison(self._expected)
        if fits(inputs):
            if self._is_small:  # `_run`, written out
                output = self._makers[0]()
                self._function(*inputs, output, self._constants, 0)
                return output
            return self._run(inputs)
        # which returns what can be used as it is
        return self._run([self._convert(*pair, {}) for pair in zip(inputs, self._expected)])

    def _run(self, arguments: Sequence[Any]) -> Any:
        """Run a function of static sizes with tensors that fit."""
        workspace = None
        address = 0
        if self._workspace_bytes:
            try:
                workspace = self._free.pop()
            except IndexError:
                workspace = _Workspace(self._workspace_bytes)
            address = workspace.address
        try:
            if self._is_single:
                output = self._makers[0]()
                self._function(*arguments, output, self._constants, address)
                return output
            outputs = [make() for make in self._makers]
            self._function(*arguments, *outputs, self._constants, address)
        finally:
            if workspace is not None:
                self._free.append(workspace)
        return rebuild(self.signature.result, iter(outputs))

    # -- symbolic sizes, nested tuples, numbers -------------------------------------------------

    def _call_general(self, inputs: Sequence[Any]) -> Any:
        arguments = self._flatten(inputs)
        extents = 0 if self._shapes_function is None else self._extents
        try:
            workspace = self._free.pop()
        except IndexError:
            workspace = _Workspace(self._workspace_bytes, extents, self.signature.has_frame)
        made: dict[int, Any] = {}  # results by number
        try:
            shapes: list[tuple[int, ...]] = [leaf.shape for _, leaf in self._results]  # type: ignore[misc]
            if self._shapes_function is not None:
                self._shapes_function(*arguments, workspace.sizes_tensor)
                sizes = workspace.sizes.tolist()
                workspace.grow(sizes[-1])
                shapes = split_sizes(sizes, self._results)
            outputs = []
            for (number, leaf), shape in zip(self._results, shapes):
                if leaf.dtype is None:
                    made[number] = shape
                else:
                    made[number] = empty_cpu(shape, leaf.dtype)
                    outputs.append(made[number])
            frame = workspace.frame
            numbers = () if frame is None else (frame.number,)
            try:
                self._function(*arguments, *outputs, self._constants, workspace.address, *numbers)
            finally:
                if frame is not None:
                    made.update(frame.finish())
        finally:
            self._free.append(workspace)
        for number, place in self._same_as:
            argument = arguments[place]
            made[number] = argument if isinstance(argument, NDArray) else from_dlpack(argument)
        return rebuild(self.signature.result, iter([made[number] for number in sorted(made)]))

    def _flatten(self, inputs: Sequence[Any]) -> list[Any]:
        leaves: list[Any] = []
        for value, param in zip(inputs, self.signature.params):
            self._flatten_one(value, param, leaves)
        bindings: dict[str, tuple[int, str]] = {}
        arguments: list[Any] = []
        for value, expected in zip(leaves, self._expected):
            kind = expected.param.kind
            if kind == "tensor":
                arguments.append(self._convert(value, expected, bindings))
            elif kind == "shape":
                arguments += self._convert_shape(value, expected, bindings)
            else:
                arguments.append(self._convert_number(value, expected.param))
        return arguments

    def _flatten_one(self, value: Any, param: Parameter, leaves: list[Any]) -> None:
        if param.kind != "tuple":
            leaves.append(value)
            return
        if not isinstance(value, (tuple, list)):
            raise self._mismatch(param, "a tuple", type(value).__name__)
        if len(value) != len(param.fields):
            raise self._mismatch(param, f"{len(param.fields)} fields", f"{len(value)} fields")
        for inner, field in zip(value, param.fields):
            self._flatten_one(inner, field, leaves)

    # -- inputs that need conversion ------------------------------------------------------------

    def _bind(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the inputs in order of the parameters."""
        names = self.input_names
        if len(inputs) > len(names):
            raise TypeMismatchError(
                f"'{self.name}' takes {len(names)} inputs, got {len(inputs)}",
                notes=(f"it is {self.signature}",),
            )
        given = dict(zip(names, inputs))
        for name, value in named.items():
            if name not in names:
                import difflib

                near = difflib.get_close_matches(name, names, n=1)
                advice = f"did you mean '{near[0]}'?" if near else f"inputs: {', '.join(names)}"
                raise UnknownNameError(f"'{self.name}' has no input '{name}'", notes=(advice,))
            if name in given:
                raise TypeMismatchError(f"input '{name}' of '{self.name}' is given twice")
            given[name] = value
        missing = [param for param in self.signature.params if param.name not in given]
        if missing:
            listed = ", ".join([f"'{param.name}'" for param in missing])
            raise TypeMismatchError(
                f"'{self.name}' misses the input{'s' if len(missing) > 1 else ''} {listed}",
                notes=[f"expected {param}" for param in missing[:8]],
            )
        return tuple([given[name] for name in names])

    def _convert(
        self, value: Any, expected: Expected, bindings: dict[str, tuple[int, str]]
    ) -> NDArray | numpy.ndarray:
        """Return a compact tensor on the host over `value` or, where necessary, a copy of it.
        Raises ShapeError or TypeMismatchError that name the input.
        """
        param = expected.param
        tensor = self._as_tensor(value, expected)
        dtype = DataType(tensor.dtype)
        if dtype is not expected.dtype:
            error = self._mismatch(param, f"dtype '{expected.dtype}'", f"dtype '{dtype}'")
            error.notes += (f'convert it: x.astype("{expected.dtype}")',)
            raise error
        self._check_shape(tuple(tensor.shape), expected, bindings)
        if isinstance(tensor, NDArray):
            if tensor.__dlpack_device__()[0] == 1 and tensor.is_contiguous():
                return tensor
            return array(tensor.numpy())
        usable = tensor.flags.carray and tensor.dtype.isnative
        if usable and expected.numpy_dtype is not None:
            return tensor
        return from_dlpack(tensor) if usable else array(tensor)

    def _as_tensor(self, value: Any, expected: Expected) -> NDArray | numpy.ndarray:
        if isinstance(value, (NDArray, numpy.ndarray)):
            return value
        if isinstance(value, numpy.generic):
            return numpy.asarray(value)
        if hasattr(value, "__dlpack__"):
            return from_dlpack(value)
        if isinstance(value, (bool, int, float)) and expected.shape == ():
            assert expected.dtype is not None
            return numpy.asarray(value, expected.dtype.numpy())
        got = type(value).__name__
        error = self._mismatch(expected.param, f"a tensor {describe(expected.param)}", got)
        error.notes += ("pass a numpy array, an NDArray, or a tensor that speaks DLPack",)
        raise error

    def _check_shape(
        self, shape: tuple[int, ...], expected: Expected, bindings: dict[str, tuple[int, str]]
    ) -> None:
        fits = len(shape) == len(expected.shape)
        notes: list[str] = []
        for extent, wanted in zip(shape, expected.shape) if fits else ():
            if isinstance(wanted, int):
                fits = fits and extent == wanted
            elif wanted.isidentifier():
                known, origin = bindings.setdefault(wanted, (extent, expected.param.name))
                if known != extent:
                    notes.append(f"{wanted} is {known} in input '{origin}', but {extent} here")
        if fits and not notes:
            return
        inner = ", ".join([str(extent) for extent in expected.shape])
        inner = f"({inner},)" if len(expected.shape) == 1 else f"({inner})"
        raise ShapeError(
            f"input '{expected.param.name}' of '{self.name}': "
            f"expected shape {inner}, got {tuple(shape)}",
            notes=notes,
        )

    def _convert_shape(
        self, value: Any, expected: Expected, bindings: dict[str, tuple[int, str]]
    ) -> list[int]:
        try:
            extents = [int(extent) for extent in value]
        except (TypeError, ValueError):
            got = type(value).__name__
            raise self._mismatch(expected.param, "a tuple of integers", got) from None
        self._check_shape(tuple(extents), expected, bindings)
        return extents

    def _convert_number(self, value: Any, param: Parameter) -> int | float | bool:
        assert param.dtype is not None
        if isinstance(value, (numpy.generic, numpy.ndarray, NDArray)):
            value = value.item()
        wanted = (int, float) if param.dtype.is_float else (bool, int)
        if not isinstance(value, wanted):
            raise self._mismatch(param, f"a number of dtype '{param.dtype}'", type(value).__name__)
        return float(value) if param.dtype.is_float else value

    def _mismatch(self, param: Parameter, expected: str, got: str) -> TypeMismatchError:
        return TypeMismatchError(
            f"input '{param.name}' of '{self.name}': expected {expected}, got {got}"
        )

    def __repr__(self) -> str:
        return f"<compiled {self.signature}>"


def result_maker(leaf: Result) -> Callable[[], NDArray]:
    """Return a function that makes the output tensor of a leaf with a static shape."""
    dtype = leaf.dtype
    assert dtype is not None
    if not all(isinstance(extent, int) for extent in leaf.shape):
        return lambda: empty_cpu((), dtype)  # not used: the shapes function gives the extents
    shape: tuple[int, ...] = leaf.shape  # type: ignore[assignment]
    if (
        dtype.code not in ("int", "uint", "float", "bool")
        or dtype.bits in (2, 4)
        or dtype.is_vector
    ):
        return lambda: empty_cpu(shape, dtype)
    numpy_dtype = dtype.numpy()
    size = dtype.nbytes
    for extent in shape:
        size *= extent
    if size > _MOST_KEPT:
        return lambda: _from_dlpack(aligned_numpy(shape, numpy_dtype))
    if size > _SMALL:
        return _keeping(lambda: aligned_numpy(shape, numpy_dtype))
    return _keeping(_from_slabs(shape, numpy_dtype, size))


def _references_of_one() -> int:
    """Return what `getrefcount` says of an object that nothing but a local variable refers to."""
    alone = object()
    return getrefcount(alone)


_ALONE = _references_of_one()


def _keeping(make_array: Callable[[], numpy.ndarray]) -> Callable[[], NDArray]:
    """Return a function that makes tensors, and takes the memory of one that it made before where
    nothing refers to that any more: half of what a small call costs is to make its result.
    """
    kept: deque[numpy.ndarray] = deque(maxlen=_KEPT)
    take, keep = kept.popleft, kept.append

    def made_of(array: numpy.ndarray) -> NDArray:
        made = _from_dlpack(array)
        keep(array)
        return made

    def make() -> NDArray:
        try:
            array = take()  # no other thread sees it until it has a tensor again
            if getrefcount(array) == _ALONE:  # a tensor holds a reference
                made = _from_dlpack(array)
                keep(array)
                return made
            keep(array)
            array = take()
            if getrefcount(array) == _ALONE:
                return made_of(array)
            keep(array)
        except IndexError:  # there are fewer, or other threads have them
            pass
        return made_of(make_array())

    return make


def _from_slabs(
    shape: tuple[int, ...], dtype: numpy.dtype, size: int
) -> Callable[[], numpy.ndarray]:
    """Return a function that cuts small arrays from slabs, which costs a fifth of an allocation
    each. A slab lives as long as one of its arrays.
    """
    row = (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    strides = [dtype.itemsize]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    strides = strides[: len(shape)]
    ready: list[numpy.ndarray] = []

    def make() -> numpy.ndarray:
        try:
            return ready.pop()
        except IndexError:
            slab = aligned_numpy((_SLAB_ROWS * row,), numpy.dtype("uint8"))
            rows = numpy.ndarray((_SLAB_ROWS, *shape), dtype, slab, 0, (row, *strides))
            ready.extend(list(rows) if shape else [rows[i, ...] for i in range(_SLAB_ROWS)])
            return ready.pop()

    return make


def split_sizes(sizes: list[int], leaves: Sequence[tuple[int, Result]]) -> list[tuple[int, ...]]:
    """Return the shapes of the leaves from the buffer that the shapes function has written."""
    shapes = []
    position = 0
    for _, leaf in leaves:
        shapes.append(tuple(sizes[position : position + len(leaf.shape)]))
        position += len(leaf.shape)
    return shapes


def rebuild(result: Result, leaves: Iterator[Any]) -> Any:
    """Return the nested result made of its leaves in order."""
    if result.kind == "tuple":
        return tuple([rebuild(inner, leaves) for inner in result.fields])
    if result.kind == "none":
        return None
    value = next(leaves)
    if result.kind == "shape":
        return ShapeTuple(value)
    return value.item() if result.kind == "prim" else value
