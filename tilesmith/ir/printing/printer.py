"""Defines the printer: dispatch by class, names, scopes, lines, large constants."""

from __future__ import annotations

import importlib
import keyword
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any, TypeVar

from tilesmith.ir.expr import PrimExpr
from tilesmith.ir.node import Node
from tilesmith.ir.printing.config import PrinterConfig
from tilesmith.ir.printing.doc import Doc, Level, Piece, call, joined, listed, quoted
from tilesmith.ir.rules import NodeRules
from tilesmith.runtime.dtype import ScalableLanes

__all__ = ["Printer", "prints", "prints_lines"]

Handler = Callable[[Any, "Printer"], Any]
Printing = TypeVar("Printing", bound=Handler)

# class → function, whether it writes lines
_HANDLERS: NodeRules[tuple[Handler, bool]] = NodeRules("printing")
_LOADED: set[str] = set()


def prints(*classes: type) -> Callable[[Printing], Printing]:
    """Register ``function(node, printer) -> Doc`` for classes and their subclasses."""
    return _register(classes, False)


def prints_lines(*classes: type) -> Callable[[Printing], Printing]:
    """Register ``function(node, printer)`` that writes lines, for classes and their subclasses."""
    return _register(classes, True)


def _register(classes: tuple[type, ...], lines: bool) -> Callable[[Printing], Printing]:
    def register(function: Printing) -> Printing:
        _HANDLERS.handles(*classes)((function, lines))
        return function

    return register


def _handler(cls: type) -> tuple[Handler, bool]:
    """Return the function for a class; imports the ``printer.py`` of the packages of its
    ancestors.
    """
    if cls not in _HANDLERS:
        for ancestor in reversed(cls.__mro__):
            _load_printer(ancestor.__module__)
    return _HANDLERS[cls]


def _load_printer(module: str) -> None:
    parts = module.split(".")
    if len(parts) < 2 or parts[0] != "tilesmith":
        return
    name = f"{parts[0]}.{parts[1]}.printer"
    if name in _LOADED:
        return
    _LOADED.add(name)
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:  # no `printer.py`: nodes of the package are printed as skeletons
            raise


_NESTING = 40  # an expression has at most three times as many brackets as levels


def _brackets(doc: Piece) -> int:
    """Return the deepest nesting of brackets in a piece of text."""
    depth = deepest = 0
    for letter in str(doc):
        if letter in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in ")]}":
            depth -= 1
    return deepest


_INVALID = re.compile(r"\W")


class Line:
    """One line: its depth, its text, and a comment at its end."""

    __slots__ = ("comment", "depth", "doc")

    def __init__(self, depth: int, doc: Piece) -> None:
        self.depth = depth
        self.doc = doc
        self.comment = ""


class FreeName:
    """A name that is used but not defined: its definition, and where to insert it."""

    __slots__ = ("blocks", "definition", "line", "thing")

    def __init__(self, thing: Any, definition: Piece, frames: list[int], line: int) -> None:
        self.thing = thing
        self.definition = definition
        self.blocks = tuple(frames)  # the lines above the blocks around all uses
        self.line = line  # the definition goes before this line

    def used(self, frames: list[int], line: int) -> None:
        """Take another use into account."""
        if self.line == line:
            return
        common = 0
        for ours, theirs in zip(self.blocks, frames):
            if ours != theirs:
                break
            common += 1
        if common < len(self.blocks):
            self.line = self.blocks[common]
            self.blocks = self.blocks[:common]


