"""SimplifyExpr, RecognizeOps: replace operators by fewer ones with the same result.

``SimplifyExpr`` removes operators without effect and joins neighbours (two reshapes, two
permutations, lossless conversions). ``RecognizeOps`` finds layer normalisation and gelu where an
exporter wrote them out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy

from tilesmith.ir import IRModule, Op
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import remove_all_unused
from tilesmith.relax.dpl.pattern import DFPattern, ExprPattern, is_const, is_op, wildcard
from tilesmith.relax.dpl.rewrite import PatternMatchingRewriter
from tilesmith.relax.expr import Call, Constant, Function, ShapeExpr, Tuple, known_struct_info
from tilesmith.relax.expr_functor import PyExprMutator, same_struct_info
from tilesmith.relax.op.declaration import OpFunction
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.runtime.dtype import DataType
from tilesmith.support.fallbacks import record_fallback


class Bindings(Protocol):
    """Knows what the operands of calls are bound to."""

    def value(self, expr: Any, op: Op) -> Any:
        """Return the operator's call that an expression stands for, or None."""


Rule = Callable[[Bindings, Call], Any]
_RULES: dict[Op, list[Rule]] = {}


def rule(*functions: OpFunction) -> Callable[[Rule], Rule]:
    """Register a rule for calls of operators; it returns the replacement or None."""

    def register(function: Rule) -> Rule:
        for operator in functions:
            _RULES.setdefault(operator.op, []).append(function)
        return function

    return register


def simplified_once(bindings: Bindings, call: Any) -> Any:
    """Return what a call is replaced by, None if no rule knows anything simpler. Both doors ask
    these rules.
    """
    if not isinstance(call, Call) or not isinstance(call.op, Op):
        return None
    for function in _RULES.get(call.op, ()):
        replaced = function(bindings, call)
        if replaced is not None:
            return replaced
    return None


class _Simplifier(PyExprMutator):
    def visit_call_(self, op: Call) -> Any:
        call = self.visit_expr_post_order(op)
        for _ in range(8):  # a replacement may itself be replaced
            replaced = simplified_once(self, call)
            if replaced is None:
                return call
            call = replaced
        return call

    def value(self, expr: Any, op: Op) -> Any:
        """Return the operator's call that a variable is bound to, or None."""
        bound = self.lookup_binding(expr)
        if isinstance(bound, Call) and bound.op is op:
            return bound
        return None


def _same(call: Call, expr: Any) -> Any:
    """Return ``expr`` if it provably has the struct info of the call's result."""
    return expr if same_struct_info(known_struct_info(call), known_struct_info(expr)) else None


def _is_scalar(expr: Any, value: float) -> bool:
    """Return whether an expression is a constant whose elements are all ``value``."""
    if not isinstance(expr, Constant) or expr.data.size > 4096:
        return False
    array = expr.data.numpy_view()
    return bool(array.size) and bool((array == value).all())


@rule(operators.reshape)
def join_reshapes(simplifier: Bindings, call: Call) -> Any:
    """reshape(reshape(x, s), t) -> reshape(x, t); reshape(x, shape of x) -> x"""
    inner = simplifier.value(call.args[0], operators.reshape.op)
    if inner is not None and isinstance(call.args[1], ShapeExpr):
        return Call(call.op, (inner.args[0], call.args[1]))
    return _same(call, call.args[0])


@rule(operators.permute_dims)
def join_permutations(simplifier: Bindings, call: Call) -> Any:
    """permute_dims(permute_dims(x, a), b) -> permute_dims(x, a[b]); the identity -> x"""
    rank = known_struct_info(call).ndim
    if rank < 0:
        return None
    axes = _permutation(call, rank)
    if axes == list(range(rank)):
        return call.args[0]
    inner = simplifier.value(call.args[0], operators.permute_dims.op)
    if inner is None:
        return None
    first = _permutation(inner, rank)
    return operators.permute_dims(inner.args[0], [first[axis] for axis in axes])


def _permutation(call: Call, rank: int) -> list[int]:
    if call.attrs.axes is None:
        return list(range(rank))[::-1]
    return [axis % rank for axis in call.attrs.axes]


