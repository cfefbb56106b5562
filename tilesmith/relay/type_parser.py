"""Parses types of Relay's text format."""

from __future__ import annotations

from tilesmith.ir import FuncType, GlobalTypeVar, IncompleteType, PrimExpr, TypeCall, TypeVar
from tilesmith.ir import Var as SizeVar
from tilesmith.ir.types import RelayRefType
from tilesmith.relay.tokens import Token
from tilesmith.relay.ty import Any as UnknownSize
from tilesmith.relay.ty import TensorType, TupleType, Type
from tilesmith.relay.words import Words
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import TilesmithError

__all__ = ["TypeParser"]


class TypeParser:
    """Parses types. ``type_names``: what names stand for; ``sizes``: variables in sizes."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.type_names: dict[str, Type] = {}
        self.sizes: dict[str, SizeVar] = {}

    def type(self) -> Type:
        """Parse a type."""
        token = self.words.take()
        if token.text == "(":
            return self._tuple()
        if token.text == "_":
            return IncompleteType()
        if token.text == "fn":
            return self._function()
        if token.text == "Tensor":
            self.words.expect("[")
            self.words.expect("(")
            shape = self.words.listed(")", self._size)
            self.words.expect(",")
            dtype = self.words.expect_kind("name", "a dtype")
            self.words.expect("]")
            return TensorType(shape, self._dtype(dtype))
        if token.text == "ref":
            self.words.expect("(")
            inner = self.type()
            self.words.expect(")")
            return RelayRefType(inner)
        if token.kind != "name":
            self.words.at -= token.kind != "end"
            raise self.words.unexpected("a type")
        return self._named(token)

    def _named(self, token: Token) -> Type:
        known = self.type_names.get(token.text)
        if known is None:
            return TensorType((), self._dtype(token))
        return TypeCall(known, self.words.listed("]", self.type)) if self.words.took("[") else known

    def _dtype(self, token: Token) -> DataType:
        try:
            return DataType(token.text)
        except (TilesmithError, ValueError, TypeError) as error:
            known = ", ".join(self.type_names) or "none"
            notes = ("a tensor is written Tensor[(1, 8), float32]", f"types of data: {known}")
            raise self.words.error_at(token, f"'{token.text}' is no type", notes) from error

    def _tuple(self) -> TupleType:
        return TupleType(tuple(self.words.listed(")", self.type)))

    def _function(self) -> FuncType:
        before = dict(self.type_names)
        params = self.type_params()
        self.words.expect("(")
        arguments = self.words.listed(")", self.type)
        self.words.expect("->")
        result = self.type()
        self.type_names = before
        return FuncType(arguments, result, params)

    def type_params(self) -> list[TypeVar]:
        """Parse type parameters, which hide types of the same names from here on."""
        params = []
        if self.words.took("["):
            names = self.words.listed("]", lambda: self.words.expect_kind("name", "a name"))
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
        token = self.words.take()
        if token.text == "?":
            return UnknownSize()
        if token.kind == "number" and token.text.isdigit():
            return int(token.text)
        if token.kind != "name":
            self.words.at -= token.kind != "end"
            raise self.words.unexpected("a size: a number, a name or ?")
        return self.sizes.setdefault(token.text, SizeVar(token.text, "int32"))
