"""ExtractPrimFuncConstants: collects the constants of all functions in one list of the module.

``AllocateConst`` statements then name their array by its number in the module's attribute
``constants``; equal arrays are stored once.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import AllocateConst, Stmt
from tilesmith.tir.transform.statement_rewriter import StatementRewriter

__all__ = ["extract_prim_func_constants"]


class _Extractor(StatementRewriter):
    def __init__(self, arrays: list[Any]) -> None:
        self.arrays = arrays

    def visit_AllocateConst(self, allocation: AllocateConst) -> Stmt:
        new = self.children(allocation)
        if isinstance(new.data_or_idx, int):
            return new
        return new.with_fields(data_or_idx=self.number(new.data_or_idx))

    def number(self, data: Any) -> int:
        """Return the position of an array in the list; adds it if it is new."""
        found = _bytes(data)
        for number, known in enumerate(self.arrays):
            if known is data or _bytes(known) == found:
                return number
        self.arrays.append(data)
        return len(self.arrays) - 1


def _bytes(data: Any) -> tuple[Any, ...]:
    array = data.numpy() if hasattr(data, "numpy") else data
    return str(array.dtype), tuple(array.shape), array.tobytes()


@compiler_pass("tir.ExtractPrimFuncConstants")
def extract_prim_func_constants(mod: IRModule) -> IRModule:
    """Collects the constants of a module's functions in its attribute ``constants``."""
    arrays = list(mod.attrs.get("constants", ()))
    extractor = _Extractor(arrays)
    for variable, func in list(mod.functions.items()):
        if isinstance(func, PrimFunc):
            new = func.with_body(extractor.visit(func.body))
            if new is not func:
                mod[variable] = new
    return mod.with_attr("constants", tuple(arrays)) if arrays else mod
