"""Parses statements of the tensor dialect: syntax → words of ``T`` → nodes."""

from __future__ import annotations

import ast
import builtins
import functools
import warnings
from typing import Any

from tilesmith.ir import ExprOp, GlobalVar, IntImm, PrimExpr, PrimType, Span, Var
from tilesmith.script import tir as T
from tilesmith.script.builder import Frame, IRBuilder, name_fresh
from tilesmith.script.carried import outlives_its_scope
from tilesmith.script.evaluator import elements_of, shape_note
from tilesmith.script.macros import expand_macro, local_macro
from tilesmith.script.parsing import DIALECTS, Dialect, Parser, check_private, unpacked
from tilesmith.script.tir_frames import (
    BlockFrame,
    ForFrame,
    LetFrame,
    PrimFuncFrame,
    emit,
)
from tilesmith.script.tir_types import as_type, load_of, subscript_buffer
from tilesmith.support.errors import (
    ScriptError,
    ScriptWarning,
    ShapeError,
    TypeMismatchError,
    VerifyError,
)
from tilesmith.tir.analysis import verify_well_formed
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferRegion, IterVar
from tilesmith.tir.stmt import Stmt

__all__ = ["T_DIALECT"]

T_DIALECT = Dialect("T", T)
DIALECTS.register("T", T_DIALECT)


def _call_function(parser: Parser, variable: GlobalVar, arguments: list, named: dict) -> PrimExpr:
    """Call another function of the module; the result has the type of its annotation, else none."""
    if named:
        raise ScriptError("a function of the module takes no named arguments here")
    values = [value.data if isinstance(value, Buffer) else value for value in arguments]
    known = parser.module.results if parser.module is not None else {}
    return T.Call(known.get(variable, "void"), variable, values)


@T_DIALECT.declare
def _note_result(parser: Parser, node: ast.FunctionDef, variable: GlobalVar, options: dict) -> None:
    """Record the return type that a function is annotated with, for calls that come before it."""
    if parser.module is None:
        return
    result = None if node.returns is None else as_type(parser.annotation(node.returns))
    parser.module.results[variable] = result.dtype if isinstance(result, PrimType) else "void"


def _prepare(parser: Parser) -> None:
    """Adapt the evaluator: buffers have their own subscripts; a region beside an operator is a
    vector.
    """
    from tilesmith.script.macros import ScriptMacro

    parser.evaluator.builtins.update(abs=_magnitude, min=_least, max=_greatest)
    parser.evaluator.subscripts[Buffer] = subscript_buffer
    parser.evaluator.operands[BufferRegion] = load_of
    parser.evaluator.calls[GlobalVar] = functools.partial(_call_function, parser)
    parser.evaluator.calls[ScriptMacro] = lambda macro, arguments, named: expand_macro(
        parser, macro, arguments, named
    )


def _least(*values: Any, **named: Any) -> Any:
    """Replace Python's ``min``; for expressions, ``T.min``."""
    return _extreme(builtins.min, T.min, values, named)


def _greatest(*values: Any, **named: Any) -> Any:
    """Replace Python's ``max``; for expressions, ``T.max``."""
    return _extreme(builtins.max, T.max, values, named)


def _magnitude(value: Any) -> Any:
    """Replace Python's ``abs``; for an expression, ``T.abs``."""
    return T.abs(value) if isinstance(value, PrimExpr) else builtins.abs(value)


def _extreme(plain: Any, of_two: Any, values: tuple, named: dict) -> Any:
    items = list(values[0]) if len(values) == 1 else list(values)
    if named or not any(isinstance(item, PrimExpr) for item in items):
        return plain(*values, **named)
    return functools.reduce(of_two, items)


T_DIALECT.prepare = _prepare


# Functions.


@T_DIALECT.function
def parse_prim_func(parser: Parser, node: ast.FunctionDef, options: dict) -> Any:
    """Parse a function under ``@T.prim_func``."""
    parser.builder.span = parser.span(node)
    with parser.builder:
        frame = PrimFuncFrame(
            private=bool(options.get("private", False)),
            implicit_root=bool(options.get("implicit_root", True)),
        )
        with frame:
            frame.name = node.name
            for parameter in _parameters(parser, node):
                _parse_parameter(parser, parameter)
            if node.returns is not None:
                frame.ret_type = as_type(parser.annotation(node.returns))
            parser.function_body = node.body
            parser.body(node.body)
            check_private(parser, node, options, frame.attrs)
        if options.get("check_well_formed", parser.check_well_formed):
            _verify(parser, node, frame.function)
        return frame.function


