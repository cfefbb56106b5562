"""``relax.distributed``: programs whose tensors are spread over workers, as IR.

Meshes, placements and passes from a program with annotations to what each worker computes, with
the collectives between. Such programs run here with one worker; a mesh of several needs a runtime
of several processes, which Tilesmith does not have.
"""

from tilesmith.relax.distributed import global_info, struct_info, transform
from tilesmith.relax.sharding import (
    DeviceMesh,
    DTensorStructInfo,
    Placement,
    PlacementSpec,
    device_mesh,
)

__all__ = [
    "DTensorStructInfo", "DeviceMesh", "Placement", "PlacementSpec", "device_mesh", "global_info",
    "struct_info", "transform",
]  # fmt: skip
