"""``relay.backend.interpreter``: evaluates programs with numpy, expression by expression.

    Interpreter(mod, tilesmith.cpu(), "llvm").evaluate()(x)

It is the reference that the compiled executors are tested against: it knows all of relay, and an
operator is what its record says in numpy. Evaluation keeps its own stack, so that programs may nest
and call themselves as deeply as memory allows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy

from tilesmith.ir import GlobalVar, IRModule, Op
from tilesmith.ir.structural import structural_hash
from tilesmith.relax import expr as graph
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.interpreter import run as run_graph
from tilesmith.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from tilesmith.relax.transform import LegalizeOps
from tilesmith.relay.adt import (
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
)
from tilesmith.relay.error_words import in_relays_words
from tilesmith.relay.expr import (
    Call,
    Constant,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
    bind,
    branch,
    const,
)
from tilesmith.relay.function import Function
from tilesmith.relay.given_kernels import GivenKernels
from tilesmith.relay.op.view import translated
from tilesmith.relay.translate import prepared
from tilesmith.runtime.container import ADT, RefValue, tuple_object
from tilesmith.runtime.devices import Device
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.support.errors import (
    ExecutionError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.support.recursion import deep_recursion

__all__ = [
    "ConstructorValue", "Executor", "Interpreter", "RefValue", "TensorValue", "TupleValue",
]  # fmt: skip


class ConstructorValue(ADT):
    """A value of a type of data; ``constructor`` made it."""

    constructor: Constructor | None

    def __new__(
        cls, tag: int, fields: Sequence[Any], constructor: Constructor | None = None
    ) -> ConstructorValue:
        made: Any = super().__new__(cls, tag, fields)
        made.constructor = constructor
        return made  # type: ignore[no-any-return]

    @property
    def fields(self) -> tuple[Any, ...]:
        """The values that it was made of."""
        return tuple(self)


def TupleValue(*fields: Any) -> ADT:
    """Return a tuple of values, as programs called it until 2020."""
    return tuple_object(fields)


TensorValue = array


class Executor:
    """Runs the functions of a module and evaluates expressions; the kinds are its subclasses."""

    def __init__(self, mod: IRModule, device: Device | None, target: Any) -> None:
        self.mod = mod
        self.device = device
        self.target = target

    def evaluate(self, expr: Any = None, binds: Mapping[Any, Any] | None = None) -> Any:
        """Return a Python function that runs a function of the functional door (``main`` without
        ``expr``), or the value of another expression; ``binds`` gives values to free variables.
        """
        if binds:
            constants = {
                var: value if isinstance(value, RelaxExpr) else const(value)
                for var, value in binds.items()
            }
            expr = bind(expr, constants)
        if expr is None or isinstance(expr, Function):
            return self._made(self.mod if expr is None else self._with_main(expr))
        name = getattr(expr, "name_hint", None)
        if name is not None and name in [one.name_hint for one in self.mod.functions]:
            return self._made(self._with_main(self.mod[name]))
        return self._made(self._with_main(Function([], expr)))()

    def _with_main(self, function: Any) -> IRModule:
        module = self.mod.shallow_copy()
        module["main"] = function
        return module

    def _made(self, module: IRModule) -> Callable[..., Any]:
        """Return the Python function; its arguments are those of ``main``, by place or by name."""
        main: Any = module["main"]
        names = [param.name_hint for param in main.params]
        function = self.function_of(module)

        def run(*args: Any, **named: Any) -> Any:
            for name in named:
                if name not in names:
                    raise UnknownNameError(
                        f"the function has no parameter '{name}'",
                        notes=("it has: " + ", ".join(names),),
                    )
            given = [*args, *[named.pop(name) for name in names[len(args) :] if name in named]]
            if named or len(given) != len(names):
                raise TypeMismatchError(
                    f"the function takes {len(names)} arguments, got {len(given) + len(named)}",
                    notes=("parameters: " + ", ".join(names),) if names else (),
                )
            return function(*[_argument(one) for one in given])

        return run

    def function_of(self, module: IRModule) -> Callable[..., Any]:
        """Return a function that runs ``main`` of a module; subclasses say how."""
        raise NotImplementedError


def _argument(value: Any) -> Any:
    if isinstance(value, (NDArray, ADT, RefValue)) or callable(value):
        return value
    if isinstance(value, (tuple, list)):
        return tuple([_argument(one) for one in value])
    return array(value)


class Interpreter(Executor):
    """Evaluates programs with numpy."""

    def function_of(self, module: IRModule) -> Callable[..., Any]:
        """Return a function that evaluates ``main`` of a module."""
        if self.device is not None and self.device.device_type != 1:
            raise UnsupportedError(
                f"the executor 'debug' evaluates with numpy on the CPU, not on {self.device}",
                notes=("create_executor('graph', …) and 'vm' run compiled programs there",),
            )
        evaluation = _Evaluation(prepared(module))
        main: Any = evaluation.module["main"]

        def run(*args: Any) -> Any:
            with deep_recursion():
                values = [_host(one) for one in args]
                return _runtime(evaluation.call(_Closure(main, None), values))

        return run


class _Frame:
    """The values of one call: of variables, and of expressions that were evaluated."""

    __slots__ = ("known", "outer")

    def __init__(self, outer: _Frame | None) -> None:
        self.outer = outer
        self.known: dict[int, Any] = {}

    def find(self, var: Any) -> Any:
        """Return the value of a variable."""
        frame: _Frame | None = self
        while frame is not None:
            if id(var) in frame.known:
                return frame.known[id(var)]
            frame = frame.outer
        raise UnknownNameError(
            f"the variable '{var.name_hint}' is not bound",
            notes=("make it a parameter of the function, or bind it with relay.Let",),
            span=var.span,
        )


class _Closure:
    """A function with the values of the variables around it."""

    __slots__ = ("frame", "function")

    def __init__(self, function: Function, frame: _Frame | None) -> None:
        self.function = function
        self.frame = frame


Steps = Generator[tuple[Any, _Frame], Any, Any]
"""The evaluation of an expression: yields parts with the frame they belong to, receives their
values, and returns the value."""


class _Evaluation:
    """Evaluates the functions of a module."""

    def __init__(self, module: IRModule) -> None:
        self.module = module
        self.operations: dict[Any, _Operation] = {}

    def call(self, callee: Any, args: Sequence[Any]) -> Any:
        """Call a function with values."""
        return self.run(self.applied(callee, args))

    def run(self, first: Steps) -> Any:
        """Carry out steps, and those of the parts that they ask for."""
        stack, value = [first], None
        while stack:
            try:
                part, frame = stack[-1].send(value)
            except StopIteration as end:
                stack.pop()
                value = end.value
                continue
            if part.__class__ is Var:
                value = frame.find(part)
                continue
            stack.append(self.steps(part, frame))
            value = None
        return value

    def steps(self, expr: Any, frame: _Frame) -> Steps:
        """Evaluate an expression; one that is shared is evaluated once in a frame."""
        if id(expr) in frame.known:
            return frame.known[id(expr)]
        while isinstance(expr, Let):
            if isinstance(expr.value, Function):
                value: Any = _Closure(expr.value, frame)  # it may call itself
            else:
                value = yield expr.value, frame
            frame.known[id(expr.var)] = value
            expr = expr.body
        if isinstance(expr, Var):
            return frame.find(expr)
        rule = _RULES.get(expr.__class__)
        if rule is None:
            raise UnsupportedError(
                f"the interpreter has no rule for {type(expr).__name__}",
                span=getattr(expr, "span", None),
            )
        value = yield from rule(self, expr, frame)
        frame.known[id(expr)] = value
        return value

    # Rules

    def constant(self, expr: Constant, frame: _Frame) -> Steps:
        """Evaluate a constant."""
        return expr.data.numpy_view()
        yield

    def tuple(self, expr: Tuple, frame: _Frame) -> Steps:
        """Evaluate a tuple."""
        fields = []
        for field in expr.fields:
            fields.append((yield field, frame))
        return tuple(fields)

    def field(self, expr: TupleGetItem, frame: _Frame) -> Steps:
        """Evaluate a projection."""
        whole = yield expr.tuple_value, frame
        return whole[expr.index]

    def choice(self, expr: If, frame: _Frame) -> Steps:
        """Evaluate a choice."""
        condition = yield expr.cond, frame
        chosen = expr.true_branch if bool(condition) else expr.false_branch
        return (yield branch(chosen), frame)

    def function(self, expr: Function, frame: _Frame) -> Steps:
        """Evaluate a function to a closure."""
        return _Closure(expr, frame)
        yield

    def global_function(self, expr: GlobalVar, frame: _Frame) -> Steps:
        """Evaluate the name of a function."""
        found: Any = self.module[expr]
        return _Closure(found, None)
        yield

    def itself(self, expr: Any, frame: _Frame) -> Steps:
        """Evaluate a constructor: without fields it is a value, else a function."""
        is_value = isinstance(expr, Constructor) and not expr.inputs
        return ConstructorValue(expr.tag, (), expr) if is_value else expr
        yield

    def make_reference(self, expr: RefCreate, frame: _Frame) -> Steps:
        """Evaluate the making of a reference."""
        return RefValue((yield expr.value, frame))

    def read_reference(self, expr: RefRead, frame: _Frame) -> Steps:
        """Evaluate the reading of a reference."""
        return (yield expr.ref, frame).value

    def write_reference(self, expr: RefWrite, frame: _Frame) -> Steps:
        """Evaluate the writing of a reference."""
        reference = yield expr.ref, frame
        reference.value = yield expr.value, frame
        return ()

    def match(self, expr: Match, frame: _Frame) -> Steps:
        """Evaluate a match: the first clause that fits."""
        value = yield expr.data, frame
        for clause in expr.clauses:
            if _fits(clause.lhs, value, frame):
                return (yield clause.rhs, frame)
        raise ExecutionError("no clause of a match fits its value", span=expr.span)

    def call_value(self, expr: Call, frame: _Frame) -> Steps:
        """Evaluate a call."""
        callee = expr.op
        if not isinstance(callee, (Op, Constructor)):
            callee = yield callee, frame
        args = []
        for arg in expr.args:
            args.append((yield arg, frame))
        if isinstance(callee, Op):
            return self.operator(expr, args)
        return (yield from self.applied(callee, args))

    def applied(self, callee: Any, args: Sequence[Any]) -> Steps:
        """Call what a value is: a closure, or a constructor."""
        if isinstance(callee, Constructor):
            return ConstructorValue(callee.tag, args, callee)
        if not isinstance(callee, _Closure):
            raise TypeMismatchError(f"a {type(callee).__name__} cannot be called")
        function = callee.function
        if not isinstance(function, Function):  # relax's, or a tensor program
            return run_graph(self.module, _name_of(self.module, function), *args)
        if len(args) != len(function.params):
            raise TypeMismatchError(
                f"a function of {len(function.params)} parameters got {len(args)} arguments",
                span=function.span,
            )
        inner = _Frame(callee.frame)
        for param, arg in zip(function.params, args):
            inner.known[id(param)] = arg
        return (yield function.body, inner)

    def operator(self, call: Call, args: Sequence[Any]) -> Any:
        """Return the value of an operator's call, by the graph of relax that it stands for."""
        infos = [_info(arg) for arg in args]
        constants = tuple([id(arg) for arg in call.args if isinstance(arg, Constant)])
        attrs = None if call.attrs is None else structural_hash(call.attrs)
        key = (call.op.name, attrs, constants, tuple([_sizes(arg) for arg in args]))
        operation = self.operations.get(key)
        if operation is None:
            with in_relays_words(call.span):
                operation = self.operations[key] = _Operation(call, infos)
        with in_relays_words(call.span):
            return operation.run(args)


