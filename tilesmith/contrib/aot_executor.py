"""Defines `AotModule`: a model that was compiled ahead of time, run step by step."""

from __future__ import annotations

from tilesmith.contrib.graph_executor import GraphModule

__all__ = ["AotModule"]


class AotModule(GraphModule):
    """Runs `main` of a model: set inputs, run, get outputs. Every model is compiled ahead of time,
    so this is `GraphModule`, which knows the names of its inputs, too.
    """

    def get_input_name(self, index: int) -> str:
        """Return the name of an input."""
        return self._name(index)
