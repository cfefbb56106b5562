"""SplitArgs: bounds the number of tensors that one kernel takes."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relay.expr import Tuple
from tilesmith.relay.transform.calls import is_call, make, rewrite_functions
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.support.errors import ConfigError

__all__ = ["SplitArgs"]


@relay_pass("SplitArgs", 1, ["InferType"])
def SplitArgs(mod: IRModule, max_function_args: int) -> IRModule:
    """Join tensors in several steps where one call of concatenate would take, with its result, more
    than ``max_function_args`` of them. The steps are not fused. Numbers below 1 set no bound.
    """
    most = int(max_function_args) - 1
    if max_function_args < 1:
        return mod
    if most < 2:
        raise ConfigError(
            f"a function of {max_function_args} tensors cannot join two of them",
            notes=("max_function_args is at least 3: two inputs and the result",),
        )

    def joined(fields: list[Any], axis: int) -> Any:
        while len(fields) > most:
            chunks = [fields[first : first + most] for first in range(0, len(fields), most)]
            fields = [
                chunk[0]
                if len(chunk) == 1
                else make("annotation.stop_fusion", make("concatenate", Tuple(chunk), axis=axis))
                for chunk in chunks
            ]
        return make("annotation.stop_fusion", make("concatenate", Tuple(fields), axis=axis))

    def split(node: Any) -> Any:
        if is_call(node, "concatenate") and isinstance(node.args[0], Tuple):
            fields = list(node.args[0].fields)
            if len(fields) > most:
                return joined(fields, node.attrs.axis)
        return node

    return rewrite_functions(mod, split)
