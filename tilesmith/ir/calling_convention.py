"""How a compiled function expects its arguments."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["CallingConv"]


class CallingConv(IntEnum):
    """The value of a function's attribute ``calling_conv``."""

    DEFAULT = 0
    """Plain pointers and scalars."""
    C_PACKED_FUNC = 1
    """Tagged values of tvm-ffi: what ``MakePackedAPI`` makes."""
    DEVICE_KERNEL_LAUNCH = 2
    """A kernel of a device, launched with the sizes of its grid."""
