"""Numbers the metadata of a module: nodes that are written once, or have an identity of their
own.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Metadata"]


class Metadata:
    """Numbers the metadata nodes of one module; ``lines`` are their definitions."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._numbers: dict[str, int] = {}

    def node(self, content: str) -> str:
        """Add a metadata node, written once; return its name."""
        number = self._numbers.get(content)
        if number is None:
            number = self._numbers[content] = len(self.lines)
            self.lines.append(f"!{number} = {content}")
        return f"!{number}"

    def distinct(self, content: str) -> str:
        """Add a metadata node of its own; return its name."""
        number = len(self.lines)
        self.lines.append(f"!{number} = distinct {content}")
        return f"!{number}"

    def loop(self, advice: Sequence[str]) -> str:
        """Add metadata for one loop; every loop has a node of its own."""
        parts = [self.node("!{" + line + "}") for line in advice]
        number = len(self.lines)
        self.lines.append(f"!{number} = distinct !{{!{number}, {', '.join(parts)}}}")
        return f"!{number}"

    def likely(self) -> str:
        """Return branch weights that mean: mostly true."""
        return self.node('!{!"branch_weights", i32 1048575, i32 1}')
