"""Dataflow patterns: describe a part of a graph, find it, replace it.

x, w, b = wildcard(), wildcard(), is_const()
dense = is_op("relax.matmul")(x, w)
pattern = is_op("relax.add")(dense, b)
new = rewrite_call(pattern, lambda call, found: ..., func)
"""

from tilesmith.relax.dpl.context import PatternContext
from tilesmith.relax.dpl.matcher import match_dfb, match_expr
from tilesmith.relax.dpl.pattern import (
    AndPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataflowVarPattern,
    DataTypePattern,
    DFConstraint,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    FunctionPattern,
    GlobalVarPattern,
    IfPattern,
    NotPattern,
    OrPattern,
    PatternSeq,
    PrimArrPattern,
    SameShapeConstraint,
    ShapePattern,
    StructInfoPattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    UnorderedTuplePattern,
    VarPattern,
    WildcardPattern,
    has_attr,
    has_dtype,
    is_call_dps_packed,
    is_call_packed,
    is_call_tir,
    is_const,
    is_dfv,
    is_expr,
    is_gv,
    is_op,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    make_fused_bias_activation_pattern,
    reject,
    wildcard,
)
from tilesmith.relax.dpl.rewrite import (
    ExprPatternRewriter,
    OrRewriter,
    PatternMatchingRewriter,
    TupleRewriter,
    rewrite_bindings,
    rewrite_call,
)

__all__ = sorted(name for name in globals() if not name.startswith("_"))
