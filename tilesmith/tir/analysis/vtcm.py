"""Which passes tell how much tightly coupled memory a scheduled function needs."""

from __future__ import annotations

from tilesmith.ir.transform import Pass

__all__ = ["get_vtcm_compaction_passes"]


def get_vtcm_compaction_passes() -> list[Pass]:
    """The passes after which ``calculate_allocated_bytes`` gives what a function uses at once.

    A schedule is measured against the memory that there is:
    ``calculate_allocated_bytes(Sequential(get_vtcm_compaction_passes())(mod))``.
    """
    from tilesmith.tir import transform

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
