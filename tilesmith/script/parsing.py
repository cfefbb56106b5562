"""Parses Python's syntax tree into a program.

The parser knows modules (classes), functions (by their decorator), names, scopes, and finds the
**dialect** that handles a piece of syntax.

How a dialect is added
----------------------

A dialect is one object, registered under the letter that scripts use for it; ``DIALECTS`` imports
``tilesmith.relax.parser`` when the letter ``R`` is met for the first time::

    R_DIALECT = Dialect("R", namespace=sys.modules[__name__])   # the words: R.add, R.function, …
    DIALECTS.register("R", R_DIALECT)

    @R_DIALECT.statement(ast.Assign)      # any class of ast.stmt
    def parse_assign(parser, node): ...

    @R_DIALECT.function                   # FunctionDef; gives the finished function
    def parse_function(parser, node, options): ...

    @R_DIALECT.declare                    # optional: called for each function of a module before
    def declare(parser, node, variable, options): ...  # any is parsed; set variable.struct_info

    @R_DIALECT.annotation                 # optional: what a type in the program's text means
    def read_annotation(parser, node): ...

    R_DIALECT.prepare = lambda parser: …  # optional: adapt ``parser.evaluator`` (its ``operands``,
                                          # ``subscripts``, ``calls``: class of value → function)

The decorator ``R.function`` is a ``FunctionDecorator`` made with ``("R", definitions.parse_now)``:
it works as ``@R.function`` and as ``@R.function(private=True)``, alone and inside a module; the
keyword arguments arrive as ``options``. Its ``make_frame`` opens a function in plain Python.

What a handler uses: ``parser.evaluate(expr)``; ``parser.body(statements)`` (a block: frames that it
opens with ``parser.open(frame)`` are closed at its end); ``parser.scope({name: value})``;
``parser.define(name, value)``; ``parser.lookup(name)``; ``parser.error(node, message, notes)`` (to
be raised: has file, line, column, the source line and a marker); ``parser.span(node)``;
``parser.module`` (``ModuleScope`` or None; ``variables``: name → GlobalVar). The section of large
constants is found under the name ``metadata`` like any variable: lists of numpy arrays by kind.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tilesmith.ir import BaseFunc, GlobalVar, IRModule
from tilesmith.script.builder import Frame, IRBuilder
from tilesmith.script.diagnostics import Source
from tilesmith.script.evaluator import Evaluator
from tilesmith.support.errors import ScriptError
from tilesmith.support.registry import Registry

__all__ = ["DIALECTS", "FALLBACK", "MODULES", "Dialect", "ModuleScope", "Parser"]


class Dialect:
    """Parses the functions with a certain decorator; see the module docstring."""

    def __init__(self, letter: str, namespace: Any, last_expression_is_value: bool = False) -> None:
        """``last_expression_is_value``: a macro that ends in an expression has its value."""
        self.letter = letter
        self.namespace = namespace
        self.last_expression_is_value = last_expression_is_value
        self.statements: dict[type, Callable[[Parser, Any], Any]] = {}
        self.parse_function: Callable[[Parser, Any, dict], BaseFunc] | None = None
        self.declare_function: Callable[[Parser, Any, GlobalVar, dict], None] | None = None
        self.read_annotation: Callable[[Parser, ast.expr], Any] = Parser.evaluate
        self.prepare: Callable[[Parser], None] | None = None
        self.check_module: Callable[[IRModule], None] | None = None

    def statement(self, *classes: type) -> Callable[[Callable], Callable]:
        """Register the handler of a class of statements: ``handler(parser, node)``."""

        def register(handler: Callable) -> Callable:
            for cls in classes:
                self.statements[cls] = handler
            return handler

        return register

    def function(self, handler: Callable) -> Callable:
        """Register the handler of functions: ``handler(parser, node, options) -> BaseFunc``."""
        self.parse_function = handler
        return handler

    def check(self, handler: Callable[[IRModule], None]) -> Callable[[IRModule], None]:
        """Register what checks a module with functions of the dialect: ``handler(module)``."""
        self.check_module = handler
        return handler

    def annotation(self, handler: Callable[[Parser, ast.expr], Any]) -> Callable[..., Any]:
        """Register what reads annotations: ``handler(parser, node)`` returns what it means."""
        self.read_annotation = handler
        return handler

    def declare(self, handler: Callable) -> Callable:
        """Register what is done for each function of a module before any of them is parsed."""
        self.declare_function = handler
        return handler


DIALECTS: Registry[Dialect] = Registry(
    "script dialect",
    providers={"R": "tilesmith.relax.parser", "T": "tilesmith.script.tir_parser"},
)


class ModuleScope:
    """The module that is being parsed; inside it, ``cls.name`` is a function's GlobalVar."""

    def __init__(self) -> None:
        self.variables: dict[str, GlobalVar] = {}
        self.results: dict[GlobalVar, Any] = {}  # result dtypes of tensor functions, or "void"
        self.attrs: dict[str, Any] = {}
        self.global_infos: dict[str, Any] = {}
        self.functions: dict[str, BaseFunc] = {}

    def __getattr__(self, name: str) -> GlobalVar:
        variables = self.__dict__.get("variables", {})
        if name not in variables:
            raise AttributeError(name)
        return variables[name]

    def __dir__(self) -> list[str]:
        return list(self.variables)


