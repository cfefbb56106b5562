"""Small names of ``tvm.relax.transform.legalize_ops.qdq`` and ``inspect_op``."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import FloatImm, IntImm
from tilesmith.ir.intrinsics import max_value, min_value
from tilesmith.ir.operators import maximum as larger
from tilesmith.ir.operators import minimum as smaller
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.struct_fields import StructField as TVMStructFieldKind

__all__ = ["TVMStructFieldKind", "clip_cast", "is_const_scalar"]


def clip_cast(val: Any, dtype: Any) -> Any:
    """Return a value in another dtype; for integers what does not fit becomes the nearest."""
    if not DataType(dtype).is_integer:
        return val.astype(dtype)
    low, high = min_value(dtype).astype(val.dtype), max_value(dtype).astype(val.dtype)
    return smaller(larger(val, low), high).astype(dtype)


def is_const_scalar(x: Any) -> bool:
    """Return whether an expression is a number."""
    return isinstance(x, (IntImm, FloatImm))
