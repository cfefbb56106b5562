"""Converts layouts: calls that a rule changes, and what can follow them into the new layout.

    conv2d (NCHW) → relu → mean   becomes   layout_transform → conv2d (NHWC) → relu → mean

Each node is rewritten once. The result of a changed call stays in its new layout for as long as its
users can do with it (`layout_rules`); only the others get it transformed back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.relay.expr import Call, Tuple, TupleGetItem
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.rewriting import with_type_of
from tilesmith.relay.transform.layout_forms import (
    Form,
    Held,
    StatedLayouts,
    agrees,
    form_of,
    rank,
    recorded,
    stated_layouts,
    transformed,
)
from tilesmith.relay.transform.layout_rules import carry
from tilesmith.relay.walks import functions_of, is_closed, parts, post_order, with_parts
from tilesmith.support.errors import ShapeError, TilesmithError

__all__ = ["LayoutRewriter", "rewrite_layouts"]

Alter = Callable[[Call, Callable[[], list[Any]]], Any]
"""``(call, what gives its arguments)`` → an expression in its place with other layouts, or None."""


class LayoutRewriter:
    """Rewrites one function."""

    def __init__(self, alter: Alter) -> None:
        self.alter = alter
        self.held: dict[int, Held] = {}
        self.made: dict[tuple[int, str, str], Any] = {}
        self.kept: list[Any] = []  # what is known by its identity stays alive

    def run(self, function: Any) -> Any:
        """Return the function with other layouts inside."""
        for node in post_order(function, lambda one: not is_closed(one)):
            self.held[id(node)] = self._node(node)
        return self.held[id(function)].expr

    def _node(self, node: Any) -> Held:
        if isinstance(node, Op) or is_closed(node):
            return Held(node)
        if isinstance(node, Call) and isinstance(node.op, Op):
            return self._call(node)
        if isinstance(node, TupleGetItem):
            return self._field(node)
        if isinstance(node, Tuple):
            fields = [self.held[id(one)] for one in node.fields]
            forms = [one.form for one in fields]
            if any(forms):
                return Held(Tuple([one.expr for one in fields]), None, forms, fields)
        return Held(self._rebuilt(node))

    def _rebuilt(self, node: Any) -> Any:
        """Return a node over parts in their old layouts."""
        new = with_parts(node, [self.plain(self.held[id(part)]) for part in parts(node)])
        return with_type_of(node, new)

    def _field(self, node: TupleGetItem) -> Held:
        whole = self.held[id(node.tuple_value)]
        if whole.fields:
            return whole.fields[node.index]
        if not whole.is_plain:
            return Held(TupleGetItem(whole.expr, node.index), whole.forms[node.index])
        return Held(self._rebuilt(node))

    # Layouts

    def plain(self, held: Held) -> Any:
        """Return an expression as it was."""
        if held.is_plain:
            return held.expr
        if held.form is not None:
            return self.transform(held.expr, held.form.new, held.form.old)
        known = self.made.get((id(held.expr), "", ""))
        if known is None:
            fields = held.fields or [
                Held(TupleGetItem(held.expr, place), form) for place, form in enumerate(held.forms)
            ]
            known = Tuple([self.plain(one) for one in fields])
            self.kept += [held.expr, *fields]
            self.made[id(held.expr), "", ""] = known
        return known

    def transform(self, expr: Any, source: str, target: str) -> Any:
        """Return a tensor in another layout; the same one is made once."""
        if source == target:
            return expr
        key = (id(expr), source, target)
        if key not in self.made:
            self.made[key] = transformed(expr, source, target)
            self.kept.append(expr)
        return self.made[key]

    def in_layout(self, held: Held, old: str, wanted: str) -> Any:
        """Return a tensor that was in a layout in the one that is wanted now."""
        if not old or not wanted:
            return self.plain(held)
        if held.form is not None and held.form.old == old:
            return self.transform(held.expr, held.form.new, wanted)
        return self.transform(self.plain(held), old, wanted)

    # Calls

    def _call(self, call: Call) -> Held:
        args = [self.held[id(arg)] for arg in call.args]
        given: list[Any] = []

        def arguments() -> list[Any]:
            given[:] = [self.plain(one) for one in args]
            return given

        try:
            altered = self.alter(call, arguments)
            if altered is not None:
                found = self._altered(call, altered, args, given)
                if found is not None:
                    return found
        except ShapeError as error:  # the sizes do not fit the layout
            recorded(f"a call of {call.op.name}", error)
        if not all(one.is_plain for one in args):
            found = self._carried(call, args)
            if found is not None:
                return found
        return Held(self._rebuilt(call))

    def _altered(self, call: Call, new: Any, args: list[Held], given: list[Any]) -> Held | None:
        """Return what a rule has made of a call, with its operands in the layouts that it states;
        None if they do not fit.
        """
        if not isinstance(new, Call) or not isinstance(new.op, Op):
            return Held(new)
        types = [arg.checked_type for arg in call.args]
        before, _ = stated_layouts(call, (), [""] * len(args), types)
        old = list(before.inputs) if before is not None else [""] * len(args)
        now = [one.form.new if one.form is not None else was for one, was in zip(args, old)]
        after, new = stated_layouts(new, now, old, types)
        if before is None or after is None:
            return Held(new)
        operands = self._operands(
            new, before, after, {id(one): held for one, held in zip(given, args)}
        )
        form = form_of(before.output, after.output)
        made = new.with_fields(args=operands, span=call.span)
        if not agrees(call.struct_info, made.struct_info, [form]):
            return None
        return Held(made, form)

    def _operands(
        self, new: Call, before: StatedLayouts, after: StatedLayouts, given: dict[int, Held]
    ) -> list[Any]:
        operands = []
        for place, arg in enumerate(new.args):
            old = before.inputs[place] if place < len(before.inputs) else ""
            wanted = after.inputs[place] if place < len(after.inputs) else ""
            if id(arg) in given:
                operands.append(self.in_layout(given[id(arg)], old, wanted))
            elif old and wanted and old != wanted and rank(arg) == len(old):
                operands.append(self.transform(arg, old, wanted))  # computed by the rule
            else:
                operands.append(arg)
        return operands

    def _carried(self, call: Call, args: list[Held]) -> Held | None:
        """Return a call that follows its operands into their new layouts, None if it cannot."""
        try:
            found = carry(self, call, args)
            if found is None:
                return None
            forms: list[Form | None] = found.forms or [found.form]
            if agrees(call.struct_info, found.expr.struct_info, forms):
                return found
        except TilesmithError as error:
            recorded(f"a call of {call.op.name}", error)
        return None


def rewrite_layouts(mod: IRModule, alter: Alter) -> IRModule:
    """Return a module with the calls that ``alter`` changes in other layouts, and what follows."""
    mod = infer_module(mod)
    for variable, function in functions_of(mod):
        if not is_closed(function):
            mod[variable] = LayoutRewriter(alter).run(function)
    return infer_module(mod)
