"""Plants faults in correct kernels: a barrier less, another index. The checks have to notice them.

The interpreter (thread after thread between two barriers) and the lockstep run (all threads at
once) look for races in different ways, so each is asked about the other's answer: both find
something in a kernel with a fault, or both compute the same result, and nothing was wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from tilesmith.ir import IRModule, Rewriter, const
from tilesmith.ir.queries import is_call
from tilesmith.support.errors import ExecutionError, UnsupportedError
from tilesmith.testing.fuzz.finding import Finding
from tilesmith.testing.fuzz.layouts import copied
from tilesmith.tir import BufferLoad, BufferStore, PrimFunc
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.interpreter.lockstep import LockstepOptions, run_kernels
from tilesmith.tir.interpreter.program import warp_size_of
from tilesmith.tir.stmt import Evaluate

__all__ = ["check_planted", "faults", "verdicts"]

_ALL = 1 << 40
_MOST_FAULTS = 4


class _Planter(Rewriter):
    """Changes the place of a kind with a number, counting from the begin of the function."""

    def __init__(self, kind: str, number: int) -> None:
        super().__init__()
        self.kind, self.left = kind, number
        self.done: str | None = None

    def _is_chosen(self, kind: str) -> bool:
        if kind != self.kind:
            return False
        self.left -= 1
        return self.left == -1

    def visit_Evaluate(self, node: Evaluate) -> Any:
        if is_call(node.value, "tir.tvm_storage_sync") and self._is_chosen("barrier"):
            self.done = "a barrier less"
            return Evaluate(const(0, "int32"))
        return self.children(node)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        node = self.children(node)
        return self._moved(node, "store")

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        node = self.children(node)
        return self._moved(node, "load")

    def _moved(self, node: Any, kind: str) -> Any:
        if not node.buffer.scope().startswith("shared") or not self._is_chosen(kind):
            return node
        *first, last = node.indices
        if last.dtype.lanes > 1:
            return node
        size = node.buffer.shape[-1]
        self.done = f"a {kind} one element further"
        return node.with_fields(indices=[*first, (last + 1) % size.astype(last.dtype)])


def faults(func: PrimFunc, kind: str) -> Iterator[tuple[str, PrimFunc]]:
    """Yield the function with one fault of a kind ("barrier", "store", "load"), for each place."""
    number = 0
    while True:
        planter = _Planter(kind, number)
        body = planter.visit(func.body)
        if planter.left >= 0:
            return
        if planter.done is not None:
            yield f"{planter.done} (number {number})", func.with_body(body)
        number += 1


def verdicts(func: PrimFunc, arrays: list[Any]) -> list[tuple[str | None, list[Any]]]:
    """Run a function with kernels in both ways; return what each finds wrong, and the results."""
    given = [copied(one) if isinstance(one, numpy.ndarray) else one for one in arrays]
    warp = warp_size_of(func)
    wrong: str | None = None
    try:
        run(func, *given, options=Options(check_races=True, check_undefined=True, warp_size=warp))
    except ExecutionError as error:
        wrong = error.message
    again = [copied(one) if isinstance(one, numpy.ndarray) else one for one in arrays]
    result = run_kernels(func, again, LockstepOptions(_ALL, _ALL, False, warp), (), "main")
    found = [f"{one.kind}: {one.message}" for one in result.findings]
    return [(wrong, given), (found[0] if found else None, again)]


def check_planted(checker: Any, module: IRModule) -> None:
    """Check that faults in the kernels of "main" are found by both ways to run them, or by none."""
    func = module["main"]
    assert isinstance(func, PrimFunc)
    with checker.guarded("pass", "planted faults"):
        for kind in ("barrier", "load", "store"):
            for number, (what, broken) in enumerate(faults(func, kind)):
                if number >= _MOST_FAULTS:
                    break
                _check_one(checker, kind, what, broken)


def _check_one(checker: Any, kind: str, what: str, broken: PrimFunc) -> None:
    for arrays, want in zip(checker.inputs, checker.expected):
        try:
            (wrong, got), (found, again) = verdicts(broken, arrays)
        except UnsupportedError as error:
            checker.counts[f"unsupported lockstep: {error.message[:80]}"] += 1
            return
        if (wrong is None) != (found is None):
            which = "the interpreter" if found is None else "the lockstep run"
            text = f"{what}: {wrong or found}\n{broken.script()}"
            raise Finding("", "", f"{kind}: only {which} finds it", text)
        if wrong is not None:
            checker.counts[f"planted {kind}: found"] += 1
            return
        text = checker.differ(again, got, True)
        if text is not None:
            details = f"{what}: {text}\n{broken.script()}"
            raise Finding("", "", f"{kind}: different results", details)
        changed = checker.differ(got, want, True) is not None
        if changed and kind == "barrier":
            raise Finding("", "", f"{kind}: nobody finds it", f"{what}\n{broken.script()}")
        checker.counts[f"planted {kind}: {'other results' if changed else 'no matter'}"] += 1