def _verify(parser: Parser, node: ast.FunctionDef, function: Any) -> None:
    """Raise an error, at the statement at fault, for a function that is not well-formed; warn of
    likely mistakes.
    """
    doubts: list[VerifyError] = []
    try:
        verify_well_formed(function, doubts=doubts)
    except VerifyError as error:
        notes = (*error.notes, "if this is meant, decorate with check_well_formed=False")
        place = error.span if isinstance(error.span, Span) else parser.span(node)
        raise ScriptError(error.message, span=place, notes=notes) from None
    for doubt in doubts:
        place = doubt.span if isinstance(doubt.span, Span) else parser.span(node)
        warnings.warn_explicit(
            f"{doubt}\n  if this is meant, decorate with check_well_formed=False",
            ScriptWarning,
            parser.source.filename,
            1 if place is None else place.line,
        )


def _parameters(parser: Parser, node: ast.FunctionDef) -> list[ast.arg]:
    arguments = node.args
    unusual = [*arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    for parameter in unusual:
        if parameter is not None:
            raise parser.error(parameter, "a tensor function takes plain parameters only")
    if arguments.defaults:
        raise parser.error(
            arguments.defaults[0],
            "a tensor function has no default values",
            ("leave it out: callers pass every argument",),
        )
    return [*arguments.posonlyargs, *arguments.args]


@T_DIALECT.annotation
def read_annotation(parser: Parser, node: ast.expr) -> Any:
    """Return the value of an annotation, which may be quoted."""
    written = parser.evaluate(node)
    if not isinstance(written, str):
        return written
    return parser.evaluate(ast.parse(written, mode="eval").body)


def _parse_parameter(parser: Parser, parameter: ast.arg) -> None:
    if parameter.annotation is None:
        raise parser.error(
            parameter,
            f"parameter '{parameter.arg}' has no type",
            (f'write {parameter.arg}: T.Buffer((16,), "float32"), or T.handle, or T.int32',),
        )
    whole, parser.builder.span = parser.builder.span, parser.span(parameter)
    written = parser.annotation(parameter.annotation)
    parser.builder.span = whole
    try:
        used = T.arg(parameter.arg, written)
    except Exception as error:
        raise parser.error(parameter.annotation, error) from error
    parser.define(parameter.arg, used)


# Assignments.


def _bind(parser: Parser, node: ast.AST, name: str, value: Any) -> None:
    """Bind a name to a value as scripts do: expressions become variables."""
    old = parser.scopes[-1].get(name)
    if old is not None and old is not value and _stays(old, value):
        raise parser.error(
            node, f"'{name}' is defined already in this scope", ("take another name",)
        )
    parser.define(name, bound_value(parser, node, name, value))


def _stays(old: Any, new: Any) -> bool:
    """True if an assignment leaves a name bound to its old value: a buffer, or an axis that another
    axis is assigned to.
    """
    if isinstance(old, Buffer) or not isinstance(old, Var) or not isinstance(new, Var):
        return isinstance(old, Buffer)
    block = IRBuilder.current().find_frame(BlockFrame)
    axes = [iterator.var for iterator in block.iter_vars] if block is not None else []
    return any(axis is old for axis in axes) and any(axis is new for axis in axes)


def bound_value(parser: Parser, node: ast.AST, name: str, value: Any) -> Any:
    """Return what a name stands for after a value is assigned to it: an expression becomes a
    variable, a frame is entered, what has no name gets this one.
    """
    if isinstance(value, T.meta_var):
        return value.value
    if isinstance(value, (list, tuple)):
        items = [bound_value(parser, node, f"{name}_{k}", item) for k, item in enumerate(value)]
        return items
    if isinstance(value, Frame):
        entered = parser.open(value)
        return name_fresh(entered, name)
    if isinstance(value, BufferRegion):
        return value
    if isinstance(value, (Buffer, IterVar)):
        return name_fresh(value, name)
    if isinstance(value, Var) and not parser.is_defined_here(value):
        return name_fresh(value, name)
    if isinstance(value, (PrimExpr, int, float)):
        return name_fresh(parser.open(T.LetStmt(value)), name)
    return value


def _assign(parser: Parser, target: ast.expr, value: Any, written: ast.expr | None = None) -> None:
    """Assign a value, which the expression ``written`` produced, to a target."""
    if isinstance(target, ast.Name):
        _bind(parser, target, target.id, value)
    elif isinstance(target, ast.Subscript):
        _store(parser, target, value, written or target)
    elif isinstance(target, (ast.Tuple, ast.List)):
        if isinstance(value, Frame):
            value = parser.open(value)
        if isinstance(value, T.meta_var) and isinstance(value.value, (list, tuple)):
            value = [T.meta_var(item) for item in value.value]
        if not isinstance(value, (list, tuple)):
            raise parser.error(target, f"{len(target.elts)} names for one value")
        for inner, item in unpacked(parser, target, value, "names"):
            _assign(parser, inner, item)
    else:
        raise parser.error(target, "nothing can be assigned to this in a script")


def _store(parser: Parser, target: ast.Subscript, value: Any, written: ast.expr) -> None:
    buffer = parser.evaluate(target.value)
    if not isinstance(buffer, Buffer):
        kind = f"{buffer.dtype} value" if isinstance(buffer, PrimExpr) else type(buffer).__name__
        raise parser.error(
            target.value,
            f"only elements of buffers can be stored to; '{ast.unparse(target.value)}' is "
            f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}",
            elements_of(ast.unparse(target.value), buffer) if isinstance(buffer, PrimExpr) else (),
        )
    indices = parser.evaluate(target.slice)
    indices = indices if isinstance(indices, tuple) else (indices,)
    if isinstance(value, BufferRegion):
        value = load_of(value)
    if isinstance(value, (tuple, list)):
        raise parser.error(written, f"an element takes one value, got {len(value)}")
    try:
        T.buffer_store(buffer, value, indices)
    except ShapeError as error:
        notes = (shape_note(ast.unparse(target.value), buffer.shape),)
        raise parser.error(target.slice, error, notes) from error
    except TypeMismatchError as error:
        advice = () if error.notes else ("a number is needed here",)
        raise parser.error(written, error, advice) from error
    except Exception as error:
        raise parser.error(written, error) from error


