"""Unified static memory planning: the memory of a main function and of the operators that it calls
becomes offsets in pools, which the functions receive as parameters.

    infos = analysis.extract_buffer_info(main, module)      sizes, live ranges, conflicts
    places = utils.plan_pool_allocations(infos)             allocation → pool and offset
    transform.convert_pool_allocations_to_offsets(places)   a pass over the module

`transform.UnifiedStaticMemoryPlanner` does all three. An allocation takes part if its annotation
``candidate_memory_pools`` names pools (`tilesmith.ir.WorkspacePoolInfo`), in the order in which the
plan tries them.
"""

from tilesmith.tir.usmp import analysis, transform, utils
from tilesmith.tir.usmp.utils import BufferInfo, PoolAllocation

__all__ = ["BufferInfo", "PoolAllocation", "analysis", "transform", "utils"]
