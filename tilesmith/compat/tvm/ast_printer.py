"""Prints graphs as trees of constructor calls, as ``tvm.relax.testing.ast_printer`` does.

Function(
    params=[
        Var(name_hint="x", struct_info=TensorStructInfo(…)),
    ],
    body=SeqExpr(…),
)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.ir import GlobalVar, Op, PrimExpr
from tilesmith.relax import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    ExternFunc,
    Function,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from tilesmith.relax.base import GraphExpr, StructInfo
from tilesmith.relax.expr_functor import ExprFunctor
from tilesmith.support.recursion import deep_recursion

__all__ = ["ASTPrinter", "dump_ast", "wrap_quotes"]

_WIDTH = 80


def wrap_quotes(text: str) -> str:
    """Return a text in quotes."""
    return f'"{text}"'


def dump_ast(
    exp: Any,
    indent_str: str = "    ",
    include_struct_info_annotations: bool = True,
    include_type_annotations: bool = False,
    include_call_attrs: bool = True,
) -> str:
    """Return an expression, block or function of the graph as a tree of constructor calls."""
    printer = ASTPrinter(
        indent_str, include_struct_info_annotations, include_type_annotations, include_call_attrs
    )
    with deep_recursion():
        return printer.show(exp)


class ASTPrinter(ExprFunctor):
    """Makes the text of a tree: a method for each kind of node, which a class of one's own may
    replace.
    """

    def __init__(
        self,
        indent_str: str = "    ",
        include_struct_info_annotations: bool = True,
        include_type_annotations: bool = False,
        include_call_attrs: bool = True,
    ) -> None:
        self.indent_str = indent_str
        self.include_struct_info_annotations = include_struct_info_annotations
        self.include_type_annotations = include_type_annotations
        self.include_call_attrs = include_call_attrs

    def show(self, node: Any) -> str:
        """Return the text of a node of any kind."""
        if isinstance(node, BindingBlock):
            return str(self.visit_binding_block(node))
        if isinstance(node, Binding):
            return self.visit_binding_(node)
        if isinstance(node, StructInfo):
            return self.visit_struct_info_(node)
        if isinstance(node, PrimExpr):
            return self.visit_prim_expr_(node)
        if isinstance(node, (GraphExpr, GlobalVar, Op)):
            return str(self.visit_expr(node))
        return str(node)

    # Pieces of the text

    def indent(self, text: str) -> str:
        """Return lines with one more step before each."""
        return "\n".join([self.indent_str + line for line in text.split("\n")])

    def _joined(self, head: str, items: Sequence[str], end: str, force_newline: bool) -> str:
        """Return items on one line if they fit, else one below the other."""
        line = head + ", ".join(items) + end
        if len(line) <= _WIDTH and "\n" not in line and not (force_newline and items):
            return line
        return head + "".join([f"\n{self.indent(item)}," for item in items]) + "\n" + end

    def build_ast_node(self, nodename: str, force_newline: bool = False, **kwargs: str) -> str:
        """Return the text of a node with fields, which are texts."""
        fields = [f"{name}={text}" for name, text in kwargs.items()]
        return self._joined(f"{nodename}(", fields, ")", force_newline)

    def build_expr(
        self, node: Any, nodename: str, force_newline: bool = False, **kwargs: str
    ) -> str:
        """Return the text of an expression: its fields, and what is known about its value."""
        info = getattr(node, "struct_info", None)
        if self.include_struct_info_annotations and info is not None:
            kwargs["struct_info"] = self.visit_struct_info_(info)
        if self.include_type_annotations and getattr(node, "checked_type", None) is not None:
            kwargs["checked_type_"] = self.visit_type_(node.checked_type)
        return self.build_ast_node(nodename, force_newline, **kwargs)

    def build_list(
        self,
        members: Sequence[str],
        open_tok: str = "[",
        close_tok: str = "]",
        force_newline: bool = False,
    ) -> str:
        """Return the text of a list of texts."""
        return self._joined(open_tok, list(members), close_tok, force_newline)

    def _several(self, nodes: Any) -> str:
        return self.build_list([self.show(node) for node in nodes])

    def _attributes(self, attrs: Any) -> str:
        items = [f"{wrap_quotes(str(key))}: {_plain(value)}" for key, value in attrs.items()]
        return self.build_list(items, "{", "}")

    # Expressions

    def visit_constant_(self, op: Constant) -> str:
        """Return the text of a constant, without what is known of it: its data tell."""
        return self.build_ast_node("Constant", data=repr(op.data.numpy()))

    def visit_tuple_(self, op: Tuple) -> str:
        """Return the text of a tuple."""
        return self.build_expr(op, "Tuple", fields=self._several(op.fields))

    def visit_dataflow_var_(self, op: DataflowVar) -> str:
        """Return the text of a variable of a dataflow block."""
        return self.build_expr(op, "DataflowVar", name_hint=wrap_quotes(op.name_hint))

    def visit_var_(self, op: Var) -> str:
        """Return the text of a variable."""
        return self.build_expr(op, "Var", name_hint=wrap_quotes(op.name_hint))

    def visit_shape_expr_(self, op: ShapeExpr) -> str:
        """Return the text of a shape."""
        values = self.build_list([self.visit_prim_expr_(value) for value in op.values])
        return self.build_expr(op, "ShapeExpr", values=values)

    def visit_extern_func_(self, op: ExternFunc) -> str:
        """Return the text of a registered function."""
        return self.build_expr(op, "ExternFunc", global_symbol=wrap_quotes(op.global_symbol))

    def visit_global_var_(self, op: GlobalVar) -> str:
        """Return the text of a reference to a function."""
        return self.build_expr(op, "GlobalVar", name_hint=wrap_quotes(op.name_hint))

    def visit_function_(self, op: Function) -> str:
        """Return the text of a function."""
        fields = {
            "params": self._several(op.params),
            "body": "None" if op.body is None else self.show(op.body),
            "ret_struct_info": self.visit_struct_info_(op.ret_struct_info),
            "is_pure": str(op.is_pure),
        }
        if op.attrs:
            fields["attrs"] = self._attributes(op.attrs)
        return self.build_ast_node("Function", False, **fields)

    def visit_call_(self, op: Call) -> str:
        """Return the text of a call."""
        fields = {"op": self.show(op.op), "args": self._several(op.args)}
        if op.sinfo_args:
            fields["sinfo_args"] = self._several(op.sinfo_args)
        if op.attrs is not None and self.include_call_attrs:
            fields["attrs"] = self._attributes(op.attrs)
        return self.build_expr(op, "Call", False, **fields)

    def visit_seq_expr_(self, op: SeqExpr) -> str:
        """Return the text of a sequence."""
        return self.build_expr(
            op, "SeqExpr", blocks=self._several(op.blocks), body=self.show(op.body)
        )

    def visit_if_(self, op: If) -> str:
        """Return the text of a choice."""
        return self.build_expr(
            op,
            "If",
            cond=self.show(op.cond),
            true_branch=self.show(op.true_branch),
            false_branch=self.show(op.false_branch),
        )

    def visit_prim_value_(self, op: PrimValue) -> str:
        """Return the text of a scalar."""
        return self.build_expr(op, "PrimValue", value=self.visit_prim_expr_(op.value))

    def visit_string_imm_(self, op: StringImm) -> str:
        """Return the text of a string."""
        return self.build_expr(op, "StringImm", value=wrap_quotes(op.value))

    def visit_data_type_imm_(self, op: DataTypeImm) -> str:
        """Return the text of a dtype."""
        return self.build_expr(op, "DataTypeImm", value=wrap_quotes(str(op.value)))

    def visit_op_(self, op: Op) -> str:
        """Return the text of an operator."""
        return self.build_ast_node("Op", name=wrap_quotes(op.name))

    def visit_prim_expr_(self, prim_expr: PrimExpr) -> str:
        """Return the text of a scalar expression."""
        return f"PrimExpr(value=`{prim_expr}`)"

    def visit_tuple_getitem_(self, op: TupleGetItem) -> str:
        """Return the text of a field of a tuple."""
        return self.build_expr(
            op, "TupleGetItem", tuple_value=self.show(op.tuple_value), index=str(op.index)
        )

    # Types, blocks and bindings

    def visit_type_(self, type_node: Any) -> str:
        """Return the text of a type."""
        return wrap_quotes(str(type_node))

    def visit_struct_info_(self, struct_info_node: StructInfo) -> str:
        """Return the text of a struct info."""
        return str(struct_info_node)

    def visit_binding_block_(self, block: BindingBlock) -> str:
        """Return the text of a block."""
        return self.build_ast_node("BindingBlock", bindings=self._several(block.bindings))

    def visit_dataflow_block_(self, block: DataflowBlock) -> str:
        """Return the text of a dataflow block."""
        return self.build_ast_node("DataflowBlock", bindings=self._several(block.bindings))

    def visit_binding_(self, binding: Binding) -> str:
        """Return the text of a binding."""
        return str(self.visit_binding(binding))

    def visit_match_cast_(self, binding: MatchCast) -> str:
        """Return the text of a match_cast."""
        return self.build_ast_node(
            "MatchCast",
            var=self.show(binding.var),
            value=self.show(binding.value),
            struct_info=self.visit_struct_info_(binding.struct_info),
        )

    def visit_var_binding_(self, binding: VarBinding) -> str:
        """Return the text of a binding of a variable."""
        return self.build_ast_node(
            "VarBinding", var=self.show(binding.var), value=self.show(binding.value)
        )


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(dict(value))
    if isinstance(value, str):
        return wrap_quotes(value)
    return (
        str(value)
        if isinstance(value, (bool, int, float, list, tuple))
        else wrap_quotes(str(value))
    )
