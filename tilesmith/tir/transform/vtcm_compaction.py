"""Lists the passes after which the tightly coupled memory of a scheduled function is known."""

from __future__ import annotations

from tilesmith.ir.transform import Pass
from tilesmith.tir import transform

__all__ = ["get_vtcm_compaction_passes"]


def get_vtcm_compaction_passes() -> list[Pass]:
    """The passes after which ``calculate_allocated_bytes`` gives what a function uses at once.

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
