"""Pattern nodes. A pattern object that occurs twice has to match the same value both times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilesmith.ir import Op, PrimExpr
from tilesmith.ir.module import plain_value
from tilesmith.relax.dpl.context import PatternContext
from tilesmith.relax.struct_info import StructInfo, as_struct_info
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.lazy import resolve
from tilesmith.support.registry import Registry

__all__ = [
    "AndPattern", "AttrPattern", "CallPattern", "ConstantPattern", "DFConstraint", "DFPattern",
    "DataTypePattern", "DataflowVarPattern", "ExprPattern", "ExternFuncPattern", "FunctionPattern",
    "GlobalVarPattern", "IfPattern", "NotPattern", "OrPattern", "PatternSeq", "PrimArrPattern",
    "SameShapeConstraint", "ShapePattern", "StructInfoPattern", "TupleGetItemPattern",
    "TuplePattern", "TypePattern", "UnorderedTuplePattern", "VarPattern", "WildcardPattern",
    "has_attr", "has_dtype", "is_call_dps_packed", "is_call_packed", "is_call_tir", "is_const",
    "is_dfv", "is_expr", "is_gv", "is_op", "is_shape", "is_tuple", "is_tuple_get_item", "is_var",
    "make_fused_bias_activation_pattern", "reject", "wildcard",
]  # fmt: skip

NESTED: Registry[Callable[..., Any]] = Registry(
    "use of patterns for expressions that nest", {"": "tilesmith.relay.dataflow_pattern"}
)
"""What patterns do only where expressions nest: "partition", "dominates", "has_type"."""


class DFPattern:
    """Base of patterns. ``a | b``, ``a & b``, ``~a`` combine; ``op(x, y)`` is a call.

    ``a + b`` matches a call of the operator ``add`` of the functional door.
    """

    def __call__(self, *args: Any, varg_default_wildcard: bool = False) -> CallPattern:
        return CallPattern(self, args, varg_default_wildcard)

    def __or__(self, other: DFPattern) -> OrPattern:
        return OrPattern(self, other)

    def __and__(self, other: DFPattern) -> AndPattern:
        return AndPattern(self, other)

    def __invert__(self) -> NotPattern:
        return NotPattern(self)

    def __add__(self, other: Any) -> CallPattern:
        return is_op("add")(self, other)

    def __sub__(self, other: Any) -> CallPattern:
        return is_op("subtract")(self, other)

    def __mul__(self, other: Any) -> CallPattern:
        return is_op("multiply")(self, other)

    def __truediv__(self, other: Any) -> CallPattern:
        return is_op("divide")(self, other)

    def __rshift__(self, other: Any) -> PatternSeq:
        return self.used_by(other)

    def __xor__(self, other: Any) -> PatternSeq:
        return self.only_used_by(other)

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> OrPattern:
        """Return a pattern of this alone, or of what a function makes of it:
        ``conv.optional(lambda x: is_op("nn.relu")(x))``.
        """
        return OrPattern(option_constructor(self), self)

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DFPattern:
        """Return a pattern of this value where all that it is computed of leads to one ``parent``
        by values that match ``path``.
        """
        found: DFPattern = NESTED["dominates"](parent, path or WildcardPattern(), self)
        return found

    def partition(
        self, expr: Any, attrs: Mapping[str, Any] | None = None, check: Any = None
    ) -> Any:
        """Return an expression of the functional door whose matches are calls of functions with
        ``attrs``; ``check(match)`` may refuse one.
        """
        return NESTED["partition"](self, expr, attrs, check)

    def has_type(self, ttype: Any) -> DFPattern:
        """Return this pattern restricted to a type."""
        found: DFPattern = NESTED["has_type"](ttype, self)
        return found

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """Return this pattern restricted to calls (or functions) with these attributes."""
        return AttrPattern(self, attrs)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """Return this pattern restricted to a dtype."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[Any]) -> ShapePattern:
        """Return this pattern restricted to a shape."""
        return ShapePattern(self, shape)

    def has_struct_info(self, struct_info: StructInfo) -> StructInfoPattern:
        """Return this pattern restricted to a struct info."""
        return StructInfoPattern(self, struct_info)

    def match(self, expr: Any, var2val: Mapping[Any, Any] | None = None) -> bool:
        """Return whether an expression matches; with ``var2val`` variables stand for their
        values.
        """
        return self.extract_matched_expr(expr, var2val) is not None

    def extract_matched_expr(
        self, expr: Any, var2val: Mapping[Any, Any] | None = None
    ) -> dict[DFPattern, Any] | None:
        """Return the match of each part of the pattern, or None."""
        match_expr: Callable[..., dict[DFPattern, Any] | None]
        match_expr = resolve("tilesmith.relax.dpl.matcher:match_expr")
        return match_expr(self, expr, var2val)

    def used_by(self, other: Any, index: int = -1) -> PatternSeq:
        """Require that ``other`` uses this value (as argument number ``index``)."""
        return PatternSeq([self]).used_by(other, index)

    def only_used_by(self, other: Any, index: int = -1) -> PatternSeq:
        """Require that ``other``, and nothing else, uses this value."""
        return PatternSeq([self]).only_used_by(other, index)

    def dup(self) -> DFPattern:
        """Return a pattern of the same kind that stands for another value."""
        import copy

        return copy.copy(self)

    def fork_to(self, *args: Any) -> None:
        """Require that each of the patterns uses this value."""
        for other in args:
            self.used_by(other)

    def same_shape_as(self, *args: DFPattern) -> SameShapeConstraint:
        """Require that this value has the shape of the others' values."""
        return SameShapeConstraint(self, *args)

    def children(self) -> list[DFPattern]:
        """Return the patterns inside."""
        return []

    def astext(self, show_meta_data: bool = True) -> str:
        """Return the pattern as text."""
        inner = ", ".join([child.astext(show_meta_data) for child in self.children()])
        return f"{type(self).__name__}({inner})"


