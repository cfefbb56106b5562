"""How tensors are held while layouts are converted, and what layouts calls state.

A tensor that was NCHW and now is NHWC has the `Form` ``NCHW → NHWC``: what asks for it in its old
layout gets a ``layout_transform``, what can do with the new one gets it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tilesmith import tir
from tilesmith.ir import IntImm
from tilesmith.relax.struct_info import ShapeExpr, TensorStructInfo, TupleStructInfo
from tilesmith.relay.expr import Call
from tilesmith.relay.op.view import make_call
from tilesmith.relay.transform.infer_layout_utils import InferCorrectLayoutOutput
from tilesmith.support.errors import ShapeError, TilesmithError
from tilesmith.support.fallbacks import record_fallback

__all__ = [
    "Form", "Held", "StatedLayouts", "agrees", "form_of", "rank", "recorded", "sizes_of",
    "stated_layouts", "transformed",
]  # fmt: skip


class Form(NamedTuple):
    """The layout that a tensor had, and the one that it has."""

    old: str
    new: str

    def place(self, axis: int) -> int | None:
        """Return where an axis is now; None if it is split."""
        letter = self.old[axis]
        names = list(tir.layout(self.new))
        return None if letter.lower() in names else names.index(letter)

    def places(self, axis: int) -> list[int]:
        """Return where the parts of an axis are now."""
        letter = self.old[axis]
        names = list(tir.layout(self.new))
        return [place for place, name in enumerate(names) if name.upper() == letter]


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


def form_of(old: str, new: str) -> Form | None:
    """Return the form of a tensor that had one layout and has another; None if they are the same or
    are not about the same axes.
    """
    if not old or not new or old == new or not old.isupper():
        return None
    axes = sorted([axis for axis in tir.layout(new) if axis.isupper()])
    return Form(old, new) if sorted(old) == axes else None


def sizes_of(info: Any) -> list[Any] | None:
    """Return the sizes of a tensor, those that are known as int; None if there are none."""
    if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr):
        return None
    return [one.value if isinstance(one, IntImm) else one for one in info.shape.values]


def rank(expr: Any) -> int:
    """Return the rank of a tensor, -1 if it is not known."""
    return int(getattr(expr.struct_info, "ndim", -1))


def transformed(expr: Any, source: str, target: str) -> Any:
    """Return a tensor in another layout. Raises ShapeError if an axis cannot be split evenly."""
    if source == target:
        return expr
    _check_even(expr, source, target)
    return make_call("layout_transform", [expr], {"src_layout": source, "dst_layout": target})


def _check_even(expr: Any, source: str, target: str) -> None:
    """Refuse a transformation that would add elements: there is no way back from it."""
    shape = sizes_of(expr.struct_info)
    whole = tir.layout(source)
    if shape is None or len(shape) != len(whole):
        raise ShapeError(f"the tensor has rank {rank(expr)}, its layout {source} another one")
    if any(name.islower() for name in whole):
        return
    for name, size in tir.layout(target).axes:
        found = shape[whole.index_of(name.upper())]
        if size and not (isinstance(found, int) and found % size == 0):
            raise ShapeError(f"{found} elements along {name.upper()} do not fit {target}")


def agrees(old: Any, new: Any, forms: Sequence[Form | None]) -> bool:
    """Return whether a result is that of a call before, but for the layouts: of the same dtype, and
    of the sizes that follow from the forms. Sizes that are not known are taken to agree.
    """
    if isinstance(old, TupleStructInfo) and isinstance(new, TupleStructInfo):
        pairs = list(zip(old.fields, new.fields, forms))
        return len(old.fields) == len(new.fields) and all(agrees(a, b, [c]) for a, b, c in pairs)
    before, now = sizes_of(old), sizes_of(new)
    if before is None or now is None or old.dtype != new.dtype:
        return before is None and now is None
    form = forms[0]
    if form is not None:
        if len(before) != len(form.old):
            return False
        way = tir.bijective_layout(form.old, form.new)
        before = [getattr(one, "value", one) for one in way.forward_shape(before)]
    if len(before) != len(now):
        return False
    return all(a == b for a, b in zip(before, now) if isinstance(a, int) and isinstance(b, int))


def recorded(what: str, error: TilesmithError) -> None:
    """Note that a tensor stays in its old layout."""
    record_fallback("layout", what, error)


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
