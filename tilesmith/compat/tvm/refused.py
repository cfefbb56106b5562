"""Refuses passes that users know but that do not apply here; each message names the alternative."""

from __future__ import annotations

from typing import Any, NoReturn

from tilesmith.support.errors import UnsupportedError

__all__ = ["LowerTIRx", "LowerTIRxOpaque", "TilePrimitiveDispatch"]


def _refuse(name: str, reason: str, advice: str) -> NoReturn:
    raise UnsupportedError(f"there is no pass {name}: {reason}", notes=(advice,))


def TilePrimitiveDispatch(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: Tilesmith has no tile primitives."""
    _refuse(
        "TilePrimitiveDispatch",
        "programs have no tile primitives",
        "tir.Schedule.tensorize puts intrinsics in place of tiles",
    )


def LowerTIRx(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: there is one tensor IR."""
    _refuse("LowerTIRx", "there is one tensor IR", "tilesmith.lower lowers it")


def LowerTIRxOpaque(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: there is one tensor IR."""
    _refuse("LowerTIRxOpaque", "there is one tensor IR", "LowerOpaqueBlock lowers its blocks")
