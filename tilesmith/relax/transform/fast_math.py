"""FastMathTransform: functions by approximations that need no library."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax.expr import Call, Function, known_struct_info
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.op.declaration import find_function
from tilesmith.relax.relations import sizes_of
from tilesmith.relax.spec import topi
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.runtime.dtype import DataType

__all__ = ["FAST", "FastMathCodeGenerator", "fast_math", "has_fast_form"]

FAST = {
    "exp": "fast_exp",
    "tanh": "fast_tanh",
    "erf": "fast_erf",
    "nn.softmax": "nn.fast_softmax",
}
"""Operator → the function of topi that approximates it; relay's FastMath has the same ones."""

_BY_OPERATOR = {find_function(name).op: function for name, function in FAST.items()}


def has_fast_form(dtype: DataType) -> bool:
    """Return whether the approximations are stated for a dtype."""
    return dtype == "float32"


class FastMathCodeGenerator(PyExprMutator):
    """Replaces calls by calls of kernels that approximate them."""

    def visit_call_(self, call: Call) -> Any:
        """Replace the call of an operator that has a fast form."""
        made = super().visit_call_(call)
        if not isinstance(made, Call) or not isinstance(made.op, Op):
            return made
        name = _BY_OPERATOR.get(made.op)
        info = known_struct_info(made)
        if name is None or not isinstance(info, TensorStructInfo) or sizes_of(info) is None:
            return made
        if not has_fast_form(info.dtype):
            return made
        room, _, short = name.rpartition(".")
        function = getattr(topi.nn if room else topi, short)
        attrs = () if made.attrs is None else [value for _, value in made.attrs.items()]
        return self.builder_.call_te(function, *made.args, *attrs, primfunc_name_hint=short)


@compiler_pass("FastMathTransform")
def fast_math(mod: IRModule) -> IRModule:
    """Replaces exp, tanh, erf and softmax of float32 by approximations."""
    mutator = FastMathCodeGenerator(mod)
    for name, function in list(mod.functions.items()):
        if isinstance(function, Function) and function.body is not None:
            updated = mutator.visit_expr(function)
            if updated is not function:
                mutator.builder_.update_func(name, updated)
    return mutator.builder_.get()
