"""Writes the lines of one function of a device, and those that stand before its body."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilesmith.codegen.c_family.lines import CommonLines
from tilesmith.codegen.gpu.file_text import FileText

__all__ = ["Lines"]


class Lines(CommonLines):
    """The lines of a function's body; ``top`` are those that stand before them (shared memory)."""

    kind = "kernel"

    def __init__(self, name: str, file: FileText) -> None:
        super().__init__(name, file)
        self.file: FileText = file
        self.top: list[str] = []
        self.kept: set[str] = set()  # names of lines at the top

    @contextmanager
    def deeper(self) -> Iterator[None]:
        with self.names_inside(), super().deeper():
            yield

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

    def is_taken(self, name: str) -> bool:
        return name in self.kept or super().is_taken(name)
