"""Tensor intrinsics of Arm CPUs for classic schedules, under their known names."""

from tilesmith.support.lazy import lazy_attributes
from tilesmith.topi.schedules.published import Published

__getattr__, __dir__ = lazy_attributes(__name__, finder=Published("arm_cpu", "tensor_intrin"))
