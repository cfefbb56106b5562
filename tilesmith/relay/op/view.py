"""Declares relay's operators: views of the records behind relax's.

    define("nn.bias_add", "data bias", _bias_add, schema=Schema(axis=integer(1)), level=1)
    relay.nn.bias_add(x, b, axis=1)          # makes a call of Op.get("nn.bias_add")
    Op.get("nn.bias_add").spec.translate     # (attrs, data, bias) → relax's expression

A view has relay's name, arguments and attributes, and says what a call means: mostly a call of the
relax operator with the same record (`same`), sometimes a few of them (`define`). The type of a call
is that of its translation. An operator that only relay has is a record with a compute of its own
(`computed`): it stays in the translated graph and is legalised like any other.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tilesmith.ir import Op
from tilesmith.relax.attrs import AttrField, Attrs, Schema, text
from tilesmith.relax.expr import Call, Constant, RelaxExpr, as_expr, known_struct_info
from tilesmith.relax.op.declaration import call as relax_call
from tilesmith.relax.op.declaration import operand
from tilesmith.relax.spec import Compute, OpSpec, Precision, parse_arguments
from tilesmith.relax.struct_info import ShapeExpr, TensorStructInfo
from tilesmith.relax.te_arguments import infer_expression
from tilesmith.relax.transform.legalize_ops import scalar_operand
from tilesmith.relay.op.open_broadcast import fitting, fitting_info
from tilesmith.relay.op.strategy.computes import OwnCompute
from tilesmith.relay.op.strategy.own import own_strategy
from tilesmith.support.errors import (
    TilesmithError,
    TypeMismatchError,
    UnknownMemberError,
    UnsupportedError,
)

__all__ = [
    "SAME", "OperandSizes", "View", "axis_of", "channels_along", "computed", "constant_value",
    "define", "effect", "find_function", "function", "functions", "make_call", "name_or_empty",
    "rank_of", "same", "sizes", "static_info", "translated",
]  # fmt: skip

Written = TypeVar("Written", bound=Callable[..., Any])

Translation = Callable[..., Any]
"""``(attrs, *arguments)`` → an expression of relax operators over the same arguments."""


OperandSizes = Callable[[Any, list[Any]], Sequence[Any]]
"""``(attrs, sizes of the first operand)`` → the sizes of each other operand, or None."""


class SizesAtRunTime(Protocol):
    """What `op.dyn.declaration` declares; ``places`` are the operands of a ``dyn`` operator that
    state sizes.
    """

    places: tuple[int, ...] | None

    def is_static(self, args: Sequence[Any]) -> bool:
        """Return whether the operands that state sizes are constants."""

    def infer(self, call: Call) -> Any:
        """Return what is known about the result."""

    def emit(self, builder: Any, attrs: Any, args: Sequence[Any]) -> Any:
        """Return relax's expression; what it is made of is added to the builder."""


@dataclass(slots=True)
class View(OpSpec):
    """An operator of relay: ``translate`` makes relax operators of a call, None for an operator
    that has its own compute and stays as it is; ``record`` is the relax operator whose record this
    view shows, where it is a single one. ``operand_sizes`` gives the shapes of the operands after
    the first one (None where it cannot tell) from the attributes and the first one's sizes.
    ``at_run_time`` translates calls of an operator that has sizes among its operands, where these
    are computed by the program (see `op.dyn.declaration`).
    """

    translate: Translation | None = None
    record: OpSpec | None = None
    level: int = 10
    operand_sizes: OperandSizes | None = None
    at_run_time: SizesAtRunTime | None = None

    def operand_infos(self, call: Call, known: Sequence[Any]) -> list[Any]:
        """Return what is known about the operands of a call, given struct info or None for each: a
        weight whose type was left open gets it from the data and the attributes.
        """
        found = list(known)
        if self.operand_sizes is None or not isinstance(found[0], TensorStructInfo):
            return found
        shape = found[0].shape
        if not isinstance(shape, ShapeExpr):
            return found
        given = self.operand_sizes(call.attrs, list(shape.values))
        for place, wanted in enumerate(given, 1):
            if place < len(found) and found[place] is None and wanted is not None:
                found[place] = TensorStructInfo(wanted, found[0].dtype)
        return found


