"""Lets an observer watch the kernels of a model while its native code runs.

A program that was compiled to be observed (`driver.observed`) calls functions of this module
around each kernel; operands are described as those of `call_dps` are:

    kernel_begins(number, specification, words…)
    kernel_starts()
    kernel(…)
    kernel_stops()
    kernel_ends(number, specification, words…)

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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tilesmith.runtime.builtins import operand_roles
from tilesmith.runtime.ndarray import NDArray, empty_cpu
from tilesmith.runtime.registry import register_func
from tilesmith.support.scopes import Scoped

if TYPE_CHECKING:
    from tilesmith.runtime.executable import Executable

__all__ = ["KernelObserver", "ObservedKernel", "ObservedProgram", "Operands"]


class Operands:
    """The operands of one call of a kernel; they are there until the observer returns."""

    def __init__(self, specification: str, words: Sequence[Any]) -> None:
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
        return [_copied(dtype, shape, word) for role, dtype, shape, word in self._parts
                if role == "in" and dtype is not None]  # fmt: skip

    def outputs(self) -> list[NDArray]:
        """Return copies of the tensors that the kernel writes."""
        return [_copied(dtype, shape, word) for role, dtype, shape, word in self._parts
                if role == "out"]  # fmt: skip


def _copied(dtype: Any, shape: tuple[int, ...], address: int) -> NDArray:
    tensor = empty_cpu(shape, dtype)
    ctypes.memmove(tensor.data_ptr(), address, tensor.nbytes)
    return tensor


class KernelObserver(Scoped):
    """Base of observers, which are entered with ``with``; an error that one raises ends the call of
    the model.
    """

    def begins(self, number: int, operands: Operands) -> None:
        """Look at a kernel that is about to run; what it writes is not there yet."""

    def ends(self, number: int, operands: Operands, seconds: float) -> None:
        """Look at a kernel that has run; the time includes about a microsecond of measuring."""


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


_clock = _Clock()


@register_func("tilesmith.runtime.kernel_begins", override=True)
def _kernel_begins(number: int, specification: str, *words: Any) -> None:
    observer = KernelObserver.innermost()
    if observer is not None:
        observer.begins(number, Operands(specification, words))


@register_func("tilesmith.runtime.kernel_ends", override=True)
def _kernel_ends(number: int, specification: str, *words: Any) -> None:
    observer = KernelObserver.innermost()
    if observer is not None:
        observer.ends(number, Operands(specification, words), _clock.elapsed * 1e-9)


@register_func("tilesmith.runtime.kernel_starts", override=True)
def _kernel_starts() -> None:
    _clock.started = time.perf_counter_ns()


@register_func("tilesmith.runtime.kernel_stops", override=True)
def _kernel_stops() -> None:
    _clock.elapsed = time.perf_counter_ns() - _clock.started
