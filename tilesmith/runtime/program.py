"""Runs graph functions step by step: those with values that only the runtime knows.

Objects, tensors of unknown rank, closures, functions that call themselves, and functions that are
registered under a name have no place in native code. A function that uses them is a program: steps
as JSON data, between which stand calls of native parts (`CompiledFunction`).

    {"params": [{"name": "x", "type": TYPE}, …],    parameter k is in register k
     "registers": 5,
     "body": BODY,
     "result": TYPE}

    BODY  = {"steps": [STEP, …], "value": VALUE}
    STEP  = {"do": "value" | "match" | "call" | "part" | "if" | "closure" | …, "to": register, …}
    VALUE = {"register": 0} | {"field": VALUE, "index": 1} | {"tuple": [VALUE, …]}
          | {"constant": 0} | {"shape": [SIZE, …]} | {"number": SIZE} | {"text": "…"}
          | {"dtype": "int8"} | {"function": "name"} | {"registered": "name"}
    SIZE  = 3 | "n" | ["mul", SIZE, SIZE]
    TYPE  = {"kind": "tensor", "dtype": "float32" or "", "ndim": -1, "shape": [SIZE, …] or null}
          | {"kind": "shape", "ndim": 2, "shape": [SIZE, …] or null}
          | {"kind": "prim", "dtype": "int64", "value": SIZE or null}
          | {"kind": "tuple", "fields": [TYPE, …]} | {"kind": "object"}

The data are turned into Python functions once, when the model is loaded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from tilesmith.runtime.container import ShapeTuple
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.external import find_external
from tilesmith.runtime.ndarray import NDArray, array, empty_cpu, from_dlpack
from tilesmith.runtime.packed_func import from_ffi
from tilesmith.runtime.registry import get_global_func
from tilesmith.runtime.signature import Signature
from tilesmith.support.errors import (
    ArtifactError,
    ExecutionError,
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.support.recursion import deep_recursion

__all__ = ["Closure", "Program"]

Data = Mapping[str, Any]


class _Frame:
    """The values and sizes of one call."""

    __slots__ = ("later", "registers", "sizes")

    def __init__(self, registers: int) -> None:
        self.registers: list[Any] = [None] * registers
        self.sizes: dict[str, int] = {}
        self.later: list[Callable[[], None]] | None = []
        """Comparisons with sizes that a later parameter tells; None after the parameters."""

    def compare(self, size: Evaluate, value: int, where: str) -> None:
        """Raise a ShapeError unless a size has a value."""
        try:
            wanted = size(self)
        except _UnknownSizeError:
            if self.later is None:
                raise
            self.later.append(lambda: self.compare(size, value, where))
            return
        if wanted != value:
            raise ShapeError(f"{where}, expected {wanted}")

    def end_parameters(self) -> None:
        """Make the comparisons that were left open."""
        later, self.later = self.later or [], None
        for one in later:
            one()


class _UnknownSizeError(ShapeError):
    """A size is needed that nothing has told."""


Evaluate = Callable[[_Frame], Any]


class Closure:
    """A function with its first arguments fixed; calling it gives the result."""

    def __init__(self, function: Callable[..., Any], first: Sequence[Any]) -> None:
        self.function = function
        self.first = tuple(first)

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*self.first, *arguments)


class Program:
    """A function of an executable that is run step by step.

    `find` gives the other functions of the executable by name, `constants` its constants.
    """

    def __init__(
        self,
        name: str,
        data: Data,
        find: Callable[[str], Callable[..., Any]],
        constants: Sequence[Any],
    ) -> None:
        self.name = name
        try:
            self.input_names = [str(one["name"]) for one in data["params"]]
            reader = _Reader(find, constants)
            self._params = [reader.type(one["type"]) for one in data["params"]]
            self._registers = int(data["registers"])
            self._body = reader.body(data["body"])
            self._result = reader.type(data["result"])
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise ArtifactError(
                f"the program of '{name}' cannot be read",
                notes=(f"{type(error).__name__}: {error}",),
            ) from error

    @property
    def signature(self) -> Signature:
        """Raise an error: only native functions have fixed types of inputs and results."""
        raise UnsupportedError(
            f"'{self.name}' runs step by step: its inputs have no fixed types",
            notes=("call it from Python with its inputs",),
        )

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.input_names)})"

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        values = list(inputs)
        for parameter in self.input_names[len(inputs) :]:
            if parameter in named:
                values.append(named.pop(parameter))
        if named or len(values) != len(self._params):
            raise TypeMismatchError(
                f"'{self.name}' takes {len(self._params)} inputs, got {len(inputs)}",
                notes=(f"inputs: {', '.join(self.input_names)}",),
            )
        frame = _Frame(max(self._registers, len(values)))
        for number, (value, check) in enumerate(zip(values, self._params)):
            value = _as_value(value)
            check(frame, value, f"'{self.name}': input '{self.input_names[number]}'")
            frame.registers[number] = value
        frame.end_parameters()
        with deep_recursion():
            result = self._body(frame)
        self._result(frame, result, f"the result of '{self.name}'")
        return result


def _as_value(value: Any) -> Any:
    """Convert what a caller gives: arrays become NDArrays, lists tuples; objects stay."""
    if isinstance(value, (NDArray, ShapeTuple)):
        return value
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        is_usable = isinstance(value, numpy.ndarray) and value.flags.carray
        return from_dlpack(value) if is_usable else array(value)
    if isinstance(value, (list, tuple)):
        return tuple([_as_value(item) for item in value])
    return from_dlpack(value) if hasattr(value, "__dlpack__") else value


def _as_result(value: Any) -> Any:
    """Convert what a registered function gives back."""
    value = from_ffi(value)
    if isinstance(value, (list, tuple)) and not isinstance(value, ShapeTuple):
        made = tuple([_as_result(item) for item in value])
        return ShapeTuple(made) if made and all(type(item) is int for item in made) else made
    return _as_value(value)


class _Reader:
    """Turns the data of a program into Python functions of a frame."""

    def __init__(self, find: Callable[[str], Callable[..., Any]], constants: Sequence[Any]) -> None:
        self._find = find
        self._constants = constants

    # Sizes and types

    def size(self, data: Any) -> Evaluate:
        """Read a size."""
        if isinstance(data, str):
            name = data

            def known(frame: _Frame) -> Any:
                if name not in frame.sizes:
                    raise _UnknownSizeError(f"the size '{name}' is not known when it is needed")
                return frame.sizes[name]

            return known
        if isinstance(data, (list, tuple)):
            function = _OPERATIONS[data[0]]
            parts = [self.size(one) for one in data[1:]]
            return lambda frame: function(*[part(frame) for part in parts])
        if not isinstance(data, (bool, int, float)):
            raise TypeError(f"{data!r} is not a size")
        return lambda frame: data

    def type(self, data: Data) -> Callable[[_Frame, Any, str], None]:
        """Read a type: a function that checks a value and learns the sizes that stand alone."""
        kind = data["kind"]
        if kind == "tensor":
            return self._tensor_type(data)
        if kind == "shape":
            sizes = None if data["shape"] is None else self._sizes(data["shape"])
            rank = int(data["ndim"])

            def check_shape(frame: _Frame, value: Any, what: str) -> None:
                if not isinstance(value, (tuple, list)):
                    raise TypeMismatchError(f"{what} is a {type(value).__name__}, not a shape")
                if rank not in (-1, len(value)):
                    raise ShapeError(f"{what} is the shape {tuple(value)}, expected {rank} sizes")
                if sizes is not None:
                    sizes(frame, value, what)

            return check_shape
        if kind == "prim":
            value_of = None if data["value"] is None else self._sizes([data["value"]])

            def check_number(frame: _Frame, value: Any, what: str) -> None:
                if not isinstance(value, (bool, int, float)):
                    raise TypeMismatchError(f"{what} is a {type(value).__name__}, not a number")
                if value_of is not None:
                    value_of(frame, (value,), what)

            return check_number
        if kind == "tuple":
            fields = [self.type(one) for one in data["fields"]]

            def check_tuple(frame: _Frame, value: Any, what: str) -> None:
                if value is None and not fields:
                    return
                if not isinstance(value, tuple) or len(value) != len(fields):
                    raise TypeMismatchError(f"{what} is not a tuple of {len(fields)} values")
                for number, (field, item) in enumerate(zip(fields, value)):
                    field(frame, item, f"field {number} of {what}")

            return check_tuple
        if kind != "object":
            raise ValueError(f"unknown kind of type '{kind}'")
        return lambda frame, value, what: None

    def _tensor_type(self, data: Data) -> Callable[[_Frame, Any, str], None]:
        dtype = DataType(data["dtype"]) if data["dtype"] else None
        rank = int(data["ndim"])
        sizes = None if data["shape"] is None else self._sizes(data["shape"])

        def check(frame: _Frame, value: Any, what: str) -> None:
            if not isinstance(value, NDArray):
                raise TypeMismatchError(f"{what} is a {type(value).__name__}, not a tensor")
            if dtype is not None and DataType(value.dtype) is not dtype:
                raise TypeMismatchError(f"{what} is {value.dtype}, expected {dtype}")
            if rank not in (-1, len(value.shape)):
                raise ShapeError(f"{what} has the shape {value.shape}, expected {rank} axes")
            if sizes is not None:
                sizes(frame, value.shape, what)

        return check

    def _sizes(self, data: Sequence[Any]) -> Callable[[_Frame, Any, str], None]:
        expected = [(one if isinstance(one, str) else None, self.size(one)) for one in data]

        def check(frame: _Frame, values: Any, what: str) -> None:
            if len(values) != len(expected):
                raise ShapeError(f"{what} has {len(values)} axes, expected {len(expected)}")
            for (name, _), value in zip(expected, values):
                if name is not None:
                    frame.sizes.setdefault(name, value)
            for axis, ((_, size), value) in enumerate(zip(expected, values)):
                frame.compare(size, value, f"{what} has the size {value} at {axis}")

        return check

    # Values

    def value(self, data: Data) -> Evaluate:
        """Read a value."""
        ((kind, *_), content) = tuple(data), next(iter(data.values()))
        return _VALUES[kind](self, content, data)

    def register(self, number: int, data: Data) -> Evaluate:
        """Read the value of a register."""
        return lambda frame: frame.registers[number]

    def field(self, source: Data, data: Data) -> Evaluate:
        """Read a field of a tuple."""
        whole, index = self.value(source), int(data["index"])
        return lambda frame: whole(frame)[index]

    def several(self, fields: Sequence[Data], data: Data) -> Evaluate:
        """Read a tuple."""
        parts = [self.value(one) for one in fields]
        return lambda frame: tuple([part(frame) for part in parts])

    def shape(self, sizes: Sequence[Any], data: Data) -> Evaluate:
        """Read a shape."""
        parts = [self.size(one) for one in sizes]
        return lambda frame: ShapeTuple([part(frame) for part in parts])

    def number(self, size: Any, data: Data) -> Evaluate:
        """Read a number."""
        return self.size(size)

    def constant(self, place: int, data: Data) -> Evaluate:
        """Read a constant tensor."""
        made = array(self._constants[place])
        return lambda frame: made

    def plain(self, content: Any, data: Data) -> Evaluate:
        """Read a text."""
        return lambda frame: content

    def dtype(self, name: str, data: Data) -> Evaluate:
        """Read a data type."""
        made = DataType(name)
        return lambda frame: made

    def function(self, name: str, data: Data) -> Evaluate:
        """Read a function of the model."""
        find = self._find
        return lambda frame: find(name)

    def registered(self, name: str, data: Data) -> Evaluate:
        """Read a registered function."""
        return lambda frame: _registered(name)

    # Steps

    def body(self, data: Data) -> Evaluate:
        """Read steps that are followed by a value."""
        steps = [_STEPS[step["do"]](self, step) for step in data["steps"]]
        value = self.value(data["value"])

        def run(frame: _Frame) -> Any:
            for step in steps:
                step(frame)
            return value(frame)

        return run

    def _set(self, step: Data, value: Evaluate) -> Evaluate:
        """Return the step that puts a value into a register and checks it where it has a type."""
        place = int(step["to"])
        check = self.type(step["type"]) if "type" in step else None
        what = str(step.get("what", ""))

        def run(frame: _Frame) -> None:
            made = value(frame)
            if check is not None:
                check(frame, made, what)
            frame.registers[place] = made

        return run

    def set_value(self, step: Data) -> Evaluate:
        """Read `to = value`, checked against a type where there is one."""
        return self._set(step, self.value(step["value"]))

    def call(self, step: Data) -> Evaluate:
        """Read a call of a function, a closure, or a registered function."""
        callee = self.value(step["callee"])
        arguments = self.value(step["arguments"])
        return self._set(step, lambda frame: callee(frame)(*arguments(frame)))

    def part(self, step: Data) -> Evaluate:
        """Read a call of native code, whose results go to several registers."""
        find, name = self._find, str(step["function"])
        arguments = self.value(step["arguments"])
        places = [int(place) for place in step["to"]]

        def run(frame: _Frame) -> None:
            results = find(name)(*arguments(frame))
            for place, result in zip(places, results):
                frame.registers[place] = result

        return run

    def choose(self, step: Data) -> Evaluate:
        """Read a choice between two bodies."""
        condition = self.value(step["condition"])
        then, otherwise = self.body(step["then"]), self.body(step["else"])

        def run(frame: _Frame) -> Any:
            sizes = dict(frame.sizes)  # what a branch learns is not known after it
            made = (then if _truth(condition(frame)) else otherwise)(frame)
            frame.sizes = sizes
            return made

        return self._set(step, run)

    def closure(self, step: Data) -> Evaluate:
        """Read the making of a closure."""
        callee, first = self.value(step["callee"]), self.value(step["arguments"])
        return self._set(step, lambda frame: Closure(callee(frame), first(frame)))

    def host(self, step: Data) -> Evaluate:
        """Read an operation that the runtime carries out itself."""
        operation = _HOST[step["name"]]
        arguments = self.value(step["arguments"])
        return self._set(step, lambda frame: operation(*arguments(frame)))


def _registered(name: str) -> Callable[..., Any]:
    function = find_external(name) or get_global_func(name, allow_missing=True)
    if function is None:
        raise UnknownNameError(
            f"the model calls the function '{name}', which is not registered",
            notes=("register it with register_func before the model runs",),
        )
    found: Any = function
    return lambda *arguments: _as_result(found(*arguments))


def _truth(value: Any) -> bool:
    return bool(value.numpy()) if isinstance(value, NDArray) else bool(value)


# What the runtime does itself


def alloc_storage(size: Sequence[int], device: int = 0, scope: str = "", dtype: Any = None) -> Any:
    """Return new memory of so many bytes."""
    (count,) = size
    return empty_cpu((count,), DataType("uint8"))


def tensor_in_storage(storage: NDArray, offset: int, shape: Sequence[int], dtype: DataType) -> Any:
    """Return the tensor at an offset of a storage."""
    kind = dtype.numpy()
    count = int(numpy.prod(shape, dtype="int64")) * kind.itemsize
    data = numpy.from_dlpack(storage).reshape(-1).view("uint8")
    if offset < 0 or offset + count > data.size:
        raise ShapeError(
            f"a tensor of {count} bytes at {offset} leaves its storage of {data.size} bytes"
        )
    return from_dlpack(data[offset : offset + count].view(kind).reshape(tuple(shape)))


def view(
    data: NDArray, shape: Sequence[int], dtype: DataType | None = None, offset: int | None = None
) -> Any:
    """Return the same memory as a tensor of another shape and type."""
    return tensor_in_storage(data, offset or 0, shape, DataType(dtype or data.dtype))


def _print(template: str, *values: Any) -> None:
    print(template.format(*values) if template else " ".join([str(value) for value in values]))


def _assert(condition: Any, template: str, *values: Any) -> None:
    holds = numpy.asarray(condition.numpy() if isinstance(condition, NDArray) else condition).all()
    if not holds:
        raise AssertionError(template.format(*values) or "assertion failed")


def _one_of(sizes: NDArray) -> ShapeTuple:
    return ShapeTuple(sizes.numpy().reshape(-1).tolist())


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _divided(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def run(a: int, b: int) -> int:
        if b == 0:
            raise ExecutionError("a size is divided by zero")
        return function(a, b)

    return run


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": _divided(operator.floordiv),
    "floormod": _divided(operator.mod),
    "div": _divided(_truncated),
    "mod": _divided(lambda a, b: a - b * _truncated(a, b)),
    "min": min,
    "max": max,
}

_HOST: dict[str, Callable[..., Any]] = {
    "nothing": lambda *values: (),
    "null": lambda: None,
    "same": lambda value: value,
    "print": _print,
    "assert": _assert,
    "shape_of": lambda tensor: ShapeTuple(tensor.shape),
    "tensor_to_shape": _one_of,
    "shape_to_tensor": lambda shape: array(numpy.asarray(shape, "int64")),
    "append": lambda data, row: array(numpy.concatenate([data.numpy(), row.numpy()[None]])),
    "alloc_storage": alloc_storage,
    "alloc_tensor": lambda shape, dtype, *place: empty_cpu(tuple(shape), DataType(dtype)),
    "tensor_in_storage": tensor_in_storage,
    "view": view,
}
"""Operations by the names that programs give them."""

_VALUES: dict[str, Callable[..., Evaluate]] = {
    "register": _Reader.register,
    "field": _Reader.field,
    "tuple": _Reader.several,
    "shape": _Reader.shape,
    "number": _Reader.number,
    "constant": _Reader.constant,
    "text": _Reader.plain,
    "dtype": _Reader.dtype,
    "function": _Reader.function,
    "registered": _Reader.registered,
}

_STEPS: dict[str, Callable[..., Evaluate]] = {
    "value": _Reader.set_value,
    "call": _Reader.call,
    "part": _Reader.part,
    "if": _Reader.choose,
    "closure": _Reader.closure,
    "host": _Reader.host,
}
