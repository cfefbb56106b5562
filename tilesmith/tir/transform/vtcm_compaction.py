"""Lists the passes after which the size of tightly coupled memory of a function is known."""

from __future__ import annotations

from tilesmith.ir.transform import Pass
from tilesmith.tir import transform

__all__ = ["get_vtcm_compaction_passes"]


def get_vtcm_compaction_passes() -> list[Pass]:
    """Return the passes after which ``calculate_allocated_bytes`` gives the peak use of a function.

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
