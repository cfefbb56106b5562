"""ConvertLayout, AlterOpLayout: programs in other layouts, by rules of their operators.

    ConvertLayout({"nn.conv2d": ["NHWC", "default"], "nn.max_pool2d": ["NHWC"]})(mod)

The rules are attributes of operators: ``FTVMConvertOpLayout`` (`register_convert_op_layout`) and
``FTVMAlterOpLayout`` (`register_alter_op_layout`). What follows the changed calls is said by
`layout_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilesmith import te
from tilesmith.ir import IRModule, Op
from tilesmith.relay.expr import Call
from tilesmith.relay.op.layout_conversions import LayoutConfig
from tilesmith.relay.transform.layout_rewriting import rewrite_layouts
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.ty import TensorType, TupleType
from tilesmith.support.errors import OpAttributeInvalid, UnsupportedError
from tilesmith.target import Target

__all__ = ["AlterOpLayout", "ConvertLayout", "LayoutConfig"]


def _tensor(type_: Any, name: str) -> Any:
    """Return a tensor of a type, as rules see operands."""
    if isinstance(type_, TupleType):
        return [_tensor(one, f"{name}_{place}") for place, one in enumerate(type_.fields)]
    return te.placeholder(list(type_.shape), type_.dtype, name=name)


def _tensors(call: Call) -> list[Any]:
    found: list[Any] = []
    for place, arg in enumerate(call.args):
        type_ = arg.checked_type
        if isinstance(type_, (TensorType, TupleType)):
            made = _tensor(type_, f"input{place}")
            found += made if isinstance(made, list) else [made]
    return found


@relay_pass("ConvertLayout", 3, ["InferType"])
def ConvertLayout(mod: IRModule, desired_layouts: Mapping[str, Sequence[str]]) -> IRModule:
    """Compute the operators that ``desired_layouts`` names in the layouts that it gives: for each
    operand in order, "default" for what goes with the others. Tensors are transformed where
    operators need them in different layouts.
    """
    wanted = {name: [str(one) for one in layouts] for name, layouts in desired_layouts.items()}
    rules: dict[str, Callable[..., Any]] = {}
    for name, layouts in wanted.items():
        rule = Op.get(name).get_attr("FTVMConvertOpLayout")
        if rule is None:
            raise UnsupportedError(
                f"nothing states how the layouts of {name} are converted",
                notes=("relay.op.register_convert_op_layout(name, rule) does",),
            )
        if not layouts:
            raise OpAttributeInvalid(f"ConvertLayout: no layouts are given for {name}")
        rules[name] = rule

    def alter(call: Call, arguments: Callable[[], list[Any]]) -> Any:
        rule = rules.get(call.op.name)
        if rule is None:
            return None
        return rule(call.attrs, arguments(), _tensors(call), wanted[call.op.name])

    return rewrite_layouts(mod, alter)


@relay_pass("AlterOpLayout", 3, ["InferType"])
def AlterOpLayout(mod: IRModule) -> IRModule:
    """Replace calls by what is registered for their operators (``register_alter_op_layout``), and
    transform tensors where layouts then differ.

    Nothing is registered from the start: ``relay.build`` packs convolutions for vector units when
    the graph is lowered, where ``disabled_pass=["AlterOpLayout"]`` turns this off.
    """

    def alter(call: Call, arguments: Callable[[], list[Any]]) -> Any:
        rule = call.op.get_attr("FTVMAlterOpLayout")
        if rule is None:
            return None
        return rule(call.attrs, arguments(), _tensors(call), call.checked_type)

    with Target.current(allow_none=True) or Target("llvm"):
        return rewrite_layouts(mod, alter)
