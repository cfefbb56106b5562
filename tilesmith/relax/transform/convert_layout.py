"""ConvertLayout: convolutions and their neighbours in the layouts that a user wishes.

    y = R.nn.conv2d(x, w)             x1 = R.permute_dims(x, [0, 2, 3, 1])
    z = R.nn.relu(y)           →      w1 = R.permute_dims(w, [0, 2, 3, 1])
                                      y = R.nn.conv2d(x1, w1, data_layout="NHWC", …)
                                      z1 = R.nn.relu(y)
                                      z = R.permute_dims(z1, [0, 3, 1, 2])

The result of a converted call stays in its new layout for as long as its users can do with it
(`layout_rules`); the others, and what is seen outside of the dataflow block, get it as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith import tir
from tilesmith.ir import IRModule, Op
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import remove_all_unused
from tilesmith.relax.expr import (
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.transform.layout_forms import agrees, check_even, form_of
from tilesmith.relax.transform.layout_rules import Held, carry
from tilesmith.support.errors import OpAttributeInvalid, TilesmithError, UnsupportedError
from tilesmith.support.fallbacks import record_fallback

__all__ = ["convert_layout", "converted"]


def converted(expr: Any, source: str, target: str) -> Any:
    """Return a tensor in another layout. Raises ShapeError if an axis cannot be split evenly."""
    check_even(expr, source, target)
    if source.isupper() and target.isupper():
        return operators.permute_dims(expr, [source.index(axis) for axis in target])
    way = tir.bijective_layout(source, target)
    index_map = tir.IndexMap.from_func(
        lambda *index: way.forward_index(list(index)), len(tir.layout(source))
    )
    return operators.layout_transform(expr, index_map)


class _Block(PyExprMutator):
    """Rewrites dataflow blocks; variables that are in a new layout are known by their form."""

    def __init__(self, mod: IRModule, wanted: Mapping[Op, Sequence[str]]) -> None:
        super().__init__(mod)
        self.wanted = wanted
        self.held: dict[Var, Held] = {}
        self.made: dict[tuple[Any, str, str], Any] = {}

    def visit_dataflow_block_(self, block: DataflowBlock) -> Any:
        """Rewrite a block; what was transformed inside is not seen outside."""
        outer = self.held, self.made
        self.held, self.made = {}, {}
        new = super().visit_dataflow_block_(block)
        self.held, self.made = outer
        return new

    def visit_var_(self, op: Var) -> Any:
        """Return a variable as it was, for whoever does not ask for its form."""
        held = self.held.get(op)
        return super().visit_var_(op) if held is None else self.plain(held)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Bind a value in a new layout where there is one."""
        value = binding.value
        if self.builder_.current_block_is_dataflow():
            found = None
            if isinstance(value, Call) and isinstance(value.op, Op):
                found = self.call(value)
            elif isinstance(value, TupleGetItem):
                found = self.field(value)
            elif isinstance(value, Var) and value in self.held:
                found = self.held[value]
            if found is not None:
                self.bind(binding, found)
                return
        super().visit_var_binding_(binding)

    def bind(self, binding: VarBinding, found: Held) -> None:
        """Bind what a value has become; a variable that is seen outside gets it as it was."""
        expr = found.expr
        if not isinstance(expr, Var):
            expr = self.builder_.normalize(expr)
            var = DataflowVar(binding.var.name_hint, known_struct_info(expr), binding.var.span)
            self.builder_.emit_normalized(VarBinding(var, expr, binding.span))
            found = Held(var, found.form, found.forms)
        if isinstance(binding.var, DataflowVar):
            self.held[binding.var] = found
        else:
            self.reemit_binding(binding, self.builder_.normalize(self._plain_value(found)))

    # Layouts

    def held_of(self, expr: Any) -> Held:
        """Return what an operand has become."""
        known = self.held.get(expr) if isinstance(expr, Var) else None
        return Held(self.visit_expr(expr)) if known is None else known

    def plain(self, held: Held) -> Any:
        """Return an expression as it was, bound to a variable."""
        if held.is_plain:
            return held.expr
        if held.form is not None:
            return self.transform(held.expr, held.form.new, held.form.old)
        key = (held.expr, "", "")
        if key not in self.made:
            self.made[key] = self.builder_.emit(self._plain_value(held))
        return self.made[key]

    def _plain_value(self, held: Held) -> Any:
        if held.is_plain:
            return held.expr
        if held.form is not None:
            return converted(held.expr, held.form.new, held.form.old)
        fields = [
            self.plain(Held(self.builder_.emit(TupleGetItem(held.expr, place)), form))
            for place, form in enumerate(held.forms)
        ]
        return Tuple(fields)

    def transform(self, expr: Any, source: str, target: str) -> Any:
        """Return a tensor in another layout; the same one is made once."""
        if source == target:
            return expr
        key = (expr, source, target)
        if key not in self.made:
            self.made[key] = self.builder_.emit(converted(expr, source, target))
        return self.made[key]

    def in_layout(self, held: Held, old: str, wanted: str) -> Any:
        """Return a tensor that was in a layout in the one that is wanted now."""
        if held.form is not None and held.form.old == old:
            return self.transform(held.expr, held.form.new, wanted)
        return self.transform(self.plain(held), old, wanted)

    def emit(self, expr: Any) -> Any:
        """Bind a value that a rule makes between."""
        return self.builder_.emit(expr)

    # Calls

    def field(self, item: TupleGetItem) -> Held | None:
        """Return a field of a tuple of which some fields are in new layouts."""
        held = self.held.get(item.tuple_value) if isinstance(item.tuple_value, Var) else None
        if held is None or not held.forms:
            return None
        return Held(TupleGetItem(held.expr, item.index, item.span), held.forms[item.index])

    def call(self, call: Call) -> Held | None:
        """Return a call in new layouts; None if it stays as it is."""
        layouts = self.wanted.get(call.op)
        try:
            if layouts is not None:
                found = self.chosen(call, layouts)
                if found is not None:
                    return found
            if any(isinstance(arg, Var) and arg in self.held for arg in _operands(call)):
                found = carry(self, call)
                if found is not None:
                    info = known_struct_info(call)
                    if agrees(info, found.expr.struct_info, found.forms or [found.form]):
                        return found
        except TilesmithError as error:
            record_fallback("layout", f"a call of {call.op.name}", error)
        return None

    def chosen(self, call: Any, layouts: Sequence[str]) -> Held | None:
        """Return a call of an operator in the layouts that the user wishes for it."""
        attrs = dict(call.attrs.items())
        if "kernel_layout" in attrs:
            names = ["data_layout", "kernel_layout"]
        else:
            names = ["layout"]
        old = [attrs[name] for name in names]
        own = list(layouts[: len(names)])
        new = [
            was if one == "default" else one
            for one, was in zip(own + ["default"] * (len(names) - len(own)), old)
        ]
        out_old = attrs.get("out_layout") or old[0]
        out_new = layouts[len(names)] if len(layouts) > len(names) else new[0]
        for was, one in zip([*old, out_old], [*new, out_new]):
            if was != one and form_of(was, one) is None:
                raise OpAttributeInvalid(f"{was} cannot become {one}: they have other axes")
        if new == old and out_new == out_old:
            return None
        args = [
            self.in_layout(self.held_of(arg), was, one)
            for arg, was, one in zip(call.args, old, new)
        ]
        args += [self.visit_expr(arg) for arg in call.args[len(old) :]]
        attrs.update(zip(names, new))
        if "out_layout" in attrs:
            attrs["out_layout"] = out_new
        made = Call(call.op, args, attrs, call.sinfo_args, call.span)
        form = form_of(out_old, out_new)
        return Held(made, form) if agrees(call.struct_info, made.struct_info, [form]) else None


