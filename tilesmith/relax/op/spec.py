"""The record of an operator: one place that says all there is to know about it.

    relu = unary("nn.relu", lambda x: numpy.maximum(x, 0), "topi.nn.relu", "max(x, 0)")

``Op.get("relax.nn.relu").spec`` is the record; passes ask it instead of knowing names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tilesmith.ir import Op
from tilesmith.relax.attrs import Schema
from tilesmith.relax.expr import Call, RelaxExpr, as_expr, const
from tilesmith.support.lazy import resolve

__all__ = ["FusionKind", "OpSpec", "call", "define", "operand"]


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

    ``infer(call)`` gives the struct info of a call. ``compute`` makes its tensor expression: a
    function ``(attrs, *inputs)``, or where to find one: ``"nn:conv2d"`` is ``conv2d`` of
    ``relax/op/compute/nn.py``; ``"topi.add"`` is a function of topi that takes the inputs alone.
    ``legalize(builder, call)`` replaces a call where that is not enough. ``evaluate(attrs,
    *arrays)`` is its meaning in numpy, for constants and as the oracle.
    """

    name: str
    arguments: tuple[str, ...]
    infer: Callable[[Call], Any]
    schema: Schema | None = None
    compute: str | Callable[..., Any] | None = None
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
        compute = self.compute
        if not isinstance(compute, str):
            return compute
        if compute.startswith("topi."):
            found = resolve("tilesmith.topi:" + compute[len("topi.") :])
            self.compute = lambda attrs, *inputs: found(*inputs)
        else:
            self.compute = resolve("tilesmith.relax.op.compute." + compute)
        return self.compute


def define(
    name: str,
    arguments: str,
    infer: Callable[[Call], Any],
    *,
    schema: Schema | None = None,
    compute: str | Callable[..., Any] | None = None,
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
