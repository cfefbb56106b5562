"""Parses the ``R`` dialect: from Python's syntax tree to functions of the graph.

Assignments become bindings, ``with R.dataflow():`` a dataflow block (the names in ``R.output`` are
visible outside), ``if`` a choice whose branches end by assigning the same name, ``return`` the
result. Nested operations are bound to variables of their own.
"""

from __future__ import annotations

import ast
from typing import Any

from tilesmith.ir import GlobalVar, IRModule, PrimExpr
from tilesmith.ir import Var as SymbolicVar
from tilesmith.ir.queries import nodes
from tilesmith.relax import script as words
from tilesmith.relax.annotations import StructInfoProxy
from tilesmith.relax.bare_annotations import bare_words, with_named_sizes
from tilesmith.relax.block_builder import LEAVES
from tilesmith.relax.expr import (
    Call,
    DataflowVar,
    Expr,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    Var,
    VarBinding,
    as_struct_info,
    known_struct_info,
)
from tilesmith.relax.kernel_operands import check_kernel_call
from tilesmith.relax.relations import (
    describe,
    erase_to_params,
    is_base_of,
    struct_info_lca,
)
from tilesmith.relax.script_function import (
    GraphFunction,
    current_function,
    set_current_function,
)
from tilesmith.relax.struct_info import FuncStructInfo, StructInfo, TupleStructInfo
from tilesmith.script.builder import name_fresh
from tilesmith.script.macros import ScriptMacro, expand_macro
from tilesmith.script.parsing import DIALECTS, Dialect, ModuleScope, Parser, check_private
from tilesmith.support.errors import ScriptError, ShapeError

__all__ = ["R_DIALECT"]

R_DIALECT = Dialect("R", words, last_expression_is_value=True)
DIALECTS.register("R", R_DIALECT)

_ARGUMENTS = (Tuple, *LEAVES)


def _function(parser: Parser) -> GraphFunction:
    found = current_function()
    assert found is not None and found.parser is parser
    return found


# Struct info


class _Sizes(dict):
    """Names of sizes of the function; others are looked up around it."""

    def __init__(self, function: GraphFunction) -> None:
        super().__init__(function.sizes)
        self.function = function

    def __setitem__(self, name: str, value: Any) -> None:
        self.function.sizes[name] = value
        super().__setitem__(name, value)

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        found = self.function.parser.lookup(str(name))
        if isinstance(found, (PrimExpr, int)):
            super().__setitem__(str(name), found)
            return True
        return False

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default


def struct_info_of(function: GraphFunction, written: Any) -> StructInfo:
    """Convert an evaluated annotation to struct info."""
    if isinstance(written, StructInfoProxy):
        return written.as_struct_info(_Sizes(function))
    return as_struct_info(written)


def _annotation(parser: Parser, node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):  # quoted
        node = ast.parse(node.value, mode="eval").body
    bare = bare_words(parser, node)
    if not bare:
        return parser.evaluate(node)
    with parser.scope(bare):
        return parser.evaluate(with_named_sizes(parser, node))


# Functions


def _signature(parser: Parser, node: ast.FunctionDef, function: GraphFunction) -> tuple:
    """Parse the parameters and the struct info of the result (or None)."""
    written = []
    for parameter in [*node.args.posonlyargs, *node.args.args]:
        if parameter.annotation is None:
            raise parser.error(
                parameter,
                f"parameter '{parameter.arg}' has no annotation",
                (f'write {parameter.arg}: R.Tensor((2, 3), "float32")',),
            )
        written.append((parameter, _annotation(parser, parameter.annotation)))
    for _, value in written:  # a name may be used before the parameter that binds it
        if isinstance(value, StructInfoProxy):
            for name in value.get_symbolic_vars():
                if name not in function.sizes:
                    function.sizes[name] = SymbolicVar(name, "int64")
    params = []
    for parameter, value in written:
        try:
            info = struct_info_of(function, value)
        except ScriptError as error:
            raise parser.error(parameter.annotation, error) from None
        params.append(Var(parameter.arg, info, parser.span(parameter)))
    returned = None
    if node.returns is not None and not _is_none(node.returns):
        returned = struct_info_of(function, _annotation(parser, node.returns))
    elif not isinstance(node.body[-1], ast.Return):
        returned = TupleStructInfo(())
    return params, returned


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _finer(declared: StructInfo | None, body: SeqExpr, params: list[Var]) -> StructInfo | None:
    """Return the declared result, or what the body implies if that says more."""
    if declared is None:
        return None
    implied = erase_to_params(known_struct_info(body), params)
    return implied if is_base_of(declared, implied) else declared