def _operands(call: Call) -> list[Any]:
    found: list[Any] = []
    for arg in call.args:
        found += getattr(arg, "fields", (arg,))
    return found


def _checked(desired_layouts: Mapping[str, Sequence[str]]) -> dict[Op, list[str]]:
    found = {}
    for name, layouts in desired_layouts.items():
        op = Op.get(name)
        spec = op.spec
        fields = spec.schema.fields if spec is not None and spec.schema is not None else {}
        if "kernel_layout" not in fields and "layout" not in fields:
            raise UnsupportedError(
                f"ConvertLayout: calls of {name} do not say in which layouts their tensors are",
                notes=("name convolutions, pools or image operators; others follow them",),
            )
        if isinstance(layouts, str) or not layouts:
            raise OpAttributeInvalid(
                f"ConvertLayout: the layouts of {name} are a list, for its operands in order"
            )
        found[op] = [str(one) for one in layouts]
    return found


@compiler_pass("ConvertLayout")
def convert_layout(
    func: Function, mod: IRModule, desired_layouts: Mapping[str, Sequence[str]]
) -> Function:
    """Computes the operators that ``desired_layouts`` names in the layouts that it gives:
    ``{"relax.nn.conv2d": ["NHWC", "OHWI"]}``, for data and weights and, if there is a third one,
    the result; "default" stands for the layout as it is.

    Tensors are transformed in dataflow blocks where operators need them in different layouts; the
    other operators follow where they can.
    """
    wanted = _checked(desired_layouts)
    changed = _Block(mod, wanted).visit_expr(func)
    return changed if changed is func else remove_all_unused(changed)
