"""Rewrites modules: replaces layers and parameters, for example by quantised ones."""

from __future__ import annotations

from typing import Any

from tilesmith.relax.frontend.nn import core

__all__ = ["Mutator"]


class Mutator:
    """Walks over a module and puts in place of each attribute what a method returns for it.

    class Quantizer(nn.Mutator):
        def visit_module(self, name, node):
            return QuantizedLinear(node) if isinstance(node, nn.Linear) else self.visit(name, node)
    """

    def visit_module(self, name: str, node: core.Module) -> Any:
        """Return what replaces a module; without a rule of its own, the module, walked over."""
        return self.visit(name, node)

    def visit_effect(self, name: str, node: core.Effect) -> Any:
        """Return what replaces an effect."""
        return node

    def visit_param(self, name: str, node: core.Parameter) -> Any:
        """Return what replaces a parameter."""
        return node

    def visit_modulelist(self, name: str, node: core.ModuleList) -> Any:
        """Return what replaces a list of modules; without a rule of its own, the list, walked
        over.
        """
        return self.visit(name, node)

    def visit(self, name: str, node: Any) -> Any:
        """Walk over the parts of a module or list, and return it."""
        if isinstance(node, core.ModuleList):
            for number in range(len(node)):
                node[number] = self._visited(_joined(name, str(number)), node[number])
        else:
            for key, value in list(node.__dict__.items()):
                replaced = self._visited(_joined(name, key), value)
                if replaced is not value:
                    setattr(node, key, replaced)
        return node

    def _visited(self, name: str, value: Any) -> Any:
        if isinstance(value, core.ModuleList):
            return self.visit_modulelist(name, value)
        if isinstance(value, core.Module):
            return self.visit_module(name, value)
        if isinstance(value, core.Effect):
            return self.visit_effect(name, value)
        if isinstance(value, core.Parameter):
            return self.visit_param(name, value)
        return value


def _joined(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key
