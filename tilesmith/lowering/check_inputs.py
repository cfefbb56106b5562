"""Chooses arguments for trial runs of a function, bounds its work, and finds reasons why it cannot
be run.

What users will pass is unknown. So the arguments are small integers (their sums are exact in every
order, they are valid indices in most places, they are never NaN), for several choices of symbolic
sizes. Arguments are used only if the original function, before any pass, runs on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from tilesmith.arith import Analyzer
from tilesmith.ir import GlobalVar, IntImm, Op, Range, Var, Visitor, const
from tilesmith.ir.queries import calls, variables
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import TilesmithError
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import BufferStore, Evaluate, For, While

__all__ = [
    "argument_choices", "calls_outside", "copy_of_argument", "promised_statements", "rounds",
]  # fmt: skip

_MOST_BYTES = 1 << 28
_WHILE = 50  # assumed iterations of a `while` loop, whose count is unknown

_OUTSIDE = (
    "call_extern", "call_pure_extern", "call_packed", "call_cpacked", "call_packed_lowered",
    "call_cpacked_lowered", "call_llvm_intrin", "call_llvm_pure_intrin", "tvm_call_",
    "anylist_", "tvm_stack_", "tvm_struct_", "TVMBackend", "call_tir", "undef", "start_profile",
)  # fmt: skip
_MACHINE = ("call_llvm_intrin", "call_llvm_pure_intrin")
_ROUNDED = {"exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh",
            "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2", "sigmoid",
            "erf", "rsqrt", "pow", "sqrt", "hypot"}  # fmt: skip


def _called(function: PrimFunc) -> list[str]:
    """Return the distinct names of called functions; "@" marks functions of the module."""
    names: dict[str, None] = {}
    for call in calls(function.body):
        op = call.op
        if isinstance(op, GlobalVar):
            names["@" + op.name_hint] = None
        else:
            names[(op.name if isinstance(op, Op) else str(op)).removeprefix("tir.")] = None
    return list(names)


def calls_outside(function: PrimFunc, machine: bool = True) -> str | None:
    """Return the first call whose effect or result depends on more than the function, if any:
    external functions (running them once more may matter), undefined values, other functions.
    Without ``machine``, LLVM's intrinsics do not count: compiled code can run them.
    """
    for name in _called(function):
        if name.startswith(_MACHINE) and not machine:
            continue
        if name.startswith((*_OUTSIDE, "@")):
            return name
    return None


def rounds(function: PrimFunc) -> bool:
    """Return whether the function calls operations that different code may round differently."""
    return any(name in _ROUNDED for name in _called(function))


class _Work(Visitor):
    """Counts executed stores, assuming the largest extent of each loop."""

    def __init__(self, values: dict[Var, int]) -> None:
        self.analyzer = Analyzer()
        self.values = {var: const(value, var.dtype) for var, value in values.items()}
        self.times = 1
        self.total = 0

    def visit_BufferStore(self, store: BufferStore) -> None:
        self.total += self.times

    def visit_Evaluate(self, evaluation: Evaluate) -> None:
        self.total += self.times

    def visit_While(self, loop: While) -> None:
        self.times *= _WHILE
        self.visit(loop.body)
        self.times //= _WHILE

    def visit_For(self, loop: For) -> None:
        extent = substitute(loop.extent, self.values)
        most = extent.value if isinstance(extent, IntImm) else self._bound(extent)
        outer = self.times
        self.times *= max(0, min(most, 1 << 40))
        low = substitute(loop.min, self.values)
        self.analyzer.bind(loop.loop_var, Range.from_min_extent(low, extent), True)
        self.visit(loop.body)
        self.times = outer

    def _bound(self, extent: Any) -> int:
        return int(min(self.analyzer.const_int_bound(extent).max_value, 1 << 40))


def promised_statements(function: PrimFunc, sizes: dict[Var, int]) -> int:
    """Return an upper bound of the statements that the function executes, by the loop extents."""
    work = _Work(sizes)
    with deep_recursion():
        work.visit(function.body)
    return work.total


# Choice of arguments.


class _Indexing(Visitor):
    """Finds whether loaded values are used as indices, and the smallest dimension that they
    index.
    """

    def __init__(self) -> None:
        self.smallest: int | None = None
        self.depth = 0

    def _access(self, access: BufferLoad | BufferStore) -> None:
        if self.depth and isinstance(access, BufferLoad):
            self.smallest = self.smallest or 1 << 30
        for size, index in zip(access.buffer.shape, access.indices):
            inner = _Indexing()
            inner.depth = 1
            inner.visit(index)
            if inner.smallest is not None:
                bound = size.value if isinstance(size, IntImm) else 4
                self.smallest = min(self.smallest or bound, bound, inner.smallest)

    def visit_BufferLoad(self, load: BufferLoad) -> None:
        self._access(load)

    def visit_BufferStore(self, store: BufferStore) -> None:
        self._access(store)
        self.visit(store.value)


def _symbols(function: PrimFunc) -> list[Var]:
    found: dict[Var, None] = {}
    for param in function.params:
        if param not in function.buffer_map and not param.dtype.is_handle:
            found[param] = None
    for buffer in function.buffer_map.values():
        declared = variables((*buffer.shape, *buffer.strides, buffer.elem_offset))
        found.update({var: None for var in declared if not var.dtype.is_handle})
    return list(found)


def argument_choices(function: PrimFunc) -> Iterator[tuple[dict[Var, int], list[Any]]]:
    """Yield symbolic sizes with arguments for all parameters, the best guess first."""
    symbols = _symbols(function)
    indexing = _Indexing()
    with deep_recursion():
        indexing.visit(function.body)
    most = None if indexing.smallest is None else max(0, min(indexing.smallest, 6) - 1)
    if symbols:
        guesses = [
            {var: (5, 7, 3, 6, 4)[k % 5] for k, var in enumerate(symbols)},
            *[dict.fromkeys(symbols, size) for size in (8, 16, 1, 4, 0, 64)],
        ]
    else:
        guesses = [{}]
    for guess in guesses:
        # last without zeros, since integers may be divisors
        for limits in (None, (1, 4)) if most is None else ((0, most), (0, 0)):
            arguments = _arguments(function, guess, limits)
            if arguments is not None:
                yield guess, arguments


def _arguments(
    function: PrimFunc, sizes: dict[Var, int], limits: tuple[int, int] | None
) -> list[Any] | None:
    """Return arguments with integers within ``limits`` (None: of both signs); None if
    impossible.
    """
    generator = numpy.random.default_rng(0)
    values = {var: const(value, var.dtype) for var, value in sizes.items()}
    made: list[Any] = []
    for param in function.params:
        buffer = function.buffer_map.get(param)
        if buffer is None:
            if param.dtype.is_handle:
                return None
            number = sizes.get(param, 3)
            made.append(float(number) if param.dtype.is_float else number)
            continue
        array = _array(buffer, values, generator, limits)
        if array is None:
            return None
        made.append(array)
    return made


def _array(buffer: Buffer, values: dict, generator: Any, limits: tuple[int, int] | None) -> Any:
    shape = [substitute(size, values) for size in buffer.shape]
    shape = [Analyzer().simplify(size) for size in shape]
    if not all(isinstance(size, IntImm) and size.value >= 0 for size in shape):
        return None
    numbers = [size.value for size in shape]
    dtype: DataType = buffer.dtype
    if dtype.lanes > 1:
        numbers.append(dtype.lanes)
    try:
        kind = dtype.element.numpy()
    except TilesmithError:
        return None
    if int(numpy.prod(numbers)) * kind.itemsize > _MOST_BYTES or kind.itemsize == 0:
        return None
    low, high = (-3, 4) if not dtype.is_uint else (0, 4)
    if dtype.is_bool:
        low, high = 0, 1
    elif dtype.is_integer and limits is not None:
        low, high = limits
    drawn = numpy.asarray(generator.integers(low, high + 1, numbers)).astype(kind)
    return _placed(drawn, buffer, values)


def _placed(array: Any, buffer: Buffer, values: dict) -> Any:
    """Return the array with the buffer's strides and alignment; None if these are not known."""
    strides = array.strides
    if buffer.strides:
        steps = [Analyzer().simplify(substitute(step, values)) for step in buffer.strides]
        if not all(isinstance(step, IntImm) and step.value > 0 for step in steps):
            return None
        strides = tuple([step.value * array.itemsize for step in steps])
    return _in_new_memory(array, strides, max(buffer.data_alignment, array.itemsize))


def _in_new_memory(array: Any, strides: tuple[int, ...], alignment: int) -> Any:
    steps = list(zip(array.shape, strides))
    rows = max([size * step for size, step in steps], default=0)  # the last one with its padding
    span = max(rows, sum([max(size - 1, 0) * step for size, step in steps]) + array.itemsize)
    memory = numpy.zeros(span + alignment, "u1")
    offset = -memory.ctypes.data % alignment
    placed = numpy.ndarray(array.shape, array.dtype, memory, offset, strides)
    placed[...] = array
    return placed


def copy_of_argument(array: Any) -> Any:
    """Copy an array with the same strides and the same alignment."""
    address = array.ctypes.data
    return _in_new_memory(array, array.strides, min(address & -address, 4096) or 1)
