"""The older passes for bfloat16, each one step of the way.

* ``BF16Promote``: each operation is done in float32 and rounded to bfloat16 again;
* ``BF16CastElimination``: a value that was rounded only to be widened again is not rounded;
* ``BF16TypeLowering``: bfloat16 lies in memory as uint16, conversions are integer arithmetic;
* ``BF16Legalize``: the three, one after the other.
"""

from __future__ import annotations

from tilesmith.ir import BinaryOp, Call, Cast, CompareOp, FloatImm, PrimExpr, Rewriter
from tilesmith.ir.queries import called_name
from tilesmith.ir.transform import ModulePass, Pass, PassInfo, Sequential
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.transform.dtypes.legalize_compute import is_bfloat16
from tilesmith.tir.transform.dtypes.legalize_storage import BF16StorageLegalize
from tilesmith.tir.transform.registration import function_pass, register_pass

__all__ = ["BF16CastElimination", "BF16Legalize", "BF16Promote", "BF16TypeLowering"]


def _single(dtype: DataType) -> DataType:
    return DataType("float32").with_lanes(dtype.lanes)


class _Promoter(Rewriter):
    def wide(self, expr: PrimExpr) -> PrimExpr:
        if not is_bfloat16(expr.dtype):
            return expr
        if isinstance(expr, FloatImm):
            rounded = float(expr.dtype.numpy().type(expr.value))
            return FloatImm(_single(expr.dtype), rounded)
        return Cast(_single(expr.dtype), expr)

    def visit_BinaryOp(self, expr: BinaryOp) -> PrimExpr:
        new = self.children(expr)
        if not is_bfloat16(expr.a.dtype):
            return new
        return Cast(expr.dtype, type(expr)(self.wide(new.a), self.wide(new.b)))

    def visit_CompareOp(self, expr: CompareOp) -> PrimExpr:
        new = self.children(expr)
        if not is_bfloat16(expr.a.dtype):
            return new
        return type(expr)(self.wide(new.a), self.wide(new.b))

    visit_LogicalOp = Rewriter.visit_default

    def visit_Call(self, call: Call) -> PrimExpr:
        new = self.children(call)
        name = called_name(call)
        if name in ("", "tir.reinterpret") or not call.op.get_attr("TVectorizable", False):
            return new
        if not any(is_bfloat16(arg.dtype) for arg in call.args):
            return new
        arguments = tuple([self.wide(arg) for arg in new.args])
        if not is_bfloat16(call.dtype):
            return Call(call.dtype, call.op, arguments)
        return Cast(call.dtype, Call(_single(call.dtype), call.op, arguments))


class _CastEliminator(Rewriter):
    def visit_Cast(self, expr: Cast) -> PrimExpr:
        new = self.children(expr)
        inner = new.value
        if new.dtype is _single(new.dtype) and isinstance(inner, Cast) and is_bfloat16(inner.dtype):
            if inner.value.dtype is new.dtype:
                return inner.value
        return new


@register_pass("tir.BF16Promote")
def BF16Promote() -> Pass:  # noqa: N802
    """The pass that does each operation on bfloat16 in float32 and rounds its result."""
    return function_pass(
        lambda func: func.with_body(_Promoter().visit(func.body)), "tir.BF16Promote"
    )


@register_pass("tir.BF16CastElimination")
def BF16CastElimination() -> Pass:  # noqa: N802
    """The pass that drops rounding to bfloat16 between two operations in float32."""
    return function_pass(
        lambda func: func.with_body(_CastEliminator().visit(func.body)), "tir.BF16CastElimination"
    )


@register_pass("tir.BF16TypeLowering")
def BF16TypeLowering() -> Pass:  # noqa: N802
    """The pass that keeps bfloat16 in memory as uint16."""
    step = BF16StorageLegalize()
    return ModulePass(lambda mod, ctx: step(mod), PassInfo(0, "tir.BF16TypeLowering"))


@register_pass("tir.BF16Legalize")
def BF16Legalize() -> Pass:  # noqa: N802
    """The three passes for bfloat16 one after the other."""
    steps = [BF16Promote(), BF16CastElimination(), BF16TypeLowering()]
    return Sequential(steps, name="tir.BF16Legalize")
