"""Declares operators: the record, the operator, and the function that users call.

    softmax = define("nn.softmax", "data", infer_softmax, schema=Schema(axis=integer(-1)), …)
    softmax(x, axis=1)                      # makes a call
    softmax.op is Op.get("relax.nn.softmax")

The function is found as ``relax.op.nn.softmax`` and ``R.nn.softmax``. An operator whose function
does more than pack arguments has one written by hand beside its record, under
``@function_of(record)``; a function that composes other operators is published with
``@function("linear")``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, cast

from tilesmith.ir import Op, PrimExpr
from tilesmith.relax.attrs import Schema
from tilesmith.relax.expr import (
    Call,
    DataTypeImm,
    PrimValue,
    RelaxExpr,
    StringImm,
    Tuple,
    as_expr,
    const,
)
from tilesmith.relax.op.agreement import checked
from tilesmith.relax.op.common import as_shape, size
from tilesmith.relax.spec import (
    Agreement,
    Compute,
    Execution,
    Gradient,
    Layout,
    OpSpec,
    Precision,
    parse_arguments,
)
from tilesmith.support.errors import UnknownMemberError

__all__ = [
    "CONVERT", "OpFunction", "call", "define", "find_function", "function",
    "function_of", "functions", "operand",
]  # fmt: skip

Written = TypeVar("Written", bound=Callable[..., Any])


class OpFunction(Protocol):
    """A function that makes calls of an operator."""

    op: Op
    __name__: str

    def __call__(self, *args: Any, **attributes: Any) -> Call: ...


_FUNCTIONS: dict[str, OpFunction] = {}  # "nn.relu" → the function that users call


def define(
    name: str,
    arguments: str,
    infer: Callable[[Call], Any],
    *,
    description: str = "",
    schema: Schema | None = None,
    agreeing: Callable[[Call], Iterator[Agreement]] | None = None,
    compute: Compute | None = None,
    counts: Callable[..., Any] | None = None,
    evaluate: Callable[..., Any] | None = None,
    gradient: Gradient | None = None,
    precision: Precision = Precision.NEVER,
    layout: Layout = Layout.FIXED,
    view_of: int | None = None,
    execution: Execution = Execution.KERNEL,
    host: str = "",
    is_identity: bool = False,
    is_pure: bool = True,
) -> OpFunction:
    """Register the operator ``relax.<name>`` with its record (see `OpSpec`) and give its function.

    ``arguments`` are names with blanks between them: ``"data weight bias?"`` (``?``: may be left
    out), ``"x shape:shape"`` (converted by `CONVERT`). ``description`` is the function's docstring.
    """
    infer = checked(infer, agreeing)
    spec = OpSpec(
        name="relax." + name,
        arguments=parse_arguments(arguments),
        infer=infer,
        schema=schema,
        agreeing=agreeing,
        compute=compute,
        counts=counts,
        evaluate=(lambda attrs, x: x) if is_identity and evaluate is None else evaluate,
        gradient=gradient,
        precision=precision,
        layout=layout,
        view_of=view_of,
        execution=execution,
        host=host,
        is_identity=is_identity,
        is_pure=is_pure,
        description=description,
    )
    op = Op.register(spec.name, schema=schema, FPurity=is_pure, TMixedPrecisionPolicy=precision)
    object.__setattr__(op, "spec", spec)  # the operator is still under construction here
    op.set_attr("FInferStructInfo", lambda call, builder=None: infer(call))
    if gradient is not None:
        op.set_attr("FPrimalGradient", gradient)
    return _publish(name, _made_function(op, spec))


def _made_function(op: Op, spec: OpSpec) -> OpFunction:
    """Return the function that packs its arguments into a call."""

    converted = [
        (position, CONVERT[argument.kind])
        for position, argument in enumerate(spec.arguments)
        if argument.kind != "value"
    ]

    def made(*args: Any, **named: Any) -> Call:
        operands, attributes = spec.bind(args, named)
        for position, convert in converted:
            operands[position] = convert(operands[position], operands)
        return call(op, *operands, **attributes)

    made.__name__ = spec.short_name
    # By these two it is pickled: `relax.op` finds `nn.relu`.
    made.__module__, made.__qualname__ = __package__, spec.name.removeprefix("relax.")
    made.__doc__ = spec.description
    made.__signature__ = spec.signature()  # type: ignore[attr-defined]
    made.op = op  # type: ignore[attr-defined]
    return cast(OpFunction, made)


def function_of(made: OpFunction) -> Callable[[Written], Written]:
    """Let users call the decorated function instead of the one made from the record."""

    def publish(written: Written) -> Written:
        written.op = made.op  # type: ignore[attr-defined]
        return _publish(made.op.name.removeprefix("relax."), written)

    return publish


def function(name: str) -> Callable[[Written], Written]:
    """Publish a function without an operator of its own as ``relax.op.<name>`` and ``R.<name>``."""
    return lambda written: _publish(name, written)


def _publish(name: str, made: Written) -> Written:
    _FUNCTIONS[name] = cast(OpFunction, made)
    return made


def functions(prefix: str = "") -> dict[str, OpFunction]:
    """Return the known functions of a namespace (``"nn."``), by their names in it."""
    found = {name.removeprefix(prefix): made for name, made in _FUNCTIONS.items()
             if name.startswith(prefix)}  # fmt: skip
    return {name: made for name, made in found.items() if "." not in name}


def find_function(name: str) -> OpFunction:
    """Return the function ``name`` (``"nn.relu"``); raises AttributeError if there is none."""
    if name not in _FUNCTIONS:
        near = difflib.get_close_matches(name, _FUNCTIONS, n=1)
        raise UnknownMemberError(
            f"relax.op has no operator '{name}'",
            notes=(f"did you mean '{near[0]}'?",) if near else (),
        )
    return _FUNCTIONS[name]


def call(op: Op, *args: Any, **attrs: Any) -> Call:
    """Make a call of an operator; trailing None arguments are omitted."""
    while args and args[-1] is None:
        args = args[:-1]
    return Call(op, [as_expr(arg) for arg in args], attrs or None)


# What the functions of users accept for an operand


def operand(value: Any, like: Any) -> RelaxExpr:
    """Convert an operand of an elementwise operator: a Python number takes the other operand's
    dtype.
    """
    if isinstance(value, RelaxExpr) or not isinstance(value, (bool, int, float)):
        return as_expr(value)
    info = getattr(like, "struct_info", None)
    dtype = getattr(info, "dtype", None)
    if dtype is None or dtype.is_void or (isinstance(value, float) and not dtype.is_float):
        dtype = None
    return const(value, dtype)


def _number(value: Any, operands: list[Any]) -> Any:
    if isinstance(value, RelaxExpr):
        return value
    like = [other for other in operands if hasattr(other, "struct_info")]
    return operand(value, like[-1] if like else None)


def _scalar(value: Any) -> Any:
    return PrimValue(value) if isinstance(value, (int, PrimExpr)) else value


def _scalars(value: Any) -> Any:
    if value is None or isinstance(value, (Tuple, Call)) or hasattr(value, "struct_info"):
        return value
    if isinstance(value, (int, PrimExpr)):
        value = (value,)
    return Tuple([item if isinstance(item, PrimValue) else PrimValue(size(item)) for item in value])


def _text(value: Any) -> Any:
    return StringImm(value) if isinstance(value, str) else value


def _dtype(value: Any) -> Any:
    return value if value is None or isinstance(value, DataTypeImm) else DataTypeImm(value)


CONVERT: dict[str, Callable[[Any, list[Any]], Any]] = {
    "number": _number,
    "shape": lambda value, operands: as_shape(value),
    "scalar": lambda value, operands: _scalar(value),
    "scalars": lambda value, operands: _scalars(value),
    "text": lambda value, operands: _text(value),
    "dtype": lambda value, operands: _dtype(value),
}
"""Kind of an argument → conversion of what users pass: a number in the dtype of the other tensors,
sizes as a shape, an integer as a scalar of the graph or several as a tuple of them, a text, a
dtype."""
