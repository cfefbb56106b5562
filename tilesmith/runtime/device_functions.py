"""Calls the functions of a model for devices: constants, workspaces and results are on the device.

    functions = DeviceFunctions(…, opencl(0))
    functions.get_function("main")(x)        x on opencl(0); the result, too

The code is the same for all devices of a kind. Constants are copied to a device once, at the first
call there. What a call has given to the device may still run when the call returns: the next one in
the same stream follows it, so that workspaces are kept by stream. A function whose code uses more
streams lets that of the caller wait for them in the end.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from tilesmith.runtime.call import CompiledFunction, Expected, rebuild, split_sizes
from tilesmith.runtime.device_models import check_count, check_device
from tilesmith.runtime.device_streams import RunningCall
from tilesmith.runtime.devices import Device, cpu
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.ffi import Function, current_stream
from tilesmith.runtime.library import Library
from tilesmith.runtime.ndarray import NDArray, aligned_numpy, array, empty, from_dlpack
from tilesmith.runtime.program import Program
from tilesmith.runtime.program_host import moved
from tilesmith.runtime.registry import register_func
from tilesmith.runtime.signature import Signature
from tilesmith.support.errors import ArtifactError, TargetError, UnknownNameError

__all__ = ["BoundCall", "DeviceFunction", "DeviceFunctions", "OnDevices"]

_CPU = 1


class _Constants:
    """The constants of a model on one device, copied when they are first needed."""

    def __init__(self, arrays: Sequence[numpy.ndarray], device: Device) -> None:
        self._arrays, self._device = arrays, device
        self._lock = threading.Lock()
        self._tensors: list[NDArray] = []
        self._pointers: Any = None

    def address(self) -> int:
        """Return the address of the array of their addresses."""
        if not self._arrays:
            return 0
        with self._lock:
            if self._pointers is None:
                self._tensors = [array(one, self._device) for one in self._arrays]
                pointers = [one.data_ptr() for one in self._tensors]
                self._pointers = (ctypes.c_void_p * len(pointers))(*pointers)
        return ctypes.addressof(self._pointers)


class _Slots:
    """The workspace of a running call: tensors of bytes, and the array of their addresses; and its
    streams, where it uses several.
    """

    def __init__(
        self, sizes: Sequence[int | None], extents: int, device: Device, streams: tuple[int, int]
    ) -> None:
        self._device = device
        self.running = RunningCall(device, *streams) if streams[0] > 1 else None
        self._tensors: list[NDArray | None] = [None] * len(sizes)
        self._table = (ctypes.c_void_p * max(len(sizes), 1))()
        self.address = ctypes.addressof(self._table)
        if extents:
            self.extents = aligned_numpy((extents,), numpy.dtype("int64"))
            self.extents_tensor = from_dlpack(self.extents)
        self.provide([size or 0 for size in sizes])

    def provide(self, sizes: Sequence[int]) -> None:
        """Make sure that each slot has at least so many bytes."""
        for place, size in enumerate(sizes):
            known = self._tensors[place]
            if size > 0 and (known is None or known.nbytes < size):
                made = self._tensors[place] = empty((size,), "uint8", self._device)
                self._table[place] = made.data_ptr()


class DeviceFunction(CompiledFunction):
    """A function of a model on one device. It takes tensors there; others are copied to it if it
    ``copies_inputs``, and refused otherwise.
    """

    def __init__(
        self,
        signature: Signature,
        function: Function,
        shapes_function: Function | None,
        constants: _Constants,
        device: Device,
        copies_inputs: bool,
        keep_alive: Any = None,
    ) -> None:
        super().__init__(signature, function, shapes_function, 0, keep_alive)
        self.device = device
        self._place = (device.device_type, device.device_id)
        self._device_constants = constants
        self._copies_inputs = copies_inputs
        self._slots = signature.slots
        self._kept: dict[int, list[_Slots]] = {}
        self._count_of_sizes = self._extents - 1 + len(self._slots)
        self._shapes = [leaf.shape for _, leaf in self._results]

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        if named or len(inputs) != self._count:
            inputs = self._bind(inputs, named)
        arguments = inputs if self._is_plain and self._can_take(inputs) else self._flatten(inputs)
        kept = self._kept.setdefault(current_stream(*self._place) or 0, [])
        try:
            slots = kept.pop()
        except IndexError:
            extents = 0 if self._shapes_function is None else self._count_of_sizes
            slots = _Slots(self._slots, extents, self.device, self.signature.streams)
        try:
            return self._run_with(slots, arguments)
        finally:
            kept.append(slots)

    def bound(self, *inputs: Any) -> BoundCall:
        """Return a call of this function on certain tensors, with results and workspace of its own:
        calling it allocates nothing, and computes from what the tensors hold then.
        """
        extents = 0 if self._shapes_function is None else self._count_of_sizes
        arguments = self._flatten(inputs)
        slots = _Slots(self._slots, extents, self.device, self.signature.streams)
        return BoundCall(self, arguments, slots)

    def _can_take(self, inputs: Sequence[Any]) -> bool:
        """Return whether tensors of constant sizes can be used as they are."""
        place = self._place
        for given, wanted in zip(inputs, self._expected):
            if not (
                given.__class__ is NDArray
                and given.dtype is wanted.dtype
                and given.shape == wanted.shape
                and given.__dlpack_device__() == place
                and given.is_contiguous()
            ):
                return False
        return True

    def _run_with(self, slots: _Slots, arguments: Sequence[Any]) -> Any:
        made, outputs = self.prepared(slots, arguments)
        self.call_on(slots, arguments, outputs)
        if self._is_single and not self._same_as:
            return outputs[0]
        return rebuild(self.signature.result, iter([made[number] for number in sorted(made)]))

    def call_on(self, slots: _Slots, arguments: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Call the code with tensors that fit."""
        memory = (self._device_constants.address(), slots.address, self._place[1])
        if slots.running is None:
            self._function(*arguments, *outputs, *memory)
            return
        with slots.running as number:
            self._function(*arguments, *outputs, *memory, number)

    def prepared(
        self, slots: _Slots, arguments: Sequence[Any]
    ) -> tuple[dict[int, Any], list[NDArray]]:
        """Provide the workspace of a call and its results: by number, and those to be written."""
        shapes: Sequence[Any] = self._shapes
        if self._shapes_function is not None:
            self._shapes_function(*arguments, slots.extents_tensor)
            sizes = slots.extents.tolist()
            shapes = split_sizes(sizes, self._results)
            slots.provide(sizes[self._extents - 1 :])
        made: dict[int, Any] = {}  # results by number
        outputs = []
        for (number, leaf), shape in zip(self._results, shapes):
            if leaf.dtype is None:
                made[number] = shape
            else:
                made[number] = empty(shape, leaf.dtype, self.device)
                outputs.append(made[number])
        for number, place in self._same_as:
            made[number] = arguments[place]
        return made, outputs

    def _convert(
        self, value: Any, expected: Expected, bindings: dict[str, tuple[int, str]]
    ) -> NDArray:
        """Return a compact tensor on the device over `value` or, where allowed, a copy of it."""
        param = expected.param
        tensor = self._as_tensor(value, expected)
        dtype = DataType(tensor.dtype)
        if dtype is not expected.dtype:
            error = self._mismatch(param, f"dtype '{expected.dtype}'", f"dtype '{dtype}'")
            error.notes += (f'convert it: x.astype("{expected.dtype}")',)
            raise error
        self._check_shape(tuple(tensor.shape), expected, bindings)
        place = (_CPU, 0)
        if isinstance(tensor, NDArray):
            place = tensor.__dlpack_device__()
            if place == self._place and tensor.is_contiguous():
                return tensor
        if not self._copies_inputs and place != self._place:
            raise _elsewhere(f"input '{param.name}' of '{self.name}'", place, self.device)
        return array(tensor, self.device)