class _Operation:
    """What an operator's call computes for arguments of given sizes."""

    def __init__(self, call: Call, infos: Sequence[StructInfo]) -> None:
        builder = BlockBuilder()
        params = [graph.Var(f"x{at}", info, dialect="relax") for at, info in enumerate(infos)]
        operands: list[Any] = [
            Constant(arg.data) if isinstance(arg, Constant) else param
            for arg, param in zip(call.args, params)
        ]
        with builder.function("main", params):
            builder.emit_func_output(_translated(builder, call, operands))
        self.module = builder.get()
        self.is_lowered = False

    def run(self, args: Sequence[Any]) -> Any:
        """Return the value; an operator without a numpy evaluation runs as a tensor program."""
        if not self.is_lowered and not _is_evaluated(self.module["main"]):
            self.module, self.is_lowered = LegalizeOps()(self.module), True
        return run_graph(self.module, "main", *args)


def _translated(builder: BlockBuilder, call: Call, operands: list[Any]) -> Any:
    """Return the graph that a call stands for; of an operator of a program's own, its kernel."""
    kernels = GivenKernels(builder)
    given = kernels.call(call, operands) if kernels.has(call.op) else None
    if given is not None:
        return given
    return translated(builder, call, operands)


def _is_evaluated(function: Any) -> bool:
    values = [binding.value for block in function.body.blocks for binding in block.bindings]
    called = [one.op.spec for one in values if isinstance(one, Call) and isinstance(one.op, Op)]
    return all(one is None or one.evaluate is not None for one in called)


