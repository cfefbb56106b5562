"""Broken rules that no result of a program shows: what is refused or accepted, left undone, said
about expressions, or wrong only for numbers and orders that few programs have.
"""

from __future__ import annotations

from typing import Any

from tests.testing.fuzz.mutations import module, replace
from tilesmith.tir import ForKind


def minima_that_decide_nothing() -> None:
    """``min(x, 8) < 4`` stays as it is."""
    owner = module("arith.comparisons").Comparisons
    replace(owner, "sign", lambda right: lambda self, form: right(self, form) or None)


def ranges_of_two_values_taken_as_one() -> None:
    def make(right: Any) -> Any:
        def bind_range(self: Any, var: Any, range_: Any) -> None:
            is_two = getattr(range_.extent, "value", 0) == 2
            right(self, var, range_.from_min_extent(range_.min, 1) if is_two else range_)

        return bind_range

    replace(module("arith.assumptions").Assumptions, "bind_range", make)


def arguments_of_any_strides() -> None:
    owner = module("tir.transform.functions.make_packed_api")._Wrapper

    def make(right: Any) -> Any:
        def strides(self: Any, where: str, buffer: Any, *more: Any) -> None:
            if buffer.strides:
                right(self, where, buffer, *more)

        return strides

    replace(owner, "strides", make)


def threads_for_every_loop() -> None:
    def make(right: Any) -> Any:
        def visit_loop(self: Any, loop: Any) -> None:
            if loop.kind is ForKind.SERIAL and not self.emit.scope.in_parallel:
                loop = loop.with_fields(kind=ForKind.PARALLEL)
            right(self, loop)

        return visit_loop

    replace(module("codegen.llvm.statements").StatementEmitter, "visit_For", make)


def small_floats_with_infinities() -> None:
    """The largest numbers of types without infinities become infinite."""
    formats = module("codegen.llvm.small_floats").FORMATS
    for name, form in formats.items():
        formats[name] = form._replace(kind="ieee" if form.kind in ("fn", "fnuz") else form.kind)


def threads_of_results_taken_for_those_of_sums() -> None:
    owner = module("tir.transform.threads.lower_cross_thread_reduction")
    replace(
        owner, "_is_reduction_over",
        lambda right: lambda *args: right(*args) or owner._is_spatial_over(*args),
    )  # fmt: skip


def checks_hoisted_over_functions() -> None:
    owner = module("tir.transform.loops.hoist_checks")
    replace(owner, "_acts", lambda _: lambda node: False)


def bindings_that_are_simple_enough() -> None:
    owner = module("tir.schedule.nests").SimplifyBindings
    replace(owner, "_is_plain", lambda _: lambda self, value: True)


def conditions_of_blocks_that_nobody_sees() -> None:
    owner = module("tir.schedule.blocks")
    replace(owner, "own_condition", lambda _: lambda cursor: None)


CHECK_MUTATIONS: dict[str, tuple[Any, str, str, str | None]] = {
    function.__name__: (function, step, field, only)
    for function, step, field, only in [
        (minima_that_decide_nothing, "arithmetic: analyzer: not simp", "arithmetic", None),
        (ranges_of_two_values_taken_as_one, "arithmetic: analyzer", "arithmetic", None),
        (arguments_of_any_strides, "call: llvm: accepts", "blocks", "codegen"),
        (threads_for_every_loop, "codegen: llvm: starts threads", "blocks", "codegen"),
        (small_floats_with_infinities, "codegen: llvm: wrong", "narrow", "codegen"),
        (
            threads_of_results_taken_for_those_of_sums,
            "pass: tir.LowerCrossThreadReduction: refuses",
            "threads",
            "pass",
        ),
        (checks_hoisted_over_functions, "pass: tir.HoistChecks: then", "pointers", "pass"),
        (
            bindings_that_are_simple_enough,
            "primitive: Split: not simplified",
            "blocks",
            "primitive",
        ),
        (conditions_of_blocks_that_nobody_sees, "primitive: ", "chains", "primitive"),
    ]
}
"""Name → what breaks the compiler, the begin of the signature expected, the field and the checks
that have to notice."""