def holds_all(narrow: DataType, wide: DataType) -> bool:
    """Return whether each value of one dtype is a value of another."""
    if narrow == wide or narrow.is_bool:
        return True
    if narrow.is_integer and wide.is_integer:
        grows = wide.bits > narrow.bits
        return grows and (narrow.is_uint or wide.is_int)
    if narrow.code == wide.code == "float":
        return wide.bits >= narrow.bits
    if narrow.is_integer and wide.code == "float":
        return narrow.bits < {16: 11, 32: 24, 64: 53}[wide.bits]
    return narrow.code == "bfloat" and wide.code == "float" and wide.bits >= 32


@rule(operators.astype)
def join_conversions(simplifier: Bindings, call: Call) -> Any:
    """astype(x, dtype of x) -> x; astype(astype(x, wide), d) -> astype(x, d)"""
    same = _same(call, call.args[0])
    if same is not None:
        return same
    inner = simplifier.value(call.args[0], operators.astype.op)
    if inner is not None:
        source = known_struct_info(inner.args[0])
        if not source.dtype.is_void and holds_all(source.dtype, inner.attrs.dtype):
            return operators.astype(inner.args[0], call.attrs.dtype)
    return None


@rule(operators.add, operators.subtract)
def drop_zero(simplifier: Bindings, call: Call) -> Any:
    """x + 0 -> x; x - 0 -> x"""
    if _is_scalar(call.args[1], 0):
        return _same(call, call.args[0])
    if call.op is operators.add.op and _is_scalar(call.args[0], 0):
        return _same(call, call.args[1])
    return None


@rule(operators.multiply, operators.divide)
def drop_one(simplifier: Bindings, call: Call) -> Any:
    """x * 1 -> x; x / 1 -> x"""
    if _is_scalar(call.args[1], 1):
        return _same(call, call.args[0])
    if call.op is operators.multiply.op and _is_scalar(call.args[0], 1):
        return _same(call, call.args[1])
    return None


@rule(operators.power)
def small_powers(simplifier: Bindings, call: Call) -> Any:
    """x ** 2 -> x * x; x ** 0.5 -> sqrt(x); x ** 1 -> x"""
    base, exponent = call.args
    if _is_scalar(exponent, 1):
        return _same(call, base)
    if _is_scalar(exponent, 2):
        product = operators.multiply(base, base)
        return product if _same(call, product) is not None else None
    info = known_struct_info(base)
    if _is_scalar(exponent, 0.5) and isinstance(info, TensorStructInfo) and info.dtype.is_float:
        return operators.sqrt(base) if _same(call, base) is not None else None
    return None


@rule(operators.negative, operators.logical_not, operators.bitwise_not)
def drop_pairs(simplifier: Bindings, call: Call) -> Any:
    """-(-x) -> x; not not x -> x"""
    inner = simplifier.value(call.args[0], call.op)
    return None if inner is None else _same(call, inner.args[0])


@rule(operators.nn.relu, operators.abs)
def drop_repetitions(simplifier: Bindings, call: Call) -> Any:
    """relu(relu(x)) -> relu(x)"""
    inner = simplifier.value(call.args[0], call.op)
    return None if inner is None else call.args[0]


@rule(operators.concat)
def drop_single_concat(simplifier: Bindings, call: Call) -> Any:
    """concat((x,)) -> x"""
    if isinstance(call.args[0], Tuple) and len(call.args[0].fields) == 1:
        return call.args[0].fields[0]
    return None


@rule(
    operators.strided_slice,
    operators.broadcast_to,
    operators.tile,
    operators.repeat,
    operators.squeeze,
    operators.expand_dims,
    operators.flatten,
)
def drop_what_changes_nothing(simplifier: Bindings, call: Call) -> Any:
    """x[:] -> x; likewise a broadcast to the same shape, and similar operators without effect"""
    if call.op is operators.strided_slice.op and not _takes_everything(call):
        return None
    return _same(call, call.args[0])


def _takes_everything(call: Call) -> bool:
    # A slice of the whole size goes forward from the beginning, unless its stride is negative.
    if len(call.args) < 5:
        return True
    strides = call.args[4]
    return isinstance(strides, Tuple) and all(
        getattr(field.value, "value", -1) == 1 for field in strides.fields
    )


