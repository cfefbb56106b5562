"""Parses the ``R`` dialect: from Python's syntax tree to functions of the graph.

Assignments become bindings, ``with R.dataflow():`` a dataflow block (the names in ``R.output`` are
visible outside), ``if`` a choice whose branches end by assigning the same name, ``return`` the
result. Nested operations are bound to variables of their own.
"""

from __future__ import annotations

import ast
from functools import partial
from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir import Var as SymbolicVar
from tilesmith.ir.queries import nodes
from tilesmith.relax import script as words
from tilesmith.relax.annotations import StructInfoProxy
from tilesmith.relax.bare_annotations import bare_words, with_named_sizes
from tilesmith.relax.expr import (
    Call,
    DataflowVar,
    Expr,
    Function,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.kernel_operands import check_kernel_call
from tilesmith.relax.relations import describe
from tilesmith.relax.script_frames import (
    BlockFrame,
    FunctionFrame,
    SeqExprFrame,
    innermost,
    sequence_to_end,
)
from tilesmith.relax.struct_info import FuncStructInfo, StructInfo, TupleStructInfo
from tilesmith.script.builder import name_fresh
from tilesmith.script.macros import ScriptMacro, expand_macro
from tilesmith.script.parsing import DIALECTS, Dialect, ModuleScope, Parser, check_private
from tilesmith.support.errors import ScriptError, ShapeError, TilesmithError

__all__ = ["R_DIALECT"]

R_DIALECT = Dialect("R", words, last_expression_is_value=True)
DIALECTS.register("R", R_DIALECT)


def _sequence() -> SeqExprFrame:
    """Return the frame whose statements are being parsed: the function, or a branch."""
    return innermost("a statement of a graph", SeqExprFrame)


# Struct info


@R_DIALECT.annotation
def read_annotation(parser: Parser, node: ast.expr) -> Any:
    """Return struct info, or a proxy of it, for an annotation: quoted, or of bare words, too."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):  # quoted
        node = ast.parse(node.value, mode="eval").body
    bare = bare_words(parser, node)
    if not bare:
        return parser.evaluate(node)
    with parser.scope(bare):
        return parser.evaluate(with_named_sizes(parser, node))


# Functions


def _read_signature(parser: Parser, node: ast.FunctionDef, function: FunctionFrame) -> None:
    """Parse the parameters, and the struct info of the result where it is declared."""
    written = []
    for parameter in [*node.args.posonlyargs, *node.args.args]:
        if parameter.annotation is None:
            raise parser.error(
                parameter,
                f"parameter '{parameter.arg}' has no annotation",
                (f'write {parameter.arg}: R.Tensor((2, 3), "float32")',),
            )
        written.append((parameter, parser.annotation(parameter.annotation)))
    for _, value in written:  # a name may be used before the parameter that binds it
        if isinstance(value, StructInfoProxy):
            for name in value.get_symbolic_vars():
                if name not in function.sizes:
                    function.sizes[name] = SymbolicVar(name, "int64")
    for parameter, value in written:
        info = _struct_info_at(parser, parameter.annotation, function, value)
        function.add_param(Var(parameter.arg, info, parser.span(parameter)))
    if node.returns is not None and not _is_none(node.returns):
        result = parser.annotation(node.returns)
        function.ret_struct_info = _struct_info_at(parser, node.returns, function, result)
    elif not isinstance(node.body[-1], ast.Return):
        function.ret_struct_info = TupleStructInfo(())


def _struct_info_at(
    parser: Parser, node: ast.expr, function: FunctionFrame, value: Any
) -> StructInfo:
    """Return the struct info that an annotation stands for; errors show the annotation."""
    try:
        return function.struct_info(value)
    except TilesmithError as error:
        raise parser.error(node, error) from None


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


@R_DIALECT.declare
def declare_function(
    parser: Parser, node: ast.FunctionDef, variable: GlobalVar, options: dict
) -> None:
    """Declare a function's signature, so that other functions of the module can call it."""
    function = _function_frame(parser, node, options)
    _read_signature(parser, node, function)
    if function.ret_struct_info is not None:
        infos = [param.struct_info for param in function.params]
        result = function.ret_struct_info
        variable.describe(FuncStructInfo(infos, result, function.is_pure))


def _function_frame(parser: Parser, node: ast.FunctionDef, options: dict) -> FunctionFrame:
    with parser.builder:
        parser.builder.span = parser.span(node)
        function = FunctionFrame(
            bool(options.get("pure", True)), bool(options.get("private", False))
        )
    function.name, function.lookup = node.name, parser.lookup
    return function


@R_DIALECT.function
def parse_function(parser: Parser, node: ast.FunctionDef, options: dict) -> Function:
    """Parse a function under ``@R.function``."""
    frame = _function_frame(parser, node, options)
    with parser.builder, frame:
        _read_signature(parser, node, frame)
        for name, size in frame.sizes.items():
            parser.define(name, size)
        for param in frame.params:
            parser.define(param.name_hint, param)
        _check_end(parser, node)
        parser.body(node.body)
        if frame.output is None:
            frame.set_output(())
        check_private(parser, node, options, frame.attrs)
    made = frame.function
    assert made is not None
    if frame.outer is None and parser.module is not None:
        variable = parser.module.variables.get(node.name)
        if variable is not None:  # without a declared result, it is known only from here on
            variable.describe(made.struct_info)
    return made


def _check_end(parser: Parser, node: ast.FunctionDef) -> None:
    for statement, following in zip(node.body, node.body[1:]):
        if isinstance(statement, ast.Return):
            raise parser.error(following, "this statement stands after `return`")


@R_DIALECT.check
def check_kernel_calls(module: IRModule) -> None:
    """Raise an error where a call of a kernel of the module does not fit it, or names a function
    that the module does not have.
    """
    for function in module.functions.values():
        if not isinstance(function, Function) or function.body is None:
            continue
        for binding in nodes(function.body, VarBinding):
            if not isinstance(binding.value, Call):
                continue
            _check_callee(module, binding.value, binding.span)
            try:
                check_kernel_call(binding.value, module.functions)
            except ShapeError as error:
                error.span = error.span if error.span is not None else binding.span
                raise


def _check_callee(module: IRModule, call: Call, span: Any) -> None:
    """Raise ScriptError for a call of a function that the module does not have."""
    for callee in (call.op, *call.args[:1]):
        if isinstance(callee, GlobalVar) and callee not in module.functions:
            names = ", ".join([variable.name_hint for variable in module.functions])
            raise ScriptError(
                f"the module has no function '{callee.name_hint}'",
                call.span if call.span is not None else span,
                (f"it has: {names}",),
            )


def _call_global(parser: Parser, variable: GlobalVar, arguments: list, named: dict) -> Call:
    frame = _sequence()
    results = parser.module.results if parser.module is not None else {}
    if variable.struct_info is None and results.get(variable) == "void":
        variable.describe(FuncStructInfo.opaque_func(ret=TupleStructInfo(()), purity=False))
    values = [frame.value(item) for item in arguments]
    return Call(variable, values, None, named.get("sinfo_args"))


def _prepare(parser: Parser) -> None:
    parser.evaluator.calls[GlobalVar] = partial(_call_global, parser)
    parser.evaluator.calls[ScriptMacro] = lambda macro, arguments, named: expand_macro(
        parser, macro, arguments, named
    )


R_DIALECT.prepare = _prepare


# Statements


def bind_value(parser: Parser, name: str, value: Any, annotation: StructInfo | None = None) -> None:
    """Bind a name as an assignment does: expressions to a new variable, Python values as they
    are.
    """
    frame = _sequence()
    if isinstance(value, words.MatchCastPair):
        parser.define(name, frame.emit_match_cast(value.value, value.struct_info, name))
    elif isinstance(value, SymbolicVar):
        if name not in frame.sizes:
            frame.sizes[name] = name_fresh(value, name) if not value.name else value
        parser.define(name, frame.sizes[name])
    elif isinstance(value, (str, bool, int, float, dict, ModuleScope)) or value is None:
        parser.define(name, value)  # a Python value, used while the script is parsed
    elif callable(value) and not isinstance(value, Expr):
        parser.define(name, value)
    elif isinstance(value, (list, tuple)) and not _holds_expressions(value):
        parser.define(name, value)
    else:
        parser.define(name, frame.emit(value, annotation, name))


def _holds_expressions(values: Any) -> bool:
    return any(
        isinstance(item, Expr)
        or hasattr(item, "__array__")
        or (isinstance(item, (list, tuple)) and _holds_expressions(item))
        for item in values
    )


def _bind_target(parser: Parser, target: ast.expr, value: Any) -> None:
    if isinstance(target, ast.Name):
        bind_value(parser, target.id, value)
        return
    if not isinstance(target, (ast.Tuple, ast.List)):
        raise parser.error(target, "values are assigned to names here")
    frame = _sequence()
    if isinstance(value, Expr):
        whole = frame.block_builder.normalize_argument(frame.value(value))
        info = known_struct_info(whole)
        count = len(info.fields) if isinstance(info, TupleStructInfo) else -1
        if count != len(target.elts):
            raise parser.error(target, f"{len(target.elts)} names for {describe(info)}")
        value = [whole[index] for index in range(count)]
    values = list(value)
    if len(values) != len(target.elts):
        raise parser.error(target, f"{len(target.elts)} names for {len(values)} values")
    for inner, item in zip(target.elts, values):
        _bind_target(parser, inner, item)


@R_DIALECT.statement(ast.Assign)
def parse_assign(parser: Parser, node: ast.Assign) -> None:
    """Parse ``lv = R.add(x, y)``, ``a, b = R.split(x, 2)``."""
    if len(node.targets) != 1:
        raise parser.error(node, "one value is assigned to one name", ("write two assignments",))
    _bind_target(parser, node.targets[0], parser.evaluate(node.value))


@R_DIALECT.statement(ast.AnnAssign)
def parse_annotated_assign(parser: Parser, node: ast.AnnAssign) -> None:
    """Parse ``lv: R.Tensor((2, 3), "float32") = R.add(x, y)``."""
    if not isinstance(node.target, ast.Name) or node.value is None:
        raise parser.error(node, "an annotated assignment has one name and a value")
    written = parser.annotation(node.annotation)
    value = parser.evaluate(node.value)
    if isinstance(written, SymbolicVar):  # n: T.int64
        info = None
    else:
        info = _sequence().struct_info(written)
    bind_value(parser, node.target.id, value, info)


@R_DIALECT.statement(ast.Expr)
def parse_expression(parser: Parser, node: ast.Expr) -> None:
    """Parse a call made for its effect, ``R.func_attr`` or ``R.output``; a string is a comment."""
    if isinstance(node.value, ast.Constant):
        return
    value = parser.evaluate(node.value)
    if isinstance(value, Expr) and not isinstance(value, SymbolicVar):
        var = _sequence().emit(value, None, "_")
        parser.define("_", var)
        if not is_void(known_struct_info(var)):
            raise _unused(parser, node, describe(known_struct_info(var)))
    elif isinstance(value, words.MatchCastPair):
        raise _unused(parser, node, "R.match_cast")


def is_void(info: StructInfo) -> bool:
    """Return whether a value is the empty tuple: what calls give that are made for their effect."""
    return isinstance(info, TupleStructInfo) and not info.fields


def _unused(parser: Parser, node: ast.Expr, what: str) -> ScriptError:
    return parser.error(
        node, f"the value of this statement ({what}) is not used", ("bind it: _ = ...",)
    )


@R_DIALECT.statement(ast.Return)
def parse_return(parser: Parser, node: ast.Return) -> None:
    """Parse the result of the function."""
    frame = sequence_to_end("`return`")
    nothing = node.value is None or _is_none(node.value)
    frame.set_output(() if nothing else parser.evaluate(node.value))


@R_DIALECT.statement(ast.Pass)
def parse_pass(parser: Parser, node: ast.Pass) -> None:
    """Parse ``pass``, which does nothing."""


@R_DIALECT.statement(ast.FunctionDef)
def parse_local_function(parser: Parser, node: ast.FunctionDef) -> None:
    """Parse a function inside a function."""
    made = parser.parse_function(node)
    if not isinstance(made, Function):
        raise parser.error(node, "only functions of the graph stand inside a function")
    parser.define(node.name, _sequence().last_var)


# Dataflow blocks


def _assigned_names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef):
        return [statement.name]
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    elif isinstance(statement, ast.Assign):
        targets = list(statement.targets)
    else:
        return []
    return [
        inner.id for target in targets for inner in ast.walk(target) if isinstance(inner, ast.Name)
    ]


