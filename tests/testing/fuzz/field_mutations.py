"""Broken passes, parsers and builders that only the further fields of the fuzzer can notice."""

from __future__ import annotations

from typing import Any

from tests.testing.fuzz.mutations import Change, after_pass, module, replace
from tilesmith.ir import const
from tilesmith.tir import BufferStore
from tilesmith.tir.stmt import AttrStmt, Evaluate


def flatten_with_turned_strides() -> None:
    def make(right: Any) -> Any:
        return lambda buffer, indices: right(
            buffer.with_fields(strides=buffer.strides[::-1]), indices
        )

    replace(module("tir.transform.storage.flatten_buffer"), "_flat_indices", make)


def views_from_the_begin_of_their_source() -> None:
    def make(right: Any) -> Any:
        def indices(self: Any, buffer: Any, given: Any) -> Any:
            starts = [part.min for part in self.sources[buffer].region]
            return [index - start for index, start in zip(right(self, buffer, given), starts)]

        return indices

    replace(module("tir.transform.blocks.lower_match_buffer")._MatchLowerer, "indices", make)


def barriers_that_are_forgotten() -> None:
    def drop(statement: Evaluate) -> Evaluate:
        name = getattr(getattr(statement.value, "op", None), "name", "")
        return Evaluate(const(0, "int32")) if name == "tir.tvm_storage_sync" else statement

    after_pass("ThreadSync", Change(Evaluate, drop).visit)


def barriers_that_only_lockstep_may_miss() -> None:
    """The interpreter compares nothing: what is left looks at all threads at once."""
    barriers_that_are_forgotten()
    replace(module("testing.fuzz.checks").Checker, "compare", lambda _: lambda *given: None)


def kernels_that_store_one_more() -> None:
    """Only code that runs on a device can tell: the interpreter compares nothing."""

    def more(store: BufferStore) -> BufferStore:
        if not store.value.dtype.is_float or store.value.dtype.lanes > 1:
            return store
        return store.with_fields(value=store.value + const(1, store.value.dtype))

    after_pass("LowerIntrin", Change(BufferStore, more).visit)


def one_thread_too_few() -> None:
    def fewer(attribute: AttrStmt) -> AttrStmt:
        if attribute.attr_key != "thread_extent" or attribute.value.value < 2:
            return attribute
        return attribute.with_fields(value=attribute.value - 1)

    after_pass("LowerOpaqueBlock", Change(AttrStmt, fewer).visit)


def pipelines_of_one_version() -> None:
    owner = module("tir.transform.loops.buffer_versions").VersionedBuffers
    replace(owner, "version", lambda _: lambda self, buffer: const(0, "int32"))


def stores_to_realized_parts_that_begin_late() -> None:
    def make(right: Any) -> Any:
        return lambda self, buffer, indices: [one + 1 for one in right(self, buffer, indices)]

    replace(module("tir.transform.storage.storage_flatten")._Realizer, "indices", make)


def tensors_whose_sums_start_late() -> None:
    def make(right: Any) -> Any:
        def reduction(self: Any, *args: Any) -> Any:
            init, update = right(self, *args)
            return init.with_fields(value=init.value + const(1, init.value.dtype)), update

        return reduction

    replace(module("te.create_prim_func")._Builder, "_reduction", make)


def parser_of_ramps_without_steps() -> None:
    from tilesmith.ir import Ramp

    names = module("script.tir")
    names.Ramp = names.ramp = lambda base, stride, lanes: Ramp(base, 1, lanes)


def lets_that_declarations_lose() -> None:
    simplify = module("tir.transform.simplification.simplify")
    replace(simplify, "_is_of_a_declaration", lambda _: lambda var, body: False)


def carried_rows_allocated_in_their_loop() -> None:
    """Memory is placed by what opaque iterators write, not by what they read."""
    owner = module("tir.transform.blocks.plan_update_buffer_allocation_location")._AccessFinder

    def make(right: Any) -> Any:
        def access(self: Any, pointer: Any, is_write: bool) -> None:
            self.scope.read_limit = None
            right(self, pointer, is_write)

        return access

    replace(owner, "access", make)


def padding_that_is_skipped_on_some_sides() -> None:
    """A term of a sum is left out by all conditions but the first."""
    owner = module("tir.transform.blocks.skip_identity_terms")
    replace(owner, "_conjuncts", lambda right: lambda condition: right(condition)[1:])


FIELD_MUTATIONS: dict[str, tuple[Any, str, str, str | None]] = {
    function.__name__: (function, step, field, only)
    for function, step, field, only in [
        (flatten_with_turned_strides, "pass: tir.FlattenBuffer", "layouts", "pass"),
        (views_from_the_begin_of_their_source, "pass: tir.LowerMatchBuffer", "statements", "pass"),
        (barriers_that_are_forgotten, "pass: tir.ThreadSync", "threads", "pass"),
        (barriers_that_only_lockstep_may_miss, "pass: in lockstep: a", "gpu", "pass"),
        (one_thread_too_few, "pass: tir.LowerOpaqueBlock", "threads", "pass"),
        (pipelines_of_one_version, "pass: tir.InjectSoftwarePipeline", "pipelines", "pass"),
        (stores_to_realized_parts_that_begin_late, "pass: tir.StorageFlatten", "loops", "pass"),
        (lets_that_declarations_lose, "pass: tir.Simplify", "statements", "pass"),
        (
            carried_rows_allocated_in_their_loop,
            "pass: tir.PlanAndUpdateBufferAllocationLocation",
            "statements",
            "pass",
        ),
        (padding_that_is_skipped_on_some_sides, "pass: tir.SkipIdentityTerms", "rules", "pass"),
        (tensors_whose_sums_start_late, "program: tensors", "tensors", "primitive"),
        (parser_of_ramps_without_steps, "script: print and parse", "scripts", "pass"),
    ]
}
"""Name → what breaks the compiler, the begin of the signature expected, the field and the checks
that have to notice."""