class WildcardPattern(DFPattern):
    """Matches anything, or what `redirect_to` says."""

    def __init__(self) -> None:
        self.pattern: DFPattern | None = None  # then it matches anything

    def redirect_to(self, pat: DFPattern) -> None:
        """Let the wildcard match what another pattern matches, which may be made of it."""
        self.pattern = pat


class ExprPattern(DFPattern):
    """Matches an operator, or an expression that is structurally equal."""

    def __init__(self, expr: Any) -> None:
        self.expr = expr


class VarPattern(DFPattern):
    """Matches a variable (with a given name)."""

    def __init__(self, name_hint: str = "") -> None:
        self.name = name_hint


class DataflowVarPattern(VarPattern):
    """Matches a dataflow variable (with a given name)."""


class GlobalVarPattern(VarPattern):
    """Matches a function of the module (with a given name)."""


class ExternFuncPattern(DFPattern):
    """Matches a registered function (with a given name)."""

    def __init__(self, global_symbol: str = "") -> None:
        self.global_symbol = global_symbol


class ConstantPattern(DFPattern):
    """Matches a constant."""


class CallPattern(DFPattern):
    """Matches a call; with ``varg_default_wildcard`` further arguments may be anything.

    ``args=None`` stands for any arguments.
    """

    def __init__(
        self,
        op: Any,
        args: Sequence[Any] | None,
        varg_default_wildcard: bool = False,
        add_constraint: bool = True,
    ) -> None:
        self.op = as_pattern(op)
        self.args = [as_pattern(arg) for arg in args or ()]
        self.varg_default_wildcard = varg_default_wildcard or args is None

    def children(self) -> list[DFPattern]:
        """Return the callee and the arguments."""
        return [self.op, *self.args]


class FunctionPattern(DFPattern):
    """Matches a function with as many parameters (any number for None) whose result matches."""

    def __init__(self, params: Sequence[DFPattern] | None, body: DFPattern) -> None:
        self.params = None if params is None else list(params)
        self.body = body

    def children(self) -> list[DFPattern]:
        """Return parameters and body."""
        return [*(self.params or ()), self.body]


class TuplePattern(DFPattern):
    """Matches a tuple; ``fields=None`` stands for any fields."""

    def __init__(self, fields: Sequence[Any] | None) -> None:
        self.fields = None if fields is None else [as_pattern(field) for field in fields]

    def astype(self, dtype: Any) -> Any:
        """Raise TypeMismatchError: only tensors have a dtype."""
        raise TypeMismatchError("a tuple has no dtype", notes=("convert its fields one by one",))

    def children(self) -> list[DFPattern]:
        """Return the fields."""
        return list(self.fields or ())