@rule(operators.take)
def take_known_place(simplifier: Bindings, call: Any) -> Any:
    """take(x, 2, axis) -> squeeze(x[2:3], axis): a place that is known needs no check"""
    data, index = call.args
    info: Any = known_struct_info(data)
    axis = call.attrs.axis
    place = index.data if isinstance(index, Constant) and not index.data.shape else None
    if place is None or not isinstance(info, TensorStructInfo) or info.shape is None:
        return None
    if axis is None and info.ndim != 1:
        return None
    axis = 0 if axis is None else int(axis) % info.ndim
    shape: Any = info.shape
    size, start = getattr(shape[axis], "value", None), int(place.numpy_view())
    if size is None or not -size <= start < size:
        return None
    start %= size
    part = operators.strided_slice(data, [axis], [start], [start + 1])
    return operators.squeeze(_sliced(simplifier, part, [axis]), [axis])


@rule(operators.strided_slice)
def slice_first(simplifier: Bindings, call: Any) -> Any:
    """permute_dims(x)[a:b] -> permute_dims(x[a:b]), likewise squeeze and expand_dims: only what is
    used is moved
    """
    axes = [getattr(getattr(one, "value", None), "value", None) for one in call.args[1].fields]
    made = call if None in axes else _sliced(simplifier, call, axes)
    return None if made is call else made


_MOVING = (operators.permute_dims, operators.squeeze, operators.expand_dims)
_MOST_MOVES = 8


def _sliced(simplifier: Bindings, call: Any, axes: list[Any]) -> Any:
    """Return a slice along some axes, taken before operators that only move elements."""
    moves: list[Any] = []
    data = call.args[0]
    while len(moves) < _MOST_MOVES:
        found = [simplifier.value(data, function.op) for function in _MOVING]
        inner = next((one for one in found if one is not None), None)
        info: Any = known_struct_info(data)
        rank = info.ndim
        places = [] if inner is None or rank < 0 else _places(inner, rank)
        own = [places[axis % rank] for axis in axes] if places else [None]
        if inner is None or None in own:
            break
        moves.append(inner)
        data, axes = inner.args[0], own
    if not moves:
        return call
    slice_: Any = operators.strided_slice
    made = slice_(data, axes, *call.args[2:], assume_inbound=call.attrs.assume_inbound)
    for move in reversed(moves):
        made = Call(move.op, (made, *move.args[1:]), move.attrs)
    return made


def _places(call: Any, rank: int) -> list[int | None]:
    """Return for each axis of a result the axis of the argument that it is, None for a new one."""
    if call.op is operators.permute_dims.op:
        return list(_permutation(call, rank))
    if call.op is operators.expand_dims.op:
        made = {int(axis) % rank for axis in call.attrs.axis}
        old = iter(range(rank))
        return [None if axis in made else next(old) for axis in range(rank)]
    before: Any = known_struct_info(call.args[0])
    if call.attrs.axis is None or before.ndim < 0:
        return [None] * rank
    gone = {int(axis) % before.ndim for axis in call.attrs.axis}
    return [axis for axis in range(before.ndim) if axis not in gone]


@compiler_pass("SimplifyExpr", aliases=("RemoveRedundantReshape",))
def simplify(func: Function, mod: IRModule) -> Function:
    """Simplifies a function to fewer operators with the same result."""
    changed = _Simplifier(mod).visit_expr(func)
    return changed if changed is func else remove_all_unused(changed)


# Recognition of written-out operators


def _call(function: OpFunction) -> ExprPattern:
    """Return a pattern for an operator; call it with patterns of the arguments."""
    return is_op(function.op)


def _either(function: OpFunction, a: DFPattern, b: DFPattern) -> DFPattern:
    """Return a pattern for a commutative operator of two patterns."""
    return _call(function)(a, b) | _call(function)(b, a)


def _scalar(expr: Any) -> float | None:
    """Return the one value of a constant."""
    if isinstance(expr, Constant) and expr.data.size == 1:
        return float(expr.data.numpy_view().reshape(()))
    return None


