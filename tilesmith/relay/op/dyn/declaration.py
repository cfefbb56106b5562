"""Declares operators that get sizes as operands: ``dyn.reshape(x, shape)``.

Where the sizes are constants, a call is one of the static operator (``reshape(x, newshape=...)``),
which `transform.DynamicToStatic` puts in its place. Else they become symbolic sizes of relax, bound
when the program has computed them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy

from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax import op as relax
from tilesmith.relax.attrs import Schema
from tilesmith.relax.expr import Call, Constant, RelaxExpr, known_struct_info
from tilesmith.relax.struct_info import ShapeExpr, ShapeStructInfo, Var
from tilesmith.relax.te_arguments import infer_expression
from tilesmith.relay.expr import TupleWrapper, const
from tilesmith.relay.op.tensor import dtype_of
from tilesmith.relay.op.view import define, find_function, function, sizes
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.unknown import Any as AnySize

__all__ = [
    "Place", "count_of", "dynamic", "int64", "is_computed", "of_unknown_sizes", "static_form",
]  # fmt: skip


class Place:
    """Where a call is translated: makes symbolic sizes of tensors, and calls of tensor programs."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def sizes(self, vector: Any, name: str) -> list[Any]:
        """Return the elements of a vector as symbolic sizes, bound when the program runs."""
        variables: list[Any] = [
            SymbolicVar(f"{name}_{number}", "int64") for number in range(count_of(vector))
        ]
        if variables:
            shape = self.builder.emit(relax.tensor_to_shape(self.builder.emit(int64(vector))))
            self.builder.match_cast(shape, ShapeStructInfo(variables))
        return variables

    def compute(self, name: str, expression: Callable[..., Any], *args: Any) -> Any:
        """Return what a tensor expression gives for arguments that are bound."""
        args = tuple([self.builder.normalize_argument(one) if _is_value(one) else one
                      for one in args])  # fmt: skip
        return self.builder.call_te(expression, *args, primfunc_name_hint=name)


class _Inference(Place):
    """Finds out what is known about a result: nothing is emitted."""

    def __init__(self) -> None:
        super().__init__(None)

    def sizes(self, vector: Any, name: str) -> list[Any]:
        return [AnySize(name, "int64") for _ in range(count_of(vector))]

    def compute(self, name: str, expression: Callable[..., Any], *args: Any) -> Any:
        return Var(name, infer_expression(expression, *args), dialect="relax")


def _is_value(one: Any) -> bool:
    return isinstance(one, RelaxExpr) and not isinstance(one, ShapeExpr)


def count_of(vector: Any) -> int:
    """Return the number of elements of a vector of sizes, which has to be known."""
    shape = sizes(vector)
    if len(shape) != 1 or not isinstance(shape[0], int):
        raise UnsupportedError(
            "an operand that states sizes has to be a vector of a known number of elements",
            notes=("the rank of the result is not known otherwise",),
        )
    return shape[0]


def int64(vector: Any) -> Any:
    """Return a tensor of integers as int64."""
    return vector if dtype_of(vector) == "int64" else relax.astype(vector, "int64")


RunTimeTranslation = Callable[..., Any]
"""``(place, attrs, *args)`` → an expression of relax."""


@dataclass
class _Sizes:
    """Implements `view.SizesAtRunTime`."""

    name: str
    places: tuple[int, ...] | None  # None: of sizes that no constant tells
    translate: RunTimeTranslation
    static: Callable[..., Any]

    def is_static(self, args: Sequence[Any]) -> bool:
        if self.places is None:
            return False
        return all(isinstance(args[place], Constant) for place in self.places)

    def infer(self, call: Call) -> Any:
        if self.is_static(call.args):
            return known_struct_info(self.static(call.attrs, *call.args))
        return known_struct_info(self.translate(_Inference(), call.attrs, *call.args))

    def emit(self, builder: Any, attrs: Any, args: Sequence[Any]) -> Any:
        return self.translate(Place(builder), attrs, *args)


def is_computed(value: Any) -> bool:
    """Return whether sizes that a user gives are computed by the program."""
    return isinstance(value, RelaxExpr) and not isinstance(value, (Constant, ShapeExpr))


Dtype = Callable[[Mapping[str, Any]], Any]
"""``(arguments by name)`` → the dtype of an operand that is written as a number."""


