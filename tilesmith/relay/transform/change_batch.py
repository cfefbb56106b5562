"""ChangeBatch: gives inputs another batch size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir.transform import FunctionLevelPass, PassInfo
from tilesmith.relay.expr import var
from tilesmith.relay.function import Function
from tilesmith.relay.rewriting import substitute
from tilesmith.relay.ty import TensorType
from tilesmith.support.errors import TypeMismatchError

__all__ = ["ChangeBatch"]


class ChangeBatch(FunctionLevelPass):
    """Gives inputs another batch size: ``data`` has the axis of the batch for each parameter. The
    types of all that depends on them are found anew.
    """

    function_class = Function

    def __init__(self, data: Mapping[Any, int], batch_size: int = 16) -> None:
        super().__init__(self.transform_function, PassInfo(1, "ChangeBatch"))
        self.data = dict(data)
        self.batch_size = batch_size

    def transform_function(self, func: Function, mod: Any, ctx: Any) -> Function:
        """Return the function with other parameters."""
        new = {param: self._changed(param) for param in func.params if param in self.data}
        if not new:
            return func
        params = [new.get(param, param) for param in func.params]
        body = substitute(func.body, new)
        return Function(params, body, None, func.type_params, func.attrs, func.span)

    def _changed(self, param: Any) -> Any:
        type_ = param.type_annotation
        axis = self.data[param]
        if not isinstance(type_, TensorType) or not -len(type_.shape) <= axis < len(type_.shape):
            raise TypeMismatchError(
                f"'{param.name_hint}' of type {type_} has no axis {axis}", span=param.span
            )
        shape: list[Any] = list(type_.shape)
        shape[axis] = self.batch_size
        return var(param.name_hint, TensorType(shape, type_.dtype), span=param.span)
