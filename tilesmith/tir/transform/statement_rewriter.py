"""A rewriter for passes that change statements only."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Rewriter
from tilesmith.tir.stmt import Stmt

__all__ = ["StatementRewriter"]


class StatementRewriter(Rewriter):
    """Rewrites statements; expressions stay as they are and are not visited."""

    def visit_default(self, node: Any) -> Any:
        """Rewrite the statements inside of a statement."""
        return node.map_children(self.visit) if isinstance(node, Stmt) else node
