"""Prints graphs as trees of constructor calls, as ``tvm.relax.testing.ast_printer`` does.

Function(
    params=[
        Var(name_hint="x", struct_info=TensorStructInfo(…)),
    ],
    body=SeqExpr(…),
)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import GlobalVar, Op, PrimExpr
from tilesmith.relax import (
    Call,
    Constant,
    DataTypeImm,
    ExternFunc,
    Function,
    MatchCast,
    PrimValue,
    ShapeExpr,
    StringImm,
    Var,
)
from tilesmith.relax.base import StructInfo

__all__ = ["dump_ast", "wrap_quotes"]

_WIDTH = 80
_FIELDS: dict[str, tuple[str, ...]] = {
    "Tuple": ("fields",),
    "TupleGetItem": ("tuple_value", "index"),
    "If": ("cond", "true_branch", "false_branch"),
    "SeqExpr": ("blocks", "body"),
    "BindingBlock": ("bindings",),
    "DataflowBlock": ("bindings",),
    "VarBinding": ("var", "value"),
    "MatchCast": ("var", "value", "struct_info"),
}


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
    printer = _Tree(
        indent_str, include_struct_info_annotations, include_type_annotations, include_call_attrs
    )
    return printer.text(exp)


class _Tree:
    def __init__(self, indent: str, struct_info: bool, types: bool, attrs: bool) -> None:
        self.indent = indent
        self.struct_info = struct_info
        self.types = types
        self.attrs = attrs

    def text(self, value: Any) -> str:
        """Return the text of a node, a list of them, or a plain value."""
        if isinstance(value, str):
            return wrap_quotes(value)
        if isinstance(value, (list, tuple)):
            return self._wrapped("[", [self.text(item) for item in value], "]")
        if isinstance(value, Mapping):
            items = [f"{self.text(str(key))}: {self.text(item)}" for key, item in value.items()]
            return self._wrapped("{", items, "}")
        if isinstance(value, PrimExpr):
            return f"PrimExpr(value=`{value}`)"
        if isinstance(value, (StructInfo, bool, int, float)) or value is None:
            return str(value)
        return self._node(value)

    def _node(self, node: Any) -> str:
        name = type(node).__name__
        fields: dict[str, Any] = {}
        if isinstance(node, (Var, GlobalVar)):
            fields["name_hint"] = node.name_hint
        elif isinstance(node, Op):
            fields["name"] = node.name
        elif isinstance(node, Constant):
            return f"Constant(data={node.data.numpy()!r})"
        elif isinstance(node, ExternFunc):
            fields["global_symbol"] = node.global_symbol
        elif isinstance(node, (PrimValue, StringImm)):
            fields["value"] = node.value
        elif isinstance(node, DataTypeImm):
            fields["value"] = str(node.value)
        elif isinstance(node, ShapeExpr):
            fields["values"] = list(node.values)
        elif isinstance(node, Call):
            fields.update(op=node.op, args=list(node.args))
            if node.sinfo_args:
                fields["sinfo_args"] = list(node.sinfo_args)
            if node.attrs is not None and self.attrs:
                fields["attrs"] = {key: _plain(item) for key, item in node.attrs.items()}
        elif isinstance(node, Function):
            fields.update(params=list(node.params), body=node.body)
            fields.update(ret_struct_info=node.ret_struct_info, is_pure=node.is_pure)
            if node.attrs:
                fields["attrs"] = {key: _plain(item) for key, item in node.attrs.items()}
        elif name in _FIELDS:
            fields.update({field: getattr(node, field) for field in _FIELDS[name]})
        else:
            return str(node)
        info = getattr(node, "struct_info", None)
        if self.struct_info and info is not None and not isinstance(node, (Function, MatchCast)):
            fields["struct_info"] = info
        if self.types and getattr(node, "checked_type", None) is not None:
            fields["checked_type_"] = str(node.checked_type)
        return self._wrapped(
            name + "(", [f"{field}={self.text(value)}" for field, value in fields.items()], ")"
        )

    def _wrapped(self, head: str, items: list[str], end: str) -> str:
        """Return items on one line if they fit, else one below the other."""
        line = head + ", ".join(items) + end
        if len(line) <= _WIDTH and "\n" not in line:
            return line
        shown = [item.replace("\n", "\n" + self.indent) for item in items]
        return head + "".join([f"\n{self.indent}{item}," for item in shown]) + "\n" + end


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, bool, int, float, list, tuple)) else str(value)
