"""Lets an observer watch the kernels of a model while its native code runs.

A program that was compiled to be observed (`driver.observed`) calls functions of this module
around each kernel; operands are described as those of `call_dps` are, and the place of the kernel
is the type and the number of a device (1, 0 is the host):

    kernel_begins(number, type, device, specification, words…)
    kernel_starts(type, device)
    kernel(…)
    kernel_stops(type, device)
    kernel_ends(number, type, device, specification, words…)

They do nothing unless an observer is entered in this thread:

    class Print(KernelObserver):
        def ends(self, number, operands, seconds):
            print(program.kernels[number].name, operands.shapes, seconds)

    program = executable.observed_program()
    with Print():
        program.executable(x)
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tilesmith.runtime.builtins import operand_roles
from tilesmith.runtime.devices import DEVICE_TYPES, Device, Timer
from tilesmith.runtime.ndarray import NDArray, array, empty_cpu
from tilesmith.runtime.registry import register_func
from tilesmith.runtime.timing import kernel_clock_of
from tilesmith.support.errors import TilesmithError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.support.scopes import Scoped

if TYPE_CHECKING:
    from tilesmith.runtime.executable import Executable

__all__ = [
    "KernelObserver", "ObservedKernel", "ObservedProgram", "Operands", "copy_between_devices",
    "timed_call",
]  # fmt: skip


class Operands:
    """The operands of one call of a kernel; they are there until the observer returns."""

    def __init__(self, device: Device, specification: str, words: Sequence[Any]) -> None:
        self.device = device
        self._parts: list[tuple[str, Any, tuple[int, ...], Any]] = []
        position = 0
        for role, dtype, rank in operand_roles(specification):
            if dtype is None:
                self._parts.append((role, None, (), words[position]))
                position += 1
                continue
            shape = tuple([int(size) for size in words[position + 1 : position + 1 + rank]])
            self._parts.append((role, dtype, shape, words[position]))
            position += 1 + rank

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the tensors, inputs and outputs in the kernel's order."""
        return [shape for _, dtype, shape, _ in self._parts if dtype is not None]

    @property
    def numbers(self) -> list[Any]:
        """The operands that are no tensors: sizes and scalars."""
        return [value for _, dtype, _, value in self._parts if dtype is None]

    def inputs(self) -> list[NDArray]:
        """Return copies of the tensors that the kernel only reads."""
        return [self._copied(dtype, shape, word) for role, dtype, shape, word in self._parts
                if role == "in" and dtype is not None]  # fmt: skip

    def outputs(self) -> list[NDArray]:
        """Return copies of the tensors that the kernel writes."""
        return [self._copied(dtype, shape, word) for role, dtype, shape, word in self._parts
                if role == "out"]  # fmt: skip

    def _copied(self, dtype: Any, shape: tuple[int, ...], address: int) -> NDArray:
        tensor = empty_cpu(shape, dtype)
        if self.device.device_type == _CPU:
            ctypes.memmove(tensor.data_ptr(), address, tensor.nbytes)
        elif tensor.nbytes:
            api: Any = self.device.api  # of a device with memory of its own
            api.read(self.device.device_id, address, tensor.data_ptr(), tensor.nbytes)
        return tensor


class KernelObserver(Scoped):
    """Base of observers, which are entered with ``with``; an error that one raises ends the call of
    the model.
    """

    def begins(self, number: int, operands: Operands) -> None:
        """Look at a kernel that is about to run; what it writes is not there yet."""

    def ends(self, number: int, operands: Operands, seconds: float) -> None:
        """Look at a kernel that has run; the time includes about a microsecond of measuring."""

    def given(self, number: int, operands: Operands, timer: Timer) -> None:
        """Look at a kernel that a device was given; here it is waited for."""
        self.ends(number, operands, timer.seconds())

    def called(self, name: str, tensors: Sequence[NDArray], seconds: float) -> None:
        """Look at what a program of steps does beside kernels, a call of a registered function or a
        copy between devices; before and after it the host has waited for the devices of its
        tensors.
        """

    def __exit__(self, kind: type | None, *rest: Any) -> None:
        """Leave the observer; after an error, also the kernel that raised it."""
        super().__exit__(kind, *rest)
        timer, _clock.timer = _clock.timer, None
        if timer is not None:
            try:
                timer.end()
            except TilesmithError as error:  # the device may be lost
                record_fallback("measuring", "a kernel that failed", error)


class ObservedKernel(Protocol):
    """One place in a model that calls a kernel."""

    @property
    def name(self) -> str:
        """The kernel's name in the module."""

    @property
    def operators(self) -> str:
        """The nodes of the imported model that it came from, with commas between them."""

    def work(self, shapes: Sequence[tuple[int, ...]]) -> tuple[float, float] | None:
        """Return the operations and the bytes of a call on tensors of some shapes, None where they
        cannot be counted.
        """

    @property
    def dtype(self) -> str:
        """The dtype that most operands have, floats first; "" where no code is known."""


@dataclass(frozen=True)
class ObservedProgram:
    """A model that was compiled to be observed; observers get the numbers of ``kernels``."""

    executable: Executable
    kernels: Sequence[ObservedKernel]


class _Clock(threading.local):
    def __init__(self) -> None:
        self.started = 0
        self.elapsed = 0
        self.timer: Timer | None = None


_CPU = DEVICE_TYPES["cpu"]
_clock = _Clock()


@register_func("tilesmith.runtime.kernel_begins", override=True)
def _kernel_begins(number: int, kind: int, device: int, specification: str, *words: Any) -> None:
    observer = KernelObserver.innermost()
    if observer is not None:
        observer.begins(number, Operands(Device(kind, device), specification, words))


@register_func("tilesmith.runtime.kernel_ends", override=True)
def _kernel_ends(number: int, kind: int, device: int, specification: str, *words: Any) -> None:
    observer = KernelObserver.innermost()
    if observer is None:
        return
    operands = Operands(Device(kind, device), specification, words)
    timer, _clock.timer = _clock.timer, None
    if timer is not None:
        observer.given(number, operands, timer)
    else:
        observer.ends(number, operands, _clock.elapsed * 1e-9)


@register_func("tilesmith.runtime.kernel_starts", override=True)
def _kernel_starts(kind: int, device: int) -> None:
    if kind == _CPU:
        _clock.started = time.perf_counter_ns()
    elif KernelObserver.innermost() is not None:
        _clock.timer = kernel_clock_of(Device(kind, device))
        _clock.timer.start()


@register_func("tilesmith.runtime.kernel_stops", override=True)
def _kernel_stops(kind: int, device: int) -> None:
    if kind == _CPU:
        _clock.elapsed = time.perf_counter_ns() - _clock.started
    elif _clock.timer is not None:
        _clock.timer.end()


def timed_call(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function, and show an observer of this thread how long it took."""
    observer = KernelObserver.innermost()
    if observer is None:
        return function(*arguments)
    tensors = [one for one in arguments if isinstance(one, NDArray)]
    places = {one.device for one in tensors}
    for one in places:
        one.sync()
    start = time.perf_counter()
    result = function(*arguments)
    if isinstance(result, NDArray):
        tensors.append(result)
        places.add(result.device)
    for one in places:
        one.sync()
    observer.called(name, tensors, time.perf_counter() - start)
    return result


def copy_between_devices(value: NDArray, device: Device) -> NDArray:
    """Return a copy of a tensor on another device; an observer of this thread sees it."""
    made: NDArray = timed_call(f"copy {value.device} to {device}", array, value, device)
    return made
