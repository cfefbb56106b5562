"""Turns a node into text; these are the public functions of the printer."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

from tilesmith.ir.node import DIALECT_TEXT, PRINTING, SCRIPT_DIALECTS, Node
from tilesmith.ir.printing.config import SPELLING, PrinterConfig
from tilesmith.ir.printing.doc import Doc, quoted, render
from tilesmith.ir.printing.marks import marked_text
from tilesmith.ir.printing.places import place_of
from tilesmith.ir.printing.printer import Line, Printer
from tilesmith.support.recursion import deep_recursion

__all__ = ["PrintedText", "excerpt", "printed", "script", "show", "to_text"]

_IMPORTS = {"I": "ir", "R": "relax", "T": "tir"}


class PrintedText:
    """The text of a node, with the positions in it of each node."""

    def __init__(self, text: str, ranges: list[tuple[Any, int, int]]) -> None:
        self.text = text
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        self._nodes = ranges  # keeps the nodes alive: they are found by id
        for node, start, end in ranges:
            self._ranges.setdefault(id(node), []).append((start, end))

    def ranges_of(self, node: Any) -> list[tuple[int, int]]:
        """Return start and end of each range of text that shows this object, in order."""
        return sorted(self._ranges.get(id(node), ()))


def printed(node: Any, config: PrinterConfig | None = None) -> PrintedText:
    """Print a node and map nodes to the ranges of text that show them."""
    config = config or PrinterConfig()
    with deep_recursion():
        printer = Printer(config)
        printer.write(node)
        ranges: list[tuple[Any, int, int]] = []
        lines = _assemble(printer, ranges)
        text = "\n".join(lines)
    return PrintedText(text, ranges)


def _assemble(printer: Printer, ranges: list[Any] | None) -> list[str]:
    """Join all lines to text, header first."""
    header, outside = _header(printer), []
    if printer.free:
        outside = _place_free_names(printer)
    if (header or outside) and _starts_definition(printer.lines):
        outside.append(Line(0, ""))
    position = sum([len(line) + 1 for line in header])
    indent = " " * printer.config.indent_spaces
    texts = list(header)
    for line in [*outside, *printer.lines]:
        pieces = [indent * line.depth]
        end = render(line.doc, position + len(pieces[0]), pieces, ranges)
        text = "".join(pieces)
        if not text.strip():
            text, end = "", position
        elif line.comment:
            text += "  # " + line.comment
            end += len(line.comment) + 4
        texts.append(text)
        position = end + 1
    return texts


def _place_free_names(printer: Printer) -> list[Line]:
    """Insert the definitions of free names among the lines.

    Returns comments for the head of the text: definitions that several functions of a module share.
    """
    for free in reversed(printer.free):  # definitions are written after those that they need
        for field, value in free.thing.field_values():
            if field.name != "span":
                printer.mention(value, free)
    outside: list[Line] = []
    inserted: dict[int, list[Line]] = {}
    for free in printer.free:
        at = _place_before(printer.lines, free.line)
        if at < len(printer.lines) and str(printer.lines[at].doc).startswith(("@", "class ")):
            outside.append(Line(0, Doc("# ", free.definition)))
            continue
        depth = printer.lines[at].depth if at < len(printer.lines) else 0
        inserted.setdefault(at, []).append(Line(depth, free.definition))
    lines: list[Line] = []
    for number, line in enumerate(printer.lines):
        lines += inserted.get(number, ())
        lines.append(line)
    printer.lines = lines
    return outside


def _place_before(lines: list[Line], at: int) -> int:
    """Return the line before which a definition can stand: not before an ``else``, nor below a
    decorator.
    """
    if at >= len(lines):
        return at
    depth = lines[at].depth
    while at > 0:
        above = lines[at - 1]
        if str(lines[at].doc).startswith(("else:", "elif ")):
            at -= 1
            while lines[at].depth > depth:
                at -= 1
        elif above.depth == depth and str(above.doc).startswith("@"):
            at -= 1
        else:
            break
    return at


def _header(printer: Printer) -> list[str]:
    """Return the header of the text: imports for a program, only large constants for a part of
    one.
    """
    words = printer.config.prefixes
    if printer.metadata and printer.config.show_meta:
        printer.word("I")
    lines = []
    if _starts_definition(printer.lines):
        package = f"{SPELLING.package}.script"
        lines = [
            f"# from {package} import {_IMPORTS[dialect]} as {words.get(dialect, dialect)}"
            for dialect in sorted(printer.dialects)
            if dialect in _IMPORTS
        ]
        defaults = printer.config.changed_defaults()
        if defaults:
            lines.append("# printed with " + ", ".join(defaults))
    if printer.metadata:
        if printer.config.show_meta:
            lines += ["", *_metadata_section(printer)]
        else:
            lines.append("# large constants are left out: script() writes them (metadata)")
    return lines


def _starts_definition(lines: list[Line]) -> bool:
    return bool(lines) and str(lines[0].doc).startswith("@")


def _metadata_section(printer: Printer) -> list[str]:
    """Return arrays as base64 of their bytes, one per line."""
    import numpy

    word = printer.word("I")
    lines = [f"metadata = {word}.metadata({{"]
    for kind, entries in printer.metadata.items():
        lines.append(f"    {quoted(kind)}: [")
        for value, dtype in entries:
            array = numpy.ascontiguousarray(value)
            encoded = base64.b64encode(array.tobytes())
            shape = repr(tuple(int(size) for size in numpy.shape(value)))
            lines.append(
                f'        {word}.array({quoted(str(dtype))}, {shape}, "{encoded.decode()}"),'
            )
        lines.append("    ],")
    lines.append("})")
    return lines


@PRINTING.register("text")
def to_text(node: Any) -> str:
    """Return a node as text for a person, without large constants. This is ``str(node)``.

    An expression is one line without declarations of its variables.
    """
    if getattr(node, "dialect", "") not in SCRIPT_DIALECTS:
        return str(DIALECT_TEXT[node.dialect](node, show_meta_data=False, header=False))
    return _text(node, PrinterConfig(), brief=True)


@PRINTING.register("script")
def script(node: Any, **options: Any) -> str:
    """Return a node as complete text that parses back to an equal one; options as in
    ``PrinterConfig``.
    """
    if getattr(node, "dialect", "") not in SCRIPT_DIALECTS:
        return str(DIALECT_TEXT[node.dialect](node, show_meta_data=options.get("show_meta", True)))
    marked = options.get("obj_to_underline") or options.get("path_to_underline")
    marked = marked or options.get("num_context_lines", -1) not in (-1, None)
    config = PrinterConfig.of({"show_meta": not marked, **options})
    return _text(node, config)


_WHOLE = 60  # programs of up to this many lines are shown whole


def excerpt(node: Any, culprit: Any = None, context: int | None = None) -> str:
    """Show a program as part of an error: ``culprit`` underlined, without the header.

    ``context``: the number of lines around the mark; by default only a long program is cut. Of a
    long program without a mark the beginning is shown.
    """
    marks = [] if culprit is None else [culprit]
    config = PrinterConfig.of({"obj_to_underline": marks})
    lines = [line for line in _text(node, config).split("\n") if not line.startswith("# from ")]
    while lines and not lines[0].strip():
        del lines[0]
    marked = [number for number, line in enumerate(lines) if line.strip() and not line.strip(" ^")]
    if context is None:
        if len(lines) <= _WHOLE:
            return "\n".join(lines)
        context = _WHOLE // 4
    if not marked:
        rest = len(lines) - _WHOLE
        return "\n".join(lines if rest <= 0 else [*lines[:_WHOLE], f"(... {rest} more lines)"])
    shown: set[int] = set()
    for number in marked:
        shown.update(range(max(0, number - 1 - context), min(len(lines), number + context + 1)))
    return "\n".join(_with_gaps(lines, sorted(shown)))


def _with_gaps(lines: list[str], shown: list[int]) -> list[str]:
    """Keep some of the lines, and write ``(...)`` where others are left out."""
    result, previous = [], -1
    for number in shown:
        if number != previous + 1:
            result.append("(...)")
        result.append(lines[number])
        previous = number
    if shown and shown[-1] != len(lines) - 1:
        result.append("(...)")
    return result


def _text(node: Any, config: PrinterConfig, brief: bool = False) -> str:
    config = _with_annotated_nodes(node, config)
    marks = bool(config.obj_to_underline or config.path_to_underline)
    with deep_recursion():
        printer = Printer(config)
        if brief and not printer.writes_lines(node):
            printer.splits_expressions = False
            return str(printer.doc(node))
        printer.write(node)
        if not config.verbose_expr and not printer.writes_lines(node):
            printer.free = []  # an expression is printed without declarations
        ranges: list[tuple[Any, int, int]] | None = [] if marks else None
        lines = _assemble(printer, ranges)
    if not marks and not config.print_line_numbers:
        return "\n".join(lines)
    wanted = {id(one) for one in config.obj_to_underline}
    places = [(start, end) for one, start, end in ranges or () if id(one) in wanted]
    for path in config.path_to_underline or ():
        places += place_of(path, node, ranges or [])
    return _decorate(lines, places, config)


def _with_annotated_nodes(node: Any, config: PrinterConfig) -> PrinterConfig:
    """Turn annotations of paths into annotations of the last node on each."""
    if not config.path_to_annotate:
        return config
    notes = dict(config.obj_to_annotate or {})
    for path, text in config.path_to_annotate.items():
        nodes = [value for value in path.resolve_all(node) if isinstance(value, Node)]
        if nodes:
            notes[nodes[-1]] = text
    return replace(config, obj_to_annotate=notes)


def _decorate(lines: list[str], places: list[tuple[int, int]], config: PrinterConfig) -> str:
    """Underline places, number lines, and keep only the lines around the marks, as the options
    say.
    """
    marks: dict[int, list[tuple[int, int]]] = {}
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    for start, end in places:
        number = _line_of(starts, start)
        column = start - starts[number]
        marks.setdefault(number, []).append((column, min(end - starts[number], len(lines[number]))))
    return marked_text(lines, marks, config.print_line_numbers, config.num_context_lines)


def _line_of(starts: list[int], position: int) -> int:
    import bisect

    return bisect.bisect_right(starts, position) - 1


@PRINTING.register("show")
def show(
    node: Any, style: str | None = None, black_format: bool | None = None, **options: Any
) -> None:
    """Print a node for a person: coloured in terminals and notebooks, large constants left out.

    ``style``: a style of pygments, or "light", "dark", "ansi". ``black_format`` is accepted and
    ignored: the text is formatted already.
    """
    from tilesmith.ir.printing.highlight import print_highlighted

    print_highlighted(_text(node, PrinterConfig.of(options)), style)
