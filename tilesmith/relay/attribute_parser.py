"""Parses the values of attributes in Relay's text format, numbers, and references to metadata."""

from __future__ import annotations

import json
import re
from typing import Any

from tilesmith.ir import load_json
from tilesmith.relay.tokens import Token
from tilesmith.relay.words import Words
from tilesmith.support.errors import TilesmithError

__all__ = ["AttributeParser"]

_DTYPES = {"f": "float", "i": "int", "u": "uint"}
_NUMBER = re.compile(r"([0-9.]+(?:[eE][-+]?[0-9]+)?)(?:([fiu])([0-9]*))?$")


class AttributeParser:
    """Parses numbers, attributes and metadata. ``metadata``: key → list of nodes."""

    def __init__(self, words: Words, metadata: dict[str, Any]) -> None:
        self.words = words
        self.metadata = metadata
        text = words.text
        if text.metadata_start is not None:
            self.metadata = {**metadata, **self._read_metadata(text.metadata_start)}

    def _read_metadata(self, start: int) -> dict[str, Any]:
        try:
            table = json.loads(self.words.text.source[start:])
            return {
                key: [load_json(json.dumps(entry)) for entry in entries]
                for key, entries in table.items()
            }
        except (ValueError, AttributeError, TypeError, TilesmithError) as error:
            raise self.words.text.error(
                f"the metadata section cannot be read: {error}",
                start,
                start + 1,
                notes=("it has to be the one that astext() wrote",),
            ) from error

    def number(self, token: Token) -> tuple[int | float, str]:
        """Return the value and the dtype of a number."""
        match = _NUMBER.match(token.text)
        if match is None:
            raise self.words.error_at(token, f"'{token.text}' is no number")
        digits, kind, bits = match.groups()
        is_float = kind == "f" or (kind is None and not digits.isdigit())
        value = float(digits) if is_float else int(digits)
        return value, _DTYPES["f" if is_float else kind or "i"] + (bits or "32")

    def meta(self, start: Token) -> Any:
        """Parse a place in the metadata, after the word ``meta``."""
        self.words.expect("[")
        key = self.words.expect_kind("name", "a kind of node").text
        self.words.expect("]")
        self.words.expect("[")
        number = int(self.words.expect_kind("number", "a number").text)
        self.words.expect("]")
        entries = self.metadata.get(key, ())
        if number >= len(entries):
            notes = ("astext(show_meta_data=True) writes the metadata",)
            raise self.words.error_at(start, f"the metadata has no {key} number {number}", notes)
        return entries[number]

    def attribute(self) -> Any:
        """Parse the value of an attribute."""
        token = self.words.take()
        if token.text == "[":
            return tuple(self.words.listed("]", self.attribute))
        if token.text == "{" and token.kind == "sign":
            return dict(self.words.listed("}", self._pair))
        if token.kind == "text":
            return json.loads(token.text)
        if token.text in ("True", "False", "None"):
            return {"True": True, "False": False, "None": None}[token.text]
        if token.text == "-" and self.words.next.kind == "number":
            return -self.number(self.words.take())[0]
        if token.kind == "number":
            return self.number(token)[0]
        if token.text == "meta":
            return self.meta(token)
        self.words.at -= token.kind != "end"
        raise self.words.unexpected("the value of an attribute")

    def _pair(self) -> tuple[str, Any]:
        key = json.loads(self.words.expect_kind("text", "a key in quotes").text)
        self.words.expect(":")
        return key, self.attribute()
