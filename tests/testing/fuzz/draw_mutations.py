"""Broken rules that need a certain draw: each stands for a kind of program or schedule.

Plain programs of blocks under random schedules did not find these within three minutes.
"""

from __future__ import annotations

from typing import Any

from tests.testing.fuzz.mutations import LOOPS, module, replace
from tilesmith.ir import Mul

RFACTOR = "tir.schedule.primitives.rfactor"


def rfactor_without_its_guard() -> None:
    """Iterations beyond the end of a reduction count: splits larger than it, or not dividing."""
    replace(
        module(RFACTOR)._Rfactor,
        "_conditions",
        lambda right: lambda self, *args: (right(self, *args)[0], None),
    )


def rfactor_of_loops_from_zero() -> None:
    """A factored loop that begins elsewhere is taken to begin at 0."""
    replace(module(RFACTOR)._Rfactor, "_value_of", lambda _: lambda self, variable, one: one.var)


def reverse_inline_with_swapped_indices() -> None:
    def make(right: Any) -> Any:
        def inverse(*args: Any) -> Any:
            placeholders, values = right(*args)
            return placeholders[::-1], values

        return inverse

    replace(module("tir.schedule.primitives.compute_inline"), "inverse_of", make)


def layouts_that_later_readers_do_not_know() -> None:
    """Only the first accesses to a buffer go to their new places."""
    cls = module("tir.schedule.primitives.layout")._TransformAccess

    def make(right: Any) -> Any:
        def indices(self: Any, buffer: Any, given: Any) -> Any:
            self.seen = getattr(self, "seen", 0) + 1
            made = right(self, buffer, given)
            return list(given) if self.seen > 2 and len(made) == len(given) else made

        return indices

    replace(cls, "indices", make)


def layouts_behind_pointers() -> None:
    """A buffer that is declared again at the same pointer may be laid out anew."""
    owner = module("tir.schedule.primitives.layout")
    replace(owner, "check_not_a_pointer", lambda _: lambda *args: None)


def triangles_taken_as_squares() -> None:
    replace(module("tir.schedule.blocks"), "runs_for_all", lambda _: lambda *args: True)


def memory_that_dies_inside_of_its_loop() -> None:
    """What a loop reads before it writes it is not live until the end of the loop."""
    cls = module("tir.transform.storage.allocation_lives").LifeFinder

    def visit_loop(self: Any, loop: Any) -> None:
        self.position += 1
        self.visit_children(loop)
        self.position += 1

    cls.visit_loop = cls.visit_While = visit_loop


def loop_partition_with_a_limit_one_too_high() -> None:
    def make(right: Any) -> Any:
        def limit_of(*args: Any) -> Any:
            found = right(*args)
            return found if found is None or found[1] is None else (found[0], found[1] + 1)

        return limit_of

    replace(module("tir.transform.loops.loop_partition"), "limit_of", make)


def narrow_types_without_products() -> None:
    intervals = module("tir.transform.dtypes.intervals")._RULES
    intervals[Mul] = lambda a, b: a


def conditions_hoisted_over_lets() -> None:
    owner = module("tir.transform.loops.hoist_expression")._Candidates
    owner.visit_Let = owner.visit_LetStmt = lambda self, let: self.visit_children(let)


def lets_hoisted_over_what_they_use() -> None:
    owner = module("tir.transform.loops.hoist_expression")._LetTaker

    def make(right: Any) -> Any:
        def wanted(self: Any, let: Any, kind: Any) -> bool:
            bound, self.bound = self.bound, set()
            try:
                return right(self, let, kind)
            finally:
                self.bound = bound

        return wanted

    replace(owner, "wanted", make)


def shifts_of_negative_numbers_without_sign() -> None:
    facts = module("codegen.facts")
    owner = next(one for one in vars(facts).values() if hasattr(one, "is_non_negative"))
    replace(owner, "is_non_negative", lambda _: lambda self, expr: True)


def small_floats_that_are_cut_off() -> None:
    """float16 values are rounded towards zero."""
    conversions = module("codegen.llvm.conversions")

    def make(right: Any) -> Any:
        def narrow(out: Any, value: str, wide: Any, target: Any) -> str:
            if target.element == "float16" and wide.lanes == 1:
                bits = out.define(f"bitcast float {value} to i32")
                kept = out.define(f"and i32 {bits}, -8192")
                value = out.define(f"bitcast i32 {kept} to float")
            return right(out, value, wide, target)

        return narrow

    replace(conversions, "_narrow", make)


def warps_whose_lanes_have_their_own() -> None:
    """Memory of a warp is compacted to what one lane uses."""
    owner = module("tir.transform.blocks.compact_buffer_allocation")
    replace(
        owner,
        "_sharers",
        lambda right: lambda scope: () if scope == "warp" else right(scope),
    )


