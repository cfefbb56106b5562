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
            (and jumps, see `program_calls`)
    VALUE = {"register": 0} | {"field": VALUE, "index": 1} | {"tuple": [VALUE, …]}
          | {"constant": 0} | {"shape": [SIZE, …]} | {"number": SIZE} | {"text": "…"}
          | {"dtype": "int8"} | {"function": "name"} | {"registered": "name"} | {"nothing": 0}
    SIZE  = 3 | "n" | ["mul", SIZE, SIZE]
    TYPE  = {"kind": "tensor", "dtype": "float32" or "", "ndim": -1, "shape": [SIZE, …] or null}
            (and "on_host": true, or "device": its position, if it is not on the first device)
          | {"kind": "shape", "ndim": 2, "shape": [SIZE, …] or null}
          | {"kind": "prim", "dtype": "int64", "value": SIZE or null}
          | {"kind": "tuple", "fields": [TYPE, …]} | {"kind": "object"}

The data are turned into instructions once, when the model is loaded: Python functions of a frame,
in a list, with jumps for choices. One loop (`program_frames.execute`) carries them out and keeps
the frames of calls that are open itself, so that programs may call themselves as deeply as memory
allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy

from tilesmith.runtime.container import ADT, RefValue, ShapeTuple
from tilesmith.runtime.devices import Device, cpu
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.external import find_external
from tilesmith.runtime.ndarray import NDArray, array, empty, from_dlpack
from tilesmith.runtime.observation import KernelObserver, timed_call
from tilesmith.runtime.packed_func import from_ffi
from tilesmith.runtime.program_calls import INSTRUMENT, JUMPS, SKIPPED, observed, symbol_of
from tilesmith.runtime.program_frames import (
    Evaluate,
    Frame,
    Instruction,
    UnknownSizeError,
    execute,
)
from tilesmith.runtime.program_host import OPERATIONS, on_device
from tilesmith.runtime.registry import get_global_func
from tilesmith.runtime.signature import Signature, signature_of_types
from tilesmith.support.errors import (
    ArtifactError,
    ShapeError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)

__all__ = ["Closure", "Program", "as_value"]

Data = Mapping[str, Any]

_MOST_REGISTERS = 10_000_000


class Closure:
    """A function with its first arguments fixed; calling it gives the result."""

    def __init__(self, function: Callable[..., Any], first: Sequence[Any]) -> None:
        self.function = function
        self.first = tuple(first)

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*self.first, *arguments)


class Program:
    """A function of an executable that is run step by step.

    `find` gives the other functions of the executable by name, `constants` its constants. Tensors
    are on the first of the `devices`, or where their types say; `place` checks the values of a
    caller for that, or copies them there.
    """

    def __init__(
        self,
        name: str,
        data: Data,
        find: Callable[[str], Callable[..., Any]],
        constants: Sequence[Any],
        devices: Sequence[Device] = (),
        place: Callable[[Any, Data, str], Any] = lambda value, data, what: value,
    ) -> None:
        self.name = name
        self._place = place
        try:
            self.input_names = [str(one["name"]) for one in data["params"]]
            self._registers = max(int(data["registers"]), len(self.input_names))
            reader = _Reader(find, constants, self._registers, devices or (cpu(),))
            self._types = [one["type"] for one in data["params"]]
            self._result = data["result"]
            self._params = [reader.type(one) for one in self._types]
            self._code = reader.code(data["body"], data["result"], f"the result of '{name}'")
        except (
            KeyError,
            TypeError,
            ValueError,
            LookupError,
            AttributeError,
            RecursionError,
        ) as error:
            raise ArtifactError(
                f"the program of '{name}' cannot be read",
                notes=(f"{type(error).__name__}: {error}",),
            ) from error

    @property
    def signature(self) -> Signature:
        """The types of inputs and results; UnsupportedError if they are not all tensors, shapes and
        numbers whose sizes are known or have names.
        """
        found = signature_of_types(self.name, self.input_names, self._types, self._result)
        if found is None:
            raise UnsupportedError(
                f"'{self.name}' runs step by step: its inputs have no fixed types",
                notes=("call it from Python with its inputs",),
            )
        return found

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
        given = [
            self._place(as_value(value), data, f"input '{name}' of '{self.name}'")
            for name, data, value in zip(self.input_names, self._types, values)
        ]
        return execute(self.enter(given))

    def enter(self, values: Sequence[Any]) -> Frame:
        """Return the frame of a call, with checked arguments."""
        if len(values) != len(self._params):
            raise TypeMismatchError(
                f"'{self.name}' takes {len(self._params)} inputs, got {len(values)}"
            )
        frame = Frame(self._registers, self._code)
        for number, (value, check) in enumerate(zip(values, self._params)):
            check(frame, value, f"'{self.name}': input '{self.input_names[number]}'")
            frame.registers[number] = value
        frame.end_parameters()
        return frame


