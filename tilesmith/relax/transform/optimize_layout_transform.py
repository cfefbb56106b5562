"""OptimizeLayoutTransform: removes transformations of layouts that undo one another."""

from __future__ import annotations

from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import GlobalVar, IRModule, Range, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis import remove_all_unused
from tilesmith.relax.expr import Call, Function, Tuple, known_struct_info
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.relations import prove_equal_shapes, sizes_of
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.relax.transform.canonicalize import canonicalize

_TRANSFORM, _CALL_TIR = operators.layout_transform.op, operators.call_tir.op


def _undoes(first: Any, second: Any, sizes: Any) -> bool:
    """Return whether two index maps, one after the other, leave each place of a shape as it is."""
    indices = first.initial_indices
    found = second.map_indices(list(first.final_indices))
    if len(found) != len(indices) or len(indices) != len(sizes):
        return False
    analyzer = Analyzer()
    for index, size in zip(indices, sizes):
        bounds = Range.from_min_extent(const(0, index.dtype), size.astype(index.dtype))
        analyzer.bind(index, bounds)
    return all(analyzer.can_prove_equal(a, b) for a, b in zip(found, indices))


class _Remove(PyExprMutator):
    def visit_call_(self, op: Call) -> Any:
        call = self.visit_expr_post_order(op)
        if not isinstance(call, Call) or call.op is not _TRANSFORM:
            return call
        inner, is_cut = self._inner(call.args[0])
        attrs: Any = call.attrs
        if inner is None or (is_cut and attrs.pad_value is not None):
            return call
        source = inner.args[0]
        info, result = known_struct_info(source), known_struct_info(call)
        if not isinstance(info, TensorStructInfo) or not isinstance(result, TensorStructInfo):
            return call
        before, after = sizes_of(info), sizes_of(result)
        if before is None or after is None or not prove_equal_shapes(before, after):
            return call
        return source if _undoes(inner.attrs.index_map, attrs.index_map, before) else call

    def _inner(self, expr: Any) -> tuple[Any, bool]:
        """Return the transformation that a value is the result of, and whether what it had added
        was removed in between.
        """
        value = self.lookup_binding(expr)
        is_cut = False
        if isinstance(value, Call) and value.op is _CALL_TIR and isinstance(value.args[1], Tuple):
            kernel = value.args[0]
            is_cut = isinstance(kernel, GlobalVar) and kernel.name_hint.startswith("remove_pad")
            if not is_cut or len(value.args[1].fields) != 1:
                return None, False
            value = self.lookup_binding(value.args[1].fields[0])
        is_transform = isinstance(value, Call) and value.op is _TRANSFORM
        return (value if is_transform else None), is_cut


@compiler_pass("OptimizeLayoutTransform")
def optimize_layout_transform(func: Function, mod: IRModule) -> Function:
    """Removes pairs of transformations of layouts that undo one another, as AlterOpImpl leaves them
    between operators in the same layout; what one has added in between needs no value.
    """
    changed = _Remove(mod).visit_expr(func)
    return changed if changed is func else canonicalize(remove_all_unused(changed))
