"""Schedules and operators for Arm CPUs, under their known names."""

from tilesmith.support.lazy import lazy_attributes
from tilesmith.topi.arm_cpu import arm_utils, tensor_intrin
from tilesmith.topi.schedules.published import Published

__all__ = ["arm_utils", "tensor_intrin"]

__getattr__, __dir__ = lazy_attributes(__name__, finder=Published("arm_cpu"))
