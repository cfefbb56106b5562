"""Which operators of relax can do with operands in other layouts, and how they then are called.

What follows from a form alone, such as where an axis is now, is `layout_forms`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tilesmith.ir import Op
from tilesmith.relax import op as operators
from tilesmith.relax.expr import Call, PrimValue, Tuple, known_struct_info
from tilesmith.relax.op.declaration import find_function
from tilesmith.relax.spec import Layout
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.relax.transform.layout_forms import (
    Form,
    form_of,
    moved,
    rank,
    reduced,
    sizes_of,
    widths,
    without,
)

__all__ = ["Held", "carry"]


@dataclass
class Held:
    """An expression in the place of another: a tensor in a form (None: as it was), or a tuple whose
    fields have forms.
    """

    expr: Any
    form: Form | None = None
    forms: list[Form | None] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        """Whether the expression is as it was."""
        return self.form is None and not any(self.forms)


class Layouts(Protocol):
    """What rules ask of the rewriting of a function."""

    def held_of(self, expr: Any) -> Held:
        """Return what an operand has become."""

    def plain(self, held: Held) -> Any:
        """Return an expression as it was."""

    def in_layout(self, held: Held, old: str, wanted: str) -> Any:
        """Return a tensor that was in a layout in the one that is wanted now."""

    def emit(self, expr: Any) -> Any:
        """Bind a value that a rule makes between."""


Rule = Callable[[Layouts, Any], Held | None]


def carry(layouts: Layouts, call: Any) -> Held | None:
    """Return a call with operands in their new layouts, None if its operator cannot do with them;
    some operand is not as it was.
    """
    rule = _RULES.get(call.op)
    if rule is None and isinstance(call.op, Op) and call.op.spec is not None:
        if call.op.spec.layout is Layout.ELEMENTWISE:
            rule = _by_element
        elif call.attrs is not None and "layout" in call.attrs:
            rule = _named
    return None if rule is None else rule(layouts, call)


def _made(call: Call, args: list[Any], **changes: Any) -> Call:
    attrs = {**({} if call.attrs is None else dict(call.attrs.items())), **changes}
    return Call(call.op, args, attrs or None, call.sinfo_args, call.span)


def _data(layouts: Layouts, call: Any) -> tuple[Any, Form | None, list[Any]]:
    """Return the first operand, its form, and the other operands as they were."""
    data = layouts.held_of(call.args[0])
    if data.form is None:
        return data.expr, None, []
    return data.expr, data.form, [layouts.plain(layouts.held_of(arg)) for arg in call.args[1:]]


def _by_element(layouts: Layouts, call: Any) -> Held | None:
    args = [layouts.held_of(arg) for arg in call.args]
    forms = [one.form for one in args if one.form is not None]
    shape = sizes_of(known_struct_info(call))
    if not forms or shape is None or len(shape) != len(forms[0].old):
        return None
    operands = [_spread(layouts, one, forms[0], len(shape)) for one in args]
    return Held(_made(call, operands), forms[0])


def _spread(layouts: Layouts, held: Held, form: Form, count: int) -> Any:
    """Return an operand, which may have fewer axes, in the layout of the result."""
    if held.form == form:
        return held.expr
    found = layouts.plain(held)
    if not isinstance(known_struct_info(found), TensorStructInfo) or rank(found) == 0:
        return found
    if rank(found) < count:
        found = layouts.emit(operators.expand_dims(found, list(range(count - rank(found)))))
    return layouts.in_layout(Held(found), form.old, form.new)


def _named(layouts: Layouts, call: Any) -> Held | None:
    """Pools, resizing: the attribute ``layout`` becomes the new one."""
    data, form, rest = _data(layouts, call)
    attrs = dict(call.attrs.items())
    if form is None or form.old != attrs["layout"]:
        return None
    if attrs.get("out_layout") not in (None, "", attrs["layout"]):
        return None
    if any(axis.lower() in form.new for axis in form.old if axis in "DHW"):
        return None  # windows move along whole axes
    changes = {"layout": form.new} | ({"out_layout": form.new} if "out_layout" in attrs else {})
    return Held(_made(call, [data, *rest], **changes), form)


def _permute(layouts: Layouts, call: Any) -> Held | None:
    """Let the axes stay where they are: only what they were called changes."""
    data, form, _ = _data(layouts, call)
    if form is None:
        return None
    given = call.attrs.axes
    axes = range(len(form.old))[::-1] if given is None else [int(a) % len(form.old) for a in given]
    return Held(data, form_of("".join([form.old[axis] for axis in axes]), form.new))


def _along(*names: str) -> Rule:
    """Return the rule of operators with axes in attributes; the other operands are vectors along
    one axis, or none.
    """

    def rule(layouts: Layouts, call: Any) -> Held | None:
        data, form, rest = _data(layouts, call)
        if form is None:
            return None
        changes: dict[str, Any] = {}
        for name in names:
            axis = call.attrs[name]
            if axis is None:
                return None
            is_one = isinstance(axis, int)
            places = moved(form, [axis] if is_one else axis)
            if places is None or (not is_one and rest and name == names[0] and len(places) > 1):
                return None  # a table over several axes would need another order itself
            changes[name] = places[0] if is_one else places
        made = _made(call, [data, *rest], **changes)
        info = known_struct_info(call)
        if isinstance(info, TupleStructInfo):
            count = len(info.fields)
            every = call.op is operators.split.op
            return Held(made, None, [form] * count if every else [form, *[None] * (count - 1)])
        return Held(made, form)

    return rule


def _dropout(layouts: Layouts, call: Any) -> Held | None:
    data, form, _ = _data(layouts, call)
    return None if form is None else Held(_made(call, [data]), None, [form, form])


def _concat(layouts: Layouts, call: Any) -> Held | None:
    if not isinstance(call.args[0], Tuple) or call.attrs.axis is None:
        return None
    fields = [layouts.held_of(one) for one in call.args[0].fields]
    forms = [one.form for one in fields if one.form is not None]
    if not forms:
        return None
    axis = int(call.attrs.axis) % len(forms[0].old)
    place = forms[0].places(axis)[0]  # parts of an axis that is split divide it evenly
    operands = [layouts.in_layout(one, forms[0].old, forms[0].new) for one in fields]
    return Held(_made(call, [Tuple(operands)], axis=place), forms[0])


def _reduce(layouts: Layouts, call: Any) -> Held | None:
    data, form, _ = _data(layouts, call)
    if form is None:
        return None
    axis, finds = call.attrs.axis, call.op in (operators.argmax.op, operators.argmin.op)
    axes = range(len(form.old)) if axis is None else [axis] if isinstance(axis, int) else axis
    found = reduced(form, axes, bool(call.attrs.keepdims), finds)
    if found is None:
        return None
    if axis is None:
        return Held(_made(call, [data]), found[1])
    places = found[0][0] if isinstance(axis, int) else found[0]
    return Held(_made(call, [data], axis=places), found[1])


def _squeeze(layouts: Layouts, call: Any) -> Held | None:
    data, form, _ = _data(layouts, call)
    axes = call.attrs.axis
    if form is None or axes is None:
        return None
    places = moved(form, axes)
    if places is None:
        return None
    gone = {form.old[int(one) % len(form.old)] for one in axes}
    return Held(_made(call, [data], axis=places), without(form, gone))


def _pad(layouts: Layouts, call: Any) -> Held | None:
    data, form, _ = _data(layouts, call)
    flat = call.attrs.pad_width
    if form is None:
        return None
    found = widths(form, list(zip(flat[::2], flat[1::2])))
    if found is None:
        return None
    return Held(_made(call, [data], pad_width=[side for pair in found for side in pair]), form)


def _strided_slice(layouts: Layouts, call: Any) -> Held | None:
    data, form, rest = _data(layouts, call)
    axes = call.args[1] if len(call.args) > 1 else None
    if form is None or not isinstance(axes, Tuple):
        return None
    values = [getattr(getattr(one, "value", None), "value", None) for one in axes.fields]
    if not all(isinstance(one, int) for one in values):
        return None
    places = moved(form, [one for one in values if isinstance(one, int)])
    if places is None:
        return None
    return Held(_made(call, [data, Tuple([PrimValue(one) for one in places]), *rest[1:]]), form)


_RULES: dict[Any, Rule] = {
    operators.concat.op: _concat,
    operators.nn.batch_norm.op: _along("axis"),
    operators.nn.dropout.op: _dropout,
    operators.nn.group_norm.op: _along("channel_axis", "axes"),
    operators.nn.instance_norm.op: _along("channel_axis", "axes"),
    operators.nn.layer_norm.op: _along("axes"),
    operators.nn.pad.op: _pad,
    operators.nn.rms_norm.op: _along("axes"),
    operators.permute_dims.op: _permute,
    operators.squeeze.op: _squeeze,
    operators.strided_slice.op: _strided_slice,
    **{
        find_function(name).op: _along("axis")
        for name in (
            "cumprod cumsum flip nn.log_softmax nn.lrn nn.prelu nn.softmax repeat split"
        ).split()
    },
    **{
        find_function(name).op: _reduce
        for name in "argmax argmin max mean min prod std sum variance".split()
    },
}