class _LayerNorm:
    """Recognises (x - mean(x)) / sqrt(mean((x - mean(x))²) + ε) * γ + β"""

    def __init__(self) -> None:
        self.x, self.gamma, self.beta = wildcard(), is_const(), is_const()
        self.epsilon, self.two = is_const(), is_const()
        self.mean = _call(operators.mean)(self.x)
        centred = _call(operators.subtract)(self.x, self.mean)
        squared = (
            _call(operators.power)(centred, self.two)
            | _call(operators.multiply)(centred, centred)
            | _call(operators.square)(centred)
        )
        self.variance = _call(operators.mean)(squared) | _call(operators.variance)(self.x)
        shifted = _either(operators.add, self.variance, self.epsilon)
        divided = _call(operators.divide)(centred, _call(operators.sqrt)(shifted))
        divided |= _either(operators.multiply, centred, _call(operators.rsqrt)(shifted))
        scaled = _either(operators.multiply, divided, self.gamma)
        self.pattern = _either(operators.add, scaled, self.beta)

    def rewrite(self, expr: Any, found: dict[Any, Any]) -> Any:
        """Return the call of the operator, if axes and shapes fit."""

        def left(reason: str) -> Any:
            record_fallback("recognition", "layer normalisation", reason)
            return expr

        epsilon = _scalar(found[self.epsilon])
        if epsilon is None:
            return left("what is added to the variance is not a scalar")
        if self.two in found and _scalar(found[self.two]) != 2:
            return left("the differences are raised to another power than 2")
        mean, variance = found[self.mean], found[self.variance]
        rank = known_struct_info(found[self.x]).ndim
        if rank < 0 or any(not c.attrs.keepdims or c.attrs.axis is None for c in (mean, variance)):
            return left("the means do not keep their axes")
        axes = [axis % rank for axis in mean.attrs.axis]
        if axes != [axis % rank for axis in variance.attrs.axis]:
            return left("mean and variance are taken over different axes")
        if axes != list(range(rank - len(axes), rank)):
            return left("the axes are not the last ones")
        shape = known_struct_info(found[self.x]).shape
        sizes = [getattr(shape[axis], "value", -1) for axis in axes] if shape is not None else []
        gamma, beta = found[self.gamma], found[self.beta]
        if not all(list(part.data.shape) == sizes for part in (gamma, beta)):
            return left("scale and shift do not have the sizes of the axes")
        return operators.nn.layer_norm(found[self.x], gamma, beta, axes, epsilon)


class _Gelu:
    """Recognises x * 0.5 * (1 + erf(x / √2)), with the factors in any order."""

    def __init__(self) -> None:
        self.x, self.root = wildcard(), is_const()
        self.half, self.one = is_const(), is_const()
        scaled = _call(operators.divide)(self.x, self.root)
        scaled |= _either(operators.multiply, self.x, self.root)
        self.inner = scaled
        bell = _either(operators.add, _call(operators.erf)(scaled), self.one)
        halved = _either(operators.multiply, self.x, self.half)
        self.pattern = (
            _either(operators.multiply, halved, bell)
            | _either(operators.multiply, _either(operators.multiply, self.x, bell), self.half)
            | _either(operators.multiply, self.x, _either(operators.multiply, bell, self.half))
        )

    def rewrite(self, expr: Any, found: dict[Any, Any]) -> Any:
        """Return the call of the operator, if the constants are the right ones."""
        root = _scalar(found[self.root])
        wanted = 2**0.5 if found[self.inner].op is operators.divide.op else 2**-0.5
        is_gelu = root is not None and bool(numpy.isclose(root, wanted, rtol=1e-5))
        if not is_gelu or _scalar(found[self.half]) != 0.5 or _scalar(found[self.one]) != 1:
            record_fallback("recognition", "gelu", "its constants are not those of gelu")
            return expr
        return operators.nn.gelu(found[self.x])


def _recognizer() -> PatternMatchingRewriter:
    rules = []
    for form in (_LayerNorm(), _Gelu()):
        rules.append((form.pattern, form.rewrite))
    return PatternMatchingRewriter(rules)


@compiler_pass("RecognizeOps")
def recognize_ops(func: Function) -> Function:
    """Replaces written-out layer normalisation and gelu by the operators."""
    rewriter = _recognizer()
    return rewriter(func)
