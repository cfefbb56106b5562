"""RewriteDataflowReshape: replaces a PrimFunc that copies elements in order by ``R.reshape``, a
view.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis.reshape_pattern import has_reshape_pattern
from tilesmith.relax.expr import Call, Constant, Function, ShapeExpr, Tuple, Var, known_struct_info
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.tir import PrimFunc

_CALL_TIR, _RESHAPE = operators.call_tir.op, operators.reshape.op


class _Views(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.mod = mod
        self.known: dict[GlobalVar, bool] = {}

    def visit_call_(self, op: Call) -> Any:
        call = self.visit_expr_post_order(op)
        if not isinstance(call, Call) or call.op is not _CALL_TIR:
            return call
        info = known_struct_info(call)
        if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr):
            return call
        if not isinstance(call.args[1], Tuple) or not call.args[1].fields:
            return call
        source = call.args[1].fields[0]
        if not isinstance(source, (Var, Constant)) or not self._copies(call.args[0]):
            return call
        if known_struct_info(source).dtype != info.dtype:
            return call
        return Call(_RESHAPE, (source, info.shape))

    def _copies(self, name: Any) -> bool:
        if name not in self.known:
            function = self.mod.functions.get(name)
            self.known[name] = isinstance(function, PrimFunc) and has_reshape_pattern(function)
        return self.known[name]


@compiler_pass("RewriteDataflowReshape")
def rewrite_dataflow_reshape(func: Function, mod: IRModule) -> Function:
    """Replaces copies of all elements in order by ``R.reshape``."""
    return _Views(mod).visit_expr(func)
