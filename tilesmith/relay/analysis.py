"""Answers questions about expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op, Type, TypeKind, TypeVar
from tilesmith.ir.adt import Constructor, TypeData
from tilesmith.ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RelayRefType,
    TupleType,
    TypeCall,
)
from tilesmith.relay import sparse_conv2d, sparse_dense
from tilesmith.relay.adt import (
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    pattern_vars,
)
from tilesmith.relay.expr import (
    Call,
    Constant,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from tilesmith.relay.expr_functor import ExprVisitor
from tilesmith.relay.function import Function
from tilesmith.relay.scopes import Scopes
from tilesmith.relay.sparse_weights import search_fc_transpose
from tilesmith.relay.ty import TensorType
from tilesmith.relay.walks import binders, functions_of, parts, post_order
from tilesmith.support.errors import ConfigError, TypeMismatchError
from tilesmith.support.lazy import lazy_attributes

__all__ = [
    "CallGraph", "Feature", "LayerCounter", "all_dtypes", "all_type_vars", "all_vars",
    "bound_type_vars", "bound_vars", "check_basic_block_normal_form", "check_constant",
    "check_kind", "count_layers", "detect_feature", "extract_fused_functions",
    "extract_intermdeiate_expr", "free_type_vars", "free_vars", "get_total_mac_number",
    "list_op_freqs", "post_order_visit", "search_fc_transpose", "sparse_conv2d", "sparse_dense",
    "unmatched_cases", "well_formed",
]  # fmt: skip

__getattr__, __dir__ = lazy_attributes(__name__)


def post_order_visit(expr: Any, fvisit: Callable[[Any], Any]) -> None:
    """Call ``fvisit`` on each expression, operator and variable once, parts first."""
    seen: set[int] = set()
    for node in post_order(expr):
        for one in (*binders(node), node):
            if id(one) not in seen:
                seen.add(id(one))
                fvisit(one)


# Variables.


def all_vars(expr: Any) -> list[Var]:
    """Return the variables that occur, bound or free, each once."""
    found: dict[Var, None] = {}
    for node in post_order(expr):
        for one in (*binders(node), node):
            if isinstance(one, Var):
                found[one] = None
    return list(found)


def bound_vars(expr: Any) -> list[Var]:
    """Return the variables that the expression binds."""
    return list({var: None for node in post_order(expr) for var in binders(node)})


def free_vars(expr: Any) -> list[Var]:
    """Return the variables that are used and not bound, in the order of their first use."""
    bound = set(bound_vars(expr))
    return [node for node in post_order(expr) if isinstance(node, Var) and node not in bound]


def well_formed(expr: Any) -> bool:
    """Return whether each variable is bound once, and used only where it is bound (or nowhere). For
    a module: whether its functions are, each with variables of its own, none of them free.
    """
    if isinstance(expr, IRModule):
        seen: set[Var] = set()
        for _, function in functions_of(expr):
            own = set(bound_vars(function))
            if own & seen or free_vars(function) or not well_formed(function):
                return False
            seen |= own
        return True
    bound: set[Var] = set()
    for node in post_order(expr):
        for var in binders(node):
            if var in bound:
                return False
            bound.add(var)
    return not [var for var in _used_outside(expr) if var in bound]


def _used_outside(expr: Any) -> Iterator[Var]:
    """Yield variables that are used where they are not bound. Walks scopes, innermost bindings on a
    stack.
    """
    bound: dict[Var, int] = {}
    stack: list[tuple[str, Any]] = [("visit", expr)]
    while stack:
        action, node = stack.pop()
        if action == "bind":
            bound[node] = bound.get(node, 0) + 1
        elif action == "free":
            bound[node] -= 1
        elif isinstance(node, Var):
            if not bound.get(node):
                yield node
        else:
            stack += reversed(_steps(node))


def _steps(node: Any) -> list[tuple[str, Any]]:
    """Return the steps of a walk through the parts of a node, with what is bound in which part."""
    if isinstance(node, Let):
        value, body = ("visit", node.value), ("visit", node.body)
        binding = [("bind", node.var)]
        recursive = isinstance(node.value, Function)
        first = [*binding, value] if recursive else [value, *binding]
        return [*first, body, ("free", node.var)]
    if isinstance(node, Match):
        clauses = [Function(list(pattern_vars(one.lhs)), one.rhs) for one in node.clauses]
        return [("visit", node.data), *[("visit", clause) for clause in clauses]]
    names = binders(node)
    steps = [("visit", part) for part in parts(node)]
    return [*[("bind", one) for one in names], *steps, *[("free", one) for one in names]]


# Types.


def _types_of(expr: Any) -> Iterator[Type]:
    """Yield the types that are written in an expression, a type or a module."""
    if isinstance(expr, Type):
        yield expr
        return
    if isinstance(expr, IRModule):
        for _, function in functions_of(expr):
            yield from _types_of(function)
        return
    for node in post_order(expr):
        for var in binders(node):
            if var.type_annotation is not None:
                yield var.type_annotation
        if isinstance(node, Function) and node.ret_type is not None:
            yield node.ret_type
        if isinstance(node, Call):
            yield from node.type_args
        if isinstance(node, Var) and node.type_annotation is not None:
            yield node.type_annotation


def _within(type_: Any) -> Iterator[Any]:
    stack = [type_]
    while stack:
        one = stack.pop()
        yield one
        if isinstance(one, TypeData):
            stack += [inner for made in one.constructors for inner in made.inputs]
        elif not isinstance(one, TensorType):
            stack += [inner for inner in reversed(one.children()) if isinstance(inner, Type)]


def _bound_types(expr: Any) -> list[TypeVar]:
    found: dict[TypeVar, None] = {}
    if not isinstance(expr, (Type, IRModule)):
        for node in post_order(expr):
            if isinstance(node, Function):
                found.update(dict.fromkeys(node.type_params))
    for written in _types_of(expr):
        for type_ in _within(written):
            params: Any = getattr(type_, "type_params", None) or getattr(type_, "type_vars", ())
            found.update(dict.fromkeys(params))
    return list(found)


def all_type_vars(expr: Any, mod: IRModule | None = None) -> list[TypeVar]:
    """Return the type variables of an expression or a type, each once."""
    found = dict.fromkeys(_bound_types(expr))
    for written in _types_of(expr):
        found.update({one: None for one in _within(written) if isinstance(one, TypeVar)})
    return list(found)


def bound_type_vars(expr: Any, mod: IRModule | None = None) -> list[TypeVar]:
    """Return the type variables that an expression or a type binds."""
    return _bound_types(expr)


def free_type_vars(expr: Any, mod: IRModule | None = None) -> list[TypeVar]:
    """Return the type variables that are used and not bound."""
    bound = {id(one) for one in _bound_types(expr)}
    return [one for one in all_type_vars(expr) if id(one) not in bound]


def program_of(expr: Any) -> Function:
    """Return the function of an expression's free variables that has its value: what
    `IRModule.from_expr` makes ``main``.
    """
    return Function(free_vars(expr), expr, None, free_type_vars(expr))


def all_dtypes(expr: Any) -> set[str]:
    """Return the dtypes of the tensors of an expression whose types InferType has found."""
    found: set[str] = set()
    for node in post_order(expr):
        for one in (*binders(node), node):
            type_ = None if isinstance(one, (Op, GlobalVar)) else getattr(one, "checked_type", None)
            if type_ is not None:
                found |= {str(inner.dtype) for inner in _within(type_) if hasattr(inner, "dtype")}
    return found


def check_kind(t: Any, mod: IRModule | None = None) -> TypeKind:
    """Return the kind of a type. Raises TypeMismatchError where its parts have kinds that do not
    fit.
    """
    if isinstance(t, (TypeVar, GlobalTypeVar, IncompleteType)):
        return t.kind
    if isinstance(t, TypeData):
        return TypeKind.TypeData
    if isinstance(t, TypeCall):
        if check_kind(t.func) != TypeKind.AdtHandle:
            raise TypeMismatchError(f"{t.func} takes no types")
        _check_applied(t, mod)
        inner = list(t.args)
    elif isinstance(t, TupleType):
        inner = list(t.fields)
    elif isinstance(t, FuncType):
        inner = [*t.arg_types, t.ret_type]
    elif isinstance(t, RelayRefType):
        inner = [t.value]
    elif isinstance(t, TensorType):
        inner = []
    else:
        return TypeKind.Constraint
    for one in inner:
        if check_kind(one, mod) != TypeKind.Type:
            raise TypeMismatchError(f"{one} in {t} is no type of values")
    return TypeKind.Type


def _check_applied(t: TypeCall, mod: IRModule | None) -> None:
    if mod is None or t.func not in mod:
        return
    definition: Any = mod[t.func]
    if len(definition.type_vars) != len(t.args):
        raise TypeMismatchError(f"{t.func} takes {len(definition.type_vars)} types: {t}")


# What a program uses.


class Feature(IntEnum):
    """What a program may make use of."""

    fVar = 0
    fGlobalVar = 1
    fConstant = 2
    fTuple = 3
    fTupleGetItem = 4
    fFunction = 5
    fOp = 6
    fCall = 7
    fLet = 8
    fIf = 9
    fRefCreate = 10
    fRefRead = 11
    fRefWrite = 12
    fConstructor = 13
    fMatch = 14
    fGraph = 15
    fLetRec = 16


_FEATURES: dict[type, Feature] = {
    Var: Feature.fVar, GlobalVar: Feature.fGlobalVar, Constant: Feature.fConstant,
    Tuple: Feature.fTuple, TupleGetItem: Feature.fTupleGetItem, Function: Feature.fFunction,
    Op: Feature.fOp, Call: Feature.fCall, Let: Feature.fLet, If: Feature.fIf,
    RefCreate: Feature.fRefCreate, RefRead: Feature.fRefRead, RefWrite: Feature.fRefWrite,
    Constructor: Feature.fConstructor, Match: Feature.fMatch,
}  # fmt: skip
_ATOMS = (Var, GlobalVar, Constant, Op, Constructor)


def detect_feature(a: Any, b: Any = None) -> set[Feature]:
    """Return the features that an expression, or a module, uses; the other argument may be the
    module of the expression. ``fGraph``: a value has several users without a let.
    """
    if isinstance(a, IRModule):
        a, b = b, a
    if a is None:
        return {one for _, f in functions_of(b) for one in detect_feature(f)}
    found: set[Feature] = set()
    users: set[int] = set()
    for node in post_order(a):
        found.add(_FEATURES[type(node)])
        for part in parts(node):
            if id(part) in users and not isinstance(part, _ATOMS):
                found.add(Feature.fGraph)
            users.add(id(part))
        if isinstance(node, Let) and any(one is node.var for one in post_order(node.value)):
            found.add(Feature.fLetRec)
    return found


def check_constant(expr: Any) -> bool:
    """Return whether an expression is a constant, or a tuple of constants."""
    stack = [expr]
    while stack:
        one = stack.pop()
        if isinstance(one, Tuple):
            stack.extend(one.fields)
        elif not isinstance(one, Constant):
            return False
    return True


def check_basic_block_normal_form(expr: Any) -> bool:
    """Return whether no value that is computed in a scope has a user in an inner scope, but for
    variables.
    """
    scopes = Scopes(expr)
    return not [
        node for node in scopes.order if id(node) in scopes.shared and not isinstance(node, _ATOMS)
    ]


def list_op_freqs(mod: IRModule) -> dict[str, int]:
    """Return how often each operator is called."""
    found: dict[str, int] = {}
    for _, function in functions_of(mod):
        for node in post_order(function):
            if isinstance(node, Call) and isinstance(node.op, Op):
                found[node.op.name] = found.get(node.op.name, 0) + 1
    return found


def count_layers(expr: Any, valid_ops: list[str]) -> int:
    """Return the largest number of calls of some operators on a way through an expression, or
    through the "main" of a module.
    """
    if isinstance(expr, IRModule):
        expr = expr["main"]
    counter = LayerCounter(valid_ops)
    counter.visit(expr)
    return counter.count()


class LayerCounter(ExprVisitor):
    """Counts the calls of some operators on the longest way through the expressions it visits."""

    def __init__(self, valid_ops: Sequence[str]) -> None:
        super().__init__()
        self.valid_ops = list(valid_ops)
        self._depth: dict[Any, int] = {}

    def visit(self, expr: Any) -> None:
        """Visit an expression and what it is made of, however deep."""
        for node in post_order(expr, lambda one: one not in self._depth):
            if node in self._depth:
                continue
            if isinstance(node, Call):
                self.visit_call(node)
            else:
                self._depth[node] = self._below(node)

    def visit_call(self, call: Call) -> None:
        """Count a call, after its parts."""
        counts = isinstance(call.op, Op) and call.op.name in self.valid_ops
        self._depth[call] = self._below(call) + counts

    def _below(self, node: Any) -> int:
        for part in parts(node):
            if part not in self._depth:
                self.visit(part)
        return max([self._depth[part] for part in parts(node)], default=0)

    def count(self) -> int:
        """Return the largest number so far."""
        return max(self._depth.values(), default=0)


def extract_fused_functions(mod: IRModule) -> dict[str, Function]:
    """Return the primitive functions that FuseOps made, by the name of each."""
    found: dict[str, Function] = {}
    for _, function in functions_of(mod):
        for node in post_order(function):
            if isinstance(node, Function) and node.attrs.get("Primitive"):
                name = node.attrs.get("hash", f"function_{len(found)}")
                found[str(name)] = node
    return found


def extract_intermdeiate_expr(mod: IRModule, expr_id: int) -> IRModule:
    """Return a module whose "main" gives the value of the call with this number: calls of the
    module's "main" are counted from 0, operands first.
    """
    calls = [node for node in post_order(mod["main"]) if isinstance(node, Call)]
    if not 0 <= expr_id < len(calls):
        raise ConfigError(f"there is no call {expr_id}", notes=(f"main has {len(calls)} calls",))
    params = free_vars(calls[expr_id])
    return IRModule.from_expr(Function(params, calls[expr_id]))


def get_total_mac_number(expr: Any) -> int:
    """Return the number of multiplications with an addition in convolutions and matrix products of
    an expression whose types InferType has found.
    """
    total = 0
    for node in post_order(expr):
        weight = _summed_size(node)
        if weight:
            sizes = node.checked_type.concrete_shape
            total += weight * math.prod(sizes)
    return total


_MATRIX_PRODUCTS = ("nn.dense", "nn.batch_matmul", "nn.matmul")
_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")


def _summed_size(node: Any) -> int:
    """Return how many products each element of the result sums; 0 for what is no such operator."""
    if not isinstance(node, Call):
        return 0
    if any(node.op is Op.get(name) for name in _MATRIX_PRODUCTS):
        return int(node.args[0].checked_type.concrete_shape[-1])
    if any(node.op is Op.get(name) for name in _CONVOLUTIONS):
        attrs: Any = node.attrs
        sizes = node.args[1].checked_type.concrete_shape
        return int(math.prod(sizes)) // int(sizes[attrs.kernel_layout.index("O")])
    return 0


class CallGraph:
    """Which functions of a module call which, and how often."""

    def __init__(self, module: IRModule) -> None:
        self._module = module
        self._calls: dict[str, dict[str, int]] = {}
        for variable, function in functions_of(module):
            calls = self._calls[variable.name_hint] = {}
            for node in post_order(function):
                for part in parts(node):
                    if isinstance(part, GlobalVar):
                        calls[part.name_hint] = calls.get(part.name_hint, 0) + 1

    @property
    def module(self) -> IRModule:
        """The module."""
        return self._module

    def _name(self, var: Any) -> str:
        name = var if isinstance(var, str) else var.name_hint
        return self.module.get_global_var(name).name_hint

    def ref_count(self, var: Any) -> int:
        """Return how often the functions of the module refer to one of them."""
        name = self._name(var)
        return sum([calls.get(name, 0) for calls in self._calls.values()])

    def global_call_count(self, var: Any) -> int:
        """Return how often a function refers to functions of the module."""
        return sum(self._calls.get(self._name(var), {}).values())

    def is_recursive(self, var: Any) -> bool:
        """Return whether a function refers to itself directly."""
        name = self._name(var)
        return name in self._calls.get(name, {})

    def print_var(self, var: Any) -> str:
        """Return a line about a function and lines about what it calls."""
        name = self._name(var)
        lines = [f"{name}: referred to {self.ref_count(name)} times"]
        calls = self._calls.get(name, {})
        return "\n".join(lines + [f"  calls {one} {count} times" for one, count in calls.items()])

    def __str__(self) -> str:
        return "\n".join([self.print_var(name) for name in self._calls])


# Matches.


def unmatched_cases(match: Match, mod: IRModule | None = None) -> list[Any]:
    """Return patterns for values that no clause of a match fits; none if it is complete.

    ``mod`` has the definitions of the types that the patterns name.
    """
    rows = [[clause.lhs] for clause in match.clauses]
    return [case[0] for case in _missing(rows, 1, mod)]


def _siblings(constructor: Constructor, mod: IRModule | None) -> tuple[Constructor, ...]:
    if mod is None or constructor.belong_to not in mod:
        raise TypeMismatchError(
            f"the definition of '{constructor.belong_to.name_hint}' is needed",
            notes=("pass the module that defines it: unmatched_cases(match, mod)",),
        )
    definition: Any = mod[constructor.belong_to]
    found: tuple[Constructor, ...] = definition.constructors
    return found


def _open(pattern: Any) -> bool:
    return isinstance(pattern, (PatternWildcard, PatternVar))


def _missing(rows: list[list[Any]], width: int, mod: IRModule | None) -> list[list[Any]]:
    """Return rows of patterns for values that no row fits; column by column."""
    if width == 0:
        return [] if rows else [[]]
    firsts = [row[0] for row in rows if not _open(row[0])]
    if not firsts:
        rest = _missing([row[1:] for row in rows], width - 1, mod)
        return [[PatternWildcard(), *case] for case in rest]
    found = []
    first = firsts[0]
    is_tuple = isinstance(first, PatternTuple)
    for kind in (None,) if is_tuple else _siblings(first.constructor, mod):
        count = len(first.patterns) if kind is None else len(kind.inputs)
        inner = []
        for row in rows:
            if _open(row[0]):
                inner.append([PatternWildcard()] * count + row[1:])
            elif kind is None or row[0].constructor.tag == kind.tag:
                inner.append([*row[0].patterns, *row[1:]])
        for case in _missing(inner, count + width - 1, mod):
            own, rest = case[:count], case[count:]
            made = PatternTuple(own) if kind is None else PatternConstructor(kind, own)
            found.append([made, *rest])
    return found
