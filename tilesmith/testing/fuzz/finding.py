"""Defines what a check raises when a step of the compiler fails."""

from __future__ import annotations

__all__ = ["Finding"]


class Finding(Exception):
    """A failure: where (phase, name), how, and the details."""

    def __init__(self, phase: str, name: str, failure: str, detail: str = "") -> None:
        super().__init__(f"{phase} {name}: {failure}")
        self.phase = phase
        self.name = name
        self.failure = failure
        self.detail = detail

    @property
    def signature(self) -> str:
        """A text that is equal for findings that most likely have the same cause."""
        return f"{self.phase}: {self.name}: {self.failure}"
