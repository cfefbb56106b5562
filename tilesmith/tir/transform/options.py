"""Options of ``PassContext(config=...)`` that passes over tensor programs and lowering read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir.transform import register_config_option

UNROLL_DEFAULTS = {
    "auto_max_step": 0,
    "auto_max_depth": 8,
    "auto_max_extent": 0,
    "explicit_unroll": True,
    "unroll_local_access": False,
}
LOOP_PARTITION_DEFAULTS = {
    "partition_const_loop": False,
    "no_unroll_loop_with_extent_one": False,
    "unroll_loop_with_partition_hint_no_interval": False,
}
SIMPLIFY_DEFAULTS = {
    "transitively_prove_inequalities": False,
    "propagate_knowns_to_prove_conditional": False,
    "propagate_knowns_to_simplify_expressions": False,
    "convert_boolean_to_and_of_ors": False,
    "apply_constraints_to_boolean_branches": False,
}
REMOVE_NO_OP_DEFAULTS = {"use_dataflow_analysis": False, "max_simplification_steps": 0}
REDUCE_BRANCHING_DEFAULTS = {"use_dataflow_analysis": False}
HOIST_IF_DEFAULTS = {"support_block_scope_hosting": False}
HOIST_EXPRESSION_DEFAULTS = {"hoisted_conditionals": 7, "hoisted_let_bindings": 7}
DOUBLE_BUFFER_DEFAULTS = {"split_loop": 1}


def _kinds(defaults: Mapping[str, Any]) -> dict[str, type]:
    return {name: type(value) for name, value in defaults.items()}


OPTIONS: tuple[tuple[str, Any, Any, str], ...] = (
    ("tir.add_lower_pass", list, None, "(phase, pass) pairs that lowering runs as well"),
    ("tir.disable_vectorize", bool, False, "vectorized loops become serial loops"),
    ("tir.disable_assert", bool, False, "drop all assertions"),
    ("tir.disable_storage_rewrite", bool, False, "do not share memory between allocations"),
    ("tir.disable_cse_tir", bool, False, "do not compute common subexpressions once"),
    ("tir.enable_equiv_terms_in_cse_tir", bool, False, "treat equivalent terms as common ones"),
    ("tir.enable_buffer_level_predication", bool, None,
     "lanes are switched off by predicates of vector accesses, not by branches"),
    ("tir.noalias", bool, True, "the buffers of a function do not overlap"),
    ("tir.instrument_bound_checkers", bool, False, "check each access against its buffer"),
    ("tir.instrument_lwp", bool, False, "measure marked loops"),
    ("tir.lwp_disable_func_prof", bool, False, "do not measure whole functions"),
    ("tir.lwp_max_depth", int, 0, "how deep measured loops may be nested"),
    ("tir.lwp_min_height", int, 1, "which loops count as innermost"),
    ("tir.instr_siblings", bool, True, "only loops with a neighbour are measured"),
    ("tir.reset_start_id", bool, False, "number measured loops from zero"),
    ("tir.is_entry_func", bool, False, "the module has one function, its entry"),
    ("tir.debug_keep_trivial_loop", bool, False, "keep loops of one iteration"),
    ("tir.detect_global_barrier", bool, False, "look for barriers over all blocks of threads"),
    ("tir.merge_static_smem", bool, False, "merge static allocations of shared memory"),
    ("tir.ptx_ldg32", bool, False, "load through the read-only cache"),
    ("tir.use_async_copy", bool, False, "copy to shared memory in the background"),
    ("tir.merge_async_commit_queue_scope", bool, True, "merge neighbouring groups of copies"),
    ("tir.dma_bypass_cache", bool, False, "transfers go past the cache"),
    ("tir.vtcm_capacity", int, 0, "bytes of tightly coupled memory"),
    ("tir.enable_debug", bool, False, "lines of the lowered program as debug information"),
    ("tir.debug_script", bool, False, "lines of the user's script as debug information"),
    ("tir.usmp.enable", bool, False, "plan memory of all functions together"),
    ("tir.usmp.algorithm", str, "greedy_by_size", "algorithm of the memory plan"),
    ("tir.usmp.use_workspace_io", bool, False, "inputs and outputs are part of that plan"),
    ("tir.usmp.custom_algorithm", str, "", "algorithm of that plan, by its registered name"),
    ("tir.disable_unroll", bool, False, "marked loops stay loops"),
    ("tir.UnrollLoop", _kinds(UNROLL_DEFAULTS), None, "limits of unrolling"),
    ("tir.LoopPartition", _kinds(LOOP_PARTITION_DEFAULTS), None, "which loops are divided"),
    ("tir.Simplify", _kinds(SIMPLIFY_DEFAULTS), None, "how hard the simplifier tries"),
    ("tir.StmtSimplify", _kinds(SIMPLIFY_DEFAULTS), None, "how hard the simplifier tries"),
    ("tir.InjectDoubleBuffer", _kinds(DOUBLE_BUFFER_DEFAULTS),
     None, "how many iterations are split off"),
    ("tir.HoistIfThenElse", _kinds(HOIST_IF_DEFAULTS),
     None, "whether conditions leave thread blocks"),
    ("tir.HoistExpression", _kinds(HOIST_EXPRESSION_DEFAULTS),
     None, "what is hoisted out of loops"),
    ("tir.RemoveNoOp", _kinds(REMOVE_NO_OP_DEFAULTS),
     None, "how hard to look for stores without effect"),
    ("tir.ReduceBranchingThroughOvercompute", _kinds(REDUCE_BRANCHING_DEFAULTS),
     None, "how hard to look for branches that can go"),
)  # fmt: skip

for _name, _kind, _default, _meaning in OPTIONS:
    register_config_option(_name, _kind, _default, _meaning)
