"""Broken passes, primitives, printers and back ends, to see whether the fuzzer finds them.

Each function breaks the compiler of its own process (a worker calls it before its first case).
``MUTATIONS`` says by which step the mistake has to be noticed, and which checks are asked for.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

from tilesmith.ir import FloorDiv, FloorMod, IntImm, Mul, Ramp, Range, Rewriter, const
from tilesmith.ir.operators import truncmod
from tilesmith.tir import BufferLoad, BufferStore
from tilesmith.tir.stmt import BlockRealize


def module(name: str) -> Any:
    return importlib.import_module("tilesmith." + name)


def replace(owner: Any, name: str, make: Any) -> None:
    """Replace a function or method by what ``make`` makes of it; it has to exist."""
    setattr(owner, name, make(getattr(owner, name)))


class Change(Rewriter):
    """Rewrites nodes of one class with a function, bottom-up."""

    def __init__(self, kind: type, function: Any) -> None:
        self.kind = kind
        self.function = function

    def visit(self, node: Any) -> Any:
        node = super().visit(node)
        return self.function(node) if type(node) is self.kind else node


def after_pass(name: str, wrong: Any) -> None:
    """A pass whose result is changed by ``wrong(body)``."""
    passes = module("tir.transform")

    def make(factory: Any) -> Any:
        def broken(*args: Any, **kwargs: Any) -> Any:
            step = factory(*args, **kwargs)
            right = step.transform

            def transform(mod: Any, ctx: Any) -> Any:
                mod = right(mod, ctx)
                for variable, function in list(mod.functions.items()):
                    mod[variable] = function.with_body(wrong(function.body))
                return mod

            step.transform = transform
            return step

        return broken

    replace(passes, name, make)


LOOPS = "tir.schedule.primitives.loops"
REDUCTION = "tir.schedule.primitives.reduction"
RFACTOR = "tir.schedule.primitives.rfactor"


# Primitives.


def split_with_a_bound_one_too_high() -> None:
    replace(module(LOOPS), "less", lambda less: lambda a, b: less(a, b + 1))


def split_without_predicate() -> None:
    replace(module(LOOPS), "append_predicate", lambda _: lambda body, condition: body)


def fuse_with_a_wrong_remainder() -> None:
    replace(module(LOOPS), "floormod", lambda right: lambda a, b: right(a + 1, b))


def reorder_over_a_dependent_range() -> None:
    """Loops change places with their extents left where they were."""

    def make(right: Any) -> Any:
        def reorder(*loops: Any) -> None:
            extents = [loop.stmt.extent for loop in loops]
            right(*loops)
            for loop, extent in zip(loops, extents[1:] + extents[:1]):
                loop.replace(loop.stmt.with_fields(extent=extent))

        return reorder

    replace(module("tir.schedule.primitive").PRIMITIVES.get("reorder"), "function", make)


def decompose_reduction_without_init() -> None:
    def make(right: Any) -> Any:
        def init_nest(*args: Any) -> Any:
            nest, block = right(*args)
            never = Change(BlockRealize, lambda realize: realize.with_fields(predicate=False))
            return never.visit(nest), block

        return init_nest

    replace(module(REDUCTION), "_init_nest", make)


def rfactor_that_starts_from_one() -> None:
    """The write-back begins with the wrong value."""
    cls = module(RFACTOR)._Rfactor

    def make(right: Any) -> Any:
        def final_block(self: Any) -> Any:
            block = right(self)

            def off(store: BufferStore) -> BufferStore:
                return store.with_fields(value=store.value + const(1, store.value.dtype))

            return block.with_fields(init=Change(BufferStore, off).visit(block.init))

        return final_block

    replace(cls, "_final_block", make)


def compute_at_with_too_small_a_region() -> None:
    def make(right: Any) -> Any:
        def loop_domain(*arguments: Any) -> Any:
            low, extent, checks = right(*arguments)
            if isinstance(extent, IntImm) and extent.value > 1:
                extent = const(extent.value - 1, extent.dtype)
            return low, extent, checks

        return loop_domain

    replace(module("tir.schedule.primitives.compute_at"), "_loop_domain", make)


def compute_inline_of_a_neighbour() -> None:
    cls = module("tir.schedule.primitives.compute_inline")._Inliner

    def make(right: Any) -> Any:
        def visit(self: Any, load: BufferLoad) -> Any:
            if load.buffer is self.buffer and load.indices:
                load = BufferLoad(load.buffer, [load.indices[0] + 1, *load.indices[1:]])
            return right(self, load)

        return visit

    replace(cls, "visit_BufferLoad", make)


def cache_read_with_a_shifted_index() -> None:
    cls = module("tir.schedule.primitives.cache").ThroughCopy

    def make(right: Any) -> Any:
        def visit(self: Any, load: BufferLoad) -> Any:
            new = right(self, load)
            if new.buffer is load.buffer or not new.indices:
                return new
            size = new.buffer.shape[0]
            return BufferLoad(new.buffer, [(new.indices[0] + 1) % size, *new.indices[1:]])

        return visit

    replace(cls, "visit_BufferLoad", make)


def transform_layout_that_forgets_a_store() -> None:
    cls = module("tir.schedule.primitives.layout")._TransformAccess

    def make(right: Any) -> Any:
        def indices(self: Any, buffer: Any, given: Any) -> Any:
            made = right(self, buffer, given)
            return [*made[:-1], made[-1] * 0]

        return indices

    replace(cls, "indices", make)


def parallel_without_looking() -> None:
    """Any loop may be parallel, even one that carries a reduction."""
    name = "tir.schedule.primitives.annotate"
    replace(module(name), "_check_independent", lambda _: lambda *arguments: None)


def trace_json_without_decisions() -> None:
    def make(right: Any) -> Any:
        return lambda self, remove_postproc=False: [right(self, remove_postproc)[0], []]

    replace(module("tir.schedule.trace").Trace, "as_json", make)


def printer_without_dtypes_of_integers() -> None:
    """``T.int8(3)`` is written as ``3``."""
    constant = re.compile(r"T\.u?int(?:8|16|64)\((-?\d+)\)")

    def make(right: Any) -> Any:
        return lambda self, *args, **kwargs: constant.sub(r"\1", right(self, *args, **kwargs))

    replace(module("ir.module").IRModule, "script", make)
    replace(module("tir.function").PrimFunc, "script", make)


# Passes.


def init_in_every_iteration() -> None:
    replace(module("tir.transform.blocks.lower_init_block"), "all_of", lambda _: lambda *all: True)


def flatten_buffer_in_the_wrong_order() -> None:
    def make(right: Any) -> Any:
        def flat_indices(buffer: Any, indices: Any) -> Any:
            if len(indices) != 2 or buffer.strides:
                return right(buffer, indices)
            return [indices[0] + indices[1] * buffer.shape[0]]

        return flat_indices

    replace(module("tir.transform.storage.flatten_buffer"), "_flat_indices", make)


def compact_buffers_too_much() -> None:
    cls = module("tir.transform.blocks.compact_buffer_allocation")._RegionFinder

    def make(right: Any) -> Any:
        def dimension(self: Any, size: Any, found: Any) -> Range:
            whole = right(self, size, found)
            if not isinstance(whole.extent, IntImm) or whole.extent.value < 2:
                return whole
            return Range.from_min_extent(whole.min, const(whole.extent.value - 1, size.dtype))

        return dimension

    replace(cls, "dimension", make)


def simplifier_that_cancels_a_division() -> None:
    """``x // c * c`` becomes ``x``."""

    def cancel(product: Mul) -> Any:
        a, b = product.a, product.b
        if isinstance(a, FloorDiv) and isinstance(a.b, IntImm) and isinstance(b, IntImm):
            return a.a if a.b.value == b.value else product
        return product

    after_pass("Simplify", Change(Mul, cancel).visit)


