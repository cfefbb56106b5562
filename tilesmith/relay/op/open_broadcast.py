"""Operands whose sizes are not known until the program runs, where operators need them to fit.

    add(x: (Any, 4), y: (Any, 4))        its type is (Any, 4)
    add(x: (Any, 4), y: (5, 4))          its type is (5, 4)
    nn.dense(x: (2, Any), w: (5, Any))   the sizes that meet are compared

Two open sizes that are broadcast have to be equal, or one of them is 1. The program finds out which
it is: the size of the result gets a name, the operands are repeated to it, and sizes that do not
fit are refused with the name of relay's operator and both of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.ir import IntImm, Op, OperatorSpan, PrimExpr, Span, const
from tilesmith.ir import Var as SymbolicVar
from tilesmith.ir.operators import equal
from tilesmith.relax import op as relax
from tilesmith.relax.expr import (
    Call,
    MatchCast,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    known_struct_info,
)
from tilesmith.relax.op.elementwise import infer_arithmetic, infer_comparison
from tilesmith.relax.relations import prove_equal, surely_different
from tilesmith.relax.struct_info import ShapeStructInfo, TensorStructInfo
from tilesmith.tir import Or, Select
from tilesmith.tir.unknown import Any as AnySize

__all__ = ["either", "fitting", "fitting_info"]

Sizes = list[PrimExpr]
OfTwo = Callable[[PrimExpr, PrimExpr], PrimExpr]


def either(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Return the size that two sizes are repeated to, as an expression."""
    return Select(equal(a, const(1, "int64")), b, a)