@T_DIALECT.statement(ast.Assign)
def parse_assign(parser: Parser, node: ast.Assign) -> None:
    """Parse ``A[i] = value``, ``x = value``, ``vi, vj = T.axis.remap(…)``."""
    for name in [target.id for target in node.targets if isinstance(target, ast.Name)]:
        _check_value_is_near(parser, node, name)
    value = parser.evaluate(node.value)
    for target in node.targets:
        _assign(parser, target, value, node.value)


@T_DIALECT.statement(ast.AnnAssign)
def parse_annotated_assign(parser: Parser, node: ast.AnnAssign) -> None:
    """Parse ``x: T.int32 = value``: a variable with a value."""
    if not isinstance(node.target, ast.Name):
        raise parser.error(node.target, "only a name takes a type")
    type_ = as_type(parser.annotation(node.annotation))
    if node.value is None:
        _bind(parser, node, node.target.id, Var("", type_))
        return
    _check_value_is_near(parser, node, node.target.id)
    value = parser.evaluate(node.value)
    if isinstance(value, Frame):
        _bind(parser, node, node.target.id, value)
        return
    var = parser.open(T.LetStmt(value, type_))
    parser.define(node.target.id, name_fresh(var, node.target.id))


@T_DIALECT.statement(ast.AugAssign)
def parse_augmented_assign(parser: Parser, node: ast.AugAssign) -> None:
    """Parse ``A[i] += value``."""
    if isinstance(node.target, ast.Name):
        _check_value_is_near(parser, node, node.target.id)
    reading = ast.copy_location(ast.BinOp(_as_load(node.target), node.op, node.value), node)
    _assign(parser, node.target, parser.evaluate(reading), node.value)


