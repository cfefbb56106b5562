"""Holds the lines of one function, and the names that are used in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilesmith.codegen.gpu.file_text import FileText
from tilesmith.support.errors import CodegenError

__all__ = ["Lines"]


class Lines:
    """The lines of a function's body in a file; ``top`` are those that stand before them (shared
    memory). ``name`` is the function's, for messages.
    """

    def __init__(self, name: str, file: FileText) -> None:
        self.name = name
        self.file = file
        self.top: list[str] = []
        self.lines: list[str] = []
        self.indent = 1
        self.taken: set[str] = set()
        self.kept: set[str] = set()  # by lines at the top

    def write(self, line: str) -> None:
        """Write a line at the current depth."""
        self.lines.append("  " * self.indent + line if line else "")

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Indent the lines written inside by one step."""
        with self.names_inside():
            self.indent += 1
            yield
            self.indent -= 1

    @contextmanager
    def names_inside(self) -> Iterator[None]:
        """Let the names that are taken inside be free behind: the block of a statement."""
        outer, self.taken = self.taken, set(self.taken)
        yield
        self.taken = outer

    def top_name(self, hint: str) -> str:
        """Return a name for the whole function, as `fresh` does for a block."""
        name = self.fresh(hint)
        self.kept.add(name)
        return name

    def fresh(self, hint: str) -> str:
        """Return a name that is not used in the block, and hides nothing of the file."""
        base = name = self.file.dialect.identifier(hint)
        number = 0
        while name in self.taken or name in self.kept or self.file.has(name):
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        self.file.local_names.add(name)
        return name

    def unsupported(self, what: str, *notes: str) -> CodegenError:
        """Return the error for code that the dialect cannot express."""
        return CodegenError(f"kernel '{self.name}': {what}", notes=notes)
