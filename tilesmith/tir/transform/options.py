"""Options of ``PassContext(config=...)`` that several passes, or lowering, read.

Options of a single pass are declared with that pass.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir.pass_context import PassContext
from tilesmith.ir.transform import register_config_option

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
    ("tir.usmp.algorithm", str, None, "order in which tensors are placed in a workspace"),
    ("tir.usmp.use_workspace_io", bool, False, "inputs and outputs are part of that plan"),
    ("tir.usmp.custom_algorithm", str, "", "algorithm of that plan, by its registered name"),
    ("tir.disable_unroll", bool, False, "marked loops stay loops"),
)  # fmt: skip

for _name, _kind, _default, _meaning in OPTIONS:
    register_config_option(_name, _kind, _default, _meaning)


def memory_algorithm() -> str | None:
    """Return the requested algorithm of `support.memory_planner`; None: the best of all."""
    name: str | None = PassContext.current().get_config("tir.usmp.algorithm")
    return name