def _unknown(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return AnySize("any_dim", "int64")


def fitting(builder: Any, operator: str, expr: Any) -> Any:
    """Return an expression of relax, over variables, in which operands of open sizes are repeated
    to sizes that the program finds; ``operator`` is relay's, for the errors of the program.
    """
    return _Emission(builder, _place(operator, builder.place)).of(expr)


def fitting_info(expr: Any, of_two: OfTwo | None = None) -> Any:
    """Return what is known about the value of such an expression. A size that may be either of two
    is ``Any``, or what ``of_two`` makes of them.
    """
    return known_struct_info(_Inference(of_two or _unknown).of(expr))


class _Walk:
    """Goes through the expression that one call stands for; such expressions are small."""

    def of(self, expr: Any) -> Any:
        """Return an expression whose calls know the sizes of their results."""
        if isinstance(expr, (Tuple, TupleGetItem)):
            return expr.map_children(self.of)
        if not isinstance(expr, Call) or not isinstance(expr.op, Op):
            return expr
        args = [self.of(arg) for arg in expr.args]
        if any(a is not b for a, b in zip(args, expr.args)):
            expr = Call(expr.op, args, expr.attrs, expr.sinfo_args, expr.span)
        rule = _rule(expr.op)
        shapes = _shapes(args) if rule is not None else None
        return expr if rule is None or shapes is None else rule(self, expr, shapes)

    def broadcast(self, call: Call, shapes: list[Sizes], kept: int = 0) -> Any:
        """Repeat operands to one shape; their last ``kept`` sizes stay as they are."""
        outer = [shape[: len(shape) - kept] for shape in shapes]
        columns = _columns(outer)
        pairs = [pair for column in columns for pair in _pairs(column)]
        if not any(_is_open(pair) for pair in pairs) or any(_cannot_fit(*pair) for pair in pairs):
            return call  # whose own inference refuses what cannot fit
        common = [self.common(column) for column in columns]
        args = []
        for arg, own, shape in zip(call.args, outer, shapes):
            wanted = [
                size if _is_one(size) else common[at - len(own)] for at, size in enumerate(own)
            ]
            is_same = all(prove_equal(a, b) for a, b in zip(own, wanted))
            args.append(arg if is_same else self.repeated(arg, wanted + shape[len(own) :]))
        return Call(call.op, args, call.attrs, call.sinfo_args, call.span)

    def product(self, call: Call, shapes: list[Sizes]) -> Any:
        """Let the sizes that meet in a matrix product be the same, and broadcast the outer ones."""
        left, right = shapes
        if min(len(left), len(right)) < 2:
            return call
        if left[-1] is not right[-2] and _is_open((left[-1], right[-2])):
            right = [*right[:-2], left[-1], right[-1]]
            args = [call.args[0], self.matched(call.args[1], right)]
            call = Call(call.op, args, call.attrs, call.sinfo_args, call.span)
        return self.broadcast(call, [left, right], 2)

    def common(self, column: Sizes) -> PrimExpr:
        """Return the size that several sizes are repeated to."""
        raise NotImplementedError

    def repeated(self, arg: Any, sizes: Sizes) -> Any:
        """Return an operand in the sizes of the result."""
        raise NotImplementedError

    def matched(self, arg: Any, sizes: Sizes) -> Any:
        """Return an operand whose sizes have to be these."""
        raise NotImplementedError


class _Inference(_Walk):
    """Finds what is known: operands are stood for by variables."""

    def __init__(self, of_two: OfTwo) -> None:
        self.of_two = of_two

    def common(self, column: Sizes) -> PrimExpr:
        wide = [size for size in column if not _is_one(size)]
        constants = [size for size in wide if isinstance(size, IntImm)]
        if not wide or constants:
            return constants[0] if constants else column[0]
        size = wide[0]
        for other in wide[1:]:
            size = size if prove_equal(size, other) else self.of_two(size, other)
        return size

    def repeated(self, arg: Any, sizes: Sizes) -> Any:
        info: Any = known_struct_info(arg)
        return Var("operand", TensorStructInfo(sizes, info.dtype, info.vdevice), dialect="relax")

    matched = repeated


class _Emission(_Walk):
    """Adds to the builder what finds the sizes."""

    def __init__(self, builder: Any, where: OperatorSpan) -> None:
        self.builder = builder
        self.where = where

    def common(self, column: Sizes) -> PrimExpr:
        size, *others = column
        for other in others:
            size = _common(self.builder, self.where, size, other)
        return size

    def repeated(self, arg: Any, sizes: Sizes) -> Any:
        return self.builder.emit(relax.broadcast_to(arg, ShapeExpr(sizes)))

    def matched(self, arg: Any, sizes: Sizes) -> Any:
        value = self.builder.normalize_argument(arg)
        info: Any = known_struct_info(value)
        wanted = TensorStructInfo(sizes, info.dtype, info.vdevice)
        var = Var(self.builder.names.fresh("operand"), wanted, dialect="relax")
        self.builder.emit_normalized(MatchCast(var, value, wanted, self.where))
        return var


def _rule(op: Op) -> Callable[..., Any] | None:
    """Return what makes the operands of an operator of relax fit."""
    if op.name == "relax.matmul":
        return _Walk.product
    infer = getattr(op.spec, "infer", None)
    is_broadcast = infer in (infer_arithmetic, infer_comparison) or op.name == "relax.where"
    return _Walk.broadcast if is_broadcast else None


def _shapes(args: Sequence[Any]) -> list[Sizes] | None:
    """Return the sizes of operands; None if some have none, or all are numbers."""
    found, are_concrete = [], True
    for arg in args:
        info: Any = known_struct_info(arg)
        shape = getattr(info, "shape", None)
        if not isinstance(shape, ShapeExpr):
            return None
        are_concrete = are_concrete and shape.concrete is not None
        found.append(list(shape.values))
    return None if are_concrete else found


def _columns(shapes: list[Sizes]) -> list[list[PrimExpr]]:
    """Return for each axis of the result the sizes of the operands that have it."""
    rank = max([len(shape) for shape in shapes])
    return [
        [shape[axis - rank + len(shape)] for shape in shapes if axis >= rank - len(shape)]
        for axis in range(rank)
    ]


def _pairs(column: Sizes) -> list[tuple[PrimExpr, PrimExpr]]:
    return [(one, other) for at, one in enumerate(column) for other in column[at + 1 :]]


def _is_one(size: PrimExpr) -> bool:
    return isinstance(size, IntImm) and size.value == 1


def _cannot_fit(a: PrimExpr, b: PrimExpr) -> bool:
    return surely_different(a, b) and not _is_one(a) and not _is_one(b)


def _is_open(pair: tuple[PrimExpr, PrimExpr]) -> bool:
    a, b = pair
    known = _is_one(a) or _is_one(b) or prove_equal(a, b)
    return not known and not surely_different(a, b)


def _common(builder: Any, where: OperatorSpan, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Return the size that two sizes are repeated to; those that are open are compared when the
    program runs.
    """
    if not _is_open((a, b)):
        return b if _is_one(a) else a
    if isinstance(a, IntImm):
        a, b = b, a
    one = const(1, "int64")
    fits = Or(equal(a, one), equal(b, one)) if not isinstance(b, IntImm) else equal(a, one)
    if isinstance(b, IntImm):  # b is not 1: the other has to be 1 or b
        _match(builder, where, Select(fits, b, a), b)
        return b
    _match(builder, where, Select(fits, a, b), a)
    size = SymbolicVar("size", "int64")
    _match(builder, where, either(a, b), size)
    return size


def _match(builder: Any, where: OperatorSpan, found: PrimExpr, wanted: PrimExpr) -> None:
    """Compare a size with another one, or give it a name."""
    info = ShapeStructInfo([wanted])
    var = Var(builder.names.fresh("common_size"), info, dialect="relax")
    builder.emit_normalized(MatchCast(var, ShapeExpr([found]), info, where))


def _place(operator: str, span: Any) -> OperatorSpan:
    """Return what an error names: the operator, and the user's line where it is known."""
    line = f" ({span.source_name}:{span.line})" if isinstance(span, Span) else ""
    return OperatorSpan(operator + line, "")
