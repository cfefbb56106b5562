"""Imports the package torch where it is needed: it is an optional dependency."""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint
from typing import Any

from tilesmith.support.errors import MissingDependencyError

__all__ = ["register_backend", "require_torch"]

_BACKEND = EntryPoint(
    "tilesmith", "tilesmith.driver.torch_backend:tilesmith", "torch_dynamo_backends"
)
"""Where the back end of ``torch.compile`` is; the same stands in ``pyproject.toml``."""


def require_torch() -> Any:
    """Return the package torch; raises MissingDependencyError if it is not installed."""
    try:
        import torch
    except ImportError:
        raise MissingDependencyError(
            "torch", extra="torch", purpose="reading PyTorch models"
        ) from None
    return torch


@functools.cache
def register_backend() -> None:
    """Tell torch of the back end "tilesmith", also where the package is not installed."""
    from torch._dynamo import list_backends, register_backend

    def tilesmith(graph: Any, example_inputs: Any, **options: Any) -> Any:
        return _BACKEND.load()(graph, example_inputs, **options)

    if "tilesmith" not in list_backends():
        register_backend(tilesmith, name="tilesmith")