def simplifier_that_forgets_a_remainder() -> None:
    after_pass("Simplify", Change(FloorMod, lambda mod: mod.a).visit)


def vectorizer_with_a_wrong_stride() -> None:
    def twice(ramp: Ramp) -> Ramp:
        return Ramp(ramp.base, ramp.stride * 2, ramp.lanes)

    after_pass("VectorizeLoop", Change(Ramp, twice).visit)


def storage_rewrite_of_live_buffers() -> None:
    """Every buffer is taken to be dead when the next one of its dtype begins to live."""

    def make(right: Any) -> Any:
        def assign(lives: Any, *options: Any) -> Any:
            for number, life in enumerate(lives):
                life.first, life.last = number, -1
            return right(lives, *options)

        return assign

    replace(module("tir.transform.storage.storage_rewrite"), "_assign", make)


def unroll_without_the_last_iteration() -> None:
    cls = module("tir.transform.loops.unroll_loop")._Unroller

    def make(right: Any) -> Any:
        return lambda self, loop, body, extent: right(self, loop, body, max(extent - 1, 1))

    replace(cls, "written_out", make)


def narrow_to_eight_bits() -> None:
    """Every index is taken to fit into a byte."""
    cls = module("tir.transform.dtypes.intervals").Intervals
    replace(cls, "fits", lambda right: lambda self, interval: interval is not None)
    passes = module("tir.transform")
    replace(passes, "NarrowDataType", lambda right: lambda bits: right(8))


