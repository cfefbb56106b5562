"""The older passes for bfloat16, each one step of the lowering.

* ``BF16Promote``: each operation is done in float32 and rounded to bfloat16 again;
* ``BF16CastElimination``: a value that was rounded only to be widened again is not rounded;
* ``BF16TypeLowering``: bfloat16 lies in memory as uint16, conversions are integer arithmetic;
* ``BF16Legalize``: the three, one after the other.
"""

from __future__ import annotations

from tilesmith.ir import BinaryOp, Call, Cast, CompareOp, FloatImm, PrimExpr, Rewriter
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import called_name
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.transform.dtypes.legalize_compute import is_bfloat16
from tilesmith.tir.transform.dtypes.legalize_storage import legalize_storage

__all__ = [
    "eliminate_bfloat16_casts",
    "legalize_bfloat16",
    "lower_bfloat16_type",
    "promote_bfloat16",
]


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


@compiler_pass("tir.BF16Promote")
def promote_bfloat16(func: PrimFunc) -> PrimFunc:
    """Does each operation on bfloat16 in float32 and rounds its result."""
    return func.with_body(_Promoter().visit(func.body))


@compiler_pass("tir.BF16CastElimination")
def eliminate_bfloat16_casts(func: PrimFunc) -> PrimFunc:
    """Drops rounding to bfloat16 between two operations in float32."""
    return func.with_body(_CastEliminator().visit(func.body))


@compiler_pass("tir.BF16TypeLowering")
def lower_bfloat16_type(func: PrimFunc) -> PrimFunc:
    """Keeps bfloat16 in memory as uint16."""
    return legalize_storage(func, is_bfloat16)


@compiler_pass("tir.BF16Legalize")
def legalize_bfloat16(func: PrimFunc) -> PrimFunc:
    """Runs the three passes for bfloat16 one after the other."""
    return lower_bfloat16_type(eliminate_bfloat16_casts(promote_bfloat16(func)))
