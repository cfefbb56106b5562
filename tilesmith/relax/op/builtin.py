"""``relax.op.builtin``: allocation before the memory plan, and markers."""

from tilesmith.relax.op.memory import builtin_alloc_tensor as alloc_tensor
from tilesmith.relax.op.memory import stop_lift_params

__all__ = ["alloc_tensor", "stop_lift_params"]