_INSTEAD = {
    "break": ("write `while` with the condition under which to go on",),
    "continue": ("write `if` around the statements that are left out",),
    "import": ("import at the head of the file: a script sees the names around it",),
    "importfrom": ("import at the head of the file: a script sees the names around it",),
    "raise": ("write assert condition, message",),
    "delete": ("memory ends with the block that allocates it",),
    "try": ("a program of loops has no exceptions: write assert condition, message",),
}


FALLBACK: dict[type, Callable[[Parser, Any], Any]] = {}
"""Handlers of statements for dialects that have none of their own: programs add them."""


class _Modules(threading.local):
    """The modules that this thread is parsing; words such as ``I.module_attrs`` act on the last."""

    def __init__(self) -> None:
        self.stack: list[ModuleScope] = []


modules = _Modules()


class Parser:
    """Parses one source. ``known`` holds the variables around the program.

    ``check_well_formed``: whether dialects verify finished functions, unless the decorator of a
    function or module says otherwise.
    """

    def __init__(
        self, source: Source, known: Mapping[str, Any], check_well_formed: bool = True
    ) -> None:
        self.check_well_formed = check_well_formed
        self.source = source
        self.known = known
        self.scopes: list[dict[str, Any]] = [{}]
        self.ended: set[str] = set()  # names of scopes that have been closed
        self.evaluator = Evaluator(self)
        self.builder = IRBuilder()
        self.module: ModuleScope | None = None
        self.module_alias = "cls"
        self.prepare_evaluator: Callable[[Evaluator], None] | None = None
        self.dialect: Dialect | None = None
        self.function_body: list[ast.stmt] = []
        """The statements of the function that is being parsed."""
        self._open: list[ExitStack] = []

    # Errors.

    def span(self, node: ast.AST) -> Any:
        """Return the position of a piece of syntax."""
        return self.source.span(node)

    def error(self, node: ast.AST, problem: Any, notes: tuple[str, ...] = ()) -> ScriptError:
        """Return the error to raise for a problem (text or exception) at a piece of syntax."""
        return self.source.error(node, problem, notes)

    # Names.

    def lookup(self, name: str, default: Any = None) -> Any:
        """Return the value of a name: scopes from the inside out, then the variables around the
        program.
        """
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if name in self.known:
            return self.known[name]
        return default

    def known_names(self) -> set[str]:
        """Return all names in scope."""
        names = {name for name in self.known if not name.startswith("_")}
        for scope in self.scopes:
            names |= set(scope)
        return names

    def is_defined_here(self, value: Any) -> bool:
        """True if some name of the program stands for this object."""
        return any(value is known for scope in self.scopes for known in scope.values())

    def define(self, name: str, value: Any) -> None:
        """Bind a name in the innermost scope."""
        self.scopes[-1][name] = value

    def bind_target(self, target: ast.expr, value: Any) -> None:
        """Bind plain values to a name or a tuple of names (of a comprehension)."""
        if isinstance(target, ast.Name):
            self.define(target.id, value)
            return
        if not isinstance(target, (ast.Tuple, ast.List)):
            raise self.error(target, "a name is needed here")
        for inner, item in unpacked(self, target, list(value), "names"):
            self.bind_target(inner, item)

    @contextmanager
    def scope(self, names: dict[str, Any] | None = None) -> Iterator[None]:
        """Open a scope of names."""
        depth = len(self.scopes)
        self.scopes.append(dict(names or {}))
        try:
            yield
        finally:
            for closed in self.scopes[depth:]:
                self.ended.update(closed)
            del self.scopes[depth:]

    def snapshot(self) -> list[dict[str, Any]]:
        """Return the scopes as they are now, for a function that is called later."""
        return list(self.scopes)

    @contextmanager
    def in_scopes(self, scopes: list[dict[str, Any]]) -> Iterator[None]:
        """Resolve names as another place does."""
        saved, self.scopes = self.scopes, list(scopes)
        try:
            yield
        finally:
            self.scopes = saved

    # Expressions, statements.

    def evaluate(self, node: ast.expr) -> Any:
        """Return the value of an expression."""
        return self.evaluator.evaluate(node)

    def annotation(self, node: ast.expr) -> Any:
        """Return what an annotation means in the dialect of the function around it."""
        assert self.dialect is not None
        return self.dialect.read_annotation(self, node)

    def visit(self, node: ast.stmt) -> Any:
        """Pass a statement to the dialect of the function around it."""
        assert self.dialect is not None
        handler = self.dialect.statements.get(node.__class__) or FALLBACK.get(node.__class__)
        if handler is None:
            kind = type(node).__name__.lower()
            raise self.error(
                node,
                f"a statement of this kind ({kind}) has no place in a script",
                _INSTEAD.get(kind, ()),
            )
        outer = self.builder.span
        self.builder.span = self.span(node)
        try:
            return handler(self, node)
        except ScriptError as error:
            if error.span is None:
                raise self.error(node, error) from None
            raise
        except RecursionError:
            raise
        except Exception as error:
            raise self.error(node, error) from error
        finally:
            self.builder.span = outer

    def body(self, statements: list[ast.stmt], names: dict[str, Any] | None = None) -> Any:
        """Parse a block of statements in a scope of its own; frames that it opens end with it."""
        with self.scope(names), ExitStack() as stack:
            self._open.append(stack)
            try:
                result = None
                for statement in statements:
                    result = self.visit(statement)
                return result
            finally:
                self._open.pop()

    def open(self, frame: Any) -> Any:
        """Enter a frame that lasts until the end of the current block."""
        return self._open[-1].enter_context(frame)

    # Functions and modules.

    @contextmanager
    def in_dialect(self, dialect: Dialect) -> Iterator[None]:
        """Let a dialect handle statements and adapt expressions."""
        saved = self.dialect, self.evaluator
        self.dialect, self.evaluator = dialect, Evaluator(self)
        if dialect.prepare is not None:
            dialect.prepare(self)
        if self.prepare_evaluator is not None and dialect.letter == "T":
            self.prepare_evaluator(self.evaluator)
        try:
            yield
        finally:
            self.dialect, self.evaluator = saved

    def decorator_of(self, node: ast.FunctionDef) -> Any:
        """Return the decorator that says which dialect a function is written in."""
        for written in node.decorator_list:
            value = self.evaluate(written)
            if hasattr(value, "dialect_letter"):
                return value
            if hasattr(value, "dispatch_token"):  # a dialect that a program has registered
                return FunctionDecorator(value.dispatch_token, _not_parsed_alone)
        place = node.decorator_list[0] if node.decorator_list else node
        raise self.error(
            place,
            f"function '{node.name}' has no decorator of a dialect",
            ("write @T.prim_func or @R.function above it",),
        )

    def parse_function(self, node: ast.FunctionDef) -> BaseFunc:
        """Parse a decorated function."""
        decorator = self.decorator_of(node)
        dialect = DIALECTS.get(decorator.dialect_letter)
        with self.in_dialect(dialect), self.scope({}):
            assert dialect.parse_function is not None
            return dialect.parse_function(self, node, decorator.options)

    def parse_module(self, node: ast.ClassDef) -> IRModule:
        """Parse a class whose functions are those of a module."""
        self.module = module = ModuleScope()
        self._module_options(node)
        functions = [item for item in node.body if isinstance(item, ast.FunctionDef)]
        renamed = self._renamed_functions(node)
        module.variables.update(renamed)
        for function in functions:
            if function.name in renamed:
                continue
            if function.name in module.variables:
                raise self.error(function, f"the module has two functions '{function.name}'")
            module.variables[function.name] = GlobalVar(function.name)
        names: dict[str, Any] = {node.name: module, self.module_alias: module}
        names.update(module.variables)
        modules.stack.append(module)
        try:
            with self.scope(names):
                items = [item for item in node.body if _declared_name(item) is None]
                while items and not isinstance(items[0], ast.FunctionDef):
                    self._module_item(items.pop(0))  # devices, external functions
                for function in functions:
                    self.declare(function)
                for item in items:
                    self._module_item(item)
        finally:
            modules.stack.pop()
            self.module = None
        made = IRModule({}, None, module.attrs, module.global_infos, self.span(node))
        for name, function in module.functions.items():
            variable = module.variables.get(name)
            made[variable if variable is not None else name] = function
        if self.check_well_formed:
            letters = [self.decorator_of(function).dialect_letter for function in functions]
            for letter in dict.fromkeys(letters):
                check_module = DIALECTS.get(letter).check_module
                if check_module is not None:
                    check_module(made)
        return made

    def _module_options(self, node: ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            for keyword in getattr(decorator, "keywords", ()):
                if keyword.arg != "check_well_formed":
                    raise self.error(keyword, f"a module has no option '{keyword.arg}'")
                self.check_well_formed = bool(self.evaluate(keyword.value))

    def _renamed_functions(self, node: ast.ClassDef) -> dict[str, GlobalVar]:
        """Collect statements ``f_1 = I.decl_function("f.1")``: functions whose names are not valid
        in Python.
        """
        found = {}
        for item in node.body:
            name = _declared_name(item)
            if name is not None:
                found[item.targets[0].id] = GlobalVar(name)  # type: ignore[attr-defined]
        return found

    def declare(self, node: ast.FunctionDef) -> GlobalVar:
        """Let the dialect of a function of the module declare it; return its variable."""
        assert self.module is not None
        variable = self.module.variables[node.name]
        decorator = self.decorator_of(node)
        dialect = DIALECTS.get(decorator.dialect_letter)
        if dialect.declare_function is not None:
            with self.in_dialect(dialect), self.scope({}):
                dialect.declare_function(self, node, variable, decorator.options)
        return variable

    def _module_item(self, item: ast.stmt) -> None:
        handler = MODULES.statements.get(item.__class__)
        if handler is None:
            raise self.error(item, "a module holds functions, and values that they use")
        handler(self, item)


MODULES = Dialect("I", None)
"""Parses what stands in a module: its statements are handled while ``parser.module`` is set."""


@MODULES.statement(ast.ClassDef)
def parse_module(parser: Parser, node: ast.ClassDef) -> IRModule:
    """Parse a class under ``@I.ir_module``."""
    return parser.parse_module(node)


@MODULES.statement(ast.FunctionDef)
def parse_module_function(parser: Parser, node: ast.FunctionDef) -> None:
    """Parse a function of a module."""
    assert parser.module is not None
    parser.module.functions[node.name] = parser.parse_function(node)


@MODULES.statement(ast.Assign)
def parse_module_value(parser: Parser, node: ast.Assign) -> None:
    """Parse a value that functions use, or a function that was made elsewhere."""
    module = parser.module
    assert module is not None
    value = parser.evaluate(node.value)
    for target in node.targets:
        parser.bind_target(target, value)
        if isinstance(value, BaseFunc) and isinstance(target, ast.Name):
            variable = module.variables.setdefault(target.id, GlobalVar(target.id))
            variable.describe(getattr(value, "struct_info", None))
            module.functions[target.id] = value


@MODULES.statement(ast.Expr)
def parse_module_expression(parser: Parser, node: ast.Expr) -> None:
    """Parse a word such as ``I.module_attrs(…)``, or a docstring."""
    parser.evaluate(node.value)


@MODULES.statement(ast.Pass)
def parse_module_pass(parser: Parser, node: ast.Pass) -> None:
    """Do nothing."""


def _declared_name(item: ast.stmt) -> str | None:
    """Return the name in ``variable = I.decl_function("name")``, or None for any other
    statement.
    """
    if not (isinstance(item, ast.Assign) and isinstance(item.value, ast.Call)):
        return None
    call = item.value
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "decl_function"):
        return None
    named = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    plain = len(named) == 1 and len(item.targets) == 1 and isinstance(item.targets[0], ast.Name)
    return named[0] if plain and isinstance(named[0], str) else None