def as_value(value: Any) -> Any:
    """Convert what a caller gives: arrays become NDArrays, lists tuples; objects stay."""
    if isinstance(value, (NDArray, ShapeTuple, RefValue)):
        return value
    if isinstance(value, ADT):
        return value  # what a program has made, or a user: its fields are values
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        is_usable = isinstance(value, numpy.ndarray) and value.flags.carray
        return from_dlpack(value) if is_usable else array(value)
    if isinstance(value, (list, tuple)):
        return tuple([as_value(item) for item in value])
    return from_dlpack(value) if hasattr(value, "__dlpack__") else value


def _as_result(value: Any) -> Any:
    """Convert what a registered function gives back."""
    value = from_ffi(value)
    if isinstance(value, (list, tuple)) and not isinstance(value, ShapeTuple):
        made = tuple([_as_result(item) for item in value])
        return ShapeTuple(made) if made and all(type(item) is int for item in made) else made
    return as_value(value)


class _Reader:
    """Turns the data of a program into Python functions of a frame."""

    def __init__(
        self,
        find: Callable[[str], Callable[..., Any]],
        constants: Sequence[Any],
        registers: int,
        devices: Sequence[Device],
    ) -> None:
        if registers > _MOST_REGISTERS:
            raise ValueError(f"{registers} registers")
        self._find = find
        self._constants = constants
        self._registers = registers
        self._devices = devices

    def _place(self, number: Any) -> int:
        if type(number) is not int or not 0 <= number < self._registers:
            raise ValueError(f"{number!r} is no register: there are {self._registers}")
        return number

    # Sizes and types

    def size(self, data: Any) -> Evaluate:
        """Read a size."""
        if isinstance(data, str):
            name = data

            def known(frame: Frame) -> Any:
                if name not in frame.sizes:
                    raise UnknownSizeError(f"the size '{name}' is not known when it is needed")
                return frame.sizes[name]

            return known
        if isinstance(data, (list, tuple)):
            function = OPERATIONS[data[0]]
            parts = [self.size(one) for one in data[1:]]
            return lambda frame: function(*[part(frame) for part in parts])
        if not isinstance(data, (bool, int, float)):
            raise TypeError(f"{data!r} is not a size")
        return lambda frame: data

    def type(self, data: Data) -> Callable[[Frame, Any, str], None]:
        """Read a type: a function that checks a value and learns the sizes that stand alone."""
        kind = data["kind"]
        if kind == "tensor":
            return self._tensor_type(data)
        if kind == "shape":
            sizes = None if data["shape"] is None else self._sizes(data["shape"])
            rank = int(data["ndim"])

            def check_shape(frame: Frame, value: Any, what: str) -> None:
                if not isinstance(value, (tuple, list)):
                    raise TypeMismatchError(f"{what} is a {type(value).__name__}, not a shape")
                if rank not in (-1, len(value)):
                    raise ShapeError(f"{what} is the shape {tuple(value)}, expected {rank} sizes")
                if sizes is not None:
                    sizes(frame, value, what)

            return check_shape
        if kind == "prim":
            value_of = None if data["value"] is None else self._sizes([data["value"]])

            def check_number(frame: Frame, value: Any, what: str) -> None:
                if not isinstance(value, (bool, int, float)):
                    raise TypeMismatchError(f"{what} is a {type(value).__name__}, not a number")
                if value_of is not None:
                    value_of(frame, (value,), what)

            return check_number
        if kind == "tuple":
            fields = [self.type(one) for one in data["fields"]]

            def check_tuple(frame: Frame, value: Any, what: str) -> None:
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

    def _tensor_type(self, data: Data) -> Callable[[Frame, Any, str], None]:
        dtype = DataType(data["dtype"]) if data["dtype"] else None
        rank = int(data["ndim"])
        sizes = None if data["shape"] is None else self._sizes(data["shape"])

        def check(frame: Frame, value: Any, what: str) -> None:
            if not isinstance(value, NDArray):
                raise TypeMismatchError(f"{what} is a {type(value).__name__}, not a tensor")
            if dtype is not None and DataType(value.dtype) is not dtype:
                raise TypeMismatchError(f"{what} is {value.dtype}, expected {dtype}")
            if rank not in (-1, len(value.shape)):
                raise ShapeError(f"{what} has the shape {value.shape}, expected {rank} axes")
            if sizes is not None:
                sizes(frame, value.shape, what)

        return check

    def _sizes(self, data: Sequence[Any]) -> Callable[[Frame, Any, str], None]:
        expected = [(one if isinstance(one, str) else None, self.size(one)) for one in data]

        def check(frame: Frame, values: Any, what: str) -> None:
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
        self._place(number)
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
        """Read a constant tensor, which is converted when it is needed."""
        constant = self._constants[place]  # a wrong number is refused here
        made: list[Any] = []

        def run(frame: Frame) -> Any:
            if not made:
                made.append(array(constant, self._devices[0]))
            return made[0]

        return run

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

    def nothing(self, content: Any, data: Data) -> Evaluate:
        """Read the absence of a value."""
        return lambda frame: None

    def registered(self, name: str, data: Data) -> Evaluate:
        """Read a registered function."""
        return lambda frame: _registered(name)

    # Steps

    def code(self, body: Data, result: Data, what: str) -> list[Instruction]:
        """Read the body of a function: instructions, the last of which returns."""
        made: list[Instruction] = []
        value = self._steps(body, made)
        check = self.type(result)

        def end(frame: Frame) -> bool:
            frame.result = value(frame)
            check(frame, frame.result, what)
            return True

        made.append(end)
        return made

    def _steps(self, body: Data, code: list[Instruction]) -> Evaluate:
        """Append the instructions of steps; return the value that follows them."""
        for step in body["steps"]:
            if step["do"] == "if":
                self._choose(step, code)
            elif step["do"] in JUMPS:
                code.append(JUMPS[step["do"]](self, step, len(code)))
            else:
                code.append(_STEPS[step["do"]](self, step))
        return self.value(body["value"])

    def _put(self, step: Data) -> Callable[[Frame, Any], None]:
        """Return what puts a value into a register and checks it where it has a type."""
        place = self._place(step["to"])
        if "type" not in step:

            def put(frame: Frame, made: Any) -> None:
                frame.registers[place] = made

            return put
        check, what = self.type(step["type"]), str(step.get("what", ""))

        def put_checked(frame: Frame, made: Any) -> None:
            check(frame, made, what)
            frame.registers[place] = made

        return put_checked

    def _set(self, step: Data, value: Evaluate) -> Instruction:
        """Return the instruction that puts a value into a register."""
        put = self._put(step)
        return lambda frame: put(frame, value(frame))

    def set_value(self, step: Data) -> Instruction:
        """Read `to = value`, checked against a type where there is one."""
        return self._set(step, self.value(step["value"]))

    def call(self, step: Data) -> Instruction:
        """Read a call of a function, a closure, or a registered function."""
        callee = self.value(step["callee"])
        arguments = self.value(step["arguments"])
        put, symbol = self._put(step), symbol_of(step["callee"])
        is_registered = "registered" in step["callee"]

        def run(frame: Frame) -> Frame | None:
            function, given = callee(frame), arguments(frame)
            while isinstance(function, Closure):
                given = (*function.first, *given)
                function = function.function
            if isinstance(function, Program) and INSTRUMENT.get() is None:
                frame.put = put
                return function.enter(given)
            if is_registered and KernelObserver.innermost() is not None:
                function = partial(timed_call, symbol, function)
            result = observed(symbol, function, given)
            if result is not SKIPPED:
                put(frame, result)
            return None

        return run

    def part(self, step: Data) -> Instruction:
        """Read a call of native code, whose results go to several registers."""
        find, name = self._find, str(step["function"])
        arguments = self.value(step["arguments"])
        places = [self._place(place) for place in step["to"]]

        def run(frame: Frame) -> None:
            results = observed(name, find(name), arguments(frame), is_part=True)
            for place, result in zip(places, results):
                frame.registers[place] = result

        return run

    def _choose(self, step: Data, code: list[Instruction]) -> None:
        """Append a choice between two bodies; what a branch learns of sizes is not known after
        it.
        """
        condition, put = self.value(step["condition"]), self._put(step)
        branch_at = len(code)
        code.append(_nothing)
        then = self._steps(step["then"], code)
        code.append(lambda frame: put(frame, then(frame)))
        jump_at = len(code)
        code.append(_nothing)
        otherwise = self._steps(step["else"], code)
        code.append(lambda frame: put(frame, otherwise(frame)))
        end = len(code)

        def branch(frame: Frame) -> None:
            frame.saved.append(dict(frame.sizes))
            if not _truth(condition(frame)):
                frame.place = jump_at + 1

        def jump(frame: Frame) -> None:
            frame.place = end

        def forget(frame: Frame) -> None:
            frame.sizes = frame.saved.pop()

        code[branch_at], code[jump_at] = branch, jump
        code.append(forget)

    def fill(self, step: Data) -> Instruction:
        """Read a call that writes its results into new tensors, its last arguments."""
        callee, arguments, out = (
            self.value(step["callee"]),
            self.value(step["arguments"]),
            step["out"],
        )
        symbol = symbol_of(step["callee"])
        fields = out["fields"] if out["kind"] == "tuple" else [out]
        made = [
            (
                self.shape(one["shape"], one),
                DataType(one["dtype"]),
                cpu() if one.get("on_host") else self._devices[one.get("device", 0)],
            )
            for one in fields
        ]

        def run(frame: Frame) -> Any:
            outputs = tuple([empty(shape(frame), dtype, device) for shape, dtype, device in made])
            timed_call(symbol, callee(frame), *arguments(frame), *outputs)
            return outputs if out["kind"] == "tuple" else outputs[0]

        return self._set(step, run)

    def closure(self, step: Data) -> Instruction:
        """Read the making of a closure."""
        callee, first = self.value(step["callee"]), self.value(step["arguments"])
        return self._set(step, lambda frame: Closure(callee(frame), first(frame)))

    def host(self, step: Data) -> Instruction:
        """Read an operation that the runtime carries out itself."""
        operation = on_device(step["name"], self._devices)
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


def _nothing(frame: Frame) -> None:
    """Do nothing: stands where an instruction will be."""


def _truth(value: Any) -> bool:
    return bool(value.numpy()) if isinstance(value, NDArray) else bool(value)


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
    "nothing": _Reader.nothing,
}

_STEPS: dict[str, Callable[..., Instruction]] = {
    "value": _Reader.set_value,
    "call": _Reader.call,
    "part": _Reader.part,
    "fill": _Reader.fill,
    "closure": _Reader.closure,
    "host": _Reader.host,
}
