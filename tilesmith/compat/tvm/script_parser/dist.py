"""Words of scripts for tensors that are spread over workers: ``R.DTensor``, ``R.dist``."""

from __future__ import annotations

from tilesmith.relax.annotations import DTensor
from tilesmith.relax.op.dist import (
    annotate_sharding,
    call_tir,
    call_tir_local_view,
    const,
    redistribute,
    redistribute_replica_to_shard,
)
from tilesmith.relax.sharding import device_mesh

__all__ = [
    "DTensor", "DTensorProxy", "annotate_sharding", "call_tir", "call_tir_local_view", "const",
    "device_mesh", "redistribute", "redistribute_replica_to_shard",
]  # fmt: skip

DTensorProxy = DTensor
