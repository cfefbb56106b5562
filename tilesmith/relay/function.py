"""Functions of the functional door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import (
    BaseFunc,
    FuncType,
    IncompleteType,
    RelaxExpr,
    Type,
    TypeVar,
    attributes,
    check_distinct,
    child,
    defines,
    note,
)
from tilesmith.ir import data as data_field
from tilesmith.relax.base import ExprWithOp, StructInfo
from tilesmith.relax.expr import as_expr
from tilesmith.relax.struct_info import Var
from tilesmith.relax.type_views import struct_info_of
from tilesmith.relay.expr import Call
from tilesmith.support.errors import TypeMismatchError

__all__ = ["Function", "FunctionWithFields"]


class Function(BaseFunc, ExprWithOp, key="relay.Function"):
    """A function of values, and of types for its type parameters. It is a value itself."""

    dialect = "relay"
    describes_calls = False  # its type is known when InferType has looked at it
    structural_order = ("type_params", "params", "body", "ret_type", "attrs")

    params: tuple[Var, ...] = defines(scope="body")
    body: RelaxExpr = child()
    ret_type: Type | None = child(default=None)
    type_params: tuple[TypeVar, ...] = defines(default=())
    attrs: Mapping[str, Any] = data_field(default=None)
    span: Any = note(default=None)

    def __init__(
        self,
        params: Any,
        body: Any,
        ret_type: Type | None = None,
        type_params: Any = None,
        attrs: Any = None,
        span: Any = None,
    ) -> None:
        self.params = tuple(params)
        for param in self.params:
            if not isinstance(param, Var):
                raise TypeMismatchError(
                    f"a parameter is a variable, got {param!r}",
                    span=span,
                    notes=('make it with relay.var("x", shape=(1, 8))',),
                )
        check_distinct(self.params)
        self.body = as_expr(body)
        self.ret_type = ret_type
        self.type_params = tuple(type_params or ())
        self.attrs = attributes(getattr(attrs, "values_", attrs))
        self.span = span

    def __call__(self, *args: Any, attrs: Any = None) -> Call:
        """Return a call of this function."""
        return Call(self, args, attrs)

    def _infer_struct_info(self) -> StructInfo:
        return struct_info_of(self.declared_type())

    def declared_type(self) -> FuncType:
        """Return the type as it is written; what is left open is an IncompleteType."""
        arguments = [param.type_annotation or IncompleteType() for param in self.params]
        return FuncType(arguments, self.ret_type or IncompleteType(), self.type_params)


def FunctionWithFields(
    function: Function,
    params: Any = None,
    body: Any = None,
    ret_type: Any = None,
    ty_params: Any = None,
    attrs: Any = None,
    virtual_device: Any = None,
    span: Any = None,
) -> Function:
    """Return a function with the given fields replaced."""
    if virtual_device is not None:
        raise TypeMismatchError(
            "functions hold no device",
            notes=("annotate it: relay.annotation.function_on_device",),
        )
    changes = {
        "params": params,
        "body": body,
        "ret_type": ret_type,
        "type_params": ty_params,
        "attrs": attrs,
        "span": span,
    }
    changed = {name: value for name, value in changes.items() if value is not None}
    return function.with_fields(**changed) if changed else function
