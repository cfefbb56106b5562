"""Evaluates Python expressions inside a script from the syntax tree, so that each error has its
position, ``and``, ``or``, ``not`` and chained comparisons build expressions, and the two sides of
an operator stay in the order in which they are written.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import operator
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tilesmith.ir import ExprOp, IntImm, PrimExpr, operators
from tilesmith.ir.intrinsics import if_then_else, power
from tilesmith.script.diagnostics import guilty_argument, nearest
from tilesmith.script.literals import matching, with_literals
from tilesmith.support.errors import ScriptError, ShapeError, TilesmithError

if TYPE_CHECKING:
    from tilesmith.script.parsing import Parser

__all__ = ["Evaluator"]

# Syntax → (operator of scalar expressions, operator of everything else).
_BINARY: dict[type, tuple[Callable, Callable]] = {
    ast.Add: (operators.add, operator.add),
    ast.Sub: (operators.subtract, operator.sub),
    ast.Mult: (operators.multiply, operator.mul),
    ast.Div: (operators.divide, operator.truediv),
    ast.FloorDiv: (operators.floordiv, operator.floordiv),
    ast.Mod: (operators.floormod, operator.mod),
    ast.LShift: (operators.shift_left, operator.lshift),
    ast.RShift: (operators.shift_right, operator.rshift),
    ast.BitAnd: (operators.bitwise_and, operator.and_),
    ast.BitOr: (operators.bitwise_or, operator.or_),
    ast.BitXor: (operators.bitwise_xor, operator.xor),
    ast.Pow: (power, operator.pow),
    ast.MatMult: (operator.matmul, operator.matmul),
}
_COMPARE: dict[type, tuple[Callable, Callable]] = {
    ast.Eq: (operators.equal, operator.eq),
    ast.NotEq: (operators.not_equal, operator.ne),
    ast.Lt: (operators.less, operator.lt),
    ast.LtE: (operators.less_equal, operator.le),
    ast.Gt: (operators.greater, operator.gt),
    ast.GtE: (operators.greater_equal, operator.ge),
}
_PYTHON_COMPARE: dict[type, Callable] = {
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


class Evaluator:
    """Evaluates expressions in the scopes of a parser.

    A dialect adapts it by class of value: ``operands`` converts the operands of operators,
    ``subscripts`` takes over ``value[index]``, ``calls`` takes over ``value(arguments)``; each maps
    a class to a function.
    """

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.operands: dict[type, Callable[[Any], Any]] = {}
        self.subscripts: dict[type, Callable[[Any, Any], Any]] = {}
        self.calls: dict[type, Callable[[Any, list, dict], Any]] = {}
        self.builtins: dict[str, Any] = {}  # replacements of Python functions
        self.literal: Callable[[Any], Any] | None = None  # converts literals, if not None

    def evaluate(self, node: ast.expr) -> Any:
        """Return the value of an expression; every failure becomes an error at the innermost
        position.
        """
        method = _METHODS.get(node.__class__)
        if method is None:
            raise self.parser.error(
                node, f"`{type(node).__name__}` is not supported in an expression of a script"
            )
        try:
            return method(self, node)
        except ScriptError as error:
            if error.span is None:
                raise self.parser.error(node, error) from None
            raise
        except RecursionError:
            raise
        except Exception as error:
            raise self._explain(node, error) from error

    def _explain(self, node: ast.expr, error: Exception) -> ScriptError:
        """Return the error, with its marker under the argument or index that is wrong if that is
        known.
        """
        notes: tuple[str, ...] = ()
        place: ast.AST = node
        if isinstance(node, ast.Subscript) and isinstance(error, ShapeError):
            place = node.slice
            notes = self._declared(node)
        elif isinstance(node, ast.Subscript) and "not subscriptable" in str(error):
            return self._no_elements(node, error)
        elif isinstance(node, ast.Call):
            place = guilty_argument(node, str(error)) or node
            if not isinstance(error, TilesmithError):
                notes = self._instead_of_python(node, error) or self._usage(node, error)
                if notes and notes[0].startswith(
                    "usage"
                ):  # Python names the function as it was defined
                    written = ast.unparse(node.func)
                    text = re.sub(r"^[\w.<>]+\(\)", f"{written}()", str(error))
                    return self.parser.error(place, text, notes)
        return self.parser.error(place, error, notes)

    def _no_elements(self, node: ast.Subscript, error: Exception) -> ScriptError:
        """Explain the subscript of a value that is not a buffer."""
        value, written = self.evaluate(node.value), ast.unparse(node.value)
        if not isinstance(value, PrimExpr):
            return self.parser.error(node, error)
        problem = f"'{written}' is a value of {value.dtype}, which has no elements"
        return self.parser.error(node.value, problem, elements_of(written, value))

    def _instead_of_python(self, node: ast.Call, error: Exception) -> tuple[str, ...]:
        """Suggest the word of the dialect, where a Python function refuses an expression."""
        dialect = self.parser.dialect
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        refused = any(f"{kind.__name__}" in str(error) for kind in _kinds_of_expressions())
        if dialect is None or not isinstance(error, TypeError) or not refused:
            return ()
        if name in ("int", "float"):
            dtype = {"int": "int32", "float": "float32"}[name]
            return (f'write {dialect.letter}.Cast("{dtype}", …): Python cannot know the value yet',)
        if not hasattr(dialect.namespace, name):
            return ()
        return (f"write {dialect.letter}.{name}: Python cannot know the value yet",)

    def _declared(self, node: ast.Subscript) -> tuple[str, ...]:
        """Say how a buffer was declared."""
        buffer = self.evaluate(node.value)
        return (shape_note(ast.unparse(node.value), buffer.shape),)

    def _usage(self, node: ast.Call, error: Exception) -> tuple[str, ...]:
        """Return the signature of the function that was called with wrong arguments."""
        if not isinstance(error, TypeError):
            return ()
        try:
            function = self.evaluate(node.func)
            signature = inspect.signature(function)
        except (ValueError, TypeError, ScriptError):
            return ()
        return (f"usage: {ast.unparse(node.func)}{_plain_signature(signature)}",)

    # Names and constants.

    def constant(self, node: ast.Constant) -> Any:
        return node.value if self.literal is None else self.literal(node.value)

    def name(self, node: ast.Name) -> Any:
        found = self.parser.lookup(node.id, _MISSING)
        if found is not _MISSING:
            return found
        value = self.builtins.get(node.id) or getattr(builtins, node.id, _MISSING)
        if value is _MISSING:
            raise self.parser.error(
                node, f"undefined variable '{node.id}'", self._instead_of(node.id)
            )
        return value

    def _instead_of(self, name: str) -> tuple[str, ...]:
        """Suggest what to write instead of a name that is not defined."""
        if name in self.parser.ended:
            return (f"'{name}' is known only inside of the loop, block or branch that makes it",)
        dialect = self.parser.dialect
        if dialect is not None and name in dir(dialect.namespace):
            return (f"did you mean '{dialect.letter}.{name}'?",)
        advice = nearest(name, self.parser.known_names())
        if not advice and self.parser.source.is_text:
            return ("a text knows T, I, R and what it defines; give other names in extra_vars",)
        return advice

    def attribute(self, node: ast.Attribute) -> Any:
        value = self.evaluate(node.value)
        try:
            return getattr(value, node.attr)
        except AttributeError:
            written = ast.unparse(node.value)
            # The marker goes under the name that is missing.
            place = ast.copy_location(ast.Name(node.attr), node)
            place.lineno, place.col_offset = (
                node.end_lineno or node.lineno,
                (node.end_col_offset or 0) - len(node.attr),
            )
            kind = "word" if isinstance(value, ModuleType) else "attribute"
            known = dir(value)
            raise self.parser.error(
                place, f"'{written}' has no {kind} '{node.attr}'", nearest(node.attr, known)
            ) from None

    # Operators.

    def _operand(self, node: ast.expr) -> Any:
        value = self.evaluate(node)
        convert = self.operands.get(value.__class__)
        return value if convert is None else convert(value)

    def binary(self, node: ast.BinOp) -> Any:
        left, right = self._operand(node.left), self._operand(node.right)
        scalar, other = _BINARY[node.op.__class__]
        if isinstance(left, ExprOp) or isinstance(right, ExprOp):
            return scalar(*matching(left, right))
        return other(left, right)

    def unary(self, node: ast.UnaryOp) -> Any:
        kind = node.op.__class__
        if self.literal is not None and kind is ast.USub and isinstance(node.operand, ast.Constant):
            return self.literal(-node.operand.value)  # a number with a sign is one literal
        value = self._operand(node.operand)
        if kind is ast.Not:
            return operators.logical_not(value) if isinstance(value, ExprOp) else not value
        if kind is ast.USub:
            return -value
        return ~value if kind is ast.Invert else +value

    def boolean(self, node: ast.BoolOp) -> Any:
        both = operators.logical_and if isinstance(node.op, ast.And) else operators.logical_or
        result = self._operand(node.values[0])
        for later in node.values[1:]:
            if not isinstance(result, ExprOp):
                # As in Python, later operands count only where the earlier ones did not decide.
                if bool(result) is isinstance(node.op, ast.Or):
                    return result
                result = self._operand(later)
                continue
            result = both(result, self._operand(later))
        return result

    def compare(self, node: ast.Compare) -> Any:
        left = self._operand(node.left)
        result: Any = None
        for kind, later in zip(node.ops, node.comparators):
            right = self._operand(later)
            one = self._compare_two(kind.__class__, left, right)
            if result is None:
                result = one
            elif isinstance(result, ExprOp) or isinstance(one, ExprOp):
                result = operators.logical_and(result, one)
            else:
                result = result and one
            left = right
        return result

    def _compare_two(self, kind: type, left: Any, right: Any) -> Any:
        python = _PYTHON_COMPARE.get(kind)
        if python is not None:
            return python(left, right)
        scalar, other = _COMPARE[kind]
        both = _comparable(left) and _comparable(right)
        if both and (isinstance(left, ExprOp) or isinstance(right, ExprOp)):
            return scalar(*matching(left, right))
        return other(left, right)

    def conditional(self, node: ast.IfExp) -> Any:
        condition = self._operand(node.test)
        if isinstance(condition, PrimExpr) and not isinstance(condition, IntImm):
            values = self._operand(node.body), self._operand(node.orelse)
            return if_then_else(condition, *matching(*values))
        return self.evaluate(node.body if condition else node.orelse)

    # Calls, subscripts, containers.

    def call(self, node: ast.Call) -> Any:
        function = self.evaluate(node.func)
        arguments = self._items(node.args)
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value)
            if keyword.arg is None:
                named.update(value)
            else:
                named[keyword.arg] = value
        special = self.calls.get(function.__class__)
        if special is not None:
            return special(function, arguments, named)
        if self.operands and _takes_no_regions(function):
            arguments = self._as_operands(arguments)
            named = {name: self._as_operands([value])[0] for name, value in named.items()}
        if "dtype" in named:
            arguments = _with_dtype(function, arguments, named)
        elif not named:
            arguments = with_literals(function, arguments)
        return function(*arguments, **named)

    def _as_operands(self, values: Any) -> list[Any]:
        """Convert the arguments of functions of values: a region becomes the vector of its
        elements.
        """
        found = []
        for value in values:
            convert = self.operands.get(value.__class__)
            if convert is not None:
                value = convert(value)
            elif value.__class__ is list:
                value = self._as_operands(value)
            elif value.__class__ is dict:
                value = dict(zip(value, self._as_operands(value.values())))
            found.append(value)
        return found

    def subscript(self, node: ast.Subscript) -> Any:
        value = self.evaluate(node.value)
        index = self.evaluate(node.slice)
        special = self.subscripts.get(value.__class__)
        return value[index] if special is None else special(value, index)

    def slice(self, node: ast.Slice) -> slice:
        parts = [
            None if part is None else self.evaluate(part)
            for part in (node.lower, node.upper, node.step)
        ]
        return slice(*parts)

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        values = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values.extend(self.evaluate(node.value))
            else:
                values.append(self.evaluate(node))
        return values

    def tuple_(self, node: ast.Tuple) -> tuple:
        return tuple(self._items(node.elts))

    def list_(self, node: ast.List) -> list:
        return self._items(node.elts)

    def set_(self, node: ast.Set) -> set:
        return set(self._items(node.elts))

    def dict_(self, node: ast.Dict) -> dict:
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values):
            if key is None:
                result.update(self.evaluate(value))
            else:
                result[self.evaluate(key)] = self.evaluate(value)
        return result

    def joined_text(self, node: ast.JoinedStr) -> str:
        pieces = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.evaluate(part.value)
                if part.conversion != -1:
                    value = {115: str, 114: repr, 97: ascii}[part.conversion](value)
                spec = self.evaluate(part.format_spec) if part.format_spec is not None else ""
                pieces.append(format(value, spec))
            else:
                pieces.append(self.evaluate(part))
        return "".join(pieces)

    # Functions and comprehensions: their names live in a scope of their own.

    def lambda_(self, node: ast.Lambda) -> Callable:
        parameters = node.args
        plain = not (parameters.kwonlyargs or parameters.kwarg or parameters.defaults)
        if not plain:
            raise self.parser.error(node, "a lambda in a script takes plain parameters only")
        names = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
        captured = self.parser.snapshot()

        def function(*values: Any) -> Any:
            known = dict(zip(names, values))
            if parameters.vararg is not None:
                known[parameters.vararg.arg] = values[len(names) :]
            elif len(values) != len(names):
                raise TypeError(f"the lambda takes {len(names)} arguments, got {len(values)}")
            with self.parser.in_scopes(captured), self.parser.scope(known):
                return self.evaluate(node.body)

        # Callers ask how many parameters there are.
        if parameters.vararg is None:
            function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
                [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names]
            )
        return function

    def _each(self, generators: list[ast.comprehension]) -> Iterator[None]:
        first, later = generators[0], generators[1:]
        for item in self.evaluate(first.iter):
            self.parser.bind_target(first.target, item)
            if all(bool(self.evaluate(condition)) for condition in first.ifs):
                if later:
                    yield from self._each(later)
                else:
                    yield

    def list_comprehension(self, node: Any) -> list:
        with self.parser.scope({}):
            return [self.evaluate(node.elt) for _ in self._each(node.generators)]

    def set_comprehension(self, node: ast.SetComp) -> set:
        return set(self.list_comprehension(node))

    def dict_comprehension(self, node: ast.DictComp) -> dict:
        with self.parser.scope({}):
            return {
                self.evaluate(node.key): self.evaluate(node.value)
                for _ in self._each(node.generators)
            }


_MISSING: Any = object()


def shape_note(name: str, shape: Any) -> str:
    """Say which shape a buffer has, for an access with a wrong number of indices."""
    sizes = ", ".join([str(size) for size in shape])
    return f"{name} has the shape ({sizes}{',' if len(shape) == 1 else ''})"


def elements_of(written: str, value: PrimExpr) -> tuple[str, ...]:
    """Say how to access the elements behind a handle."""
    if not value.dtype.is_handle:
        return ()
    return (f"declare the buffer behind it: A = T.match_buffer({written}, shape, dtype)",)


def _kinds_of_expressions() -> list[type]:
    """Return all classes of expressions."""
    found, kinds = [PrimExpr], [PrimExpr]
    while kinds:
        below = kinds.pop().__subclasses__()
        found += below
        kinds += below
    return found


def _comparable(value: Any) -> bool:
    """True if a value can be compared with a scalar expression."""
    return isinstance(value, (ExprOp, bool, int, float)) or hasattr(value, "dtype")


def _plain_signature(signature: inspect.Signature) -> str:
    """Return a signature without annotations."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    return str(inspect.Signature(parameters))