def constants_that_are_inlined_anywhere() -> None:
    """A block may move to where the constant memory that it reads is not declared."""
    owner = module("tir.schedule.primitives.compute_inline")
    replace(owner, "check_in_sight", lambda _: lambda *args: None)


def known_values_that_stores_keep() -> None:
    """A store to a buffer is taken to leave all other elements known."""
    owner = module("tir.transform.simplification.buffer_elements").Elements
    replace(owner, "without", lambda _: lambda self, written, analyzer: self)


def minima_of_the_wrong_side() -> None:
    """The dominated operand of a minimum is kept."""
    cls = module("arith.extremes").Extremes
    other = module("arith.extremes")._OTHER
    replace(
        cls, "_undominated", lambda right: lambda self, kind, args: right(self, other[kind], args)
    )


def partial_results_that_begin_at_the_start() -> None:
    """Each partial result counts the start of its reduction."""

    def make(right: Any) -> Any:
        def combiner_of(cursor: Any) -> Any:
            found = right(cursor)
            found.identities = found.starts
            return found

        return combiner_of

    replace(module(RFACTOR), "combiner_of", make)


def partial_results_that_forget_the_start() -> None:
    """What combines partial results begins at the identity."""

    def make(right: Any) -> Any:
        def combiner_of(cursor: Any) -> Any:
            found = right(cursor)
            found.starts = found.identities
            return found

        return combiner_of

    replace(module(RFACTOR), "combiner_of", make)


def minima_that_do_not_turn_around() -> None:
    """``min(3 - x, 3 - y)`` becomes ``3 - min(x, y)``."""
    extremes = module("arith.extremes")
    extremes._OTHER = {kind: kind for kind in extremes._OTHER}


def copies_in_front_of_constants() -> None:
    """A cache is made where the constant memory that it copies is not declared yet."""
    for name in ("cache", "reindex"):
        owner = module("tir.schedule.primitives." + name)
        replace(owner, "is_declared_below", lambda _: lambda place, buffer: False)


def constants_of_small_floats_as_they_are() -> None:
    """C computes with more digits of a constant than its type has."""
    owner = module("codegen.c_family.values")
    replace(owner, "rounded_to", lambda _: lambda value, dtype: value)


def layouts_behind_addresses() -> None:
    """A function that gets the address of an element counts on no layout."""
    replace(module("tir.queries"), "addresses", lambda _: lambda root: iter(()))


def layouts_behind_functions() -> None:
    """Code that gets a pointer counts on no layout."""
    replace(module("tir.schedule.blocks"), "is_used_as_pointer", lambda _: lambda *args: False)


def memory_that_shrinks_under_its_users() -> None:
    """Only accesses by indices say how much of memory is used."""
    owner = module("tir.transform.blocks.compact_buffer_allocation")._RegionFinder
    replace(owner, "escape", lambda _: lambda self, pointer: None)


def inlined_behind_functions() -> None:
    """What a function of the module reads is taken to be in the block."""
    owner = module("tir.schedule.primitives.compute_inline")
    replace(owner, "is_used_as_pointer", lambda _: lambda *args: False)


MERGING = "tir.transform.storage.merge_shared_memory_allocations"


def merged_parts_that_begin_a_slot_early() -> None:
    owner = module("tir.transform.storage.merged_memory").MergedMemory

    def make(right: Any) -> Any:
        def start(self: Any, pointer: Any, nbytes: int, dtype: Any) -> Any:
            found = right(self, pointer, nbytes, dtype)
            slot = 16 // nbytes
            return found - slot if getattr(found, "value", 0) >= slot else found

        return start

    replace(owner, "start", make)


def shared_memory_that_dies_an_epoch_early() -> None:
    """What is merged is taken to be dead after the last barrier before its last use."""
    owner = module(MERGING)._LifeFinder

    def make(right: Any) -> Any:
        def epochs(self: Any, root: Any) -> Any:
            (first, last), *others = right(self, root)
            return ((first, max(first, last - 1)), *others)

        return epochs

    replace(owner, "epochs", make)


def shared_memory_that_loops_do_not_carry() -> None:
    """What is used in a loop that does not allocate it is live from use to use only."""
    owner = module(MERGING)._LifeFinder

    def use(self: Any, pointer: Any) -> None:
        for root in self.ranges.roots([pointer]):
            if root in self.lives:
                self.ranges.use(root, self.position)

    owner.use = use


def memory_that_does_not_grow() -> None:
    """Memory for several results is as large as the first one needs."""
    owner = module("tir.transform.storage.storage_rewrite")._Slot

    def make(right: Any) -> Any:
        def add(self: Any, life: Any) -> None:
            bits = self.bits
            right(self, life)
            self.bits = bits

        return add

    replace(owner, "add", make)


def special_memory_without_places() -> None:
    """All that lies in the special memory of a device begins where that begins."""
    owner = module("tir.transform.storage.storage_rewrite")

    def make(right: Any) -> Any:
        return lambda allocation, offset: right(allocation, 0)

    replace(owner, "Part", make)