def loop_partition_without_its_tail() -> None:
    cls = module("tir.transform.loops.loop_partition").Partitioner

    def make(right: Any) -> Any:
        def part(self: Any, loop: Any, low: Any, high: Any, *rest: Any, **options: Any) -> Any:
            end = low if high is not low and low is not loop.min else high
            return right(self, loop, low, end, *rest, **options)

        return part

    replace(cls, "part", make)


def conditions_hoisted_to_the_wrong_side() -> None:
    from tilesmith.tir.stmt import IfThenElse

    def swap(branch: IfThenElse) -> IfThenElse:
        if branch.else_case is None:
            return branch
        return IfThenElse(branch.condition, branch.else_case, branch.then_case)

    after_pass("HoistIfThenElse", Change(IfThenElse, swap).visit)


# Back ends.


def llvm_with_truncated_remainders() -> None:
    module("codegen.llvm.arithmetic")  # enters the rules
    rules = module("codegen.llvm.rules").NODE_RULES
    right = rules[FloorMod]

    def truncated(emit: Any, expr: FloorMod) -> str:
        if expr.dtype.is_int and expr.dtype.lanes == 1:
            return emit.value(truncmod(expr.a, expr.b))
        return right(emit, expr)

    rules.handles(FloorMod)(truncated)


def c_without_parentheses() -> None:
    owner = module("codegen.c_family.values").CommonValues
    replace(owner, "text", lambda right: lambda self, expr, least=0: right(self, expr, 0))


MUTATIONS: dict[str, tuple[Any, str, str | None]] = {
    function.__name__: (function, step, only)
    for function, step, only in [
        (split_with_a_bound_one_too_high, "primitive: S", "primitive"),
        (split_without_predicate, "primitive: S", "primitive"),
        (fuse_with_a_wrong_remainder, "primitive: Fuse", "primitive"),
        (reorder_over_a_dependent_range, "primitive: Reorder", "primitive"),
        (decompose_reduction_without_init, "primitive: DecomposeReduction", "primitive"),
        (rfactor_that_starts_from_one, "primitive: RFactor", "primitive"),
        (compute_at_with_too_small_a_region, "primitive: ComputeAt", "primitive"),
        (compute_inline_of_a_neighbour, "primitive: ComputeInline", "primitive"),
        (cache_read_with_a_shifted_index, "primitive: CacheRead", "primitive"),
        (transform_layout_that_forgets_a_store, "primitive: TransformLayout", "primitive"),
        (parallel_without_looking, "primitive: Parallel", "primitive"),
        (trace_json_without_decisions, "trace: JSON", "primitive"),
        (printer_without_dtypes_of_integers, "script: print and parse", None),
        (init_in_every_iteration, "pass: tir.LowerInitBlock", "pass"),
        (flatten_buffer_in_the_wrong_order, "pass: tir.FlattenBuffer", "pass"),
        (compact_buffers_too_much, "pass: tir.CompactBufferAllocation", "pass"),
        (simplifier_that_cancels_a_division, "pass: tir.Simplify", "pass"),
        (simplifier_that_forgets_a_remainder, "pass: tir.Simplify", "pass"),
        (vectorizer_with_a_wrong_stride, "pass: tir.VectorizeLoop", "pass"),
        (storage_rewrite_of_live_buffers, "pass: tir.StorageRewrite", "pass"),
        (unroll_without_the_last_iteration, "pass: tir.UnrollLoop", "pass"),
        (narrow_to_eight_bits, "pass: tir.NarrowDataType", "pass"),
        (loop_partition_without_its_tail, "pass: tir.LoopPartition", "pass"),
        (conditions_hoisted_to_the_wrong_side, "pass: tir.HoistIfThenElse", "pass"),
        (llvm_with_truncated_remainders, "codegen: llvm", "codegen"),
        (c_without_parentheses, "codegen: c", "codegen"),
    ]
}
"""Name → what breaks the compiler, the begin of the signature expected, which checks to run."""