def unpacked(
    parser: Parser,
    target: ast.Tuple | ast.List,
    values: Sequence[Any],
    names: str,
    what: str = "values",
) -> list[tuple[ast.expr, Any]]:
    """Return each name of a target with its value; a starred name takes those that the others
    leave.
    """
    elements = target.elts
    stars = [number for number, one in enumerate(elements) if isinstance(one, ast.Starred)]
    fits = len(values) == len(elements) if not stars else len(values) >= len(elements) - 1
    if not fits or len(stars) > 1:
        raise parser.error(target, f"{len(elements)} {names} for {len(values)} {what}")
    if not stars:
        return list(zip(elements, values))
    first, behind = stars[0], len(elements) - stars[0] - 1
    last = len(values) - behind
    starred = elements[first]
    assert isinstance(starred, ast.Starred)
    return [
        *zip(elements[:first], values),
        (starred.value, tuple(values[first:last])),
        *zip(elements[first + 1 :], values[last:]),
    ]


class FunctionDecorator:
    """``@T.prim_func`` and ``@T.prim_func(private=True)``; ``with T.prim_func():`` in a builder.

    ``parse(function, frame, options)`` makes the function when the decorator is met outside of a
    module; inside one, the module's own decorator parses everything together.
    """

    def __init__(
        self, letter: str, parse: Callable[[Any, Any, dict], Any], options: dict | None = None
    ) -> None:
        self.dialect_letter = letter
        self.options: dict[str, Any] = dict(options or {})
        self._parse = parse
        self._frames: list[Frame] = []

    def __call__(self, func: Any = None, **options: Any) -> Any:
        """Decorate a function, or take options first."""
        import sys

        if func is None or isinstance(func, bool):
            if isinstance(func, bool):
                options = {"private": func, **options}
            options = {**self.options, **options}
            return type(self)(self.dialect_letter, self._parse, options)
        return self._parse(func, sys._getframe(1), {**self.options, **options})

    def make_frame(self) -> Frame:
        """Return the frame of a function that is built in plain Python."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        self._frames.append(self.make_frame())
        return self._frames[-1].__enter__()

    def __exit__(self, *error: Any) -> None:
        self._frames.pop().__exit__(*error)


def _not_parsed_alone(*_: Any) -> Any:
    raise ScriptError("a decorator that only names a dialect parses nothing by itself")


def check_private(parser: Parser, node: ast.FunctionDef, options: dict, attrs: Any) -> None:
    """Refuse a private function that has a symbol."""
    if options.get("private", False) and attrs.get("global_symbol") is not None:
        raise parser.error(
            node,
            f"'{node.name}' is private and has the attribute global_symbol",
            ("a private function has no symbol: leave one of the two out",),
        )


def open_frame(parser: Parser, value: Any) -> Any:
    """Enter ``value`` for the rest of the block if it is a frame; else return it."""
    return parser.open(value) if isinstance(value, Frame) else value
