"""The record of an operator: one place that says all there is to know about it.

    relu = unary("nn.relu", lambda x: numpy.maximum(x, 0), "topi.nn.relu", "max(x, 0)")

``Op.get("relax.nn.relu").spec`` is the record; passes ask it instead of knowing names.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

from tilesmith.ir import Op
from tilesmith.relax.attrs import Schema
from tilesmith.relax.expr import Call, RelaxExpr, as_expr, const
from tilesmith.support.errors import InternalError
from tilesmith.support.lazy import resolve

__all__ = ["Compute", "FusionKind", "OpSpec", "call", "define", "operand", "topi"]

Compute: TypeAlias = str | Callable[..., Any]
"""Where to find a tensor expression, or a function ``(attrs, *inputs)`` that makes it."""


class _Inventory:
    """Stands for `tilesmith.topi`, which loads when the first program is made: a graph can be
    built, read and inspected without tensor expressions."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("tilesmith.topi"), name)


topi: Any = _Inventory()


class FusionKind(IntEnum):
    """How an operator fuses with its neighbours; the numbers are the ones users know
    (TOpPattern)."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


@dataclass(slots=True)
class OpSpec:
    """One operator.

    ``infer(call)`` gives the struct info of a call. ``compute`` makes its tensor expression:
    ``"topi.nn.softmax"`` is a function of topi that takes the inputs and then the attributes, each
    under its own name; where names or forms differ, a function ``(attrs, *inputs)`` calls topi.
    ``legalize(builder, call)`` replaces a call where that is not enough. ``evaluate(attrs,
    *arrays)`` is its meaning in numpy, for constants and as the oracle.
    """

    name: str
    arguments: tuple[str, ...]
    infer: Callable[[Call], Any]
    schema: Schema | None = None
    compute: Compute | None = None
    kind: FusionKind = FusionKind.OPAQUE
    evaluate: Callable[..., Any] | None = None
    legalize: Callable[[Any, Call], Any] | None = None
    is_pure: bool = True
    strategy: Any = None

    @property
    def short_name(self) -> str:
        """The last part of the name, which names the PrimFunc that the operator becomes."""
        return self.name.rsplit(".", 1)[-1]

    def compute_function(self) -> Callable[..., Any] | None:
        """The compute as a function ``(attrs, *inputs)``."""
        if isinstance(self.compute, str):
            self.compute = self._topi_call(self.compute)
        return self.compute

    def _topi_call(self, name: str) -> Callable[..., Any]:
        """A call of a topi function that hands over every attribute under its own name."""
        function = resolve("tilesmith." + name.replace(".", ":", 1))
        attributes = list(self.schema.fields) if self.schema is not None else []
        unknown = set(attributes) - set(inspect.signature(function).parameters)
        if unknown:
            raise InternalError(
                f"{self.name}: {name} does not take {', '.join(sorted(unknown))}",
                notes=("give a function (attrs, *inputs) that calls topi as its compute",),
            )
        return lambda attrs, *inputs: function(*inputs, **{key: attrs[key] for key in attributes})


def define(
    name: str,
    arguments: str,
    infer: Callable[[Call], Any],
    *,
    schema: Schema | None = None,
    compute: Compute | None = None,
    kind: FusionKind = FusionKind.OPAQUE,
    evaluate: Callable[..., Any] | None = None,
    legalize: Callable[[Any, Call], Any] | None = None,
    is_pure: bool = True,
) -> Op:
    """Register the operator ``relax.<name>`` with its record; ``arguments`` are names with blanks
    between."""
    full_name = "relax." + name
    op = Op.register(full_name, schema=schema, FPurity=is_pure, TOpPattern=int(kind))
    spec = OpSpec(
        full_name,
        tuple(arguments.split()),
        infer,
        schema,
        compute,
        kind,
        evaluate,
        legalize,
        is_pure,
    )
    object.__setattr__(op, "spec", spec)  # the maker finishes what nobody has seen yet
    op.set_attr("FInferStructInfo", lambda call, builder=None: infer(call))
    return op


def call(op: Op, *args: Any, **attrs: Any) -> Call:
    """A call of an operator; arguments that are None at the end are left out."""
    while args and args[-1] is None:
        args = args[:-1]
    return Call(op, [as_expr(arg) for arg in args], attrs or None)


def operand(value: Any, like: Any) -> RelaxExpr:
    """An operand of an elementwise operator: a Python number takes the dtype of the tensor beside
    it."""
    if isinstance(value, RelaxExpr) or not isinstance(value, (bool, int, float)):
        return as_expr(value)
    info = getattr(like, "struct_info", None)
    dtype = getattr(info, "dtype", None)
    if dtype is None or dtype.is_void or (isinstance(value, float) and not dtype.is_float):
        dtype = None
    return const(value, dtype)