def _check_value_is_near(
    parser: Parser, node: ast.Assign | ast.AnnAssign | ast.AugAssign, name: str
) -> None:
    """Refuse an assignment to a value made outside of the loop or branch around it, where the loop
    or what follows would have to see the new value: ``total = total + A[i]``.
    """
    value = parser.lookup(name)
    frames = parser.builder.frames
    if not any(isinstance(frame, LetFrame) and frame.var is value for frame in frames):
        return
    if outlives_its_scope(parser.function_body, node, name):
        written = "+=" if isinstance(node, ast.AugAssign) else "="
        memory = f'{name} = T.alloc_buffer((1,), "{value.dtype}")'
        raise parser.error(
            node,
            f"'{name}' is a value, made outside of this loop or branch: that one would stay as it "
            f"is, and a new '{name}' be made each time",
            (f"use memory: {memory}, then {name}[0] {written} …",),
        )


def _as_load(target: ast.expr) -> ast.expr:
    """Return the target of an assignment as an expression that is read."""
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    if isinstance(target, ast.Subscript):
        return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
    return target


# Blocks, loops, branches.


@T_DIALECT.statement(ast.With)
def parse_with(parser: Parser, node: ast.With) -> None:
    """Parse ``with T.block("C"):`` and other frames, several in one statement."""
    _with_items(parser, node, 0)


def _with_items(parser: Parser, node: ast.With, position: int) -> None:
    if position == len(node.items):
        parser.body(node.body)
        return
    item = node.items[position]
    value = parser.evaluate(item.context_expr)
    if not hasattr(value, "__enter__"):
        raise parser.error(
            item.context_expr,
            "`with` needs a frame such as T.block(...) or T.allocate(...)",
        )
    with value as entered, parser.scope():
        if item.optional_vars is not None:
            _name_entered(parser, item.optional_vars, entered)
        _with_items(parser, node, position + 1)


def _name_entered(parser: Parser, target: ast.expr, value: Any) -> None:
    """Name what entering a frame returned: a variable, or several."""
    if isinstance(target, ast.Name):
        if isinstance(value, (list, tuple)):
            for number, item in enumerate(value):
                name_fresh(item, target.id if len(value) == 1 else f"{target.id}_{number}")
            value = tuple(value)
        parser.define(target.id, name_fresh(value, target.id))
        return
    if not isinstance(target, (ast.Tuple, ast.List)):
        raise parser.error(target, "a name is needed here")
    values = value if isinstance(value, (list, tuple)) else [value]
    for inner, item in unpacked(parser, target, values, "variables", "loops or values"):
        _name_entered(parser, inner, item)


@T_DIALECT.statement(ast.For)
def parse_for(parser: Parser, node: ast.For) -> None:
    """Parse a loop; over a Python list or tuple, parse the body once for each item."""
    if node.orelse:
        raise parser.error(node.orelse[0], "a loop has no `else`")
    value = _iterable(parser, node.iter)
    if isinstance(value, ForFrame):
        _check_extents(parser, node.iter, value)
        with value as variables, parser.scope():
            if isinstance(variables, list) and len(variables) == 1:
                variables = variables if isinstance(node.target, ast.Tuple) else variables[0]
            _name_entered(parser, node.target, variables)
            parser.body(node.body)
        return
    if isinstance(value, (ExprOp, Buffer, str)) or not hasattr(value, "__iter__"):
        raise parser.error(
            node.iter,
            "a loop runs over range, T.grid, T.serial, T.parallel, T.vectorized, T.unroll or "
            "T.thread_binding",
        )
    for item in value:
        with parser.scope():
            parser.bind_target(node.target, item)
            parser.body(node.body)


def _check_extents(parser: Parser, node: ast.expr, frame: ForFrame) -> None:
    """Refuse a negative extent; ``range`` runs over nothing then, as in Python."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        return
    for _, extent in frame.domains:
        if isinstance(extent, IntImm) and extent.value < 0:
            raise parser.error(node, f"the extent of a loop cannot be negative, got {extent.value}")


def _iterable(parser: Parser, node: ast.expr) -> Any:
    """Return the object that a loop iterates over; ``range`` is the serial loop."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        if parser.lookup("range", builtins.range) is builtins.range:
            arguments = [parser.evaluate(argument) for argument in node.args]
            named = {str(word.arg): parser.evaluate(word.value) for word in node.keywords}
            if len(arguments) not in (1, 2) or named.keys() - {"annotations"}:
                raise parser.error(
                    node, "range takes an extent, or a begin and an end", _without_step(arguments)
                )
            try:
                return T.serial(*arguments, **named)
            except Exception as error:
                raise parser.error(node, error) from error
    return parser.evaluate(node)