@R_DIALECT.declare
def declare_function(
    parser: Parser, node: ast.FunctionDef, variable: GlobalVar, options: dict
) -> None:
    """Declare a function's signature, so that other functions of the module can call it."""
    function = GraphFunction(parser, node.name, None)
    params, returned = _signature(parser, node, function)
    if returned is not None:
        infos = [param.struct_info for param in params]
        variable.describe(FuncStructInfo(infos, returned, bool(options.get("pure", True))))


@R_DIALECT.function
def parse_function(parser: Parser, node: ast.FunctionDef, options: dict) -> Function:
    """Parse a function under ``@R.function``."""
    outer = current_function()
    if outer is not None and outer.parser is not parser:
        outer = None
    function = GraphFunction(parser, node.name, outer)
    set_current_function(function)
    try:
        params, returned = _signature(parser, node, function)
        for name, size in function.sizes.items():
            parser.define(name, size)
        for param in params:
            parser.define(param.name_hint, param)
        function.builder.begin_scope(params)
        blocks = len(function.builder.open_blocks)
        function.begin_block()
        _check_end(parser, node)
        parser.body(node.body)
        if function.result is None:
            function.finish(())
        del function.builder.open_blocks[blocks:]
        function.builder.end_scope()
    finally:
        set_current_function(outer)
    body = function.sequence(function.result)
    attrs = dict(function.attrs)
    check_private(parser, node, options, attrs)
    if outer is None and not options.get("private", False):
        attrs.setdefault("global_symbol", node.name)
    is_pure = bool(options.get("pure", True))
    result = _finer(returned, body, params)
    made = Function(params, body, result, is_pure, attrs, parser.span(node))
    if outer is None and parser.module is not None:
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


def _call_global(variable: GlobalVar, arguments: list, named: dict) -> Call:
    function = current_function()
    values = arguments if function is None else [function.value(item) for item in arguments]
    return Call(variable, values, None, named.get("sinfo_args"))


def _prepare(parser: Parser) -> None:
    parser.evaluator.calls[GlobalVar] = _call_global
    parser.evaluator.calls[ScriptMacro] = lambda macro, arguments, named: expand_macro(
        parser, macro, arguments, named
    )


R_DIALECT.prepare = _prepare


# Statements


def _bind_value(
    parser: Parser, name: str, value: Any, annotation: StructInfo | None, node: ast.AST
) -> None:
    function = _function(parser)
    if isinstance(value, words.MatchCastPair):
        source = function.builder.normalize_argument(function.value(value.value))
        info = struct_info_of(function, value.struct_info)
        var = function.new_var(name, info)
        span = parser.span(node)
        function.builder.emit_normalized(MatchCast(var, source, info, span))
        parser.define(name, var)
    elif isinstance(value, SymbolicVar):
        if name not in function.sizes:
            function.sizes[name] = name_fresh(value, name) if not value.name else value
        parser.define(name, function.sizes[name])
    elif isinstance(value, (str, bool, int, float, dict, ModuleScope)) or value is None:
        parser.define(name, value)  # a Python value, used while the script is parsed
    elif callable(value) and not isinstance(value, Expr):
        parser.define(name, value)
    elif isinstance(value, (list, tuple)) and not _holds_expressions(value):
        parser.define(name, value)
    else:
        function.bind(name, value, annotation, node)


def _holds_expressions(values: Any) -> bool:
    return any(
        isinstance(item, Expr)
        or hasattr(item, "__array__")
        or (isinstance(item, (list, tuple)) and _holds_expressions(item))
        for item in values
    )


def _bind_target(parser: Parser, target: ast.expr, value: Any, node: ast.AST) -> None:
    if isinstance(target, ast.Name):
        _bind_value(parser, target.id, value, None, node)
        return
    if not isinstance(target, (ast.Tuple, ast.List)):
        raise parser.error(target, "values are assigned to names here")
    function = _function(parser)
    if isinstance(value, Expr):
        whole = function.builder.normalize_argument(function.value(value))
        info = known_struct_info(whole)
        count = len(info.fields) if isinstance(info, TupleStructInfo) else -1
        if count != len(target.elts):
            raise parser.error(target, f"{len(target.elts)} names for {describe(info)}")
        value = [whole[index] for index in range(count)]
    values = list(value)
    if len(values) != len(target.elts):
        raise parser.error(target, f"{len(target.elts)} names for {len(values)} values")
    for inner, item in zip(target.elts, values):
        _bind_target(parser, inner, item, node)