@R_DIALECT.statement(ast.With)
def parse_with(parser: Parser, node: ast.With) -> None:
    """Parse ``with R.dataflow():``."""
    opened = [parser.evaluate(item.context_expr) for item in node.items]
    if len(opened) != 1 or not isinstance(opened[0], BlockFrame):
        raise parser.error(node, "`with` opens a dataflow block here: with R.dataflow():")
    block = opened[0]
    with parser.scope():
        with block:
            for statement in node.body:
                if block.outputs is not None:
                    raise parser.error(
                        statement, "R.output is the last statement of a dataflow block"
                    )
                parser.visit(statement)
        names = dict(parser.scopes[-1])
    for name, value in names.items():
        visible = block.renamed.get(value, value) if isinstance(value, Var) else value
        if not isinstance(visible, DataflowVar):
            parser.define(name, visible)


# Choices


@R_DIALECT.statement(ast.If)
def parse_if(parser: Parser, node: ast.If) -> None:
    """Parse ``if``: both branches end by assigning the same name."""
    with words.If(parser.evaluate(node.test)) as choice:
        if not node.orelse:
            raise parser.error(node, "`if` needs an `else` here: both give a value to one name")
        with words.Then() as branch:
            _parse_branch(parser, branch, node.body)
        with words.Else() as branch:
            _parse_branch(parser, branch, node.orelse)
    parser.define(choice.var.name_hint, choice.var)


def _parse_branch(parser: Parser, branch: SeqExprFrame, statements: list[ast.stmt]) -> None:
    """Parse a branch; its last statement gives the value, of any kind, to a name."""
    last = statements[-1]
    with parser.scope():
        for statement in statements[:-1]:
            parser.visit(statement)
        if not isinstance(last, (ast.Assign, ast.AnnAssign)):
            if not isinstance(last, (ast.If, ast.Expr)):
                raise _no_value(parser, last)
            parser.visit(last)
            return
        names = _assigned_names(last)
        if len(names) != 1 or last.value is None:
            raise _no_value(parser, last)
        if isinstance(last, ast.AnnAssign):
            branch.ret_struct_info = branch.struct_info(parser.annotation(last.annotation))
        value = parser.evaluate(last.value)
        if isinstance(value, words.MatchCastPair):
            bind_value(parser, names[0], value)
        else:
            branch.emit(value, branch.ret_struct_info, names[0])


def _no_value(parser: Parser, last: ast.stmt) -> ScriptError:
    return parser.error(last, "a branch ends by assigning the name that it gives a value")