class Printer:
    """The object that the functions of the ``printer.py`` files write to; one per text."""

    def __init__(self, config: PrinterConfig) -> None:
        self.config = config
        self.lines: list[Line] = []
        self.free: list[FreeName] = []  # names that are used but not defined
        self.depth = 0
        self.dialects: set[str] = set()
        self.metadata: dict[str, list[Any]] = {}
        self.state: dict[str, Any] = {}  # of the dialects' own
        self.functions: Mapping[Any, str] = {}  # GlobalVar → name, inside a module
        self.results: Mapping[Any, str] = {}  # GlobalVar → dtype of the function's result
        self.function_name: str | None = None
        self.splits_expressions = True  # False where no line can be inserted before: in a lambda
        self._nesting = 0
        self._free: dict[int, FreeName] = {}
        self._frames: list[int] = []  # for each open block the number of the line above it
        self._names: list[set[str]] = [set()]
        self._defined: list[dict[int, tuple[Any, Piece]]] = [{}]
        self._arrays: dict[tuple[str, int], tuple[Any, int]] = {}
        reserved = {*config.prefixes.values(), config.module_alias, "metadata"}
        self._reserved = reserved | set(keyword.kwlist)
        self._prefixes = config.prefixes
        self._annotated: dict[int, str] = {
            id(node): text for node, text in (config.obj_to_annotate or {}).items()
        }

    # Dispatch.

    def doc(self, node: Any) -> Piece:
        """Print a node or plain value as an expression."""
        handler, lines = _handler(node.__class__)
        if lines:
            return _skeleton(node, self)
        self._nesting += 1
        try:
            doc: Piece = handler(node, self)
        except Exception as error:
            # The printer is for finding mistakes: a broken node must not stop it.
            doc = Doc(f"<{_complaint(node, error)}>", node=node)
        if self._nesting % _NESTING == 0 and self.splits_expressions:
            doc = self._split(node, doc)
        self._nesting -= 1
        if self._annotated and id(node) in self._annotated:
            self.state.setdefault("comments", []).append(self._annotated[id(node)])
        return doc

    def _split(self, node: Any, doc: Piece) -> Piece:
        """Move a deep expression to a line of its own: Python reads at most 200 open brackets."""
        if not isinstance(node, PrimExpr) or _brackets(doc) < _NESTING:
            return doc
        name = self.fresh_name("part")
        self.line(name, " = ", call(f"{self.word('T')}.meta_var", [doc]), node=node)
        return Doc(name, node=node)

    def write(self, node: Any) -> None:
        """Print a node as lines: a statement, a function, a module; an expression gets one line."""
        handler, lines = _handler(node.__class__)
        if not lines:
            self.line(self.doc(node))
            return
        first = len(self.lines)
        try:
            handler(node, self)
        except Exception as error:
            self.line("# ", _complaint(node, error), node=node)
        if self._annotated and id(node) in self._annotated and len(self.lines) > first:
            self.lines[first].comment = self._annotated[id(node)]

    def writes_lines(self, node: Any) -> bool:
        """True if nodes of this class are printed as lines."""
        return _handler(node.__class__)[1]

    def has_rule(self, node: Any) -> bool:
        """Return whether there is a rule for the class of a node or for one of its bases."""
        return _handler(node.__class__) is not _HANDLERS[object]

    def docs(self, nodes: Any) -> list[Piece]:
        """Print several nodes as expressions."""
        return [self.doc(node) for node in nodes]

    # Lines.

    def line(self, *parts: Piece, node: Any = None) -> None:
        """Write one line; ``node`` is what the line shows."""
        line = Line(self.depth, Doc(*parts, node=node))
        comments = self.state.pop("comments", None) if self.state else None
        if comments:
            line.comment = "; ".join(comments)
        self.lines.append(line)

    def blank(self) -> None:
        """Write an empty line."""
        self.lines.append(Line(0, ""))

    @contextmanager
    def block(self) -> Iterator[None]:
        """Yield an indented scope of names."""
        before = len(self.lines)
        self.depth += 1
        self._frames.append(before - 1)
        self._names.append(set())
        self._defined.append({})
        try:
            yield
            if len(self.lines) == before:
                self.line("pass")
        finally:
            self.depth -= 1
            self._frames.pop()
            self._names.pop()
            self._defined.pop()

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Yield a scope of names without indentation (of a lambda)."""
        self._names.append(set())
        self._defined.append({})
        splits, self.splits_expressions = self.splits_expressions, False
        try:
            yield
        finally:
            self.splits_expressions = splits
            self._names.pop()
            self._defined.pop()

    # Names.

    def word(self, dialect: str) -> str:
        """Return the word for a dialect ("T" unless the user chose another) and note that it has to
        be imported.
        """
        self.dialects.add(dialect)
        return self._prefixes.get(dialect, dialect)

    def fresh_name(self, hint: str, outermost: bool = False) -> str:
        """Return a name that is not defined in this scope: the hint itself, numbered only on a
        clash.
        """
        hint = _INVALID.sub("_", hint) or "v"
        if hint[0].isdigit():
            hint = "v" + hint
        name, number = hint, 0
        while name in self._reserved or any(name in names for names in self._names):
            number += 1
            name = f"{hint}_{number}"
        self._names[0 if outermost else -1].add(name)
        return name

    def define(self, thing: Any, hint: str, outermost: bool = False) -> str:
        """Name a variable or buffer in the current scope."""
        name = self.fresh_name(hint, outermost)
        if self.config.show_object_address:
            name = f"{name}_{id(thing):x}"
        self.bind(thing, name, outermost)
        return name

    def bind(self, thing: Any, text: Piece, outermost: bool = False) -> None:
        """Print ``thing`` as ``text`` (``A.data``) from here to the end of the scope."""
        self._defined[0 if outermost else -1][id(thing)] = (thing, text)

    def defined(self, thing: Any) -> Piece | None:
        """Return the name of a variable or buffer, or None if it has none in this scope."""
        key = id(thing)
        for scope in reversed(self._defined):
            found = scope.get(key)
            if found is not None:
                if self._free and key in self._free:
                    self._free[key].used(self._frames, len(self.lines))
                text: Piece = found[1]
                return text
        return None

    def is_known(self, thing: Any) -> bool:
        """True if a variable or buffer has a name in this scope; this does not count as a use."""
        return any(id(thing) in scope for scope in self._defined)

    def declare_free(self, thing: Any, hint: str, how: Piece) -> str:
        """Name something that is used but not defined.

        Its definition is written in the innermost block that holds all its uses.
        """
        name = self.define(thing, hint, outermost=True)
        free = FreeName(thing, Doc(name, " = ", how), self._frames, len(self.lines))
        self.free.append(free)
        self._free[id(thing)] = free
        return name

    def mention(self, value: Any, user: FreeName) -> None:
        """Declare free names in ``value`` where they are visible to the definition of another free
        name.
        """
        if value.__class__ is tuple:
            for item in value:
                self.mention(item, user)
        elif id(value) in self._free:
            self._free[id(value)].used(list(user.blocks), user.line)
        elif isinstance(value, Node):
            for inner in value.children():
                self.mention(inner, user)

    # Plain values.

    def array(self, kind: str, value: Any, dtype: str) -> Doc:
        """Return a reference to a large constant: ``metadata["relax.expr.Constant"][0]``.

        ``value`` is a numpy array; its bytes go to the section of metadata, once per object.
        """
        known = self._arrays.get((kind, id(value)))
        if known is None:
            entries = self.metadata.setdefault(kind, [])
            known = self._arrays[(kind, id(value))] = (value, len(entries))
            entries.append((value, dtype))
        return Doc(f"metadata[{quoted(kind)}][{known[1]}]", node=value)

    def mapping(self, values: Mapping[Any, Any]) -> Doc:
        """Print ``{"key": value}``, with text keys in alphabetical order."""
        items = list(values.items())
        if all(isinstance(key, str) for key, _ in items):
            items.sort(key=lambda item: item[0])
        return Doc("{", joined([Doc(self.doc(k), ": ", self.doc(v)) for k, v in items]), "}")


def _complaint(node: Any, error: Exception) -> str:
    return f"{type(node).__name__} that cannot be printed: {type(error).__name__}: {error}"


@prints(object)
def _skeleton(node: Any, printer: Printer) -> Doc:
    """Print a class without a function: its name and its fields."""
    if not isinstance(node, Node):
        return Doc(f"<{type(node).__name__}>" if " at 0x" in repr(node) else repr(node), node=node)
    key = type(node).node_key
    fields = []
    for field, value in node.field_values():
        if field.name != "span" and value is not None:
            fields.append(Doc(field.name, "=", printer.doc(value)))
    return Doc(key, "(", joined(fields), ")", node=node)


@prints(type(None), bool, bytes)
def _literal(value: Any, printer: Printer) -> Doc:
    return Doc(repr(value))


@prints(int)
def _int(value: int, printer: Printer) -> Doc:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, ScalableLanes):
        return Doc(f"{printer.word('T')}.vscale() * {int(value)}")
    return Doc(str(int(value)), level=Level.UNARY if value < 0 else Level.ATOM)


@prints(float)
def _float(value: float, printer: Printer) -> Doc:
    text = repr(float(value))
    if text in ("inf", "-inf", "nan"):
        return Doc(f'float("{text}")')
    return Doc(text, level=Level.UNARY if text.startswith("-") else Level.ATOM)


@prints(str)
def _str(value: str, printer: Printer) -> Doc:
    return Doc(quoted(value))


@prints(tuple, list)
def _sequence(values: Any, printer: Printer) -> Doc:
    return listed(printer.docs(values))


@prints(Mapping, dict)
def _mapping(values: Mapping[Any, Any], printer: Printer) -> Doc:
    return printer.mapping(values)


@prints(Enum)
def _enum(value: Enum, printer: Printer) -> Doc:
    return call(type(value).__name__, [printer.doc(value.value)])
