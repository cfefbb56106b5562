"""Imports the package onnx where it is needed: it is an optional dependency."""

from __future__ import annotations

from typing import Any

from tilesmith.support.errors import MissingDependencyError

__all__ = ["require_onnx"]


def require_onnx() -> Any:
    """Return the package onnx; raises MissingDependencyError if it is not installed."""
    try:
        import onnx
    except ImportError:
        raise MissingDependencyError("onnx", extra="onnx", purpose="reading ONNX models") from None
    return onnx
