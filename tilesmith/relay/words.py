"""Reads the words of Relay's text format from left to right."""

from __future__ import annotations

from typing import Any

from tilesmith.relay.tokens import SourceText, Token
from tilesmith.support.errors import TilesmithError

__all__ = ["Words"]


class Words:
    """The words of a text, and how far it was read."""

    def __init__(self, text: SourceText) -> None:
        self.text = text
        self.tokens = text.tokens()
        self.at = 0

    @property
    def next(self) -> Token:
        """The word ahead."""
        return self.tokens[self.at]

    def follows(self, *texts: str) -> bool:
        """Return whether these words are ahead."""
        ahead = self.tokens[self.at : self.at + len(texts)]
        return [token.text for token in ahead if token.kind != "text"] == list(texts)

    def take(self) -> Token:
        """Go past the word ahead and return it."""
        token = self.tokens[self.at]
        self.at += token.kind != "end"
        return token

    def took(self, text: str) -> bool:
        """Go past the word ahead if it is this one; return whether it was."""
        if self.next.text != text or self.next.kind == "text":
            return False
        self.take()
        return True

    def expect(self, text: str) -> Token:
        """Go past a word that has to be there."""
        if not self.follows(text):
            raise self.unexpected(f"'{text}'")
        return self.take()

    def expect_kind(self, kind: str, what: str) -> Token:
        """Go past a word of a kind that has to be there."""
        if self.next.kind != kind:
            raise self.unexpected(what)
        return self.take()

    def unexpected(self, wanted: str) -> TilesmithError:
        """Return the error about the word ahead."""
        token = self.next
        found = "the end of the text" if token.kind == "end" else f"'{token.text}'"
        return self.text.error(
            f"expected {wanted}, found {found}", token.start, max(token.end, token.start + 1)
        )

    def error_at(self, token: Token, message: str, notes: Any = ()) -> TilesmithError:
        """Return an error about a word."""
        return self.text.error(message, token.start, token.end, notes)

    def listed(self, close: str, item: Any) -> list[Any]:
        """Parse items with commas between them up to ``close``; the last one may have a comma."""
        found = []
        while not self.took(close):
            found.append(item())
            if not self.took(","):
                self.expect(close)
                break
        return found

    def span(self, start: Token) -> Any:
        """Return the span from a word to the last one that was taken."""
        return self.text.span(start.start, self.tokens[self.at - 1].end)

    def span_of(self, token: Token) -> Any:
        """Return the span of a word."""
        return self.text.span(token.start, token.end)
