"""Makes types agree: holes (types not known yet) are filled such that both become the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import IntImm, PrimExpr, TypeVar, structural_equal
from tilesmith.ir import Var as SizeVar
from tilesmith.ir.queries import variables
from tilesmith.ir.types import FuncType, IncompleteType, RelayRefType, TupleType, Type, TypeCall
from tilesmith.relay.ty import Any as UnknownSize
from tilesmith.relay.ty import TensorType
from tilesmith.tir.functor import substitute

__all__ = ["DisagreementError", "Holes", "apply"]


class DisagreementError(Exception):
    """Two types cannot become the same; raised and caught within the inference."""


def apply(type_: Any, types: Mapping[int, Type], sizes: dict[Any, PrimExpr] | None = None) -> Any:
    """Return a type with type variables (by ``id``) and variables in sizes replaced."""
    if isinstance(type_, TypeVar):
        return types.get(id(type_), type_)
    if isinstance(type_, TensorType):
        if not sizes:
            return type_
        return TensorType([_size_for(size, sizes) for size in type_.shape], type_.dtype)
    return type_.map_children(lambda inner: apply(inner, types, sizes))


def _size_for(size: PrimExpr, sizes: Mapping[Any, PrimExpr]) -> PrimExpr:
    """Return a size with its variables replaced; what depends on an unknown size is unknown."""
    if isinstance(size, SizeVar):
        return sizes.get(size, size)
    used = {one: sizes[one] for one in variables(size) if one in sizes}
    if any(isinstance(value, UnknownSize) for value in used.values()):
        return UnknownSize()
    return substitute(size, {one: _in_dtype(value, one.dtype) for one, value in used.items()})


def _in_dtype(value: PrimExpr, dtype: Any) -> PrimExpr:
    return value if value.dtype == dtype else value.astype(dtype)


class Holes:
    """The holes of one inference, and what they were filled with."""

    def __init__(self) -> None:
        self.filled: dict[int, Type] = {}
        self.kept: list[IncompleteType] = []  # ids stay valid while they live

    def fresh(self) -> IncompleteType:
        """Make a hole."""
        self.kept.append(IncompleteType())
        return self.kept[-1]

    def opened(self, type_: Type | None) -> Type:
        """Return a written type in which each part that was left open is a hole of its own."""
        if type_ is None or isinstance(type_, IncompleteType):
            return self.fresh()
        return type_ if isinstance(type_, TensorType) else type_.map_children(self.opened)

    def head(self, type_: Type) -> Type:
        """Return what a hole was filled with; any other type as it is."""
        while isinstance(type_, IncompleteType) and id(type_) in self.filled:
            type_ = self.filled[id(type_)]
        return type_

    def resolve(self, type_: Type) -> Type:
        """Return a type with all filled holes replaced."""
        type_ = self.head(type_)
        return type_ if isinstance(type_, TensorType) else type_.map_children(self.resolve)

    def is_known(self, type_: Type) -> bool:
        """Return whether nothing in a type is a hole."""
        type_ = self.head(type_)
        if isinstance(type_, IncompleteType):
            return False
        if isinstance(type_, TensorType):
            return True
        inner = [one for one in type_.children() if isinstance(one, Type)]
        return not [one for one in inner if not self.is_known(one)]

    def _occurs(self, hole: Type, type_: Type) -> bool:
        type_ = self.head(type_)
        inner = [one for one in type_.children() if isinstance(one, Type)]
        return type_ is hole or bool([one for one in inner if self._occurs(hole, one)])

    def unify(self, a: Any, b: Any, sizes: dict[Any, PrimExpr] | None = None) -> Any:
        """Fill holes such that both types agree, and return the type that describes both.

        ``sizes`` collects what the variables in sizes of ``a`` stand for. Raises DisagreementError.
        """
        a, b = self.head(a), self.head(b)
        if a is b:
            return a
        for hole, other in ((a, b), (b, a)):
            if isinstance(hole, IncompleteType):
                if self._occurs(hole, other):
                    raise DisagreementError
                self.filled[id(hole)] = other
                return other
        if type(a) is not type(b):
            raise DisagreementError
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            return self._tensor(a, b, sizes)
        if isinstance(a, TupleType):
            return TupleType(self._all(a.fields, b.fields, sizes))
        if isinstance(a, FuncType):
            return self._function(a, b)
        if isinstance(a, RelayRefType):
            return RelayRefType(self.unify(a.value, b.value, sizes))
        if isinstance(a, TypeCall):
            self.unify(a.func, b.func)
            return TypeCall(a.func, self._all(a.args, b.args, sizes))
        if not structural_equal(a, b):
            raise DisagreementError
        return a

    def _all(self, a: Any, b: Any, sizes: Any) -> tuple[Type, ...]:
        if len(a) != len(b):
            raise DisagreementError
        return tuple([self.unify(one, other, sizes) for one, other in zip(a, b)])

    def _function(self, a: FuncType, b: Any) -> FuncType:
        if len(a.type_params) != len(b.type_params):
            if a.type_params and b.type_params:
                raise DisagreementError
            a, b = self.instance(a), self.instance(b)
        names = {id(one): other for one, other in zip(b.type_params, a.type_params)}
        arguments = [apply(one, names) for one in b.arg_types]
        result = self.unify(a.ret_type, apply(b.ret_type, names))
        return FuncType(self._all(a.arg_types, arguments, None), result, a.type_params)

    def instance(self, type_: FuncType) -> FuncType:
        """Return the type of a function for types that are not known yet."""
        if not type_.type_params:
            return type_
        types: dict[int, Type] = {id(one): self.fresh() for one in type_.type_params}
        arguments = [apply(one, types) for one in type_.arg_types]
        return FuncType(arguments, apply(type_.ret_type, types))

    def _tensor(self, a: TensorType, b: TensorType, sizes: Any) -> TensorType:
        if a.dtype != b.dtype or len(a.shape) != len(b.shape):
            raise DisagreementError
        shape = [_size(one, other, sizes) for one, other in zip(a.shape, b.shape)]
        return TensorType(shape, a.dtype)


def _size(a: PrimExpr, b: PrimExpr, sizes: dict[Any, PrimExpr] | None) -> PrimExpr:
    """Return the size that describes both; sizes that may be equal are left to the program."""
    if sizes is not None and isinstance(a, SizeVar) and not isinstance(a, UnknownSize):
        known = sizes.setdefault(a, b)
        return known if known is b else _size(known, b, None)
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        if a.value != b.value:
            raise DisagreementError
        return a
    return a if isinstance(a, UnknownSize) or structural_equal(a, b) else UnknownSize()
