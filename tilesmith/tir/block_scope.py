"""What depends on what among the blocks of a scope, under the name that users know."""

from tilesmith.support.lazy import lazy_attributes
from tilesmith.tir.analysis.block_scope import BlockScope, Dependency, DepKind

__all__ = ["BlockScope", "DepKind", "Dependency"]

__getattr__, __dir__ = lazy_attributes(__name__, {"StmtSRef": "tilesmith.tir.schedule:StmtSRef"})
