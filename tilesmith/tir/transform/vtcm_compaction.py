"""Lists the passes that determine the final size of a function's tightly coupled memory."""

from __future__ import annotations

from tilesmith.ir.transform import Pass
from tilesmith.tir import transform

__all__ = ["get_vtcm_compaction_passes"]


def get_vtcm_compaction_passes() -> list[Pass]:
    """Return the passes after which ``calculate_allocated_bytes`` returns the peak use of a
    function.

    A schedule is measured against the memory that there is:
    ``calculate_allocated_bytes(Sequential(get_vtcm_compaction_passes())(mod))``.
    """
    return [
        transform.LowerInitBlock(),
        transform.PlanAndUpdateBufferAllocationLocation(),
        transform.ConvertBlocksToOpaque(),
        transform.CompactBufferAllocation(),
        transform.LowerMatchBuffer(),
        transform.LowerOpaqueBlock(),
        transform.FlattenBuffer(),
        transform.Simplify(),
        transform.VectorizeLoop(freely=True),
        transform.StorageRewrite(),
    ]
