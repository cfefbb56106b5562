"""Options of ``PassContext(config=...)`` that passes over tensor programs and lowering read."""

from __future__ import annotations

from typing import Any

from tilesmith.ir.transform import register_config_option

UNROLL = {
    "auto_max_step": int,
    "auto_max_depth": int,
    "auto_max_extent": int,
    "explicit_unroll": bool,
    "unroll_local_access": bool,
}
LOOP_PARTITION = {
    "partition_const_loop": bool,
    "no_unroll_loop_with_extent_one": bool,
    "unroll_loop_with_partition_hint_no_interval": bool,
}
SIMPLIFY = {
    "transitively_prove_inequalities": bool,
    "propagate_knowns_to_prove_conditional": bool,
    "propagate_knowns_to_simplify_expressions": bool,
    "convert_boolean_to_and_of_ors": bool,
    "apply_constraints_to_boolean_branches": bool,
}

OPTIONS: tuple[tuple[str, Any, Any, str], ...] = (
    ("tir.add_lower_pass", list, None, "(phase, pass) pairs that lowering runs as well"),
    ("tir.disable_vectorize", bool, False, "vectorized loops become serial loops"),
    ("tir.disable_assert", bool, False, "drop all assertions"),
    ("tir.disable_storage_rewrite", bool, False, "do not share memory between allocations"),
    ("tir.disable_cse_tir", bool, False, "do not compute common subexpressions once"),
    ("tir.enable_equiv_terms_in_cse_tir", bool, False, "treat equivalent terms as common ones"),
    ("tir.enable_buffer_level_predication", bool, False, "predicate vector accesses"),
    ("tir.noalias", bool, True, "the buffers of a function do not overlap"),
    ("tir.instrument_bound_checkers", bool, False, "check each access against its buffer"),
    ("tir.instrument_lwp", bool, False, "measure marked loops"),
    ("tir.lwp_disable_func_prof", bool, False, "do not measure whole functions"),
    ("tir.lwp_max_depth", int, 0, "how deep measured loops may be nested"),
    ("tir.lwp_min_height", int, 1, "which loops count as innermost"),
    ("tir.reset_start_id", bool, False, "number measured loops from zero"),
    ("tir.is_entry_func", bool, False, "the module has one function, its entry"),
    ("tir.debug_keep_trivial_loop", bool, False, "keep loops of one iteration"),
    ("tir.detect_global_barrier", bool, False, "look for barriers over all blocks of threads"),
    ("tir.merge_static_smem", bool, False, "merge static allocations of shared memory"),
    ("tir.ptx_ldg32", bool, False, "load through the read-only cache"),
    ("tir.use_async_copy", bool, False, "copy to shared memory in the background"),
    ("tir.merge_async_commit_queue_scope", bool, True, "merge neighbouring groups of copies"),
    ("tir.vtcm_capacity", int, 0, "bytes of tightly coupled memory"),
    ("tir.enable_debug", bool, False, "lines of the lowered program as debug information"),
    ("tir.usmp.enable", bool, False, "plan memory of all functions together"),
    ("tir.usmp.algorithm", str, "greedy_by_size", "algorithm of the memory plan"),
    ("tir.disable_unroll", bool, False, "marked loops stay loops"),
    ("tir.UnrollLoop", UNROLL, None, "limits of unrolling"),
    ("tir.LoopPartition", LOOP_PARTITION, None, "which loops are divided"),
    ("tir.Simplify", SIMPLIFY, None, "how hard the simplifier tries"),
    ("tir.StmtSimplify", SIMPLIFY, None, "how hard the simplifier tries"),
    ("tir.InjectDoubleBuffer", {"split_loop": int}, None, "how many iterations are split off"),
    ("tir.HoistIfThenElse", {"support_block_scope_hosting": bool},
     None, "whether conditions leave thread blocks"),
    ("tir.HoistExpression", {"hoisted_conditionals": int, "hoisted_let_bindings": int},
     None, "what is hoisted out of loops"),
    ("tir.RemoveNoOp", {"use_dataflow_analysis": bool, "max_simplification_steps": int},
     None, "how hard to look for stores without effect"),
    ("tir.ReduceBranchingThroughOvercompute", {"use_dataflow_analysis": bool},
     None, "how hard to look for branches that can go"),
)  # fmt: skip

for _name, _kind, _default, _meaning in OPTIONS:
    register_config_option(_name, _kind, _default, _meaning)