def vectors_as_large_as_one_element() -> None:
    """Memory of vectors is taken to be as large as one lane of each."""
    for name in ("storage_rewrite", "allocation_lives"):
        owner = module("tir.transform.storage." + name)
        replace(owner, "memory_bits", lambda right: lambda dtype: right(dtype.element))


def consumers_that_read_something_else() -> None:
    """Blocks that come later count as consumers, whatever they read."""

    def make(right: Any) -> Any:
        def consumers_of(cursor: Any, scope: Any) -> Any:
            blocks = scope.blocks_below()
            return blocks[blocks.index(cursor) + 1 :]

        return consumers_of

    replace(module("tir.schedule.primitives.look"), "consumers_of", make)


def loops_that_nobody_finds() -> None:
    """``get_loops`` is always refused, and so is everything that begins with it."""
    errors = module("tir.schedule.errors")

    def get_loops(block: Any) -> Any:
        raise errors.refuse("there are no loops", block)

    module("tir.schedule.primitive").PRIMITIVES.get("get_loops").function = get_loops


def splits_that_are_refused() -> None:
    """No factor is accepted."""
    errors = module("tir.schedule.errors")

    def infer(cursor: Any, factors: Any) -> Any:
        raise errors.refuse(f"factors {factors} are not positive", cursor)

    module(LOOPS)._infer_factors = infer


DRAW_MUTATIONS: dict[str, tuple[Any, str, str, str | None]] = {
    function.__name__: (function, step, field, only)
    for function, step, field, only in [
        (rfactor_without_its_guard, "primitive: chains: factor", "chains", "primitive"),
        (rfactor_of_loops_from_zero, "primitive: chains: factor", "chains", "primitive"),
        (reverse_inline_with_swapped_indices, "primitive: ", "chains", "primitive"),
        (layouts_that_later_readers_do_not_know, "primitive: ", "chains", "primitive"),
        (layouts_behind_pointers, "primitive: ", "statements", "primitive"),
        (consumers_that_read_something_else, "primitive: queries", "blocks", "primitive"),
        (loops_that_nobody_finds, "primitive: ", "blocks", "primitive"),
        (splits_that_are_refused, "primitive: ", "blocks", "primitive"),
        (triangles_taken_as_squares, "primitive: ", "statements", "primitive"),
        (memory_that_dies_inside_of_its_loop, "pass: tir.StorageRewrite", "chains", "pass"),
        (loop_partition_with_a_limit_one_too_high, "pass: tir.LoopPart", "conditions", "pass"),
        (narrow_types_without_products, "pass: tir.NarrowDataType", "blocks", "pass"),
        (conditions_hoisted_over_lets, "pass: tir.HoistExpression", "conditions", "pass"),
        (lets_hoisted_over_what_they_use, "pass: tir.HoistExpression", "conditions", "pass"),
        (shifts_of_negative_numbers_without_sign, "codegen: llvm", "blocks", "codegen"),
        (small_floats_that_are_cut_off, "codegen: llvm", "narrow", "codegen"),
        (warps_whose_lanes_have_their_own, "pass: tir.", "threads", "pass"),
        (constants_that_are_inlined_anywhere, "primitive: C", "statements", "primitive"),
        (known_values_that_stores_keep, "pass: tir.", "conditions", "pass"),
        (minima_of_the_wrong_side, "pass: tir.", "conditions", "pass"),
        (minima_that_do_not_turn_around, "pass: tir.", "blocks", "pass"),
        (partial_results_that_begin_at_the_start, "primitive: ", "chains", "primitive"),
        (partial_results_that_forget_the_start, "primitive: ", "chains", "primitive"),
        (copies_in_front_of_constants, "primitive: ", "statements", "primitive"),
        (constants_of_small_floats_as_they_are, "codegen: c", "narrow", "codegen"),
        (layouts_behind_addresses, "primitive: ", "pointers", "primitive"),
        (layouts_behind_functions, "primitive: ", "pointers", "primitive"),
        (memory_that_shrinks_under_its_users, "pass: tir.Compact", "pointers", "pass"),
        (inlined_behind_functions, "primitive: ", "pointers", "primitive"),
        (merged_parts_that_begin_a_slot_early, "pass: tir.Merge", "memory", "pass"),
        (shared_memory_that_dies_an_epoch_early, "pass: tir.Merge", "memory", "pass"),
        (shared_memory_that_loops_do_not_carry, "pass: tir.Merge", "memory", "pass"),
        (memory_that_does_not_grow, "pass: tir.StorageRewrite", "memory", "pass"),
        (special_memory_without_places, "pass: tir.StorageRewrite", "memory", "pass"),
        (vectors_as_large_as_one_element, "pass: tir.StorageRewrite", "memory", "pass"),
    ]
}
"""Name → what breaks the compiler, the begin of the signature expected, the field and the checks
that have to notice."""
