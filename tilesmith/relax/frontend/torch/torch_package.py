"""Imports the package torch where it is needed: it is an optional dependency."""

from __future__ import annotations

from typing import Any

from tilesmith.support.errors import MissingDependencyError

__all__ = ["require_torch"]


def require_torch() -> Any:
    """Return the package torch; raises MissingDependencyError if it is not installed."""
    try:
        import torch
    except ImportError:
        raise MissingDependencyError(
            "torch", extra="torch", purpose="reading PyTorch models"
        ) from None
    return torch