def _name_of(module: IRModule, function: Any) -> str:
    return next(name.name_hint for name, one in module.items() if one is function)


def _sizes(value: Any) -> Any:
    """Return what tells tensors of one type and shape from others."""
    if isinstance(value, tuple):
        return tuple([_sizes(field) for field in value])
    return value.dtype, value.shape


def _info(value: Any) -> StructInfo:
    if isinstance(value, tuple):
        return TupleStructInfo(tuple([_info(field) for field in value]))
    if not isinstance(value, (numpy.ndarray, numpy.generic)):
        raise TypeMismatchError(f"an operator takes tensors, got a {type(value).__name__}")
    return TensorStructInfo(value.shape, str(value.dtype))


def _fits(pattern: Pattern, value: Any, frame: _Frame) -> bool:
    """Return whether a value looks like a pattern; bind the pattern's variables."""
    pending = [(pattern, value)]
    while pending:
        one, part = pending.pop()
        if isinstance(one, PatternWildcard):
            continue
        if isinstance(one, PatternVar):
            frame.known[id(one.var)] = part
            continue
        if isinstance(one, PatternConstructor) and part.tag != one.constructor.tag:
            return False
        assert isinstance(one, (PatternConstructor, PatternTuple))
        pending += zip(one.patterns, part)
    return True