SAME: dict[str, str] = {}
"""Operator of relax → the relay operator of the same arguments and attributes."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {}  # "nn.relu" → the function that users call


def define(
    name: str,
    arguments: str,
    translate: Translation,
    *,
    level: int,
    schema: Schema | None = None,
    record: OpSpec | None = None,
    description: str = "",
    operand_sizes: OperandSizes | None = None,
    at_run_time: SizesAtRunTime | None = None,
) -> Callable[..., Call]:
    """Register relay's operator ``name``, give and publish the function that makes its calls.

    ``arguments`` are written as for relax (`parse_arguments`). A ``description`` is the function's
    docstring.
    """
    view = View(
        name=name,
        arguments=parse_arguments(arguments),
        infer=at_run_time.infer if at_run_time is not None else static_info,
        schema=schema,
        precision=record.precision if record is not None else Precision.NEVER,
        is_pure=record.is_pure if record is not None else True,
        description=description or (record.description if record is not None else ""),
        translate=translate,
        record=record,
        level=level,
        operand_sizes=operand_sizes,
        at_run_time=at_run_time,
    )
    return _register(view)


def same(
    name: str,
    arguments: str,
    *,
    level: int,
    record: str = "",
    schema: Schema | None = None,
    attributes: Callable[[Attrs], dict[str, Any]] | None = None,
    description: str = "",
    operand_sizes: OperandSizes | None = None,
) -> Callable[..., Call]:
    """Register a view of one relax operator (``record``, by default of the same name) with the same
    arguments.

    ``attributes`` turns relay's attributes into those of the record; by default those that both
    have are handed over.
    """
    target = Op.get("relax." + (record or name))
    known = list(target.spec.schema.fields) if target.spec.schema is not None else []
    shared = [key for key in schema.fields if key in known] if schema else []
    if attributes is None and len(shared) == len(known):
        SAME.setdefault(target.name, name)

    def translate(attrs: Any, *args: Any) -> Call:
        if attributes is not None:
            return relax_call(target, *args, **attributes(attrs))
        return relax_call(target, *args, **{key: attrs[key] for key in shared})

    return define(
        name,
        arguments,
        translate,
        level=level,
        schema=schema,
        record=target.spec,
        description=description,
        operand_sizes=operand_sizes,
    )


def computed(
    name: str,
    arguments: str,
    compute: Compute,
    *,
    level: int,
    description: str,
    schema: Schema | None = None,
    evaluate: Callable[..., Any] | None = None,
) -> Callable[..., Call]:
    """Register an operator that relax does not have, by its tensor expression (see
    `OpSpec.compute`); the type of a call is that of the tensors which this makes.
    """
    view = View(
        name=name,
        arguments=parse_arguments(arguments),
        infer=lambda call: _infer_computed(view, call),
        schema=schema,
        compute=compute,
        evaluate=evaluate,
        description=description,
        level=level,
    )
    return _register(view)


def effect(
    name: str,
    arguments: str,
    infer: Callable[[Call], Any],
    *,
    description: str,
    schema: Schema | None = None,
) -> Callable[..., Call]:
    """Register an operator of what programs do to memory: its calls have a type, but no expression
    of relax (`transform.memory_alloc` writes programs without them).
    """

    def refuse(attrs: Any, *args: Any) -> Any:
        raise UnsupportedError(
            f"a call of {name} stands where no let binds it",
            notes=("bind it: relay.Let(var, call, body)",),
        )

    view = View(
        name=name,
        arguments=parse_arguments(arguments),
        infer=infer,
        schema=schema,
        is_pure=False,
        description=description,
        translate=refuse,
        level=10,
    )
    return _register(view)


def _infer_computed(view: View, call: Call) -> Any:
    expression = view.compute_function()
    if expression is None:  # `computed` demands one
        raise UnsupportedError(f"{view.name} has no tensor expression")
    made = expression
    kinds = [argument.kind for argument in view.arguments]
    args = [scalar_operand(arg) if kind == "number" else arg for kind, arg in zip(kinds, call.args)]
    return infer_expression(lambda *inputs: made(call.attrs, *inputs), *args)


def _register(view: View) -> Callable[..., Call]:
    op = Op.register(
        view.name,
        schema=view.schema,
        FPurity=view.is_pure,
        TMixedPrecisionPolicy=view.precision,
    )
    object.__setattr__(op, "spec", view)  # the operator is still under construction here
    op.set_attr("FInferStructInfo", lambda call, builder=None: view.infer(call))
    op.set_attr("FTVMCompute", OwnCompute(op))
    op.set_attr("FTVMStrategy", own_strategy(op))
    op.set_support_level(view.level)
    op.set_num_inputs(len(view.arguments))
    for argument in view.arguments:
        op.add_argument(argument.name, "Expr", "")
    return function(view.name)(_made_function(op, view))


def _made_function(op: Op, view: View) -> Callable[..., Call]:
    """Return the function that packs its arguments into a call."""
    numbers = [
        position for position, argument in enumerate(view.arguments) if argument.kind == "number"
    ]

    def made(*args: Any, **named: Any) -> Call:
        operands, attributes = view.bind(args, named)
        for position in numbers:
            operands[position] = _operand(operands[position], operands)
        return make_call(op, operands, attributes)

    made.__name__ = view.short_name
    made.__module__, made.__qualname__ = __package__ or "", view.name
    made.__doc__ = view.description
    made.__signature__ = view.signature()  # type: ignore[attr-defined]
    made.op = op  # type: ignore[attr-defined]
    return made


def _operand(value: Any, operands: list[Any]) -> Any:
    """Return a Python number as a constant in the dtype of the other operands."""
    if isinstance(value, RelaxExpr):
        return value
    like = [other for other in operands if isinstance(other, RelaxExpr)]
    made = operand(value, like[-1] if like else None)
    return Constant(made.data, dialect="relay") if isinstance(made, Constant) else made


def translated(builder: Any, call: Call, operands: Sequence[Any]) -> Any:
    """Return what a call of an operator stands for in relax, over operands of relax: an expression
    that the builder has yet to emit.
    """
    view = call.op.spec
    if not isinstance(view, View) or view.translate is None:
        return Call(call.op, list(operands), call.attrs, call.sinfo_args, call.span)
    try:
        if view.at_run_time is not None and not view.at_run_time.is_static(operands):
            return view.at_run_time.emit(builder, call.attrs, operands)
        return fitting(builder, call.op.name, view.translate(call.attrs, *operands))
    except TilesmithError as error:
        error.span = error.span or call.span
        raise


def static_info(call: Call) -> Any:
    """Return what is known about the result of a call whose sizes are not computed."""
    made = call.op.spec.translate(call.attrs, *call.args)
    info = known_struct_info(made)
    if isinstance(info, TensorStructInfo) and info.shape is None:
        return fitting_info(made)
    return info


def make_call(op: Op | str, args: Any, attributes: Any = None) -> Call:
    """Make a call of a relay operator; trailing None arguments are omitted."""
    args = list(args)
    while args and args[-1] is None:
        args.pop()
    return Call(op, [as_expr(arg) for arg in args], attributes or None)


def function(name: str) -> Callable[[Written], Written]:
    """Publish a function as ``relay.<name>``: in place of the one made from the operator of that
    name, or without an operator of its own.
    """

    def publish(written: Written) -> Written:
        _FUNCTIONS[name] = written
        return written

    return publish


def functions(prefix: str = "") -> dict[str, Callable[..., Any]]:
    """Return the known functions of a namespace (``"nn."``), by their names in it."""
    found = {
        name.removeprefix(prefix): made
        for name, made in _FUNCTIONS.items()
        if name.startswith(prefix)
    }
    return {name: made for name, made in found.items() if "." not in name}


def find_function(name: str) -> Callable[..., Any]:
    """Return the function ``name`` (``"nn.relu"``); raises AttributeError if there is none."""
    if name not in _FUNCTIONS:
        near = difflib.get_close_matches(name, _FUNCTIONS, n=1)
        raise UnknownMemberError(
            f"relay has no operator '{name}'",
            notes=(f"did you mean '{near[0]}'?",) if near else (),
        )
    return _FUNCTIONS[name]


# What translations ask


def name_or_empty() -> AttrField:
    """Declare a layout or a dtype that may be left open: then it is "" as users know it, never
    None.
    """
    field = text("")
    convert = field.convert
    field.convert = lambda value: "" if value is None else convert(value)
    return field


def sizes(expr: Any) -> tuple[Any, ...]:
    """Return the sizes of a tensor, constant ones as int; raises UnsupportedError where they are
    not known.
    """
    info = known_struct_info(expr)
    shape = getattr(info, "shape", None)
    values = getattr(shape, "values", None)
    if values is None:
        raise UnsupportedError(
            "the sizes of this tensor have to be known here",
            notes=("declare the variable with its shape: relay.var(name, shape=...)",),
        )
    return tuple([getattr(value, "value", value) for value in values])


def rank_of(expr: Any) -> int:
    """Return the rank of a tensor; raises UnsupportedError where it is not known."""
    info = known_struct_info(expr)
    rank = getattr(info, "ndim", -1)
    return len(sizes(expr)) if rank == -1 else int(rank)


def channels_along(count: int) -> OperandSizes:
    """Return the sizes of ``count`` operands that have one element for each channel: a place along
    the attribute ``axis`` of the first operand.
    """
    return lambda attrs, data: [[data[attrs.axis]]] * count


def axis_of(axis: int, rank: int) -> int:
    """Return an axis counted from the front."""
    return axis + rank if axis < 0 else axis


def constant_value(expr: Any, what: str) -> Any:
    """Return the value of an argument that has to be a constant, as numpy's array or a Python
    number; raises TypeMismatchError for any other expression.
    """
    if isinstance(expr, (bool, int, float)):
        return expr
    if not isinstance(expr, Constant):
        raise TypeMismatchError(f"{what} has to be a constant", notes=("write relay.const(value)",))
    value = expr.data.numpy()
    return value.item() if value.ndim == 0 else value
