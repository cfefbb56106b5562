"""Writes the lines of one function."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilesmith.codegen.c.file_text import FileText
from tilesmith.codegen.c.helpers import identifier
from tilesmith.support.errors import CodegenError

__all__ = ["Lines"]


class Lines:
    """The lines of a function's body in a file, and the names that are used there. ``name`` is the
    function's, for messages.
    """

    def __init__(self, name: str, file: FileText) -> None:
        self.name = name
        self.file = file
        self.lines: list[str] = []
        self.indent = 1
        self.taken: set[str] = set()

    def write(self, line: str) -> None:
        """Write a line at the current depth."""
        self.lines.append("  " * self.indent + line if line else "")

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Indent the lines written inside by one step."""
        self.indent += 1
        yield
        self.indent -= 1

    def fresh(self, hint: str) -> str:
        """Return a name that is not used in the function, and hides nothing of the file."""
        base = name = identifier(hint)
        number = 0
        while name in self.taken or self.file.has(name):
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        self.file.local_names.add(name)
        return name

    def unsupported(self, what: str, *notes: str) -> CodegenError:
        """Return the error for code that C cannot express."""
        return CodegenError(f"function '{self.name}': {what}", notes=notes)