class BoundCall:
    """A call of a function on certain tensors."""

    def __init__(self, function: DeviceFunction, arguments: Sequence[Any], slots: _Slots) -> None:
        self._function, self._arguments, self._slots = function, arguments, slots
        made, self._outputs = function.prepared(slots, arguments)
        self.results: tuple[Any, ...] = tuple([made[number] for number in sorted(made)])
        """The results, with tuples flattened."""

    @property
    def tensors(self) -> list[NDArray]:
        """The tensors that the call reads and writes."""
        return [one for one in (*self._arguments, *self._outputs) if isinstance(one, NDArray)]

    def __call__(self) -> None:
        self._function.call_on(self._slots, self._arguments, self._outputs)


def _elsewhere(what: str, place: tuple[int, int], device: Device) -> TargetError:
    return TargetError(
        f"{what} must be on {device}, it is on {Device(*place)}",
        notes=(f"copy it: tilesmith.nd.array(x, tilesmith.{device.type}({device.device_id}))",),
    )


class DeviceFunctions:
    """The functions of a model on its devices, by name."""

    def __init__(
        self,
        devices: Sequence[Device],
        signatures: Mapping[str, Signature],
        programs: Mapping[str, Any],
        constants: Sequence[numpy.ndarray],
        library: Callable[[], Library],
        host_constants: int,
        copies_inputs: bool = True,
    ) -> None:
        """``host_constants`` is the address of the addresses of the constants on the host."""
        self.devices, self.device = tuple(devices), devices[0]
        self._host_constants = host_constants
        self._signatures, self._library = signatures, library
        self._constants = [_Constants(constants, one) for one in devices]
        self._copies_inputs = copies_inputs
        self._made: dict[str, CompiledFunction] = {}
        move = self._moved if copies_inputs else self._refused
        self._programs = {
            name: Program(name, entry, self.get_function, constants, self.devices, move)
            for name, entry in programs.items()
        }

    def get_function(self, name: str) -> CompiledFunction | Program:
        """Return the function of a name; raise UnknownNameError if the model has none."""
        program = self._programs.get(name)
        if program is not None:
            return program
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = self._function(name)
        return found

    __getitem__ = get_function

    def _function(self, name: str) -> CompiledFunction:
        signature = self._signatures.get(name)
        if signature is None:
            known = ", ".join([*self._signatures, *self._programs]) or "none"
            raise UnknownNameError(
                f"the model has no function '{name}'", notes=(f"it has: {known}",)
            )
        library = self._library()
        shapes = signature.shapes_function
        if signature.is_on_host:
            return CompiledFunction(
                signature,
                library.get_function(signature.function),
                None if shapes is None else library.get_function(shapes),
                self._host_constants,
                keep_alive=library,
            )
        if not 0 <= signature.device < len(self.devices):
            raise ArtifactError(f"'{name}' is for device number {signature.device} of the model, "
                                f"which uses {len(self.devices)}")  # fmt: skip
        return DeviceFunction(
            signature,
            library.get_function(signature.function),
            None if shapes is None else library.get_function(shapes),
            self._constants[signature.device],
            self.devices[signature.device],
            self._copies_inputs,
            keep_alive=library,
        )

    def _moved(self, value: Any, data: Mapping[str, Any], what: str) -> Any:
        """Return a value whose tensors are where the type `data` says."""
        if isinstance(value, tuple) and type(value) is tuple:
            fields = zip(value, _fields_of(data, len(value)))
            return tuple([self._moved(one, field, what) for one, field in fields])
        return moved(value, self._place(data)) if isinstance(value, NDArray) else value

    def _refused(self, value: Any, data: Mapping[str, Any], what: str) -> Any:
        """Return a value; raise TargetError where a tensor in it is elsewhere."""
        if isinstance(value, tuple) and type(value) is tuple:
            for one, field in zip(value, _fields_of(data, len(value))):
                self._refused(one, field, what)
        elif isinstance(value, NDArray) and value.device != (place := self._place(data)):
            raise _elsewhere(what, value.__dlpack_device__(), place)
        return value

    def _place(self, data: Mapping[str, Any]) -> Device:
        return cpu() if data.get("on_host") else self.devices[data.get("device", 0)]


