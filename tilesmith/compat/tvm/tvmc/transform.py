"""Changes of models before they are compiled: layouts of tensors, and precision."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from tilesmith import relay
from tilesmith.compat.tvm.tvmc.errors import TVMCException
from tilesmith.ir import IRModule
from tilesmith.ir.pass_context import PassContext
from tilesmith.ir.transform import Sequential
from tilesmith.relax.transform import ToMixedPrecision
from tilesmith.relay import transform as relay_passes
from tilesmith.relay.testing.temp_op_attr import TempOpAttr

_LAYOUT_OPS = ("nn.conv2d", "nn.conv2d_transpose", "qnn.conv2d")
_MIXED_OPS = ("nn.conv2d", "nn.dense")
_KERNEL_LAYOUT = {"NCHW": "OIHW", "NHWC": "HWIO"}


def _relay_pass(name: str, what: str) -> Any:
    made = getattr(relay_passes, name, None)
    if made is None:
        raise TVMCException(f"{what}: the pass relay.transform.{name} is not there yet")
    return made


def is_relay(mod: IRModule) -> bool:
    """Return whether a module's functions are of the functional door."""
    return any(isinstance(function, relay.Function) for function in mod.functions.values())


def generate_mixed_precision_rule(acc_dtype: str) -> Any:
    """Return a rule for an operator that is computed in less precision and adds in another one."""

    def rule(call_node: Any, mixed_precision_type: str) -> list[Any]:
        always = 0  # of the choices ALWAYS, FOLLOW, NEVER
        return [always, acc_dtype, mixed_precision_type]

    return rule


class MixedPrecision:
    """Lets named operators be computed in less precision inside of a ``with`` block:
    ``MixedPrecision(["nn.dense"], "float16")``.
    """

    attribute = "FTVMMixedPrecisionConversionType"

    def __init__(self, ops: Sequence[str], acc_type: str) -> None:
        self.ops = list(ops)
        self.acc_type = acc_type
        self._scope = ExitStack()

    def __enter__(self) -> MixedPrecision:
        rule = generate_mixed_precision_rule(self.acc_type)
        for name in self.ops:
            self._scope.enter_context(TempOpAttr(name, self.attribute, rule))
        return self

    def __exit__(self, *details: Any) -> None:
        self._scope.close()


def convert_to_mixed_precision(
    mod: IRModule,
    ops: Sequence[str] | None = None,
    calculation_type: str = "float16",
    acc_type: str = "float16",
) -> IRModule:
    """Return a model whose products and convolutions take numbers of less precision.

    Models that an importer gives as a graph of relax are computed in float16 throughout; there the
    operators' own declarations say which gain from it.
    """
    if not is_relay(mod):
        if ops or calculation_type != "float16":
            raise TVMCException(
                "mixed_precision_ops and other types than float16 are for models of Relay",
                notes=("leave them out: operators that gain from float16 are computed in it",),
            )
        made: IRModule = ToMixedPrecision(out_dtype=acc_type)(mod)
        return made
    convert = _relay_pass("ToMixedPrecision", "mixed_precision")
    with MixedPrecision(ops or _MIXED_OPS, acc_type), PassContext(opt_level=3):
        found: IRModule = convert(calculation_type)(relay_passes.InferType()(mod))
    return found


def convert_graph_layout(
    mod: IRModule, desired_layouts: Sequence[str] | str, ops: Sequence[str] | None = None
) -> IRModule:
    """Return a model whose convolutions take tensors of a layout: "NCHW", "NHWC", or
    "NHWC:HWIO" with the layout of weights. One layout holds for all of ``ops``, else there is one
    for each.
    """
    layouts = [desired_layouts] if isinstance(desired_layouts, str) else list(desired_layouts)
    names = list(ops or _LAYOUT_OPS)
    if len(layouts) not in (1, len(names)):
        raise TVMCException(
            f"{len(layouts)} layouts are given for {len(names)} operators",
            notes=("give one for all, or one for each",),
        )
    wanted = {
        name: _data_and_kernel(layouts[place if len(layouts) > 1 else 0])
        for place, name in enumerate(names)
    }
    if not is_relay(mod):
        raise TVMCException(
            "desired_layout: this model was read as a graph of relax, whose convolutions keep the "
            "layout that they have",
            notes=("leave it out: kernels choose the layouts inside of them by themselves",),
        )
    convert = _relay_pass("ConvertLayout", "desired_layout")
    steps = [
        relay_passes.InferType(),
        relay_passes.RemoveUnusedFunctions(),
        convert(wanted),
        relay_passes.FoldConstant(),
    ]
    with PassContext(opt_level=3):
        changed: IRModule = Sequential(steps, name="desired_layout")(mod)
    return changed


def _data_and_kernel(text: str) -> list[str]:
    data, _, kernel = text.partition(":")
    return [data, kernel or _KERNEL_LAYOUT.get(data, "default")]


def apply_graph_transforms(mod: IRModule, args: Mapping[str, Any] | None) -> IRModule:
    """Return a model after the changes that arguments ask for; see `parse_graph_transform_args`."""
    given = dict(args or {})
    if given.get("mixed_precision"):
        mod = convert_to_mixed_precision(
            mod,
            given.get("mixed_precision_ops"),
            given.get("mixed_precision_calculation_type") or "float16",
            given.get("mixed_precision_acc_type") or "float16",
        )
    if given.get("desired_layout"):
        mod = convert_graph_layout(mod, given["desired_layout"], given.get("desired_layout_ops"))
    return mod


CHANGES = (
    "desired_layout",
    "desired_layout_ops",
    "mixed_precision",
    "mixed_precision_ops",
    "mixed_precision_calculation_type",
    "mixed_precision_acc_type",
)
"""The arguments that change models before they are compiled."""


def parse_graph_transform_args(args: Any) -> dict[str, Any]:
    """Return the arguments (of a parser, or a mapping) that change models, by name."""
    values = args if isinstance(args, Mapping) else vars(args)
    return {name: values.get(name) for name in CHANGES}


def generate_transform_args(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that change models to a parser."""
    parser.add_argument(
        "--desired-layout", nargs="+", help="layout of the convolutions: NCHW, NHWC, NHWC:HWIO"
    )
    parser.add_argument("--desired-layout-ops", nargs="+", help="operators that get the layout")
    parser.add_argument(
        "--mixed-precision", action="store_true", help="compute products with less precision"
    )
    parser.add_argument("--mixed-precision-ops", nargs="+", help="operators of less precision")
    parser.add_argument(
        "--mixed-precision-calculation-type", choices=["float16", "float32"], default="float16"
    )
    parser.add_argument(
        "--mixed-precision-acc-type", choices=["float16", "float32"], default="float16"
    )
