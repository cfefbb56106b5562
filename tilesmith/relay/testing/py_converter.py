"""Turns programs into Python's own: functions, choices, matches and references become Python's.

    run_as_python(relay.Tuple([x, y]))      # the value of an expression
    ast.unparse(to_python(expr, mod))       # the program

It is a second meaning of programs, independent of the compiler: operators run by their numpy
evaluation.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op, RelaxExpr
from tilesmith.relay.adt import (
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
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
    branch,
)
from tilesmith.relay.expr_functor import ExprFunctor
from tilesmith.relay.function import Function
from tilesmith.relay.transform.normal_form import ToANormalForm
from tilesmith.relay.walks import functions_of, post_order
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.support.recursion import deep_recursion

__all__ = ["OUTPUT_VAR_NAME", "PROLOGUE", "PythonConverter", "run_as_python", "to_python"]

OUTPUT_VAR_NAME = "_py_out"
"""The variable that holds the value of the program."""

PROLOGUE = """
import numpy
from tilesmith.relay.backend.interpreter import ConstructorValue, RefValue
from tilesmith.relay.testing.operator_calls import (
    call_operator, is_true, no_clause, write_reference,
)
from tilesmith.runtime.ndarray import array
"""
"""What programs begin with."""


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _literal(value: Any) -> Any:
    """Return the value of an attribute in a form whose ``repr`` can be read."""
    if isinstance(value, (list, tuple)):
        return [_literal(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    number = getattr(value, "value", None)
    return number if isinstance(number, (bool, int, float)) else str(value)


class PythonConverter(ExprFunctor):
    """Converts one program. Visiting an expression gives Python's expression; statements that have
    to come before are added to the body that is being written.
    """

    def __init__(self, mod: IRModule | None, target: Any = None) -> None:
        super().__init__()
        self.mod = IRModule() if mod is None else mod
        self.target = target
        self.var_no = 0
        self.var_map: dict[Any, str] = {}
        self.body: list[ast.stmt] = []

    # Programs.

    def convert(self, prog: Any) -> ast.Module:
        """Return the module that computes an expression."""
        prog = self.optimize(prog)
        functions = self.convert_module()
        self.body = []
        value = self.visit(prog)
        output = ast.Assign([ast.Name(OUTPUT_VAR_NAME, ast.Store())], value)
        statements = [*ast.parse(PROLOGUE).body, *functions, *self.body, output]
        return ast.fix_missing_locations(ast.Module(statements, []))

    def optimize(self, prog: Any) -> Any:
        """Return a program in which every value is bound: what is shared is computed once."""
        name = "__entry"
        mod = self.mod.shallow_copy()
        variable = GlobalVar(name)
        mod[variable] = prog if isinstance(prog, Function) else Function([], prog)
        self.mod = ToANormalForm()(mod)
        found: Any = self.mod[variable]
        self.mod = self.mod.shallow_copy()
        del self.mod[variable]
        return found if isinstance(prog, Function) else found.body

    def convert_module(self) -> list[ast.stmt]:
        """Return the definitions of the functions of the module."""
        functions = functions_of(self.mod)
        for variable, _ in functions:
            self.var_map[variable.name_hint] = self.generate_function_name(variable.name_hint)
        found: list[ast.stmt] = []
        for variable, function in functions:
            found.append(self.convert_func_node(function, self.var_map[variable.name_hint]))
        return found

    # Names.

    def sanitize(self, name: str) -> str:
        """Return a name with what Python does not allow in names replaced."""
        return re.sub(r"\W", "_", name)

    def generate_var_name(self, name_hint: str) -> str:
        """Return a name that no other variable has."""
        self.var_no += 1
        return f"_{self.sanitize(name_hint)}_var_{self.var_no}"

    def generate_function_name(self, name_hint: str) -> str:
        """Return a name that no other function has."""
        self.var_no += 1
        return f"_{self.sanitize(name_hint)}_func_{self.var_no}"

    def get_var_name(self, var: Var) -> str:
        """Return the name of a variable."""
        if var not in self.var_map:
            self.var_map[var] = self.generate_var_name(var.name_hint)
        return self.var_map[var]

    def include_var(self, var: Var, assign: bool = False) -> ast.Name:
        """Return a variable: its value, or the place that a value is assigned to."""
        return ast.Name(self.get_var_name(var), ast.Store() if assign else ast.Load())

    def parse_name(self, name: str) -> ast.expr:
        """Return a name with dots as an expression."""
        return _parsed(name)

    # Pieces.

    def parse_numpy_array(self, arr: Any) -> ast.expr:
        """Return the expression that makes a tensor of the values of an array."""
        values = arr.tolist() if arr.dtype != "bfloat16" else arr.astype("float32").tolist()
        text = repr(values).replace("nan", "numpy.nan").replace("inf", "numpy.inf")
        return _parsed(f"array(numpy.array({text}, {str(arr.dtype)!r}).reshape({arr.shape}))")

    def convert_fields(self, fields: Iterable[Any]) -> list[ast.expr]:
        """Return the expressions of values."""
        return [self.visit(field) for field in fields]

    def convert_to_thunk(self, name_hint: str, expr: Any) -> str:
        """Define a function of nothing that computes an expression; return its name."""
        name = self.generate_function_name(name_hint)
        self.body.append(self._function(name, [], expr))
        return name

    def convert_func_node(self, func: Function, name_var: str | None = None) -> ast.FunctionDef:
        """Return the definition of a function."""
        name = self.generate_function_name("fun") if name_var is None else name_var
        return self._function(name, [self.get_var_name(one) for one in func.params], func.body)

    def _function(self, name: str, params: list[str], body: Any) -> ast.FunctionDef:
        outer, self.body = self.body, []
        self.body.append(ast.Return(self.visit(body)))
        made = self.create_def(name, params, self.body)
        self.body = outer
        return made

    def create_call(self, func_name: str, arguments: list[ast.expr]) -> ast.Call:
        """Return a call of a function of a name."""
        return ast.Call(self.parse_name(func_name), arguments, [])

    def create_def(
        self, func_name: str, arguments: list[str], body: list[ast.stmt]
    ) -> ast.FunctionDef:
        """Return the definition of a function."""
        header = ast.parse(f"def {func_name}({', '.join(arguments)}): pass").body[0]
        assert isinstance(header, ast.FunctionDef)
        header.body = body
        return header

    def create_tuple(self, fields: list[ast.expr]) -> ast.expr:
        """Return a tuple."""
        return ast.Tuple(fields, ast.Load())

    def create_op_call(self, op: Op, relay_args: Any, py_args: list[ast.expr]) -> ast.expr:
        """Return the call of an operator; ``relay_args`` are its attributes."""
        attributes = {key: _literal(value) for key, value in (relay_args or {}).items()}
        name = ast.Constant(op.name)
        return self.create_call("call_operator", [name, _parsed(repr(attributes)), *py_args])

    def create_match_check(self, pattern: Pattern, data: ast.expr) -> ast.expr:
        """Return whether a value looks like a pattern."""
        checks: list[ast.expr] = []
        if isinstance(pattern, PatternConstructor):
            found = ast.Attribute(data, "tag", ast.Load())
            wanted = ast.Constant(pattern.constructor.tag)
            checks.append(ast.Compare(found, [ast.Eq()], [wanted]))
        for place, inner in enumerate(getattr(pattern, "patterns", ())):
            if isinstance(inner, (PatternConstructor, PatternTuple)):
                field = ast.Subscript(data, ast.Constant(place), ast.Load())
                checks.append(self.create_match_check(inner, field))
        if not checks:
            return ast.Constant(True)
        return checks[0] if len(checks) == 1 else ast.BoolOp(ast.And(), checks)

    def create_match_clause_body(self, pattern: Pattern, body: Any) -> list[ast.stmt]:
        """Return the statements of a clause; its value is in ``_data``."""
        outer, self.body = self.body, []
        self._bind(pattern, _load("_data"))
        self.body.append(ast.Return(self.visit(body)))
        statements, self.body = self.body, outer
        return statements

    def _bind(self, pattern: Pattern, value: ast.expr) -> None:
        if isinstance(pattern, PatternVar):
            self.body.append(ast.Assign([self.include_var(pattern.var, True)], value))
        for place, inner in enumerate(getattr(pattern, "patterns", ())):
            self._bind(inner, ast.Subscript(value, ast.Constant(place), ast.Load()))

    # Expressions.

    def visit(self, expr: Any) -> Any:
        """Return Python's expression. Each use is visited: what it needs is bound already."""
        with deep_recursion():
            return self._dispatch(expr)

    def visit_var(self, var: Var) -> Any:
        """Return the variable."""
        return self.include_var(var)

    def visit_global_var(self, gvar: GlobalVar) -> Any:
        """Return the function of the module."""
        if gvar.name_hint not in self.var_map:
            raise UnsupportedError(f"the module has no function of relay '{gvar.name_hint}'")
        return _load(self.var_map[gvar.name_hint])

    def visit_let(self, letexp: Let) -> Any:
        """Assign the value of each of a chain of lets; return the last body."""
        current: Any = letexp
        while isinstance(current, Let):
            if isinstance(current.value, Function):
                name = self.get_var_name(current.var)
                self.body.append(self.convert_func_node(current.value, name))
            else:
                value = self.visit(current.value)
                self.body.append(ast.Assign([self.include_var(current.var, True)], value))
            current = current.body
        return self.visit(current)

    def visit_tuple(self, tup: Tuple) -> Any:
        """Return the tuple."""
        return self.create_tuple(self.convert_fields(tup.fields))

    def visit_tuple_getitem(self, tgi: TupleGetItem) -> Any:
        """Return a field of a tuple."""
        return ast.Subscript(self.visit(tgi.tuple_value), ast.Constant(tgi.index), ast.Load())

    def visit_if(self, if_block: If) -> Any:
        """Return a choice between two thunks."""
        condition = self.create_call("is_true", [self.visit(if_block.cond)])
        true = self.convert_to_thunk("true_branch", branch(if_block.true_branch))
        false = self.convert_to_thunk("false_branch", branch(if_block.false_branch))
        return ast.IfExp(condition, self.create_call(true, []), self.create_call(false, []))

    def visit_constant(self, constant: Constant) -> Any:
        """Return the tensor."""
        return self.parse_numpy_array(constant.data.numpy())

    def visit_function(self, func: Function) -> Any:
        """Define the function; return its name."""
        made = self.convert_func_node(func)
        self.body.append(made)
        return _load(made.name)

    def visit_call(self, call: Call) -> Any:
        """Return a call of an operator, a constructor or a function."""
        arguments = self.convert_fields(call.args)
        if isinstance(call.op, Op):
            return self.create_op_call(call.op, call.attrs, arguments)
        if isinstance(call.op, Constructor):
            return self._made(call.op, arguments)
        return ast.Call(self.visit(call.op), arguments, [])

    def _made(self, constructor: Constructor, arguments: list[ast.expr]) -> ast.expr:
        tag = ast.Constant(constructor.tag)
        return self.create_call("ConstructorValue", [tag, self.create_tuple(arguments)])

    def visit_ref_create(self, ref: RefCreate) -> Any:
        """Return a new reference."""
        return self.create_call("RefValue", [self.visit(ref.value)])

    def visit_ref_read(self, read: RefRead) -> Any:
        """Return the value of a reference."""
        return ast.Attribute(self.visit(read.ref), "value", ast.Load())

    def visit_ref_write(self, write: RefWrite) -> Any:
        """Return the call that replaces the value of a reference."""
        reference = self.visit(write.ref)
        return self.create_call("write_reference", [reference, self.visit(write.value)])

    def visit_match(self, match: Match) -> Any:
        """Return a call of a function that tries the clauses one after the other."""
        data = self.visit(match.data)
        name = self.generate_function_name("match")
        statements: list[ast.stmt] = []
        for clause in match.clauses:
            check = self.create_match_check(clause.lhs, _load("_data"))
            body = self.create_match_clause_body(clause.lhs, clause.rhs)
            statements.append(ast.If(check, body, []))
        statements.append(ast.Return(self.create_call("no_clause", [_load("_data")])))
        self.body.append(self.create_def(name, ["_data"], statements))
        return self.create_call(name, [data])

    def visit_constructor(self, constructor: Constructor) -> Any:
        """Return the function that makes values; the value itself where it takes no arguments."""
        names = [f"field_{place}" for place, _ in enumerate(constructor.inputs)]
        made = ast.unparse(self._made(constructor, [_load(name) for name in names]))
        return _parsed(f"lambda {', '.join(names)}: {made}")

    def visit_op(self, op: Op) -> Any:
        """Return the function that calls an operator."""
        return _parsed(f"lambda *values: call_operator({op.name!r}, None, *values)")


def to_python(expr: Any, mod: IRModule | None = None, target: Any = None) -> ast.Module:
    """Return the Python program that computes an expression, which may call functions of a module;
    the value is in the variable `OUTPUT_VAR_NAME`. The ``target`` makes no difference.
    """
    if not isinstance(expr, (RelaxExpr, Op)):
        raise TypeMismatchError(f"{type(expr).__name__} is no expression of relay")
    with deep_recursion():
        return PythonConverter(mod, target).convert(expr)


def run_as_python(expr: Any, mod: IRModule | None = None, target: Any = None) -> Any:
    """Return the value of an expression: tensors, tuples, values of data, references, functions."""
    known = [node for node in post_order(expr) if isinstance(node, GlobalVar)]
    if known and mod is None:
        raise UnsupportedError(
            f"the expression needs the function '{known[0].name_hint}'", notes=("give its module",)
        )
    with deep_recursion():
        program = to_python(expr, mod, target)
        names: dict[str, Any] = {}
        exec(compile(program, "<relay>", "exec"), names)
        return names[OUTPUT_VAR_NAME]
