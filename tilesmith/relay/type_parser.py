"""Parses types of Relay's text format, and holds what all of its parsing needs: the words ahead."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import FuncType, GlobalTypeVar, IncompleteType, PrimExpr, TypeCall, TypeVar
from tilesmith.ir import Var as SizeVar
from tilesmith.ir.types import RelayRefType
from tilesmith.relay.tokens import SourceText, Token
from tilesmith.relay.ty import Any as UnknownSize
from tilesmith.relay.ty import TensorType, TupleType, Type
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import TilesmithError

__all__ = ["TypeParser"]


class TypeParser:
    """Reads words from left to right; parses types."""

    def __init__(self, text: SourceText) -> None:
        self.text = text
        self.tokens = text.tokens()
        self.at = 0
        self.type_names: dict[str, Type] = {}
        self.sizes: dict[str, SizeVar] = {}

    # Words.

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

    # Types.

    def type(self) -> Type:
        """Parse a type."""
        token = self.take()
        if token.text == "(":
            return self._tuple()
        if token.text == "_":
            return IncompleteType()
        if token.text == "fn":
            return self._function()
        if token.text == "Tensor":
            self.expect("[")
            self.expect("(")
            shape = self.listed(")", self._size)
            self.expect(",")
            dtype = self.expect_kind("name", "a dtype")
            self.expect("]")
            return TensorType(shape, self._dtype(dtype))
        if token.text == "ref":
            self.expect("(")
            inner = self.type()
            self.expect(")")
            return RelayRefType(inner)
        if token.kind != "name":
            self.at -= token.kind != "end"
            raise self.unexpected("a type")
        return self._named(token)

    def _named(self, token: Token) -> Type:
        known = self.type_names.get(token.text)
        if known is None:
            return TensorType((), self._dtype(token))
        return TypeCall(known, self.listed("]", self.type)) if self.took("[") else known

    def _dtype(self, token: Token) -> DataType:
        try:
            return DataType(token.text)
        except (TilesmithError, ValueError, TypeError) as error:
            known = ", ".join(self.type_names) or "none"
            notes = ("a tensor is written Tensor[(1, 8), float32]", f"types of data: {known}")
            raise self.error_at(token, f"'{token.text}' is no type", notes) from error

    def _tuple(self) -> TupleType:
        return TupleType(tuple(self.listed(")", self.type)))

    def _function(self) -> FuncType:
        before = dict(self.type_names)
        params = self.type_params()
        self.expect("(")
        arguments = self.listed(")", self.type)
        self.expect("->")
        result = self.type()
        self.type_names = before
        return FuncType(arguments, result, params)

    def type_params(self) -> list[TypeVar]:
        """Parse type parameters, which hide types of the same names from here on."""
        params = []
        if self.took("["):
            names = self.listed("]", lambda: self.expect_kind("name", "a name"))
            for name in names:
                params.append(TypeVar(name.text))
                self.type_names[name.text] = params[-1]
        return params

    def header(self, name: Token) -> GlobalTypeVar:
        """Name a type of data that the text defines."""
        header = GlobalTypeVar(name.text)
        self.type_names[name.text] = header
        return header

    def _size(self) -> PrimExpr | int:
        token = self.take()
        if token.text == "?":
            return UnknownSize()
        if token.kind == "number" and token.text.isdigit():
            return int(token.text)
        if token.kind != "name":
            self.at -= token.kind != "end"
            raise self.unexpected("a size: a number, a name or ?")
        return self.sizes.setdefault(token.text, SizeVar(token.text, "int32"))
