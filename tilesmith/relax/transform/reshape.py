"""RewriteDataflowReshape: replaces a PrimFunc that copies elements in order by ``R.reshape``, a
view.
"""

from __future__ import annotations

from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import GlobalVar, IRModule, Range, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.expr import Call, Constant, Function, ShapeExpr, Tuple, Var, known_struct_info
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.tir import BufferLoad, BufferStore, PrimFunc
from tilesmith.tir.analysis import unscheduled_blocks

_CALL_TIR, _RESHAPE = operators.call_tir.op, operators.reshape.op


def has_reshape_pattern(func: PrimFunc) -> bool:
    """Return whether a PrimFunc copies its first buffer to its last one, elements in the same
    order.
    """
    blocks = unscheduled_blocks(func)
    if blocks is None or len(blocks) != 1 or len(func.buffer_map) < 2:
        return False
    block, buffers = blocks[0], func.buffers
    store = block.body
    if block.init is not None or not isinstance(store, BufferStore):
        return False
    load = store.value
    if not isinstance(load, BufferLoad) or load.buffer is not buffers[0]:
        return False
    if store.buffer is not buffers[-1] or load.buffer.dtype != store.buffer.dtype:
        return False
    analyzer = Analyzer()
    for iterator in block.iter_vars:
        extent = iterator.dom.extent
        analyzer.bind(iterator.var, Range.from_min_extent(const(0, extent.dtype), extent))
    source = load.buffer.offset_of(load.indices)[0]
    target = store.buffer.offset_of(store.indices)[0]
    return bool(analyzer.can_prove_equal(source, target))


class _Views(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.mod = mod
        self.known: dict[GlobalVar, bool] = {}

    def visit_call_(self, op: Call) -> Any:
        call = self.visit_expr_post_order(op)
        if not isinstance(call, Call) or call.op is not _CALL_TIR:
            return call
        info = known_struct_info(call)
        if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr):
            return call
        if not isinstance(call.args[1], Tuple) or not call.args[1].fields:
            return call
        source = call.args[1].fields[0]
        if not isinstance(source, (Var, Constant)) or not self._copies(call.args[0]):
            return call
        if known_struct_info(source).dtype != info.dtype:
            return call
        return Call(_RESHAPE, (source, info.shape))

    def _copies(self, name: Any) -> bool:
        if name not in self.known:
            function = self.mod.functions.get(name)
            self.known[name] = isinstance(function, PrimFunc) and has_reshape_pattern(function)
        return self.known[name]


@compiler_pass("RewriteDataflowReshape")
def rewrite_dataflow_reshape(func: Function, mod: IRModule) -> Function:
    """Replaces copies of all elements in order by ``R.reshape``."""
    return _Views(mod).visit_expr(func)
