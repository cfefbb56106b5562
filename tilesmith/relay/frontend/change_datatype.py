"""Lets a program compute in another dtype."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.transform import PassInfo
from tilesmith.relay.expr import Call, Constant, Var
from tilesmith.relay.function import Function
from tilesmith.relay.op.view import make_call
from tilesmith.relay.rewriting import rewrite, with_binders
from tilesmith.relay.transform.pass_classes import FunctionPass
from tilesmith.relay.ty import TensorType
from tilesmith.relay.type_functor import TypeMutator
from tilesmith.relay.walks import binders, post_order

__all__ = ["ChangeDatatype"]


class _OtherDtype(TypeMutator):
    """Replaces a dtype in types."""

    def __init__(self, src: str, dst: str) -> None:
        self.src, self.dst = src, dst

    def visit_tensor_type(self, tt: Any) -> Any:
        """Return the type of a tensor in the other dtype."""
        return TensorType(tt.shape, self.dst) if str(tt.dtype) == self.src else tt


class ChangeDatatype(FunctionPass):
    """Lets functions compute in ``dst`` wherever they say ``src``: parameters, constants (which are
    cast), variables, and attributes that name a dtype.
    """

    def __init__(self, src: str, dst: str) -> None:
        self.src, self.dst = str(src), str(dst)
        self.types = _OtherDtype(self.src, self.dst)
        super().__init__(self.transform_function, PassInfo(0, "ChangeDatatype", []))

    def transform_function(self, func: Function, mod: IRModule, ctx: Any = None) -> Function:
        """Return a function that computes in the other dtype."""
        return self.visit_function(func)

    def visit_constant(self, const: Constant) -> Any:
        """Return a constant as the other dtype."""
        if str(const.data.dtype) != self.src:
            return const
        return make_call("cast", [const], {"dtype": self.dst})

    def visit_function(self, func: Function) -> Function:
        """Return a function whose types, constants and attributes name the other dtype."""
        bound = {var for node in post_order(func) for var in binders(node)}
        table = {var: self._variable(var) for var in bound}

        def change(node: Any) -> Any:
            if isinstance(node, Constant):
                return self.visit_constant(node)
            if isinstance(node, Var):
                return table.get(node, node)
            if isinstance(node, Call):
                return self._call(node)
            if isinstance(node, Function):
                node = with_binders(node, table)
                ret_type = node.ret_type
                return node if ret_type is None else node.with_fields(ret_type=self._type(ret_type))
            return with_binders(node, table) if binders(node) else node

        changed: Function = rewrite(func, change)
        return changed

    def _type(self, type_: Any) -> Any:
        return self.types.visit(type_)

    def _variable(self, var: Var) -> Var:
        written = var.type_annotation
        type_ = None if written is None else self._type(written)
        return var if type_ is written else Var(var.name_hint, type_, var.span, dialect="relay")

    def _call(self, call: Call) -> Any:
        given = {} if call.attrs is None else dict(call.attrs.items())
        named = {name for name, value in given.items() if str(value) == self.src}
        if not named:
            return call
        changed = {name: self.dst if name in named else value for name, value in given.items()}
        return make_call(call.op, call.args, changed)
