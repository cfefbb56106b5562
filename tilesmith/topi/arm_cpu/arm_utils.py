"""Questions about Arm targets."""

from tilesmith.support.lazy import lazy_attributes
from tilesmith.topi.schedules.features import (
    get_arch_version,
    is_aarch64_arm,
    is_dotprod_available,
    is_mmla_available,
    is_neon_available,
)
from tilesmith.topi.schedules.published import Published

__all__ = [
    "get_arch_version", "is_aarch64_arm", "is_dotprod_available", "is_mmla_available",
    "is_neon_available",
]  # fmt: skip

__getattr__, __dir__ = lazy_attributes(__name__, finder=Published("arm_cpu", "arm_utils"))
