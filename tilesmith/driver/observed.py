"""Compiles models such that observers see their kernels (`runtime.observation`).

    kernel(x, w, y)    →    kernel_begins(3, "in:float32:2,…", x, 128, 64, …); kernel_starts()
                            kernel(x, w, y)
                            kernel_stops(); kernel_ends(3, "in:float32:2,…", x, 128, 64, …)

The kernels are those of the model itself; only the function that calls them is another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilesmith.driver.graph_steps import Step, packed_call
from tilesmith.driver.kernel_call import packed_arguments, written_operands
from tilesmith.ir import IntImm, PrimExpr, StringImm, Var, const
from tilesmith.support.errors import UnsupportedError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.tir import Evaluate, PrimFunc, Stmt, stmt_seq
from tilesmith.tir.analysis import estimate_tir_flops

__all__ = ["KernelCall", "KernelMarks", "ObserverMarks"]


@dataclass(frozen=True, eq=False)
class KernelCall:
    """One place in a model that calls a kernel; without ``function`` it is code from outside."""

    name: str
    operators: str
    function: PrimFunc | None

    def work(self, shapes: Sequence[tuple[int, ...]]) -> tuple[float, float] | None:
        """Return the operations and bytes of a call on tensors of some shapes, each byte of the
        operands touched once; None where they cannot be counted.
        """
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


class KernelMarks:
    """Leaves the steps that call kernels as they are."""

    def around_kernel(
        self, step: Step, name: str, operators: str, function: PrimFunc, operands: Sequence[Any]
    ) -> list[Step]:
        """Return the steps of a call of a PrimFunc, whose results stand among the operands."""
        return [step]

    def around(
        self, step: Step, name: str, operators: str, operands: Sequence[tuple[str, Any]]
    ) -> list[Step]:
        """Return the steps of a call of code from outside; each operand has its role."""
        return [step]


class ObserverMarks(KernelMarks):
    """Puts the calls that tell observers around the steps that call kernels."""

    def __init__(self) -> None:
        self.calls: list[KernelCall] = []

    def around_kernel(
        self, step: Step, name: str, operators: str, function: PrimFunc, operands: Sequence[Any]
    ) -> list[Step]:
        """Return the steps of a call of a PrimFunc between its marks."""
        written = {id(one) for one in written_operands(function, list(operands))}
        roles = [("out" if id(one) in written else "in", one) for one in operands]
        return self._between_marks(step, KernelCall(name, operators, function), roles)

    def around(
        self, step: Step, name: str, operators: str, operands: Sequence[tuple[str, Any]]
    ) -> list[Step]:
        """Return the steps of a call of code from outside between its marks."""
        return self._between_marks(step, KernelCall(name, operators, None), operands)

    def _between_marks(
        self, step: Step, call: KernelCall, operands: Sequence[tuple[str, Any]]
    ) -> list[Step]:
        number = len(self.calls)
        self.calls.append(call)
        specification, words, touched = packed_arguments(operands)

        def tell(event: str) -> Stmt:
            head = (const(number, "int64"), StringImm(specification))
            return _call(event, *head, *[word() for word in words])

        def begin() -> Stmt:
            return stmt_seq(tell("kernel_begins"), _call("kernel_starts"))

        def end() -> Stmt:
            return stmt_seq(_call("kernel_stops"), tell("kernel_ends"))

        return [Step(begin, touched), step, Step(end, touched)]


def _call(event: str, *words: PrimExpr) -> Stmt:
    return Evaluate(packed_call("int32", f"tilesmith.runtime.{event}", *words))
