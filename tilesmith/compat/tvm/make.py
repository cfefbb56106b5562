"""Defines ``tvm.make``, which made nodes until 2019: constructors that differ from today's.

Names that are not here are the classes of today, with the same arguments.
"""

from __future__ import annotations

from typing import Any, NoReturn

from tilesmith import ir, tir
from tilesmith.compat.tvm.old_names import intrinsic
from tilesmith.ir import Call as CallNode
from tilesmith.ir import PrimExpr, Range, StringImm, operators
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir import For as ForNode
from tilesmith.tir import ForKind, SeqStmt, Stmt

__all__ = [
    "Block", "Call", "For", "Load", "Provide", "Realize", "Store", "range_by_min_extent",
    "static_cast",
]  # fmt: skip

_KINDS = [ForKind.SERIAL, ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.UNROLLED]
_EXTERN, _PURE_EXTERN = 0, 4
_EXTERNAL = {_EXTERN: "call_extern", _PURE_EXTERN: "call_pure_extern"}


def For(
    loop_var: Any, min_val: Any, extent: Any, for_type: int, device_api: int, body: Stmt
) -> Stmt:
    """Return a loop; ``for_type`` is 0 serial, 1 parallel, 2 vectorized or 3 unrolled."""
    if not isinstance(for_type, ForKind):
        for_type = _KINDS[int(for_type)]
    return ForNode(loop_var, min_val, extent, for_type, body)


def Block(first: Stmt, rest: Stmt) -> Stmt:
    """Return two statements, one after the other."""
    return SeqStmt([first, rest])


def Call(
    dtype: Any, name: str, args: Any, call_type: int = 3, func: Any = None, value_index: int = 0
) -> PrimExpr:
    """Return a call: of a C function for ``Call.Extern`` and ``Call.PureExtern``, else of an
    intrinsic.
    """
    external = _EXTERNAL.get(int(call_type))
    if external is not None:
        return CallNode(dtype, intrinsic(external), (StringImm(name), *args))
    return CallNode(dtype, intrinsic(name), tuple(args))


def range_by_min_extent(min_value: Any, extent: Any) -> Range:
    """Return the range of ``extent`` integers from ``min_value``."""
    return Range.from_min_extent(min_value, extent)


def static_cast(dtype: Any, value: Any) -> PrimExpr:
    """Convert a value; one that has the dtype is returned as it is."""
    return operators.cast(dtype, value)


def _refuse(name: str, advice: str) -> NoReturn:
    raise UnsupportedError(
        f"there is no tvm.make.{name}: memory is reached through buffers", notes=(advice,)
    )


def Load(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: values are read from buffers."""
    _refuse("Load", "buffer.vload(indices), or tvm.tir.BufferLoad(buffer, indices)")


def Store(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: values are written to buffers."""
    _refuse(
        "Store", "buffer.vstore(indices, value), or tvm.tir.BufferStore(buffer, value, indices)"
    )


def Provide(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: values are written to buffers."""
    _refuse("Provide", "tvm.tir.BufferStore(buffer, value, indices)")


def Realize(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: tensors are given memory by buffers."""
    _refuse("Realize", "tvm.tir.BufferRealize(buffer, bounds, condition, body)")


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(tir if hasattr(tir, name) else ir, name)