def dynamic(
    name: str,
    arguments: str,
    translate: RunTimeTranslation,
    *,
    level: int,
    static: str,
    values: str,
    schema: Schema | None = None,
    description: str,
    static_only: Sequence[str] = (),
    dtypes: Mapping[str, Dtype] | None = None,
) -> None:
    """Register an operator whose operands ``values`` state sizes, and let the function of the
    ``static`` operator make its calls where one of these is computed by the program.

    ``arguments`` has the names that the static function's parameters have; so do the attributes.
    ``static_only`` are parameters of the static function that the operator does not have. ``dtypes``
    are those of operands that users may write as numbers; of sizes it is int64 unless stated.
    """
    names = [word.partition(":")[0] for word in arguments.split()]
    chosen = values.split()
    at = _Sizes(
        name,
        tuple([names.index(one) for one in chosen]),
        translate,
        lambda attrs, *args: static_translation(static_form(call_of(attrs, args))),
    )

    def call_of(attrs: Any, args: Sequence[Any]) -> Call:
        return Call(made.op, list(args), attrs)  # type: ignore[attr-defined]

    made = define(
        name,
        arguments,
        at.static,
        level=level,
        schema=schema,
        description=description,
        at_run_time=at,
    )
    _STATIC[name] = static
    all_dtypes: dict[str, Dtype] = {one: lambda given: "int64" for one in chosen}
    all_dtypes.update(dtypes or {})
    _publish(static, made, all_dtypes, chosen, tuple(static_only))


_STATIC: dict[str, str] = {}


def of_unknown_sizes(
    name: str,
    arguments: str,
    translate: RunTimeTranslation,
    *,
    level: int,
    schema: Schema | None = None,
    description: str,
) -> Callable[..., Call]:
    """Register an operator whose result has sizes that follow from the elements of operands."""

    def refuse(attrs: Any, *args: Any) -> Any:
        raise UnsupportedError(f"the sizes of the result of {name} depend on elements")

    return define(
        name,
        arguments,
        refuse,
        level=level,
        schema=schema,
        description=description,
        at_run_time=_Sizes(name, None, translate, refuse),
    )


def static_form(call: Call) -> Any:
    """Return the call of the static operator for a call whose sizes are constants."""
    view: Any = call.op.spec
    named = dict(zip([argument.name for argument in view.arguments], call.args))
    named.update({} if call.attrs is None else dict(call.attrs.items()))
    found = find_function(_STATIC[view.name])(**named)
    found = found.tuple_value if isinstance(found, TupleWrapper) else found
    return found.with_fields(span=call.span) if isinstance(found, Call) else found


def static_translation(call: Call) -> Any:
    """Return relax's expression for a call of a static operator."""
    view: Any = call.op.spec
    if view.translate is None:
        return call
    return view.translate(call.attrs, *call.args)


def _publish(
    static: str,
    made: Callable[..., Call],
    dtypes: Mapping[str, Dtype],
    chosen: Sequence[str],
    static_only: tuple[str, ...],
) -> None:
    """Let the static operator's function make calls of the dynamic one where sizes are computed."""
    given = find_function(static)
    signature = inspect.signature(given)

    @function(static)
    @wraps(given)
    def either(*args: Any, **named: Any) -> Any:
        bound = signature.bind(*args, **named)
        if not any(is_computed(bound.arguments.get(one)) for one in chosen):
            for one in chosen:
                if isinstance(bound.arguments.get(one), Constant):
                    bound.arguments[one] = bound.arguments[one].data.numpy().tolist()
            return given(*bound.args, **bound.kwargs)
        bound.apply_defaults()
        found = dict(bound.arguments)
        for one in static_only:
            if found.pop(one, None) not in (None, signature.parameters[one].default):
                raise UnsupportedError(
                    f"{static} with computed sizes does not have '{one}'",
                    notes=(f"make {', '.join(chosen)} constants",),
                )
        for one, of in dtypes.items():
            if not isinstance(found[one], RelaxExpr):
                array = numpy.asarray([1] if found[one] is None else found[one])
                found[one] = const(array, of(found))
        call = made(**found)
        both = static == "topk" and found["ret_type"] == "both"
        return TupleWrapper(call, 2) if both else call
