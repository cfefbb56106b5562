"""The values of expressions for all lanes at once."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr, Ramp, Var, const
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.transform.loops.vectorizer.lanes import VECTORS_ALREADY, Lanes, NeedsLanes
from tilesmith.tir.transform.loops.vectorizer.masks import Masks
from tilesmith.tir.transform.loops.vectorizer.memory import LaneMemory
from tilesmith.tir.transform.loops.vectorizer.rules import EXPRESSION_RULES

__all__ = ["Values"]


class Values:
    """Computes the vector of each expression by rules.

    An expression that does not depend on the lane stays scalar until a vector needs it. The rules
    find here the ``lanes``, the ``masks`` of the statement around and the lanes' own ``memory``.
    """

    def __init__(self, lanes: Lanes, masks: Masks, memory: LaneMemory) -> None:
        self.lanes = lanes
        self.masks = masks
        self.memory = memory
        low = lanes.low
        self._vectors: dict[Var, PrimExpr] = {
            lanes.var: Ramp(low, const(1, low.dtype), lanes.count)
        }

    def visit(self, node: Any) -> Any:
        """Return the vector of an expression; a scalar where all lanes agree."""
        return EXPRESSION_RULES[node.__class__](self, node)

    def same(self, node: Any) -> Any:
        """Visit an expression that must be equal in all lanes."""
        new = self.visit(node)
        if new is not node and isinstance(new, PrimExpr) and new.dtype is not node.dtype:
            raise NeedsLanes("a part that all lanes share differs between them")
        return new

    def of_variable(self, var: Var) -> PrimExpr:
        """Return the vector that replaces a variable; the variable itself if all lanes agree."""
        if var in self.memory.pointers:
            raise NeedsLanes(f"the address of '{var.name}' is taken; each lane has its own")
        return self._vectors.get(var, var)

    def bind(self, var: Var, dtype: DataType) -> Var:
        """Return the variable that holds the values of all lanes of ``var``."""
        if dtype is var.dtype:
            return var
        if var.dtype.lanes > 1:
            raise NeedsLanes(VECTORS_ALREADY)
        new = self._vectors[var] = Var(var.name, dtype)
        return new
