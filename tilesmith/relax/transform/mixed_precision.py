"""ToMixedPrecision: computes products and convolutions in float16 or bfloat16, sums in
``out_dtype``. NarrowWeights: does so where it makes a kernel faster, and nowhere else.

An operator's record says whether it gains from narrow inputs, follows its inputs, or keeps full
precision (`relax.spec.Precision`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.expr import (
    Call,
    Constant,
    Function,
    Tuple,
    TupleGetItem,
    Var,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.spec import Precision
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.relax.transform.pair_products import is_packable
from tilesmith.runtime.dtype import DataType
from tilesmith.support.fallbacks import record_fallback


class _Mixed(PyExprMutator):
    def __init__(self, mod: IRModule, out_dtype: DataType, names: set[str]) -> None:
        super().__init__(mod)
        self.out_dtype = out_dtype
        self.narrow = DataType("float16")
        self.names = names

    def cast(self, expr: Any, dtype: DataType) -> Any:
        """Convert a float tensor to a dtype, tuples field by field; leave anything else
        unchanged.
        """
        info = known_struct_info(expr)
        if isinstance(info, TupleStructInfo):
            if isinstance(expr, Tuple):
                return Tuple([self.cast(field, dtype) for field in expr.fields])
            fields = [TupleGetItem(expr, i) for i in range(len(info.fields))]
            return Tuple([self.cast(self.builder_.emit(field), dtype) for field in fields])
        if not isinstance(info, TensorStructInfo) or not info.dtype.is_float:
            return expr
        if info.dtype == dtype or info.dtype == "float64":
            return expr
        if isinstance(expr, Constant):
            return Constant(expr.data.numpy_view().astype(dtype.numpy()))
        return self.builder_.emit(operators.astype(expr, dtype))

    def _is_narrow(self, expr: Any) -> bool:
        info = known_struct_info(expr)
        if isinstance(info, TupleStructInfo):
            return isinstance(expr, Tuple) and any(self._is_narrow(f) for f in expr.fields)
        return isinstance(info, TensorStructInfo) and info.dtype == self.narrow

    def visit_call_(self, op: Call) -> Any:
        if not isinstance(op.op, Op):
            return self.visit_expr_post_order(op)
        # Arguments may be narrow one by one: the casts below make their dtypes equal again.
        args = [self.visit_expr(arg) for arg in op.args]
        changed = any(a is not b for a, b in zip(args, op.args))
        call = Call(op.op, args, op.attrs, op.sinfo_args, op.span) if changed else op
        precision = op.op.get_attr("TMixedPrecisionPolicy", Precision.NEVER)
        is_narrow = any(self._is_narrow(arg) for arg in call.args)
        if precision == Precision.ALWAYS and not self._touches_float64(call):
            attrs = dict(call.attrs.items()) if call.attrs is not None else {}
            if "out_dtype" in attrs:
                attrs["out_dtype"] = self.out_dtype
            return self._cast_call(call, self.narrow, attrs)
        if precision == Precision.FOLLOW and is_narrow:
            return self._cast_call(call, self.narrow, call.attrs)
        if precision != Precision.ANY and is_narrow:
            return self._cast_call(call, DataType("float32"), call.attrs)
        return call

    def _cast_call(self, call: Call, dtype: DataType, attrs: Any) -> Call:
        args = [self.cast(arg, dtype) for arg in call.args]
        return Call(call.op, args, attrs, call.sinfo_args, call.span)

    def _touches_float64(self, call: Call) -> bool:
        infos = [known_struct_info(arg) for arg in call.args]
        return any(isinstance(i, TensorStructInfo) and i.dtype == "float64" for i in infos)

    def visit_var_def_(self, var: Var) -> Var:
        if var.name_hint in self.names and isinstance(var.struct_info, TensorStructInfo):
            info = var.struct_info
            if info.dtype == "float32":
                narrow = TensorStructInfo(info.shape, self.narrow, info.vdevice, info.ndim)
                new = type(var)(var.name_hint, narrow, var.span)
                self.set_var_remap(var, new)
                return new
        return var

    def visit_function_(self, op: Function) -> Any:
        changed = super().visit_function_(op)
        if changed is op or changed.body is None:
            return changed
        return _with_result(changed, op)


def _with_result(changed: Function, original: Function) -> Function:
    """Return the function with its result converted to the original dtype."""
    wanted = original.ret_struct_info
    if known_struct_info(changed.body) is wanted or not isinstance(wanted, TensorStructInfo):
        return changed
    info = known_struct_info(changed.body)
    if not isinstance(info, TensorStructInfo) or info.dtype == wanted.dtype:
        return changed
    from tilesmith.relax.expr import BindingBlock, SeqExpr, VarBinding

    body = changed.body
    call = operators.astype(body.body, wanted.dtype)
    result = Var("result", call.struct_info)
    block = BindingBlock([VarBinding(result, call)])
    return changed.with_fields(body=SeqExpr([*body.blocks, block], result), ret_struct_info=wanted)


@compiler_pass("ToMixedPrecision")
def to_mixed_precision(
    mod: IRModule, out_dtype: str = "float32", fp16_input_names: Iterable[str] | None = None
) -> IRModule:
    """Lets products and convolutions take float16 and give ``out_dtype``; parameters named in
    ``fp16_input_names`` become float16.
    """
    for name, function in list(mod.functions.items()):
        if isinstance(function, Function) and function.body is not None:
            mutator = _Mixed(mod, DataType(out_dtype), set(fp16_input_names or ()))
            mod[name] = mutator.visit_expr(function)
    return mod


class _NarrowWeights(PyExprMutator):
    """Gives the products that PackForVectors packs weights of 16 bits. bfloat16 are multiplied as
    such; float16 are converted where the kernel loads them, the data stay float32.
    """

    def __init__(self, mod: IRModule, dtype: DataType) -> None:
        super().__init__(mod)
        self.dtype = dtype

    def visit_call_(self, op: Call) -> Any:
        """Convert the operands of a product of float32 with a constant weight."""
        call = self.visit_expr_post_order(op)
        if not isinstance(call, Call) or not isinstance(call.op, Op):
            return call
        if call.op.get_attr("TMixedPrecisionPolicy", Precision.NEVER) != Precision.ALWAYS:
            return call
        data: Any = call.args[0]
        weight: Any = call.args[1]
        attrs: Any = call.attrs
        floats = all(_is_float32(one) for one in (*call.args, call))
        if not floats or not isinstance(weight, Constant):
            return call
        if not is_packable(call, weight):
            reason = "PackForVectors does not pack its weights: their layout, groups or few outputs"
            record_fallback("precision", call.op.name, reason)
            return call
        narrow = Constant(weight.data.numpy_view().astype(self.dtype.numpy()))
        attrs = {**dict(attrs.items()), "out_dtype": "float32"}
        if self.dtype == "float16":
            wide = self.builder_.emit(operators.astype(narrow, "float32"))
            return Call(call.op, [data, wide], attrs, call.sinfo_args, call.span)
        short = self.builder_.emit(operators.astype(data, self.dtype))
        return Call(call.op, [short, narrow], attrs, call.sinfo_args, call.span)


def _is_float32(expr: Any) -> bool:
    info = known_struct_info(expr)
    return isinstance(info, TensorStructInfo) and info.dtype == "float32"


@compiler_pass("NarrowWeights")
def narrow_weights(func: Function, mod: IRModule, dtype: str = "bfloat16") -> Function:
    """Lets the products and convolutions whose constant weights PackForVectors packs have weights
    of ``dtype``, and with bfloat16 data of it as well; sums and all other operators stay float32.
    """
    made: Function = _NarrowWeights(mod, DataType(dtype)).visit_expr(func)
    return made