def _host(value: Any) -> Any:
    """Return a value of a caller as evaluation needs it: tensors as arrays."""
    if isinstance(value, NDArray):
        return value.numpy()
    if isinstance(value, ADT):
        fields = [_host(one) for one in value]
        return ConstructorValue(value.tag, fields, getattr(value, "constructor", None))
    return tuple([_host(one) for one in value]) if isinstance(value, (tuple, list)) else value


def _runtime(value: Any) -> Any:
    """Return a value as callers know it: arrays as tensors; data may be nested deeply."""
    done: dict[int, Any] = {}
    stack = [value]
    while stack:
        one = stack[-1]
        if id(one) in done:
            stack.pop()
        elif isinstance(one, tuple):
            missing = [part for part in one if id(part) not in done]
            if missing:
                stack += missing
                continue
            fields = [done[id(part)] for part in one]
            if isinstance(one, ConstructorValue):
                done[id(one)] = ConstructorValue(one.tag, fields, one.constructor)
            else:
                done[id(one)] = tuple(fields)
            stack.pop()
        else:
            is_array = isinstance(one, (numpy.ndarray, numpy.generic))
            done[id(one)] = array(numpy.asarray(one)) if is_array else one
            stack.pop()
    return done[id(value)]


_RULES: dict[type, Callable[[_Evaluation, Any, _Frame], Steps]] = {
    Call: _Evaluation.call_value,
    Constant: _Evaluation.constant,
    Constructor: _Evaluation.itself,
    Function: _Evaluation.function,
    GlobalVar: _Evaluation.global_function,
    If: _Evaluation.choice,
    Match: _Evaluation.match,
    Op: _Evaluation.itself,
    RefCreate: _Evaluation.make_reference,
    RefRead: _Evaluation.read_reference,
    RefWrite: _Evaluation.write_reference,
    Tuple: _Evaluation.tuple,
    TupleGetItem: _Evaluation.field,
}
