"""Analyses of the graph: variables, effects, live ranges, sizes, well-formedness."""

from tilesmith.relax.analysis.layout_suggestions import suggest_layout_transforms
from tilesmith.relax.analysis.memory_plan import estimate_memory_usage
from tilesmith.relax.analysis.op_pattern import FusionKind, tir_op_pattern
from tilesmith.relax.analysis.purity import contains_impure_call, is_impure_call
from tilesmith.relax.analysis.queries import (
    collect_non_negative_expressions,
    computable_at_compile_time,
    definable_tir_vars_in_struct_info,
    defined_symbolic_vars,
    detect_recursion,
    free_symbolic_vars,
    get_static_type,
    tensor_bytes,
    tir_vars_in_struct_info,
)
from tilesmith.relax.analysis.reshape_pattern import has_reshape_pattern
from tilesmith.relax.analysis.unused import remove_all_unused
from tilesmith.relax.analysis.variables import (
    all_global_vars,
    all_vars,
    bindings_of,
    bound_vars,
    free_vars,
    get_var2val,
    name_to_binding,
    post_order_visit,
    udchain,
    used_vars,
)
from tilesmith.relax.analysis.well_formed import assert_well_formed, well_formed
from tilesmith.relax.relations import (
    BaseCheckResult,
    derive_call_ret_struct_info,
    erase_to_well_defined,
    struct_info_base_check,
    struct_info_lca,
)

__all__ = [
    "BaseCheckResult", "FusionKind", "all_global_vars", "all_vars", "assert_well_formed",
    "bindings_of", "bound_vars", "collect_non_negative_expressions", "computable_at_compile_time",
    "contains_impure_call", "definable_tir_vars_in_struct_info", "defined_symbolic_vars",
    "derive_call_ret_struct_info", "detect_recursion", "erase_to_well_defined",
    "estimate_memory_usage", "free_symbolic_vars", "free_vars", "get_static_type", "get_var2val",
    "has_reshape_pattern", "is_impure_call", "name_to_binding", "post_order_visit",
    "remove_all_unused", "struct_info_base_check", "struct_info_lca",
    "suggest_layout_transforms", "tensor_bytes",
    "tir_op_pattern", "tir_vars_in_struct_info", "udchain", "used_vars", "well_formed",
]  # fmt: skip