class UnorderedTuplePattern(TuplePattern):
    """Matches a tuple of these fields in any order."""


class TupleGetItemPattern(DFPattern):
    """Matches a field of a tuple (any, or the one of a given index)."""

    def __init__(self, tuple_value: Any, index: int | None = None) -> None:
        self.tuple = as_pattern(tuple_value)
        self.index = index

    def children(self) -> list[DFPattern]:
        """Return the tuple."""
        return [self.tuple]


class IfPattern(DFPattern):
    """Matches a choice between two values."""

    def __init__(self, cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> None:
        self.cond, self.true_branch, self.false_branch = cond, true_branch, false_branch

    def children(self) -> list[DFPattern]:
        """Return the condition and both values."""
        return [self.cond, self.true_branch, self.false_branch]


class OrPattern(DFPattern):
    """Matches either pattern, tried in this order."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left, self.right = left, right

    def children(self) -> list[DFPattern]:
        """Return both patterns."""
        return [self.left, self.right]


class AndPattern(OrPattern):
    """Matches both patterns at once."""


class NotPattern(DFPattern):
    """Matches whatever the pattern does not match."""

    def __init__(self, to_reject: DFPattern) -> None:
        self.reject = to_reject


class _Restricted(DFPattern):
    """A pattern with a condition on what it matches."""

    pattern: DFPattern

    def children(self) -> list[DFPattern]:
        """Return the pattern inside."""
        return [self.pattern]


class AttrPattern(_Restricted):
    """A pattern with attributes."""

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, Any]) -> None:
        self.pattern = pattern
        self.attrs = {key: plain_value(value) for key, value in attrs.items()}


class DataTypePattern(_Restricted):
    """A pattern with a dtype."""

    def __init__(self, pattern: DFPattern, dtype: str) -> None:
        self.pattern = pattern
        self.dtype = DataType(dtype)


class ShapePattern(_Restricted):
    """A pattern with a shape."""

    def __init__(self, pattern: DFPattern, shape: Sequence[Any]) -> None:
        self.pattern = pattern
        self.shape = list(shape)


class StructInfoPattern(_Restricted):
    """A pattern with a struct info."""

    def __init__(self, pattern: DFPattern, struct_info: StructInfo) -> None:
        self.pattern = pattern
        self.struct_info = struct_info


class TypePattern(_Restricted):
    """A pattern with a type: that of programs under the functional door, or struct info."""

    def __init__(self, pattern: DFPattern, ttype: Any) -> None:
        self.pattern = pattern
        self.struct_info = as_struct_info(ttype)


class PrimArrPattern(DFPattern):
    """Matches a shape of these sizes."""

    def __init__(self, shape: Sequence[Any]) -> None:
        self.shape = list(shape)

    def __getitem__(self, index: int) -> Any:
        return self.shape[index]

    def __len__(self) -> int:
        return len(self.shape)


class DFConstraint:
    """A condition on what several patterns match."""


class SameShapeConstraint(DFConstraint):
    """Several patterns match values of one shape."""

    def __init__(self, *args: DFPattern) -> None:
        self.args = list(args)
        context = PatternContext.current(required=False)
        if context is not None:
            context.constraints.append(self)


class PatternSeq:
    """A chain of patterns, each used by the next."""

    def __init__(self, patterns: Sequence[Any], only_use: bool = False) -> None:
        self.patterns = list(patterns)
        for first, second in zip(self.patterns, self.patterns[1:]):
            _edge(first, second, -1, only_use)

    def used_by(self, other: Any, index: int = -1) -> PatternSeq:
        """Require that another pattern (or chain) uses the end of this chain."""
        return self._join(other, index, False)

    def only_used_by(self, other: Any, index: int = -1) -> PatternSeq:
        """Require that another pattern (or chain), and nothing else, uses the end of this chain."""
        return self._join(other, index, True)

    def _join(self, other: Any, index: int, only: bool) -> PatternSeq:
        others = other.patterns if isinstance(other, PatternSeq) else [other]
        _edge(self.patterns[-1], others[0], index, only)
        joined = PatternSeq([])
        joined.patterns = [*self.patterns, *others]
        return joined

    def __rshift__(self, other: Any) -> PatternSeq:
        return self.used_by(other)

    def __xor__(self, other: Any) -> PatternSeq:
        return self.only_used_by(other)

    def __getitem__(self, index: int) -> DFPattern:
        return self.patterns[index]

    def dup(self) -> PatternSeq:
        """Return a chain of new patterns of the same kinds."""
        return PatternSeq([pattern.dup() for pattern in self.patterns])


def _edge(first: DFPattern, second: DFPattern, index: int, only: bool) -> None:
    context = PatternContext.current()
    context.edges.append((first, second, index, only))


def as_pattern(value: Any) -> DFPattern:
    """Convert what a user writes to a pattern: patterns, tuples of them, expressions, operators."""
    if isinstance(value, DFPattern):
        return value
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(item, (int, PrimExpr)) for item in value):
            return PrimArrPattern(value)
        return TuplePattern(value)
    return ExprPattern(value)


# Functions that make patterns


def wildcard() -> WildcardPattern:
    """Match anything."""
    return WildcardPattern()


def is_op(op_name: str | Op) -> ExprPattern:
    """Match an operator (or its name); call the result with patterns of the arguments."""
    return ExprPattern(Op.get(op_name) if isinstance(op_name, str) else op_name)


def is_expr(expr: Any) -> ExprPattern:
    """Match an expression that is structurally equal."""
    return ExprPattern(expr)


def is_const() -> ConstantPattern:
    """Match a constant."""
    return ConstantPattern()


def is_var(name: str = "") -> VarPattern:
    """Match a variable."""
    return VarPattern(name)


def is_dfv(name: str = "") -> DataflowVarPattern:
    """Match a dataflow variable."""
    return DataflowVarPattern(name)


def is_gv(name: str = "") -> GlobalVarPattern:
    """Match a function of the module."""
    return GlobalVarPattern(name)


def is_tuple(fields: Sequence[Any], unordered: bool = False) -> TuplePattern:
    """Match a tuple."""
    return UnorderedTuplePattern(fields) if unordered else TuplePattern(fields)


def is_tuple_get_item(tuple_value: Any, index: int | None = None) -> TupleGetItemPattern:
    """Match a field of a tuple."""
    return TupleGetItemPattern(tuple_value, index)


def is_shape(shape: Sequence[Any]) -> PrimArrPattern:
    """Match a shape value."""
    return PrimArrPattern(shape)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """Match a value of a dtype."""
    return DataTypePattern(pattern or wildcard(), dtype)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """Match a call with attributes."""
    return AttrPattern(pattern or wildcard(), attrs)


def reject(pattern: DFPattern) -> NotPattern:
    """Match anything but this."""
    return NotPattern(pattern)


def _destination_call(op_name: str, callee: DFPattern, args: Any, tir_vars: Any) -> CallPattern:
    operands = [callee, wildcard() if args is None else as_pattern(args)]
    if tir_vars is not None:
        operands.append(as_pattern(tir_vars))
        return is_op(op_name)(*operands)
    return CallPattern(is_op(op_name), operands, varg_default_wildcard=True)


def is_call_tir(func_name: str, args: Any = None, tir_vars: Any = None) -> CallPattern:
    """Match a call of the PrimFunc of that name."""
    return _destination_call("relax.call_tir", GlobalVarPattern(func_name), args, tir_vars)


def is_call_dps_packed(func_name: str, args: Any = None) -> CallPattern:
    """Match a destination-passing call of a registered function."""
    return _destination_call("relax.call_dps_packed", ExternFuncPattern(func_name), args, None)


def is_call_packed(func_name: str, args: Any = None) -> CallPattern:
    """Match a call of a registered function."""
    return CallPattern(ExternFuncPattern(func_name), args, varg_default_wildcard=args is None)


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None
) -> DFPattern:
    """Match an operator of two arguments, optionally followed by a bias and an activation."""
    out: DFPattern = is_op(op_name)(wildcard(), wildcard())
    if with_bias:
        out = is_op("relax.add")(out, wildcard())
    return out if activation is None else is_op(activation)(out)
