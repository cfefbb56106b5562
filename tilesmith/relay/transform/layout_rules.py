"""Which operators can do with operands in other layouts, and how they then are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tilesmith.relax.spec import Layout
from tilesmith.relax.transform.layout_forms import moved, reduced, widths, without
from tilesmith.relay.expr import Call, Tuple
from tilesmith.relay.op.view import View, make_call
from tilesmith.relay.transform.calls import attrs_of
from tilesmith.relay.transform.layout_forms import (
    Form,
    Held,
    form_of,
    rank,
    sizes_of,
    stated_layouts,
    transformed,
)

__all__ = ["carry"]


class Layouts(Protocol):
    """What rules ask of the rewriting of a function."""

    def plain(self, held: Held) -> Any:
        """Return an expression as it was."""

    def in_layout(self, held: Held, old: str, wanted: str) -> Any:
        """Return a tensor that was in a layout in the one that is wanted now."""


Rule = Callable[[Layouts, Call, list[Held]], Held | None]


def carry(layouts: Layouts, call: Any, args: list[Held]) -> Held | None:
    """Return a call with operands in their new layouts, None if its operator cannot do with them.

    ``args`` are the operands; one at least is not as it was.
    """
    name = call.op.name
    if call.op.get_attr("FInferCorrectLayout") is not None:
        return _registered(layouts, call, args)
    rule = _RULES.get(name)
    if rule is not None:
        return rule(layouts, call, args)
    if name in _BY_ELEMENT or _record_layout(call) is Layout.ELEMENTWISE:
        return _by_element(layouts, call, args)
    return _named(layouts, call, args)


def _record_layout(call: Call) -> Layout | None:
    view = call.op.spec
    if not isinstance(view, View):
        return None
    return view.layout if view.record is None else view.record.layout


def _made(call: Call, args: Iterable[Any], **changes: Any) -> Call:
    attrs = {key: value for key, value in attrs_of(call).items() if value is not None}
    made = make_call(call.op, args, {**attrs, **changes})
    return made.with_fields(span=call.span)


def _registered(layouts: Layouts, call: Any, args: list[Held]) -> Held | None:
    """Ask what a program has registered for the operator."""
    types = [arg.checked_type for arg in call.args]
    old = [one.form.old if one.form is not None else "" for one in args]
    new = [one.form.new if one.form is not None else "" for one in args]
    before, _ = stated_layouts(call, old, old, types)
    after, changed = stated_layouts(call, new, old, types)
    if before is None or after is None:
        return None
    triples = zip(args, before.inputs, after.inputs)
    operands = [layouts.in_layout(held, was, wanted) for held, was, wanted in triples]
    return Held(changed.with_fields(args=operands), form_of(before.output, after.output))


# Element by element

_BY_ELEMENT = frozenset(
    (
        "annotation.checkpoint annotation.stop_fusion cast cast_like clip copy fast_erf fast_exp "
        "fast_tanh fixed_point_multiply log10 log2 nn.leaky_relu nn.relu trunc_divide"
    ).split()
)


def _by_element(layouts: Layouts, call: Any, args: list[Held]) -> Held | None:
    forms = [one.form for one in args if one.form is not None]
    shape = sizes_of(call.struct_info)
    if not forms or shape is None or len(shape) != len(forms[0].old):
        return None
    form = forms[0]
    operands = [_spread(layouts, one, form, len(shape)) for one in args]
    return Held(call.with_fields(args=operands), form)


def _spread(layouts: Layouts, held: Held, form: Form, count: int) -> Any:
    """Return an operand, which may have fewer axes, in the layout of the result."""
    if held.form == form:
        return held.expr
    found = layouts.plain(held)
    if rank(found) == 0:
        return found
    if rank(found) < count:
        added = {"axis": 0, "num_newaxis": count - rank(found)}
        found = make_call("expand_dims", [found], added)
        return transformed(found, form.old, form.new)
    return layouts.in_layout(Held(found), form.old, form.new)


def _bias_add(layouts: Layouts, call: Any, args: list[Held]) -> Held | None:
    data, bias = args
    if data.form is None:
        return None
    axis = data.form.place(call.attrs.axis)
    plain = layouts.plain(bias)
    if axis is not None:
        return Held(_made(call, [data.expr, plain], axis=axis), data.form)
    count = len(data.form.old)
    after = count - 1 - call.attrs.axis % count
    if after:
        plain = make_call("expand_dims", [plain], {"axis": 1, "num_newaxis": after})
    return Held(make_call("add", [data.expr, _spread(layouts, Held(plain), data.form, count)]),
                data.form)  # fmt: skip


# Operators that name their layout


def _named(layouts: Layouts, call: Any, args: list[Held]) -> Held | None:
    """Pools, resizing: the attribute ``layout`` becomes the new one."""
    attrs, data = attrs_of(call), args[0]
    if "layout" not in attrs or data.form is None or data.form.old != attrs["layout"]:
        return None
    if attrs.get("out_layout") not in (None, "", attrs["layout"]):
        return None
    names = data.form.new
    if any(axis.lower() in names for axis in data.form.old if axis in "DHW"):
        return None  # windows move along whole axes
    rest = [layouts.plain(one) for one in args[1:]]
    changes = {"layout": names} | ({"out_layout": ""} if "out_layout" in attrs else {})
    return Held(_made(call, [data.expr, *rest], **changes), data.form)


def _layout_transform(layouts: Layouts, call: Any, args: list[Held]) -> Held | None:
    form, attrs = args[0].form, call.attrs
    if form is None or form.old != attrs.src_layout:
        return None
    if form.new == attrs.dst_layout:
        return Held(args[0].expr)
    return Held(_made(call, [args[0].expr], src_layout=form.new))


def _transpose(layouts: Layouts, call: Any, args: list[Held]) -> Held | None:
    """Let the axes stay where they are: only what they were called changes."""
    form = args[0].form
    if form is None:
        return None
    axes = call.attrs.axes or range(len(form.old))[::-1]
    order = "".join([form.old[axis] for axis in axes])
    return Held(args[0].expr, form_of(order, form.new))


# Operators with axes


def _along_axis(layouts: Layouts, call: Any, args: list[Held]) -> Held | None:
    """The attribute ``axis`` moves; the other operands are vectors along it, or none."""
    data = args[0]
    axis = attrs_of(call).get("axis")
    if data.form is None or axis is None:
        return None
    many = not isinstance(axis, int)
    places = moved(data.form, axis if many else [axis])
    if places is None:
        return None
    rest = [layouts.plain(one) for one in args[1:]]
    made = _made(call, [data.expr, *rest], axis=places if many else places[0])
    return Held(made, data.form)


def _batch_norm(layouts: Layouts, call: Any, args: list[Held]) -> Held | None:
    found = _along_axis(layouts, call, args)
    return None if found is None else Held(found.expr, None, [found.form, None, None])


def _split(layouts: Layouts, call: Any, args: list[Held]) -> Held | None:
    found = _along_axis(layouts, call, args)
    if found is None:
        return None
    return Held(found.expr, None, [found.form] * len(call.struct_info.fields))


def _concatenate(layouts: Layouts, call: Any, args: list[Held]) -> Held | None:
    fields = args[0].fields
    forms = [one.form for one in fields if one.form is not None]
    if not forms:
        return None
    form = forms[0]
    axis = form.places(call.attrs.axis)[0]  # parts of an axis that is split divide it evenly
    operands = [layouts.in_layout(one, form.old, form.new) for one in fields]
    return Held(_made(call, [Tuple(operands)], axis=axis), form)


def _reduce(layouts: Layouts, call: Any, args: list[Held]) -> Held | None:
    form, attrs = args[0].form, attrs_of(call)
    if form is None or len(args) != 1:
        return None
    axis = attrs["axis"]
    axes = range(len(form.old)) if axis is None else [axis] if isinstance(axis, int) else axis
    chosen = {one % len(form.old) for one in axes}
    if attrs.get("exclude"):
        chosen = set(range(len(form.old))) - chosen
    found = reduced(form, chosen, attrs["keepdims"], call.op.name in ("argmax", "argmin"))
    if found is None:
        return None
    changes = {"axis": found[0], "exclude": False}
    return Held(_made(call, [args[0].expr], **changes), found[1])


def _squeeze(layouts: Layouts, call: Any, args: list[Held]) -> Held | None:
    form, axes = args[0].form, call.attrs.axis
    if form is None or axes is None:
        return None
    places = moved(form, axes)
    if places is None:
        return None
    gone = {form.old[one] for one in axes}
    return Held(_made(call, [args[0].expr], axis=places), without(form, gone))


def _pad(layouts: Layouts, call: Any, args: list[Held]) -> Held | None:
    form = args[0].form
    if form is None:
        return None
    found = widths(form, call.attrs.pad_width)
    if found is None:
        return None
    rest = [layouts.plain(one) for one in args[1:]]
    return Held(_made(call, [args[0].expr, *rest], pad_width=found), form)


def _strided_slice(layouts: Layouts, call: Any, args: list[Held]) -> Held | None:
    form, attrs = args[0].form, call.attrs
    if form is None:
        return None
    axes = range(len(attrs.begin)) if attrs.axes is None else attrs.axes
    places = moved(form, axes)
    if places is None:
        return None
    return Held(_made(call, [args[0].expr], axes=places), form)


_RULES: dict[str, Rule] = {
    "concatenate": _concatenate,
    "layout_transform": _layout_transform,
    "nn.batch_norm": _batch_norm,
    "nn.bias_add": _bias_add,
    "nn.mirror_pad": _pad,
    "nn.pad": _pad,
    "split": _split,
    "squeeze": _squeeze,
    "strided_slice": _strided_slice,
    "transpose": _transpose,
    **dict.fromkeys(
        (
            "cumprod cumsum nn.fast_softmax nn.l2_normalize nn.log_softmax nn.lrn nn.prelu "
            "nn.softmax repeat reverse"
        ).split(),
        _along_axis,
    ),
    **dict.fromkeys("all any argmax argmin max mean min prod sum".split(), _reduce),
}
