"""Passes that put planned memory into pools."""

from tilesmith.tir.usmp.transform.transform import (
    UnifiedStaticMemoryPlanner,
    convert_pool_allocations_to_offsets,
)

__all__ = ["UnifiedStaticMemoryPlanner", "convert_pool_allocations_to_offsets"]
