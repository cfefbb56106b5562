"""How tensors are held while layouts are converted, and what layouts calls state.

What follows from a form alone is `relax/transform/layout_forms`, for both doors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tilesmith import tir
from tilesmith.relax.transform.layout_forms import (
    Form,
    agrees,
    check_even,
    form_of,
    rank,
    sizes_of,
)
from tilesmith.relay.expr import Call
from tilesmith.relay.op.view import make_call
from tilesmith.relay.transform.infer_layout_utils import InferCorrectLayoutOutput

__all__ = [
    "Form", "Held", "StatedLayouts", "agrees", "form_of", "rank", "sizes_of", "stated_layouts",
    "transformed",
]  # fmt: skip


@dataclass
class Held:
    """An expression in the place of another: a tensor in a form (None: as it was), or a tuple of
    which some fields have forms.
    """

    expr: Any
    form: Form | None = None
    forms: list[Form | None] = field(default_factory=list)
    fields: list[Held] = field(default_factory=list)  # of a tuple that is written as one

    @property
    def is_plain(self) -> bool:
        """Whether the expression is as it was."""
        return self.form is None and not any(self.forms)


class StatedLayouts(NamedTuple):
    """The layouts of the operands and of the result that a call states ("" if it does not)."""

    inputs: tuple[str, ...]
    output: str


def transformed(expr: Any, source: str, target: str) -> Any:
    """Return a tensor in another layout. Raises ShapeError if an axis cannot be split evenly."""
    if source == target:
        return expr
    check_even(expr, source, target)
    return make_call("layout_transform", [expr], {"src_layout": source, "dst_layout": target})


def stated_layouts(
    call: Call, new: Sequence[str] = (), old: Sequence[str] = (), types: Sequence[Any] = ()
) -> tuple[StatedLayouts | None, Call]:
    """Return the layouts that a call states, and the call with the attributes that go with them.
    What is registered for the operator (``FInferCorrectLayout``) is asked first, with the new and
    the old layouts of the operands as far as they are known.
    """
    rule = call.op.get_attr("FInferCorrectLayout")
    if rule is not None:
        given = [[tir.layout(one) if one else None for one in every] for every in (new, old)]
        found: InferCorrectLayoutOutput = rule(call.attrs, *given, list(types))
        inputs = [_name(one) for one in found.input_layouts]
        inputs += [""] * (len(call.args) - len(inputs))
        outputs = [_name(one) for one in found.output_layouts] or [""]
        changed = call if found.new_attrs is None else call.with_fields(attrs=found.new_attrs)
        return StatedLayouts(tuple(inputs), outputs[0]), changed
    return _by_attributes(call), call


def _name(layout: Any) -> str:
    found = "" if layout is None else str(layout)
    return "" if found in ("__undef__", "undef") else found


def _by_attributes(call: Call) -> StatedLayouts | None:
    attrs = {} if call.attrs is None else dict(call.attrs.items())
    count = len(call.args)
    if "data_layout" in attrs and "kernel_layout" in attrs:
        data, kernel = attrs["data_layout"], attrs["kernel_layout"]
        inputs = [data, kernel]
        if call.op.name.startswith("nn.deformable"):
            inputs = [data, data, kernel]
        inputs = [*inputs, *[""] * (count - len(inputs))]
        return StatedLayouts(tuple(inputs[:count]), attrs.get("out_layout") or data)
    if attrs.get("layout") and call.op.name not in ("image.affine_grid",):
        own = attrs["layout"]
        return StatedLayouts((own, *[""] * (count - 1)), attrs.get("out_layout") or own)
    return None