@R_DIALECT.statement(ast.Assign)
def parse_assign(parser: Parser, node: ast.Assign) -> None:
    """Parse ``lv = R.add(x, y)``, ``a, b = R.split(x, 2)``."""
    if len(node.targets) != 1:
        raise parser.error(node, "one value is assigned to one name", ("write two assignments",))
    _bind_target(parser, node.targets[0], parser.evaluate(node.value), node)


@R_DIALECT.statement(ast.AnnAssign)
def parse_annotated_assign(parser: Parser, node: ast.AnnAssign) -> None:
    """Parse ``lv: R.Tensor((2, 3), "float32") = R.add(x, y)``."""
    if not isinstance(node.target, ast.Name) or node.value is None:
        raise parser.error(node, "an annotated assignment has one name and a value")
    written = _annotation(parser, node.annotation)
    value = parser.evaluate(node.value)
    if isinstance(written, SymbolicVar):  # n: T.int64
        info = None
    else:
        info = struct_info_of(_function(parser), written)
    _bind_value(parser, node.target.id, value, info, node)


@R_DIALECT.statement(ast.Expr)
def parse_expression(parser: Parser, node: ast.Expr) -> None:
    """Parse a call made for its effect, ``R.func_attr`` or ``R.output``; a string is a comment."""
    if isinstance(node.value, ast.Constant):
        return
    value = parser.evaluate(node.value)
    function = _function(parser)
    if isinstance(value, words.OutputMark):
        _name_outputs(parser, function, node, value)
    elif isinstance(value, Expr) and not isinstance(value, SymbolicVar):
        var = function.bind("_", value, None, node)
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


def _name_outputs(
    parser: Parser, function: GraphFunction, node: ast.Expr, mark: words.OutputMark
) -> None:
    """Check that ``R.output`` names variables of the dataflow block that it ends."""
    if function.outputs is None:
        raise parser.error(node, "R.output ends a dataflow block: with R.dataflow():")
    function.has_outputs = True
    bound = {id(binding.var) for binding in function.builder.open_blocks[-1].bindings}
    for number, var in enumerate(mark.variables):
        if isinstance(var, DataflowVar):
            raise parser.error(node, f"R.output names variables one by one, not '{var.name_hint}'")
        if id(var) not in bound:
            raise parser.error(
                node,
                f"argument {number} of R.output is not a variable of this dataflow block",
                ("what is bound outside is visible without it",),
            )


@R_DIALECT.statement(ast.Return)
def parse_return(parser: Parser, node: ast.Return) -> None:
    """Parse the result of the function."""
    function = _function(parser)
    if len(function.blocks) != 1:
        raise parser.error(
            node,
            "`return` stands at the end of the function",
            ("let both branches assign one name and return that",),
        )
    if function.outputs is not None:
        raise parser.error(node, "`return` stands after the dataflow block, not inside")
    if node.value is None or _is_none(node.value):
        function.finish(())
    else:
        function.finish(parser.evaluate(node.value))


@R_DIALECT.statement(ast.Pass)
def parse_pass(parser: Parser, node: ast.Pass) -> None:
    """Parse ``pass``, which does nothing."""


@R_DIALECT.statement(ast.FunctionDef)
def parse_local_function(parser: Parser, node: ast.FunctionDef) -> None:
    """Parse a function inside a function."""
    made = parser.parse_function(node)
    function = _function(parser)
    if not isinstance(made, Function):
        raise parser.error(node, "only functions of the graph stand inside a function")
    var = function.new_var(node.name, made.struct_info)
    function.builder.emit_normalized(VarBinding(var, made, parser.span(node)))
    parser.define(node.name, var)


# Dataflow blocks


