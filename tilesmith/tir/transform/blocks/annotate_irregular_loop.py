"""AnnotateIrregularLoop: marks loops that contain a break or a continue.

    for i in range(8):                          for i in T.serial(8, annotations=
        if A[i] < 0:                                    {"irregular_loop_mark": 1}):
            T.break_loop()                          ...

The operators are ``tir.break_loop`` and ``tir.continue_loop``. A parallel, vectorized, unrolled or
thread-bound loop cannot be left early.
"""

from __future__ import annotations

from tilesmith.ir import Node
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import any_node, called_name
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import For, ForKind, Stmt, While
from tilesmith.tir.transform.statement_rewriter import StatementRewriter

__all__ = ["IRREGULAR_LOOP", "JUMPS", "annotate_irregular_loop"]

IRREGULAR_LOOP = "irregular_loop_mark"
JUMPS = ("tir.break_loop", "tir.continue_loop")


def _jumps(body: Stmt) -> bool:
    """Return whether a body contains a break or continue of the enclosing loop; those of inner
    loops do not count.
    """
    return any_node(body, lambda node: called_name(node) in JUMPS, enter=_is_no_loop)


def _is_no_loop(node: Node) -> bool:
    return not isinstance(node, (For, While))


class _Annotator(StatementRewriter):
    def visit_For(self, loop: For) -> Stmt:
        loop = self.children(loop)
        if not _jumps(loop.body):
            return loop
        if loop.kind is not ForKind.SERIAL:
            raise UnsupportedError(
                f"the {loop.kind.name.lower()} loop over '{loop.loop_var.name}' is left by a jump",
                span=loop.span,
                notes=("only serial loops may break or continue",),
            )
        return loop.with_fields(annotations={**loop.annotations, IRREGULAR_LOOP: 1})


@compiler_pass("tir.AnnotateIrregularLoop")
def annotate_irregular_loop(func: PrimFunc) -> PrimFunc:
    """Marks loops that contain a break or a continue.

    Returns ``func`` with an annotation on the loops that contain such a jump.
    """
    return func.with_body(_Annotator().visit(func.body))
