"""Writes the lines of one function."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from tilesmith.codegen.c_family.file_text import CommonFileText
from tilesmith.support.errors import CodegenError

__all__ = ["CommonLines"]


class CommonLines:
    """The lines of a function's body in a file, and the names that are used there. ``name`` is the
    function's, for messages.
    """

    kind: ClassVar[str] = "function"

    def __init__(self, name: str, file: CommonFileText) -> None:
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

    def is_taken(self, name: str) -> bool:
        """True if a new variable cannot have a name: it is used, or would hide one of the file."""
        return name in self.taken or self.file.has(name)

    def fresh(self, hint: str) -> str:
        """Return a name that is not used in the function, and hides nothing of the file."""
        base = name = self.file.dialect.identifier(hint)
        number = 0
        while self.is_taken(name):
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        self.file.local_names.add(name)
        return name

    def unsupported(self, what: str, *notes: str) -> CodegenError:
        """Return the error for code that the language cannot express."""
        return CodegenError(f"{self.kind} '{self.name}': {what}", notes=notes)
