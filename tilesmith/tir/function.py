"""Functions of TensorIR."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.ir import (
    BaseFunc,
    Type,
    Var,
    VoidType,
    attributes,
    check_distinct,
    child,
    defines,
    note,
)
from tilesmith.ir import data as data_field
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.registry import Registry
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.stmt import Stmt

__all__ = ["PrimFunc"]


SIGNATURES: Registry[Callable[[Any], Any]] = Registry(
    "signature of tensor functions", {"": "tilesmith.relax.prim_func_info"}
)
"""What ``func.struct_info`` calls ("struct info"); the graph registers it, since it has the nodes
that it makes."""


class PrimFunc(BaseFunc, key="tir.PrimFunc"):
    """A function over scalars and buffers.

    ``params`` are variables; ``buffer_map`` gives the buffer behind a parameter of dtype handle.
    Sizes that occur first in the shape of such a buffer are bound by it. A Buffer given among the
    parameters gets a handle parameter of its own.
    """

    params: tuple[Var, ...] = defines(scope="body")
    body: Stmt = child()
    ret_type: Type = child()
    buffer_map: Mapping[Var, Buffer] = defines(scope="body")
    attrs: Mapping[str, Any] = data_field()
    describes_calls = False
    span: Any = note(default=None)

    def __init__(
        self,
        params: Any,
        body: Stmt,
        ret_type: Type | None = None,
        buffer_map: Mapping[Var, Buffer] | None = None,
        attrs: Mapping[str, Any] | None = None,
        span: Any = None,
    ) -> None:
        handles, buffers = [], dict(buffer_map or {})
        for param in params:
            if hasattr(param, "asobject"):  # a buffer of the IR builder
                param = param.asobject()
            if isinstance(param, Buffer):
                handle = Var(param.name + "_handle", "handle")
                buffers[handle] = param
                param = handle
            if not isinstance(param, Var):
                raise TypeMismatchError(f"a parameter is a variable or a buffer, got {param!r}")
            handles.append(param)
        self.params = tuple(handles)
        check_distinct(self.params)
        if not isinstance(body, Stmt):
            raise TypeMismatchError(f"the body of a function is a statement, got {body!r}")
        self.body = body
        self.ret_type = ret_type if ret_type is not None else VoidType()
        self.buffer_map = buffers
        self.attrs = attributes(attrs)
        self.span = span

    def with_body(self, new_body: Stmt, span: Any = None) -> PrimFunc:
        """Return a copy with another body."""
        if new_body is self.body:
            return self
        return PrimFunc(
            self.params, new_body, self.ret_type, self.buffer_map, self.attrs, span or self.span
        )

    def specialize(self, param_map: Mapping[Any, Any]) -> PrimFunc:
        """Return a copy with parameters and symbolic sizes bound to buffers or values."""
        from tilesmith.tir.specialize import specialize

        return specialize(self, param_map)

    @property
    def __name__(self) -> str:
        """The symbol of the function."""
        symbol = self.attrs.get("global_symbol")
        if symbol is None:
            raise AttributeError("a private function has no name")
        return str(symbol)

    @property
    def struct_info(self) -> Any:
        """What the graph knows of a call: buffers are tensors there."""
        return SIGNATURES["struct info"](self)

    @property
    def buffers(self) -> list[Buffer]:
        """The buffers of the parameters, in the order of the parameters."""
        return [self.buffer_map[param] for param in self.params if param in self.buffer_map]