_METHODS: dict[type, Callable[[Evaluator, Any], Any]] = {
    ast.Constant: Evaluator.constant,
    ast.Name: Evaluator.name,
    ast.Attribute: Evaluator.attribute,
    ast.BinOp: Evaluator.binary,
    ast.UnaryOp: Evaluator.unary,
    ast.BoolOp: Evaluator.boolean,
    ast.Compare: Evaluator.compare,
    ast.IfExp: Evaluator.conditional,
    ast.Call: Evaluator.call,
    ast.Subscript: Evaluator.subscript,
    ast.Slice: Evaluator.slice,
    ast.Tuple: Evaluator.tuple_,
    ast.List: Evaluator.list_,
    ast.Set: Evaluator.set_,
    ast.Dict: Evaluator.dict_,
    ast.JoinedStr: Evaluator.joined_text,
    ast.Lambda: Evaluator.lambda_,
    ast.ListComp: Evaluator.list_comprehension,
    ast.GeneratorExp: Evaluator.list_comprehension,
    ast.SetComp: Evaluator.set_comprehension,
    ast.DictComp: Evaluator.dict_comprehension,
}


_OF_VALUES = (
    "tilesmith.ir.", "tilesmith.script.tir", "tilesmith.tir.buffer", "tilesmith.tir.expr",
    "tilesmith.tir.op",
)  # fmt: skip
_OF_REGIONS = {
    "BufferRegion",
    "match_buffer",
    "realize",
    "prefetch",
    "attr",
    "reads",
    "writes",
    "address_of",
}


def _takes_no_regions(function: Any) -> bool:
    """True if a function works on values, and cannot use a region of a buffer."""
    module = getattr(function, "__module__", None)
    if not isinstance(module, str) or not module.startswith(_OF_VALUES):
        return False
    return getattr(function, "__name__", "") not in _OF_REGIONS


def _with_dtype(function: Any, arguments: list[Any], named: dict[str, Any]) -> list[Any]:
    """Return the positional arguments of a call with ``dtype=…``, as scripts of older versions
    write it.

    An operator that takes the dtype first gets it there; for one that has the dtype of its operands
    it is dropped (from ``named``).
    """
    if not str(getattr(function, "__module__", "")).startswith("tilesmith."):
        return arguments
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return arguments
    if arguments and next(iter(parameters), None) == "dtype":
        return [named.pop("dtype"), *arguments]
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    if "dtype" not in parameters and not takes_any:
        del named["dtype"]
    return arguments
