"""Walks and rewrites types by methods named after their kinds."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import FuncType, GlobalTypeVar, IncompleteType, TupleType, TypeCall, TypeVar
from tilesmith.ir.adt import TypeData
from tilesmith.ir.type_relation import TypeRelation
from tilesmith.ir.types import RelayRefType
from tilesmith.relay.ty import TensorType
from tilesmith.support.errors import TypeMismatchError

__all__ = ["TypeFunctor", "TypeMutator", "TypeVisitor"]

_METHODS: dict[type, str] = {
    TypeVar: "visit_type_var", IncompleteType: "visit_incomplete_type",
    TensorType: "visit_tensor_type", FuncType: "visit_func_type", TupleType: "visit_tuple_type",
    TypeRelation: "visit_type_relation", RelayRefType: "visit_ref_type",
    GlobalTypeVar: "visit_global_type_var", TypeCall: "visit_type_call",
    TypeData: "visit_type_data",
}  # fmt: skip


class TypeFunctor:
    """Calls the method of a type's kind."""

    def visit(self, typ: Any) -> Any:
        """Return what the method of the type's kind returns."""
        method = _METHODS.get(typ.__class__)
        if method is None:
            raise TypeMismatchError(f"a {type(typ).__name__} is no type of relay")
        return getattr(self, method)(typ)

    def _refused(self, typ: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no rule for {type(typ).__name__}")

    visit_type_var = visit_incomplete_type = visit_tensor_type = visit_func_type = _refused
    visit_tuple_type = visit_type_relation = visit_ref_type = visit_global_type_var = _refused
    visit_type_call = visit_type_data = _refused


class TypeVisitor(TypeFunctor):
    """Visits a type and all types in it."""

    def _leaf(self, typ: Any) -> Any:
        pass

    def _inner(self, typ: Any) -> Any:
        for inner in typ.children():
            if inner.__class__ in _METHODS:
                self.visit(inner)

    visit_type_var = visit_incomplete_type = visit_tensor_type = visit_global_type_var = _leaf
    visit_tuple_type = visit_type_relation = visit_ref_type = visit_type_call = _inner

    def visit_func_type(self, ftt: FuncType) -> Any:
        """Visit type parameters, arguments, result and constraints."""
        for param in ftt.type_params:
            self.visit(param)
        self._inner(ftt)

    def visit_type_data(self, td: TypeData) -> Any:
        """Visit the name, the type variables and what the constructors take."""
        self.visit(td.header)
        for var in td.type_vars:
            self.visit(var)
        for constructor in td.constructors:
            for inner in constructor.inputs:
                self.visit(inner)


class TypeMutator(TypeFunctor):
    """Rewrites a type; what does not change stays the same object."""

    def _leaf(self, typ: Any) -> Any:
        return typ

    def _inner(self, typ: Any) -> Any:
        return typ.map_children(lambda one: self.visit(one) if one.__class__ in _METHODS else one)

    visit_type_var = visit_incomplete_type = visit_tensor_type = visit_global_type_var = _leaf
    visit_type_data = _leaf
    visit_tuple_type = visit_type_relation = visit_ref_type = visit_type_call = _inner

    def visit_func_type(self, ft: FuncType) -> Any:
        """Rewrite type parameters, arguments, result and constraints."""
        new = self._inner(ft)
        params = tuple([self.visit(param) for param in ft.type_params])
        same = all(one is old for one, old in zip(params, ft.type_params))
        return new if same else new.with_fields(type_params=params)