def _without_step(arguments: list) -> tuple[str, ...]:
    """Return the advice how to write a loop with a step."""
    if len(arguments) == 3 and all(isinstance(value, int) for value in arguments):
        begin, end, step = arguments
        index = f"i * {step}" if begin == 0 else f"{begin} + i * {step}"
        if step:
            return (f"write: for i in range({len(range(begin, end, step))}), and {index} inside",)
    return ("count the steps: for i in range(number of steps), and begin + i * step inside",)


@T_DIALECT.statement(ast.While)
def parse_while(parser: Parser, node: ast.While) -> None:
    """Parse ``while condition:``."""
    with T.While(_condition(parser, node.test)):
        parser.body(node.body)


def _condition(parser: Parser, node: ast.expr) -> Any:
    value = parser.evaluate(node)
    if isinstance(value, (Buffer, BufferRegion, IterVar)):
        raise parser.error(node, f"a condition is a bool, got {value} ({type(value).__name__})")
    if isinstance(value, PrimExpr) and value.dtype.is_integer and value.dtype.lanes == 1:
        return value != 0
    if isinstance(value, PrimExpr) and not value.dtype.is_bool:
        raise parser.error(node, f"a condition is a bool, got {value.dtype}")
    return value


@T_DIALECT.statement(ast.If)
def parse_if(parser: Parser, node: ast.If) -> None:
    """Parse a branch; if the condition is a Python value, only the branch that it chooses."""
    condition = _condition(parser, node.test)
    if not isinstance(condition, ExprOp):
        parser.body(node.body if condition else node.orelse)
        return
    with T.If(condition):
        with T.Then():
            parser.body(node.body)
        if node.orelse:
            with T.Else():
                parser.body(node.orelse)


@T_DIALECT.statement(ast.Assert)
def parse_assert(parser: Parser, node: ast.Assert) -> None:
    """Parse ``assert condition, "message"``, for the rest of the block."""
    message = parser.evaluate(node.msg) if node.msg is not None else "assertion failed"
    parser.open(T.Assert(_condition(parser, node.test), message))


# Everything else.


@T_DIALECT.statement(ast.Expr)
def parse_expression(parser: Parser, node: ast.Expr) -> None:
    """Parse a word called for its effect, or an expression evaluated for its side effect."""
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return  # a docstring
    value = parser.evaluate(node.value)
    if isinstance(value, Frame):
        parser.open(value)
    elif isinstance(value, Stmt):  # a word of a buffer, such as ``A.vstore(...)``, knows no line
        has_line = getattr(value, "span", None) is not None
        emit(value if has_line else value.with_fields(span=parser.span(node)))
    elif isinstance(value, (PrimExpr, int, float)):
        T.evaluate(value)
    elif value is not None and not isinstance(value, (str, Buffer, IterVar, list, tuple)):
        raise parser.error(node, f"a value ({type(value).__name__}) that is not used")


@T_DIALECT.statement(ast.Return)
def parse_return(parser: Parser, node: ast.Return) -> Any:
    """Parse ``return value`` as ``T.ret(value)``."""
    if node.value is None:
        return None
    value = parser.evaluate(node.value)
    if isinstance(value, (Buffer, BufferRegion, tuple, list)):
        raise parser.error(
            node.value,
            "a tensor function returns a number, or nothing",
            ("it writes its results to buffers that are parameters",),
        )
    if value is not None:
        T.evaluate(T.ret(value))
    return value


@T_DIALECT.statement(ast.Pass, ast.Nonlocal, ast.Global)
def parse_pass(parser: Parser, node: ast.stmt) -> None:
    """Do nothing; variables around the function are visible anyway."""


@T_DIALECT.statement(ast.FunctionDef)
def parse_local_function(parser: Parser, node: ast.FunctionDef) -> None:
    """Define a macro inside a function."""
    parser.define(node.name, local_macro(parser, node))
