"""Compiles expressions to closures over an environment: a list with one slot per variable and
buffer.

A closure is made once per expression and called once per evaluation, which is several times faster
than visiting the tree again. Slot 0 of an environment holds the ``Context`` of the call, slot 1 the
``Thread``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy

from tilesmith.ir import (
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Dispatcher,
    FloatImm,
    GlobalVar,
    IntImm,
    Let,
    Not,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Var,
)  # fmt: skip
from tilesmith.runtime.dtype import DataType, ScalableLanes
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.expr import BufferLoad, IterVar
from tilesmith.tir.interpreter.accesses import Accesses
from tilesmith.tir.interpreter.arithmetic import BINARY_RULES
from tilesmith.tir.interpreter.call_rules import CALLS
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, Frame
from tilesmith.tir.interpreter.loads import Loads, item
from tilesmith.tir.interpreter.operators import OPERATORS, Make
from tilesmith.tir.interpreter.options import DEFAULT_OPTIONS, Options
from tilesmith.tir.interpreter.scope import Scope
from tilesmith.tir.interpreter.stores import Stores
from tilesmith.tir.interpreter.values import (
    Environment,
    Evaluate,
    convert_value,
    element_type,
    scalar,
)  # fmt: skip
from tilesmith.tir.interpreter.views import BufferViews
from tilesmith.tir.interpreter.watch import AccessObserver

__all__ = ["ExpressionCompiler"]


class ExpressionCompiler(Dispatcher[Evaluate]):
    """Compiles expressions to closures.

    It owns the parts that the rules of calls and the compilers of statements share: ``frame`` (the
    slots), ``scope`` (the context of the current statement), ``views``, ``loads`` and ``stores``.
    """

    def __init__(self, options: Options = DEFAULT_OPTIONS) -> None:
        self.options = options
        self.frame = Frame()
        self.scope = Scope()
        observer = AccessObserver(self.frame, options, self.scope) if options.watched else None
        self.views = BufferViews(self.frame, self.visit)
        accesses = Accesses(self.frame, self.views, self.visit, observer)
        self.loads, self.stores = Loads(accesses), Stores(accesses)

    def visit_default(self, node: Any) -> Evaluate:
        raise UnsupportedError(
            f"the interpreter does not know {type(node).__name__}",
            span=getattr(node, "span", None),
            notes=("make a PrimFunc of tensor expressions with te.create_prim_func first",),
        )

    def lane_count(self, lanes: int) -> int:
        """Return how many lanes a vector has in this run."""
        if isinstance(lanes, ScalableLanes):
            return int(lanes) * int(self.options.vscale)
        return lanes

    # Leaves.

    def visit_Var(self, node: Var) -> Evaluate:
        return itemgetter(self.frame.slot(node))

    def visit_IterVar(self, node: IterVar) -> Evaluate:
        return itemgetter(self.frame.slot(node.var))

    def visit_IntImm(self, node: IntImm) -> Evaluate:
        value = bool(node.value) if node.dtype.is_bool else node.value
        return lambda env: value

    def visit_FloatImm(self, node: FloatImm) -> Evaluate:
        value = scalar(node.value, node.dtype)
        return lambda env: value

    def visit_StringImm(self, node: StringImm) -> Evaluate:
        value = node.value
        return lambda env: value

    def visit_BufferLoad(self, node: BufferLoad) -> Evaluate:
        return self.loads.load(node)

    # Operations.

    def visit_BinaryOp(self, node: BinaryOp) -> Evaluate:
        rule = BINARY_RULES.get(type(node))
        if rule is None:
            return self.visit_default(node)
        return rule(node, self.visit(node.a), self.visit(node.b))

    def visit_Not(self, node: Not) -> Evaluate:
        a = self.visit(node.a)
        if node.dtype.lanes > 1:
            return lambda env: ~a(env)
        return lambda env: not a(env)

    def visit_Select(self, node: Select) -> Evaluate:
        condition = self.visit(node.condition)
        yes, no = self.visit(node.true_value), self.visit(node.false_value)
        if node.condition.dtype.lanes > 1:
            return lambda env: numpy.where(condition(env), yes(env), no(env))
        # A pass makes the loads of a Select safe; before it only one side may be evaluated.
        return lambda env: yes(env) if condition(env) else no(env)

    def visit_Cast(self, node: Cast) -> Evaluate:
        value = self.visit(node.value)
        convert = convert_value(node.value.dtype, node.dtype)
        return lambda env: convert(value(env))

    def visit_Let(self, node: Let) -> Evaluate:
        slot, value = self.frame.slot(node.var), self.visit(node.value)
        body = self.visit(node.body)

        def compute(env: Environment) -> Any:
            env[slot] = value(env)
            return body(env)

        return compute

    # Vectors.

    def visit_Ramp(self, node: Ramp) -> Evaluate:
        base, stride = self.visit(node.base), self.visit(node.stride)
        steps = numpy.arange(self.lane_count(node.lanes))
        kind = element_type(node.dtype)
        return lambda env: (base(env) + stride(env) * steps).astype(kind)

    def visit_Broadcast(self, node: Broadcast) -> Evaluate:
        value, kind = self.visit(node.value), element_type(node.dtype)
        lanes = self.lane_count(node.lanes)
        return lambda env: numpy.full(lanes, value(env), kind)

    def visit_Shuffle(self, node: Shuffle) -> Evaluate:
        vectors = [self.visit(vector) for vector in node.vectors]
        indices = [self.visit(index) for index in node.indices]
        dtype: DataType = node.dtype

        def compute(env: Environment) -> Any:
            lanes = numpy.concatenate([numpy.atleast_1d(vector(env)) for vector in vectors])
            if dtype.lanes == 1:
                return item(lanes[indices[0](env)], dtype)
            return lanes[[index(env) for index in indices]]

        return compute

    # Calls.

    def visit_Call(self, node: Call) -> Evaluate:
        if isinstance(node.op, GlobalVar):
            return self._function_call(node)
        name = node.op.name
        rule = CALLS.get(name)
        if rule is not None:
            return rule.compile(self, node)
        make = OPERATORS.get(name)
        if make is None:
            raise UnsupportedError(
                f"the interpreter does not know the operator '{name}'",
                notes=("run the program before it is lowered for its target",),
            )
        return self.operation(make, node.dtype, node.args)

    def operation(self, make: Make, dtype: DataType, args: Sequence[PrimExpr]) -> Evaluate:
        """Return the closure of an operator that depends only on the values of its arguments."""
        function: Callable[..., Any] = make(dtype, tuple([_dtype_of(arg) for arg in args]))
        parts = [self.visit(arg) for arg in args]
        if len(parts) == 1:
            (only,) = parts
            return lambda env: function(only(env))
        if len(parts) == 2:
            first, second = parts
            return lambda env: function(first(env), second(env))
        return lambda env: function(*[part(env) for part in parts])

    def _function_call(self, node: Call) -> Evaluate:
        name = node.op.name_hint
        parts = [self.visit(arg) for arg in node.args]
        return lambda env: env[CONTEXT_SLOT].call(name, [part(env) for part in parts])


def _dtype_of(arg: Any) -> DataType:
    return getattr(arg, "dtype", DataType("handle"))
