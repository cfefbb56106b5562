"""CapturePostDfsIndexInSpans: numbers expressions, so that messages about them can be followed."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op, SourceName, Span
from tilesmith.ir.adt import Constructor
from tilesmith.relax.analysis.fusion_groups import FusionNode, find_dominators
from tilesmith.relax.analysis.op_pattern import FusionKind
from tilesmith.relay.expr import Var
from tilesmith.relay.function import Function
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of, parts, post_order, with_parts

__all__ = ["CapturePostDfsIndexInSpans"]

_SHARED = (Var, GlobalVar, Op, Constructor)
"""What is one object wherever it is used: it has no place of its own."""


def _dominators(order: list[Any]) -> list[int]:
    """Return for each expression the number of the first one that all its uses lead to."""
    nodes = [FusionNode(index, expr, FusionKind.OPAQUE) for index, expr in enumerate(order)]
    of = {id(node.value): node for node in nodes}
    for node in nodes:
        for part in parts(node.value):
            of[id(part)].users.append((node, FusionKind.OPAQUE))
    find_dominators(reversed(nodes))
    return [node.index if node.dominator is None else node.dominator.index for node in nodes]


def _numbered(function: Function) -> Any:
    order = list(post_order(function))
    done: dict[int, Any] = {}
    for index, (node, dominator) in enumerate(zip(order, _dominators(order))):
        new = with_parts(node, [done[id(part)] for part in parts(node)])
        if not isinstance(node, _SHARED):
            source: Any = SourceName(f"index:{index}:{dominator}")
            new = new.with_fields(span=Span(source, 0, 0, 0, 0))
        done[id(node)] = new
    return done[id(function)]


@relay_pass("CapturePostDfsIndexInSpans", 0)
def CapturePostDfsIndexInSpans(mod: IRModule) -> IRModule:
    """Write into the span of each expression, as the name of its source, its number in post-order
    and that of the first expression that all its uses lead to: ``index:3:7``. Variables, which are
    one object wherever they are used, keep their spans.
    """
    for variable, function in functions_of(mod):
        mod[variable] = _numbered(function)
    return mod
