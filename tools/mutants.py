"""Finds mutants of a Python file: small changes of its code, each of which may be a mistake.

A mutant replaces one piece of text. Left alone is what no program's result depends on: annotations,
docstrings, messages of errors, assertions, decorators, and ways to print.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Mutant", "compiles", "mutants_of"]


@dataclass(frozen=True)
class Mutant:
    """One change of one file: characters ``start`` to ``end`` become ``after``."""

    path: str
    line: int
    start: int
    end: int
    kind: str
    before: str
    after: str

    @property
    def name(self) -> str:
        """A short name that is the same in every run over the same text."""
        whole = f"{self.path} {self.start} {self.end} {self.kind} {self.before} {self.after}"
        return hashlib.blake2b(whole.encode(), digest_size=5).hexdigest()

    def applied(self, text: str) -> str:
        """Return the text of the file with the change."""
        assert text[self.start : self.end] == self.before
        return text[: self.start] + self.after + text[self.end :]


_COMPARISONS: dict[type, tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
_ARITHMETIC: dict[type, str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Mod: "//", ast.LShift: ">>",
    ast.RShift: "<<",
}  # fmt: skip
_ORDERED = (ast.Sub, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift)
_FUNCTIONS = {
    "min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum",
    "maximum": "minimum", "floordiv": "floormod", "floormod": "floordiv", "Min": "Max",
    "Max": "Min", "logical_and": "logical_or", "reversed": "list", "sorted": "list",
}  # fmt: skip
_QUIET = ("refuse", "record_fallback", "_fail", "fail", "warn", "describe", "print")
"""Functions whose arguments are messages."""
_NAMES_TO_SKIP = ("__repr__", "__str__", "__rich__", "describe", "source", "_message", "explain")


class _Finder(ast.NodeVisitor):
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.found: list[Mutant] = []
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.lines = text.splitlines(keepends=True)

    # Places.

    def place(self, line: int, column: int) -> int:
        """Return the position of a character; columns of ``ast`` count bytes."""
        encoded = self.lines[line - 1].encode()
        return self.starts[line - 1] + len(encoded[:column].decode())

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        begin = self.place(node.lineno, node.col_offset)
        return begin, self.place(node.end_lineno, node.end_col_offset)

    def source(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def add(self, kind: str, node: ast.expr | ast.stmt, after: str) -> None:
        start, end = self.span(node)
        before = self.text[start:end]
        self.found.append(Mutant(self.path, node.lineno, start, end, kind, before, after))

    # What is left alone.

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in _NAMES_TO_SKIP:
            return
        for default in [*node.args.defaults, *[one for one in node.args.kw_defaults if one]]:
            self.visit(default)
        self.body(node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.body(node.body)

    def visit_Module(self, node: ast.Module) -> None:
        self.body(node.body)

    def body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.visit(statement)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave messages alone."""

    visit_Assert = visit_Raise
    visit_JoinedStr = visit_Raise
    visit_Import = visit_ImportFrom = visit_Raise

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if not names & {"__all__", "__slots__"}:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self.condition(node.test)
        self.visit(node.test)
        self.body(node.body)
        self.body(node.orelse)

    # What is changed.

    def condition(self, test: ast.expr) -> None:
        for value in ("True", "False"):
            self.add("condition", test, value)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        swapped = f"{self.source(node.orelse)} if {self.source(node.test)} else "
        self.add("branches", node, swapped + self.source(node.body))
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            sign, other = _COMPARISONS[type(node.ops[0])]
            left, right = self.source(node.left), self.source(node.comparators[0])
            if self.source(node) == f"{left} {sign} {right}":
                self.add("comparison", node, f"{left} {other} {right}")
                if sign in ("<", "<=", ">", ">="):
                    self.add("comparison", node, f"{right} {sign} {left}")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        word = " and " if isinstance(node.op, ast.And) else " or "
        parts = [self.source(value) for value in node.values]
        if self.source(node) == word.join(parts):
            for number in range(len(parts)):
                rest = parts[:number] + parts[number + 1 :]
                self.add("dropped condition", node, word.join(rest))
            self.add("connective", node, (" or " if word == " and " else " and ").join(parts))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, (ast.Not, ast.USub)) and not isinstance(node.operand, ast.Constant):
            self.add("sign", node, self.source(node.operand))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if any(isinstance(side, (ast.JoinedStr, ast.List)) for side in (node.left, node.right)):
            return
        left, right = self.source(node.left), self.source(node.right)
        whole, sign = self.source(node), _ARITHMETIC.get(type(node.op))
        middle = whole[len(left) : len(whole) - len(right)]
        is_plain = middle.strip(" ") in ("+", "-", "*", "//", "%", "<<", ">>")
        if sign is not None and whole == left + middle + right and is_plain:
            self.add("operator", node, f"{left} {sign} {right}")
            if isinstance(node.op, _ORDERED):
                self.add("swapped operands", node, f"{right}{middle}{left}")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.add("truth value", node, str(not node.value))
        elif isinstance(node.value, int):
            self.add("off by one", node, str(node.value + 1))
            if node.value > 0:
                self.add("off by one", node, str(node.value - 1))

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name in _QUIET:
            return
        if name in _FUNCTIONS:
            own = self.source(node.func)
            changed = own[: len(own) - len(name)] + _FUNCTIONS[name]
            self.add("function", node, changed + self.source(node)[len(own) :])
        plain = [one for one in node.args if not isinstance(one, (ast.Starred, ast.GeneratorExp))]
        if len(node.args) == len(plain) == 2 and not node.keywords and name != "isinstance":
            first, second = self.span(node.args[0]), self.span(node.args[1])
            between = self.text[first[1] : second[0]]
            start, end = first[0] - self.span(node)[0], second[1] - self.span(node)[0]
            whole = self.source(node)
            swapped = self.source(node.args[1]) + between + self.source(node.args[0])
            self.add("swapped arguments", node, whole[:start] + swapped + whole[end:])
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node.value, ast.Call):
            self.add("dropped statement", node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.add("dropped statement", node, "pass")
        self.visit(node.value)

    def visit_Continue(self, node: ast.Continue) -> None:
        self.add("loop", node, "break")

    def visit_Break(self, node: ast.Break) -> None:
        self.add("loop", node, "continue")


def compiles(mutant: Mutant, text: str) -> bool:
    """Return whether a mutant of a file's text is a program."""
    try:
        ast.parse(mutant.applied(text))
    except SyntaxError:
        return False
    return True


def mutants_of(path: str, text: str) -> Iterator[Mutant]:
    """Yield the mutants of a file in the order of its text. Few of them may not compile."""
    finder = _Finder(path, text)
    finder.visit(ast.parse(text))
    for mutant in sorted(finder.found, key=lambda one: (one.start, one.end, one.after)):
        if mutant.before != mutant.after:
            yield mutant
