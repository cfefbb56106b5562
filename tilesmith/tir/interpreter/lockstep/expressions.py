"""Compiles expressions for all active threads of a block at once.

What is the same in all threads is compiled by the interpreter's own compiler, to numbers. What
differs is an array with one entry for each active thread, and one more axis for the lanes of a
vector; operations are the interpreter's rules for vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import (
    Add,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Dispatcher,
    GlobalVar,
    Let,
    Mul,
    Not,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
)  # fmt: skip
from tilesmith.ir.queries import is_call, walk
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.interpreter.arithmetic import BINARY_RULES
from tilesmith.tir.interpreter.expressions import ExpressionCompiler
from tilesmith.tir.interpreter.frame import CONTEXT_SLOT, THREAD_SLOT
from tilesmith.tir.interpreter.lockstep.accesses import BufferAccesses
from tilesmith.tir.interpreter.lockstep.observers import Site
from tilesmith.tir.interpreter.lockstep.rules import CALL_RULES, TRANSPARENT, shuffle
from tilesmith.tir.interpreter.lockstep.state import Group, State
from tilesmith.tir.interpreter.operators import OPERATORS, c_function
from tilesmith.tir.interpreter.values import Environment, Evaluate, convert_value, element_type
from tilesmith.tir.stmt import BufferStore

__all__ = ["LockstepExpressions"]

_PLAIN = (Add, Sub, Mul)


class _Operand:
    """Stands for an operand of a rule: only its dtype is known."""

    def __init__(self, dtype: DataType) -> None:
        self.dtype = dtype


class _Operation(_Operand):
    """Stands for an operation on vectors: threads take the place of lanes."""

    def __init__(self, node: BinaryOp) -> None:
        super().__init__(_widened(node.dtype))
        self.a = _Operand(_widened(node.a.dtype))
        self.b = _Operand(_widened(node.b.dtype))


def _widened(dtype: DataType) -> DataType:
    return dtype.element.with_lanes(2)


class LockstepExpressions(Dispatcher[Evaluate]):
    """Compiles expressions. ``uniform`` compiles what is the same in all threads."""

    def __init__(self, uniform: ExpressionCompiler) -> None:
        self.uniform = uniform
        self.frame = uniform.frame
        self.varying: set[Var] = set()
        self.scope: list[int] = []  # slots of variables that differ between threads
        self.loops: list[str] = []
        self.waits = False  # threads may wait for others at barriers in shared memory
        self.sites: list[Site] = []
        self.statement: Any = None
        self.accesses = BufferAccesses(self)
        self._known: dict[int, tuple[PrimExpr, bool]] = {}

    # What differs between threads.

    def differs(self, expr: PrimExpr) -> bool:
        """Return whether an expression may have another value in each thread."""
        known = self._known.get(id(expr))
        if known is not None and known[0] is expr:
            return known[1]
        found = False
        for node in walk(expr):
            if isinstance(node, BufferLoad) or (isinstance(node, Var) and node in self.varying):
                found = True
            elif isinstance(node, Call) and _may_differ(node):
                found = True
            elif isinstance(node, Var) and node.dtype.is_handle:
                found = True
            if found:
                break
        self._known[id(expr)] = (expr, found)
        return found

    def bind(self, var: Var, differs: bool) -> int:
        """Return the slot of a variable whose scope begins."""
        slot = self.frame.slot(var)
        if differs:
            self.varying.add(var)
            self.scope.append(slot)
            self._known.clear()
        return slot

    def unbind(self, var: Var, differs: bool) -> None:
        """End the scope of a variable."""
        if differs:
            self.varying.discard(var)
            self.scope.pop()
            self._known.clear()

    def site(self, kind: str, name: str, space: str, span: Any, statement: str = "") -> Site:
        """Return a new place in the program, within the present statement."""
        shown = statement or _first_line(self.statement)
        if span is None:
            span = getattr(self.statement, "span", None)
        made = Site(len(self.sites), kind, name, space, shown, tuple(self.loops), span)
        self.sites.append(made)
        return made

    def narrowed(self) -> Callable[[Environment, numpy.ndarray], Environment]:
        """Return the function that makes the environment of some of the active threads."""
        slots = tuple(self.scope)

        def narrow(env: Environment, chosen: numpy.ndarray) -> Environment:
            made = env.copy()
            made[THREAD_SLOT] = env[THREAD_SLOT].part(chosen)
            for slot in slots:
                made[slot] = env[slot][chosen]
            return made

        return narrow

    def widened(self) -> Callable[[list[Environment]], Environment]:
        """Return the function that makes the environment of several groups of active threads."""
        slots = tuple(self.scope)

        def widen(envs: list[Environment]) -> Environment:
            made, groups = envs[0].copy(), [env[THREAD_SLOT] for env in envs]
            ids = numpy.concatenate([group.ids for group in groups])
            order = numpy.argsort(ids)
            is_whole = len(ids) == made[CONTEXT_SLOT].threads
            made[THREAD_SLOT] = Group(ids[order], is_whole, groups[0].warp_size)
            for slot in slots:
                made[slot] = numpy.concatenate([env[slot] for env in envs])[order]
            return made

        return widen

    # Values.

    def visit(self, node: PrimExpr) -> Evaluate:
        """Return the closure: numbers where all threads agree, arrays where they may differ."""
        if not self.differs(node):
            return self.uniform.visit(node)
        return super().visit(node)

    def number(self, node: PrimExpr) -> Evaluate:
        """Return the closure of a value that has to be the same in all threads."""
        if self.differs(node):
            raise UnsupportedError(
                f"'{node}' has to be the same in all threads", span=getattr(node, "span", None)
            )
        return self.uniform.visit(node)

    def array(self, node: PrimExpr) -> Evaluate:
        """Return the closure of a scalar as an array with one entry for each thread."""
        value = self.visit(node)
        if self.differs(node):
            return value
        kind = element_type(node.dtype)
        return lambda env: numpy.full(env[THREAD_SLOT].count, value(env), kind)

    def _operand(self, node: PrimExpr) -> Evaluate:
        """Return the closure of an operand that is a number or array of its dtype."""
        value = self.visit(node)
        if self.differs(node) or node.dtype.is_handle or node.dtype.is_void:
            return value
        kind = element_type(node.dtype).type
        if node.dtype.lanes > 1:
            return value
        return lambda env: kind(value(env))

    def visit_default(self, node: Any) -> Evaluate:
        raise UnsupportedError(
            f"threads in lockstep do not run {type(node).__name__}",
            span=getattr(node, "span", None),
        )

    def visit_Var(self, node: Var) -> Evaluate:
        slot = self.frame.slot(node)
        return lambda env: env[slot]

    def visit_BufferLoad(self, node: BufferLoad) -> Evaluate:
        return self.accesses.load(node)

    def visit_BinaryOp(self, node: BinaryOp) -> Evaluate:
        rule = BINARY_RULES.get(type(node))
        if rule is None:
            return self.visit_default(node)
        if isinstance(node, _PLAIN) and not node.dtype.is_bool:
            return rule(_Operation(node), self.visit(node.a), self.visit(node.b))  # type: ignore[arg-type]
        return rule(_Operation(node), self._operand(node.a), self._operand(node.b))  # type: ignore[arg-type]

    def visit_Not(self, node: Not) -> Evaluate:
        a = self.visit(node.a)
        return lambda env: ~a(env)

    def visit_Cast(self, node: Cast) -> Evaluate:
        value = self.visit(node.value)
        convert = convert_value(_widened(node.value.dtype), _widened(node.dtype))

        def cast(env: Environment) -> Any:
            found = value(env)
            return (
                convert(found)
                if found.ndim == 1
                else convert(found.reshape(-1)).reshape(found.shape)
            )

        return cast

    def visit_Let(self, node: Let) -> Evaluate:
        value, differs = self.visit(node.value), self.differs(node.value)
        slot = self.bind(node.var, differs)
        body = self.visit(node.body)
        self.unbind(node.var, differs)

        def compute(env: Environment) -> Any:
            env[slot] = value(env)
            return body(env)

        return compute

    def visit_Select(self, node: Select) -> Evaluate:
        return self.choice(node.condition, node.true_value, node.false_value)

    def choice(self, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> Evaluate:
        """Return the closure of a choice: each side is evaluated by the threads that take it."""
        dtype = yes.dtype
        if not self.differs(condition):
            test, first, second = self.uniform.visit(condition), self._filled(yes), self._filled(no)
            if condition.dtype.lanes > 1:
                sides = _both(first, second)
                return lambda env: numpy.where(test(env), *sides(env))
            return lambda env: first(env) if test(env) else second(env)
        test = self.visit(condition)
        first, second = self._operand(yes), self._operand(no)
        if condition.dtype.lanes > 1 or not (_is_risky(yes) or _is_risky(no)):
            kind = element_type(dtype)
            wide = dtype.lanes > 1 and condition.dtype.lanes == 1
            sides = _both(first, second)

            def pick(env: Environment) -> Any:
                answers = test(env)
                if wide:
                    answers = answers[:, None]
                picked: Any = numpy.where(answers, *sides(env))
                return picked.astype(kind, copy=False)

            return pick
        narrow, kind, lanes = self.narrowed(), element_type(dtype), dtype.lanes

        def choose(env: Environment) -> Any:
            answers = test(env)
            count = env[THREAD_SLOT].count
            shape = (count,) if lanes == 1 else (count, lanes)
            if answers.all():
                return numpy.broadcast_to(_column(first(env), lanes), shape)
            if not answers.any():
                return numpy.broadcast_to(_column(second(env), lanes), shape)
            result = numpy.empty(shape, kind)
            for value, where in ((first, answers), (second, ~answers)):
                chosen = numpy.flatnonzero(where)
                result[chosen] = value(narrow(env, chosen))
            return result

        return choose

    def _filled(self, node: PrimExpr) -> Evaluate:
        if self.differs(node) or node.dtype.lanes > 1:
            return self.visit(node)
        return self.array(node)

    # Vectors.

    def visit_Ramp(self, node: Ramp) -> Evaluate:
        base, stride = self.visit(node.base), self.visit(node.stride)
        steps = numpy.arange(node.lanes)
        kind = element_type(node.dtype)

        def compute(env: Environment) -> Any:
            low, step = base(env), stride(env)
            low = low[:, None] if isinstance(low, numpy.ndarray) else low
            step = step[:, None] if isinstance(step, numpy.ndarray) else step
            return (low + step * steps).astype(kind, copy=False)

        return compute

    def visit_Broadcast(self, node: Broadcast) -> Evaluate:
        value, lanes = self.visit(node.value), node.lanes
        return lambda env: numpy.broadcast_to(value(env)[:, None], (env[THREAD_SLOT].count, lanes))

    def visit_Shuffle(self, node: Shuffle) -> Evaluate:
        vectors = [self.visit(vector) for vector in node.vectors]
        sizes = [vector.dtype.lanes for vector in node.vectors]
        indices = [self.number(index) for index in node.indices]
        is_scalar = node.dtype.lanes == 1

        def compute(env: Environment) -> Any:
            count = env[THREAD_SLOT].count
            parts = []
            for vector, lanes in zip(vectors, sizes):
                value = numpy.asarray(vector(env))
                if lanes == 1 and value.ndim == 1:
                    value = value[:, None]
                parts.append(numpy.broadcast_to(value, (count, lanes)))
            picked = numpy.concatenate(parts, axis=1)[:, [index(env) for index in indices]]
            return picked[:, 0] if is_scalar else picked

        return compute

    # Calls.

    def visit_Call(self, node: Call) -> Evaluate:
        if isinstance(node.op, GlobalVar):
            raise UnsupportedError(
                f"threads in lockstep do not call functions ('{node.op.name_hint}')",
                span=getattr(node, "span", None),
            )
        name = node.op.name if hasattr(node.op, "name") else ""
        rule = CALL_RULES.get(name)
        if rule is not None:
            found: Evaluate = rule(self, node)
            return found
        args = node.args
        if name in ("tir.call_extern", "tir.call_pure_extern") and isinstance(args[0], StringImm):
            function_name = args[0].value
            if function_name.startswith("__shfl") and function_name.endswith("_sync"):
                return shuffle(self, node, function_name, args[1:])
            make = c_function(function_name)
            args = args[1:]
        else:
            make = OPERATORS.get(name)
        if make is None:
            shown = name if args is node.args else node.args[0].value  # type: ignore[attr-defined]
            raise UnsupportedError(
                f"threads in lockstep do not run the operator '{shown}'",
                span=getattr(node, "span", None),
            )
        dtypes = tuple([_widened(arg.dtype) for arg in args])
        function: Callable[..., Any] = make(_widened(node.dtype), dtypes)
        parts = [self._operand(arg) for arg in args]
        return lambda env: function(*[part(env) for part in parts])

    def buffer_memory(self, buffer: Buffer) -> int:
        """Return the slot of the memory behind a buffer."""
        return self.frame.slot(buffer.data)

    def state_slot(self) -> int:
        """Return the slot of the state of the run."""
        return CONTEXT_SLOT


def _may_differ(call: Call) -> bool:
    """Return whether a call may have another value in each thread, whatever its arguments."""
    name = call.op.name if hasattr(call.op, "name") else ""
    if is_call(call, "tir.call_extern", "tir.call_pure_extern"):
        return True
    return name in CALL_RULES and name not in TRANSPARENT


def _column(value: Any, lanes: int) -> Any:
    if lanes > 1 and isinstance(value, numpy.ndarray) and value.ndim == 1 and len(value) != lanes:
        return value[:, None]
    return value


def _both(first: Evaluate, second: Evaluate) -> Callable[[Environment], tuple[Any, Any]]:
    """Return what evaluates both sides of a choice between lanes. Lanes that are not chosen may be
    loaded in vain, so that vectors of memory that was never written are no fault yet.
    """

    def evaluate(env: Environment) -> tuple[Any, Any]:
        state: State = env[CONTEXT_SLOT]
        before = state.masked, state.last_defined
        state.masked = env[THREAD_SLOT]
        try:
            return first(env), second(env)
        finally:
            state.masked, state.last_defined = before

    return evaluate


def _is_risky(expr: PrimExpr) -> bool:
    """Return whether evaluating an expression in threads that do not need it could do harm."""
    for node in walk(expr):
        if isinstance(node, BufferLoad):
            return True
        if isinstance(node, Call) and node.op.name in CALL_RULES:
            return True
    return False


def _first_line(statement: Any) -> str:
    """Return what a statement does, in a few words."""
    if statement is None:
        return ""
    return describe(statement)


def describe(statement: Any) -> str:
    """Return a statement as a line of TVMScript, without declarations; of a copy only the buffers'
    names, since its indices are no one's words."""
    if isinstance(statement, BufferStore) and isinstance(statement.value, BufferLoad):
        return f"{statement.buffer.name}[...] = {statement.value.buffer.name}[...]"
    lines = [line.strip() for line in str(statement).splitlines() if line.strip()]
    kept = [line for line in lines if " = T.Buffer(" not in line and " = T.int" not in line]
    shown = (kept or lines or [""])[0]
    return shown if len(shown) <= 100 else shown[:97] + "..."
