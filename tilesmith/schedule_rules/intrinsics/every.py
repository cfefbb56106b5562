"""Registers all intrinsics, for look-ups of names whose prefix does not tell the machine."""

from tilesmith.schedule_rules.intrinsics import (
    arm_cpu,
    cuda,
    cuda_wgmma,
    dot_product_common,
    hexagon,
    rocm,
    x86,
)

__all__ = ["arm_cpu", "cuda", "cuda_wgmma", "dot_product_common", "hexagon", "rocm", "x86"]
