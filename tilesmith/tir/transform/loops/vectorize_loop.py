"""VectorizeLoop: turns loops marked as vectorized into vector code.

    for i in T.vectorized(8):                   B[T.Ramp(0, 1, 8)] = (
        B[i] = A[i] + 1.0                           A[T.Ramp(0, 1, 8)] + T.Broadcast(1.0, 8))

The loop variable turns into a Ramp and what depends on it into vectors. Indices that are not a Ramp
gather and scatter. A statement that has no vector form (a reduction into one element, a call with
effects, a loop whose extent differs between lanes, a choice between lanes) runs lane by lane in a
serial loop. With the option ``tir.enable_buffer_level_predication``, which is on for a target with
scalable vectors, the lanes of a branch on ``index < limit`` are switched off by predicates, where
its accesses have that index. A loop whose extent is not known, a ``while`` in a vectorized loop,
and lanes of scalable vectors are refused.

``freely`` is how ``tilesmith.lower`` wants it: nothing is refused, conditions that differ between
lanes become predicates wherever that is faster, and long loops loops over vectors.

A loop over ``T.vscale() * 4`` iterations becomes code for scalable vectors; the target, of the
function or of the region around the loop (``T.attr(target, "target", 0)``), has to have them.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import (
    GE,
    GT,
    LE,
    LT,
    IntImm,
    Node,
    PrimExpr,
    Rewriter,
    Var,
    const,
)
from tilesmith.ir.expr import lanes_of
from tilesmith.ir.operators import all_of
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import any_node, conjuncts
from tilesmith.ir.transform import PassContext
from tilesmith.runtime.dtype import ScalableLanes
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import renew_defs, substitute
from tilesmith.tir.queries import has_loop_of_kind, reads_memory, uses_variable
from tilesmith.tir.stmt import (
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    stmt_seq,
)
from tilesmith.tir.transform.loops.loop_partition import limit_of
from tilesmith.tir.transform.loops.vectorizer import Lanes, Vectorizer
from tilesmith.tir.transform.scoped import ScopedAnalyzer

__all__ = ["vectorize_loop", "vectorize_loop_as_configured"]

MAX_LANES = 64
"""Longer vectorized loops become loops over vectors of so many lanes: the back ends' compile time
grows faster than the number of lanes."""


def _scalable_lanes(extent: PrimExpr) -> ScalableLanes | None:
    """Return the lanes of a loop over ``T.vscale() * 4`` iterations; None for other extents."""
    try:
        lanes = lanes_of(extent)
    except TypeMismatchError:
        return None
    return lanes if isinstance(lanes, ScalableLanes) else None


def _is_scalable(node: Node) -> bool:
    """Return whether a node is, or stores, a scalable vector."""
    value = node.value if isinstance(node, BufferStore) else node
    return isinstance(value, PrimExpr) and value.dtype.is_scalable


class _LoopVectorizer(ScopedAnalyzer, Rewriter):
    def __init__(
        self, enabled: bool, predicates: bool | None, freely: bool, target: Any = None
    ) -> None:
        super().__init__()
        self.target = target
        self.enabled = enabled
        self.predicates = predicates
        self.freely = freely

    def visit_default(self, node: Any) -> Any:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        """Enter the region of another target."""
        if attribute.attr_key != "target":
            return super().visit_AttrStmt(attribute)
        outer, self.target = self.target, attribute.node
        new = attribute.with_fields(body=self.visit(attribute.body))
        self.target = outer
        return new

    def visit_For(self, loop: For) -> Stmt:
        new = super().visit_For(loop)
        if not isinstance(new, For) or new.kind is not ForKind.VECTORIZED:
            return new
        loop = new
        if self.enabled and not isinstance(loop.extent, IntImm):
            scalable = _scalable_lanes(loop.extent)
            if scalable is not None:
                self.check_scalable(loop)
                return self.vectorized(loop.loop_var, loop.min, scalable, loop.body)
        if self.enabled and not self.freely and not isinstance(loop.extent, IntImm):
            raise UnsupportedError(
                f"Failed to vectorize loop with extent {loop.extent} for target {self.target}",
                span=loop.span,
            )
        if not self.enabled or not isinstance(loop.extent, IntImm) or loop.extent.value < 1:
            return loop.with_fields(kind=ForKind.SERIAL)
        lanes = loop.extent.value
        if self.freely:
            loop, lanes = self.without_idle_lanes(loop, lanes)
        if lanes == 0:
            return Evaluate(const(0, "int32"))
        if lanes == 1:
            return substitute(loop.body, {loop.loop_var: loop.min})
        if lanes > MAX_LANES and self.freely:
            return self.in_pieces(loop, lanes)
        return self.vectorized(loop.loop_var, loop.min, lanes, loop.body)

    def check_scalable(self, loop: For) -> None:
        """Refuse a scalable loop for a target whose vectors have a fixed size."""
        if self.freely or self.has_scalable_vectors():
            return
        raise UnsupportedError(
            f"Failed to vectorize loop with extent {loop.extent} for target {self.target}",
            span=loop.span,
            notes=(
                "scalable vectors need a CPU that has them: -mattr=+sve or +sme, or +v of RISC-V",
            ),
        )

    def has_scalable_vectors(self) -> bool:
        features = getattr(self.target, "features", None)
        return features is not None and (features.has_sve or features.has_sme or features.has_v)

    def without_idle_lanes(self, loop: For, lanes: int) -> tuple[For, int]:
        """Shorten a loop whose whole body is under `lane < constant` to that many lanes."""
        body, extent = loop.body, lanes
        if not isinstance(body, IfThenElse) or body.else_case is not None:
            return loop, lanes
        kept = []
        for condition in conjuncts(body.condition, through_likely=True):
            limit = None
            if isinstance(condition, (LT, LE, GT, GE)) and condition.a.dtype.is_int:
                if uses_variable(condition, {loop.loop_var}) and not reads_memory(condition):
                    limit = limit_of(condition, loop.loop_var, {}, self.analyzer)
            count = None if limit is None or limit[1] is None else limit[1] - loop.min
            count = None if count is None else self.analyzer.simplify(count)
            if isinstance(count, IntImm):
                extent = max(0, min(extent, count.value))
            else:
                kept.append(condition)
        if extent == lanes:
            return loop, lanes
        inner = IfThenElse(all_of(*kept), body.then_case) if kept else body.then_case
        return loop.with_fields(extent=const(extent, loop.loop_var.dtype), body=inner), extent

    def vectorized(self, var: Var, low: PrimExpr, lanes: int, body: Stmt) -> Stmt:
        if not self.freely and any_node(body, _is_scalable):
            raise UnsupportedError(
                "Vectorizing over existing scalable vectors is not supported.",
                span=getattr(body, "span", None),
                notes=("make the loop around them serial",),
            )
        predicates = self.predicates
        if predicates is None:
            predicates = self.freely or self.has_scalable_vectors()
        all_lanes = Lanes(var, low, lanes, self.analyzer, self.freely)
        return Vectorizer(all_lanes, predicates).statement(body)

    def in_pieces(self, loop: For, extent: int) -> Stmt:
        """Split a loop into vectors of MAX_LANES lanes and a remainder."""
        pieces, rest = divmod(extent, MAX_LANES)
        var = loop.loop_var
        outer = Var(var.name, var.dtype)
        low = loop.min + outer * MAX_LANES
        body = self.vectorized(var, low, MAX_LANES, loop.body)
        whole: Stmt = For(outer, 0, pieces, ForKind.SERIAL, body)
        if pieces == 1:
            whole = substitute(body, {outer: 0})
        if not rest:
            return whole
        low = loop.min + pieces * MAX_LANES
        body = renew_defs(loop.body)  # a variable is bound once only
        if rest == 1:
            return stmt_seq(whole, substitute(body, {var: low}))
        return stmt_seq(whole, self.vectorized(var, low, rest, body))


def vectorize_loop(
    func: PrimFunc,
    enable_vectorize: bool = True,
    predicates: bool | None = True,
    freely: bool = True,
) -> PrimFunc:
    """Return ``func`` with vector code in place of vectorized loops (serial loops when not
    enabled).

    Without ``predicates`` a statement of which only some lanes take part runs lane by lane (None:
    the target decides); with ``freely`` any condition may become one. Raises UnsupportedError,
    unless ``freely``, for loops whose extent is not known, for a ``while`` and for scalable vectors
    inside.
    """
    if not has_loop_of_kind(func.body, ForKind.VECTORIZED):
        return func
    target = (func.attrs or {}).get("target")
    rewriter = _LoopVectorizer(enable_vectorize, predicates, freely, target)
    return func.with_body(rewriter.visit(func.body))


@compiler_pass("tir.VectorizeLoop")
def vectorize_loop_as_configured(
    func: PrimFunc, context: PassContext, enable_vectorize: bool = True, freely: bool = False
) -> PrimFunc:
    """Turns vectorized loops into vector code, or into serial loops.

    With ``freely`` predicates, refusals and long vectors are as ``tilesmith.lower`` wants them.
    """
    disabled = context.get_config("tir.disable_vectorize", False)
    asked = context.get_config("tir.enable_buffer_level_predication")
    predicates = None if asked is None else bool(asked)
    return vectorize_loop(func, enable_vectorize and not disabled, predicates, freely)