def _output_names(node: ast.With) -> dict[int, set[str]]:
    """Return statement number → the outputs that the statement assigns last."""
    names: list[str] = []
    for statement in node.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, (ast.Attribute, ast.Name)):
            word = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id
            if word == "output":
                names += [arg.id for arg in call.args if isinstance(arg, ast.Name)]
    last: dict[str, int] = {}
    for number, statement in enumerate(node.body):
        for target in _assigned_names(statement):
            last[target] = number
    found: dict[int, set[str]] = {}
    for name in names:
        if name in last:
            found.setdefault(last[name], set()).add(name)
    return found


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
    function = _function(parser)
    opened = [parser.evaluate(item.context_expr) for item in node.items]
    if len(opened) != 1 or not isinstance(opened[0], words.DataflowMark):
        raise parser.error(node, "`with` opens a dataflow block here: with R.dataflow():")
    if function.outputs is not None:
        raise parser.error(node, "a dataflow block has no dataflow block inside")
    function.end_block()
    function.begin_block(dataflow=True)
    function.outputs, function.has_outputs = _output_names(node), False
    with parser.scope():
        for number, statement in enumerate(node.body):
            if function.has_outputs:
                raise parser.error(statement, "R.output is the last statement of a dataflow block")
            function.statement = number
            parser.visit(statement)
        names = dict(parser.scopes[-1])
    for name, value in names.items():
        if not isinstance(value, DataflowVar):
            parser.define(name, value)
    if not function.has_outputs:
        raise parser.error(
            node,
            "this dataflow block has no R.output: nothing that it computes can be used",
            ("end it with R.output(...) and the variables that are used after it",),
        )
    function.outputs = None
    function.end_block()
    function.begin_block()


# Choices


@R_DIALECT.statement(ast.If)
def parse_if(parser: Parser, node: ast.If) -> None:
    """Parse ``if``: both branches end by assigning the same name."""
    function = _function(parser)
    if function.outputs is not None:
        raise parser.error(node, "a dataflow block has no branches")
    condition = parser.evaluate(node.test)
    condition = function.builder.normalize_argument(function.value(condition))
    if not node.orelse:
        raise parser.error(node, "`if` needs an `else` here: both give a value to one name")
    name, true, annotation = _branch(parser, node.body)
    other, false, _ = _branch(parser, node.orelse)
    if name != other:
        raise parser.error(
            node, f"the branches end with '{name}' and '{other}': one name is needed"
        )
    choice = If(condition, true, false, parser.span(node))
    info = annotation or struct_info_lca(true.struct_info, false.struct_info)
    var = Var(name, info)
    function.builder.emit_normalized(VarBinding(var, choice, parser.span(node)))
    parser.define(name, var)


def _branch(parser: Parser, statements: list[ast.stmt]) -> tuple[str, SeqExpr, Any]:
    """Parse a branch: the name that it assigns, the sequence, the declared struct info."""
    function = _function(parser)
    last = statements[-1]
    function.blocks.append([])
    function.begin_block()
    annotation = None
    with parser.scope():
        for statement in statements[:-1]:
            parser.visit(statement)
        name, value = _end_of_branch(parser, last)
        if isinstance(last, ast.AnnAssign):
            annotation = struct_info_of(function, _annotation(parser, last.annotation))
        function.end_block()
    return name, function.sequence(value), annotation


def _end_of_branch(parser: Parser, last: ast.stmt) -> tuple[str, Any]:
    """Parse the last statement of a branch: the name that it gives a value, and the value."""
    function = _function(parser)
    if isinstance(last, (ast.If, ast.Expr)):
        parser.visit(last)
        name = _last_name(last)
        found = parser.scopes[-1].get(name)
        if found is None:
            raise _no_value(parser, last)
        return name, found
    names = _assigned_names(last)
    if len(names) != 1 or not isinstance(last, (ast.Assign, ast.AnnAssign)) or last.value is None:
        raise _no_value(parser, last)
    value = parser.evaluate(last.value)
    if not isinstance(value, words.MatchCastPair):
        value = function.builder.normalize(function.value(value))
        if isinstance(value, _ARGUMENTS):
            return names[0], value
    annotation = None
    if isinstance(last, ast.AnnAssign):
        annotation = struct_info_of(function, _annotation(parser, last.annotation))
    _bind_value(parser, names[0], value, annotation, last)
    return names[0], parser.scopes[-1][names[0]]


def _no_value(parser: Parser, last: ast.stmt) -> ScriptError:
    return parser.error(last, "a branch ends by assigning the name that it gives a value")


def _last_name(last: ast.stmt) -> str:
    """Return the name that the last statement of a branch binds: "_" for a call without a name."""
    if isinstance(last, ast.If):
        return _last_name(last.body[-1])
    return "_" if isinstance(last, ast.Expr) else _assigned_names(last)[0]
