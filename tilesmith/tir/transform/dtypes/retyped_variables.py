"""A rewriter that replaces variables and pointers by ones of other dtypes."""

from __future__ import annotations

from tilesmith.ir import PointerType, PrimType, Var
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.functor import BufferRemapper

__all__ = ["RetypesVariables"]


class RetypesVariables(BufferRemapper):
    """Replaces each variable (and pointer to elements) of a dtype that ``changed`` changes by one
    new variable."""

    def __init__(self) -> None:
        super().__init__()
        self.variables: dict[Var, Var] = {}

    def changed(self, dtype: DataType) -> DataType:
        """Return the dtype that replaces another; most dtypes are unchanged."""
        raise NotImplementedError

    def visit_Var(self, var: Var) -> Var:
        found = self.variables.get(var)
        if found is None:
            found = self.variables[var] = self.renewed(var)
        return found

    def renewed(self, var: Var) -> Var:
        """Return the variable that replaces ``var``; ``var`` itself if its dtype does not
        change.
        """
        annotation = var.type_annotation
        if isinstance(annotation, PointerType):
            if not isinstance(annotation.element_type, PrimType):
                return var
            element = DataType(annotation.element_type.dtype)
            new = self.changed(element)
            if new == element:
                return var
            kind = PointerType(PrimType(new), annotation.storage_scope)
            return Var(var.name, kind, var.span)
        if var.dtype.is_handle:
            return var
        dtype = self.changed(var.dtype)
        return var if dtype == var.dtype else type(var)(var.name, dtype, var.span)
