"""InjectPTXAsyncCopy, InjectPTXLDG32: lower copies to instructions of NVIDIA GPUs.

InjectPTXAsyncCopy, inside of ``async_scope``:

    S[i] = A[j]                                 T.ptx_cp_async("float32", S.data, i, A.data, j, 4)
    S[i] = T.if_then_else(c, A[j], 0.0)         T.ptx_cp_async(..., 4, c)

for copies of 4, 8 or 16 bytes from global to shared memory; other stores stay. The groups
(``async_commit_queue_scope``) and waits (``async_wait_queue_scope``) stay attributes.

InjectPTXLDG32 (option ``tir.ptx_ldg32``), for 32-bit values:

    x[i] = T.if_then_else(c, A[j], 0.0)         T.ptx_ldg32("float32", x.data, c, A[j], i)
"""

from __future__ import annotations

from tilesmith.ir import Broadcast, FloatImm, IntImm, PrimExpr, Ramp, const
from tilesmith.ir.intrinsic_table import intrinsic_call
from tilesmith.ir.operators import is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import is_call
from tilesmith.ir.transform import PassContext
from tilesmith.ir.visitor import Rewriter
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import AttrStmt, BufferStore, Evaluate, Stmt

__all__ = ["inject_ptx_async_copy", "inject_ptx_ldg32", "inject_ptx_ldg32_as_configured"]


def _guarded(value: PrimExpr) -> tuple[PrimExpr | None, BufferLoad | None]:
    """Return condition and load of the value ``load if condition else 0``; None for other
    values.
    """
    if isinstance(value, BufferLoad):
        return None, value
    if is_call(value, "tir.if_then_else"):
        condition, yes, no = value.args
        if isinstance(yes, BufferLoad) and _is_zero(no):
            return condition, yes
    return None, None


def _is_zero(value: PrimExpr) -> bool:
    if isinstance(value, Broadcast):
        value = value.value
    return isinstance(value, (IntImm, FloatImm)) and value.value == 0


def _first(index: PrimExpr) -> PrimExpr | None:
    """Return the index of the first element of a contiguous access."""
    if isinstance(index, Ramp):
        return index.base if is_const(index.stride, 1) else None
    return index if index.dtype.lanes == 1 else None


class _AsyncCopies(Rewriter):
    def __init__(self) -> None:
        self.inside = False
        self.left = 0  # stores that stay

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key != "async_scope":
            body = self.visit(node.body)
            return node if body is node.body else node.with_fields(body=body)
        outer, self.inside, self.left = self.inside, True, 0
        body = self.visit(node.body)
        self.inside = outer
        # Copy instructions need no mark any more.
        return body if self.left == 0 else node.with_fields(body=body)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        if not self.inside:
            return node
        copy = self.copy(node)
        if copy is None:
            self.left += 1
            return node
        return Evaluate(copy, node.span)

    def copy(self, node: BufferStore) -> PrimExpr | None:
        """Return the instruction for a store, or None if there is none."""
        condition, load = _guarded(node.value)
        if load is None or node.predicate is not None or load.predicate is not None:
            return None
        if not node.buffer.scope().startswith("shared") or load.buffer.scope() != "global":
            return None
        if len(node.indices) != 1 or len(load.indices) != 1:
            return None
        target, source = _first(node.indices[0]), _first(load.indices[0])
        count = node.value.dtype.nbytes
        if target is None or source is None or count not in (4, 8, 16):
            return None
        arguments = [node.buffer.data, target, load.buffer.data, source, const(count, "int32")]
        if condition is not None:
            arguments.append(condition)
        return intrinsic_call(node.buffer.dtype.element, "ptx_cp_async", *arguments)


@compiler_pass("tir.InjectPTXAsyncCopy")
def inject_ptx_async_copy(func: PrimFunc) -> PrimFunc:
    """Lowers asynchronous stores to ``cp.async``.

    Returns ``func`` with instructions in place of asynchronous copies that have one.
    """
    return func.with_body(_AsyncCopies().visit(func.body))


class _GuardedLoads(Rewriter):
    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        condition, load = _guarded(node.value)
        fits = (
            condition is not None
            and load is not None
            and node.predicate is None
            and node.buffer.scope() == "local"
            and load.buffer.scope() == "global"
            and node.value.dtype.lanes == 1
            and node.value.dtype.bits == 32
            and len(node.indices) == 1
        )
        if not fits:
            return node
        call = intrinsic_call(
            node.value.dtype, "ptx_ldg32", node.buffer.data, condition, load, node.indices[0]
        )
        return Evaluate(call, node.span)


def inject_ptx_ldg32(func: PrimFunc) -> PrimFunc:
    """Return ``func`` with instructions in place of guarded loads into registers."""
    return func.with_body(_GuardedLoads().visit(func.body))


@compiler_pass("tir.InjectPTXLDG32")
def inject_ptx_ldg32_as_configured(
    func: PrimFunc, context: PassContext, enable: bool = True
) -> PrimFunc:
    """Lowers guarded 32-bit loads to instructions, where it is enabled here or by the option
    ``tir.ptx_ldg32``."""
    wanted = enable or context.get_config("tir.ptx_ldg32", False)
    return inject_ptx_ldg32(func) if wanted else func
