"""Names of ``tvm.contrib.graph_runtime``, as the graph executor was called until 2021."""

from __future__ import annotations

from typing import Any

from tilesmith.contrib import graph_executor
from tilesmith.contrib.graph_executor import GraphModule, get_device

__all__ = ["GraphModule", "create", "get_device"]


def create(*args: Any, **kwargs: Any) -> GraphModule:
    """Hand the arguments to `graph_executor.create`; ``ctx`` is what ``device`` was called."""
    if "ctx" in kwargs:
        kwargs["device"] = kwargs.pop("ctx")
    return graph_executor.create(*args, **kwargs)
