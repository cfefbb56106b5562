"""Placements, and the struct info of tensors that are spread over workers."""

from tilesmith.relax.sharding import (
    DTensorStructInfo,
    Placement,
    PlacementSpec,
    PlacementSpecKind,
)

__all__ = ["DTensorStructInfo", "Placement", "PlacementSpec", "PlacementSpecKind"]