def _fields_of(data: Mapping[str, Any], count: int) -> Sequence[Mapping[str, Any]]:
    """Return the types of the fields of a tuple, as far as its type tells them."""
    fields: Sequence[Mapping[str, Any]] = data.get("fields", ())
    return fields if len(fields) == count else [{}] * count


class OnDevices:
    """A model's functions on devices: `on_device(cuda(1))`, made when they are first asked for."""

    def __init__(
        self,
        kind: str,
        signatures: Mapping[str, Signature],
        programs: Mapping[str, Any],
        constants: Sequence[numpy.ndarray],
        library: Callable[[], Library],
        host_constants: int,
        numbers: Sequence[int] = (0,),
    ) -> None:
        self._kind = kind
        self._parts = (signatures, programs, constants, library, host_constants)
        self._numbers = numbers
        self._made: dict[tuple[tuple[Device, ...], bool], DeviceFunctions] = {}

    def __call__(
        self, device: Device, copies_inputs: bool = True, others: Sequence[Device] = ()
    ) -> DeviceFunctions:
        """Return the functions on a device, and on ``others`` where the model uses several. Inputs
        that are elsewhere are copied there, or refused. Raises TargetError for another type of
        device than the model's, and for fewer devices than it needs.
        """
        devices = (device, *others)
        for one in devices:
            check_device(self._kind, one)
        check_count(self._kind, self._numbers, devices)
        found = self._made.get((devices, copies_inputs))
        if found is None:
            found = self._made[devices, copies_inputs] = DeviceFunctions(
                devices, *self._parts, copies_inputs
            )
        return found


@register_func("tilesmith.runtime.copy_on_device", override=True)
def copy_on_device(device_type: int, device_id: int, target: int, source: int, size: int) -> None:
    """Copy bytes within a device, in the order of its work."""
    if size > 0:
        api: Any = Device(device_type, device_id).api
        api.move((device_id, source), (device_id, target), size)
