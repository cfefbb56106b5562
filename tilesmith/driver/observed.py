"""Compiles models such that observers see their kernels (`runtime.observation`).

    kernel(x, w, y)    →    kernel_begins(3, 1, 0, "in:float32:2,…", x, 128, 64, …)
                            kernel_starts(1, 0)
                            kernel(x, w, y)
                            kernel_stops(1, 0)
                            kernel_ends(3, 1, 0, "in:float32:2,…", x, 128, 64, …)

The kernels are those of the model itself; only the function that calls them is another one. Its
marks say on which device it calls them (1, 0: on the host). On devices, copies are seen, too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilesmith.driver.graph_steps import Step, packed_call
from tilesmith.driver.kernel_call import packed_arguments, written_operands
from tilesmith.ir import IntImm, PrimExpr, StringImm, Var, const
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import UnsupportedError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir import Evaluate, PrimFunc, Stmt, stmt_seq
from tilesmith.tir.analysis import estimate_tir_flops

__all__ = ["KernelCall", "KernelMarks", "ObserverMarks"]


@dataclass(frozen=True, eq=False)
class KernelCall:
    """One place in a model that calls a kernel; without ``function`` it is code from outside, or
    the copy of a tensor of dtype ``copied``.
    """

    name: str
    operators: str
    function: PrimFunc | None
    copied: DataType | None = None

    def work(self, shapes: Sequence[tuple[int, ...]]) -> tuple[float, float] | None:
        """Return the operations and bytes of a call on tensors of some shapes, each byte of the
        operands touched once; None where they cannot be counted.
        """
        if self.copied is not None:
            return 0.0, sum([math.prod(shape) for shape in shapes]) * self.copied.bits / 8
        if self.function is None:
            return None
        buffers = self.function.buffers
        if [len(shape) for shape in shapes] != [len(one.shape) for one in buffers]:
            return None
        bytes_ = 0.0
        sizes: dict[Var, int] = {}
        for buffer, shape in zip(buffers, shapes):
            elements = 1
            for extent, size in zip(buffer.shape, shape):
                elements *= size
                if isinstance(extent, Var):
                    sizes[extent] = size
            bytes_ += elements * buffer.dtype.bits / 8
        try:
            function = self.function.specialize(sizes) if sizes else self.function
            return float(estimate_tir_flops(function)), bytes_
        except UnsupportedError as error:  # loops whose extents the data decide
            record_fallback("measuring", self.name, error)
            return None

    @property
    def dtype(self) -> str:
        """The dtype that most operands have, floats first."""
        if self.copied is not None:
            return str(self.copied)
        counts: Counter[str] = Counter()
        for buffer in self.function.buffers if self.function is not None else ():
            extents = [size.value for size in buffer.shape if isinstance(size, IntImm)]
            elements = 1
            for extent in extents:
                elements *= extent
            counts[str(buffer.dtype)] += elements
        floats = {name: n for name, n in counts.items() if name.startswith(("float", "bfloat"))}
        chosen = floats or counts
        return max(chosen, key=lambda name: chosen[name]) if chosen else ""


Place = tuple[PrimExpr, PrimExpr]
"""The type and the number of a device, as the code that calls kernels knows them."""


class KernelMarks:
    """Leaves the steps that call kernels as they are."""

    def around(self, step: Step, call: KernelCall, operands: Sequence[Any], place: Place) -> Step:
        """Return the step of a call; each operand has its role, "in" or "out", unless it is that of
        a PrimFunc.
        """
        return step


class ObserverMarks(KernelMarks):
    """Puts the calls that tell observers around the steps that call kernels."""

    def __init__(self) -> None:
        self.calls: list[KernelCall] = []

    def around(self, step: Step, call: KernelCall, operands: Sequence[Any], place: Place) -> Step:
        """Return the step of a call with its marks; the host's own copies get none."""
        if call.copied is not None and isinstance(place[1], IntImm):
            return step
        if call.function is not None:
            written = {id(one) for one in written_operands(call.function, list(operands))}
            operands = [("out" if id(one) in written else "in", one) for one in operands]
        number = len(self.calls)
        self.calls.append(call)
        specification, words, _ = packed_arguments(operands)

        def tell(event: str) -> Stmt:
            head = (const(number, "int64"), *place, StringImm(specification))
            return _call(event, *head, *[word() for word in words])

        def emit() -> Stmt:
            assert step.emit is not None
            return stmt_seq(
                tell("kernel_begins"), _call("kernel_starts", *place), step.emit(),
                _call("kernel_stops", *place), tell("kernel_ends"),
            )  # fmt: skip

        return replace(step, emit=emit)


def _call(event: str, *words: PrimExpr) -> Stmt:
    return Evaluate(packed_call("int32", f"tilesmith.runtime.{event}", *words))
