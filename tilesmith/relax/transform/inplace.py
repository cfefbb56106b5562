"""DataflowUseInplaceCalls: elementwise operators write over an operand that nothing needs any more.

lv = R.exp(x)                      lv = R.exp(x)
lv1 = R.add(lv, y)           →     lv1 = R.call_tir_inplace(cls.add_inplace, (lv, y), …, [0])
gv = R.negative(lv1)               gv = R.call_tir_inplace(cls.negative_inplace, (lv1,), …, [0])
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule, Op, PrimExpr
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax import op as operators
from tilesmith.relax.analysis.live_ranges import GraphRanges, live_ranges, origin_of
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import (
    Call,
    DataflowBlock,
    Function,
    Tuple,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.relations import prove_equal_shapes, sizes_of
from tilesmith.relax.spec import Execution, Layout
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.relax.transform.legalize_ops import is_known, legalize_call
from tilesmith.tir import Buffer, PrimFunc
from tilesmith.tir.redirection import AccessRedirection

__all__ = ["dataflow_use_inplace_calls", "inplace_calls", "inplace_kernel"]


class _Over(AccessRedirection):
    """Redirects a buffer to another one of the same shape."""

    def __init__(self, old: Buffer, new: Buffer) -> None:
        self.old, self.new = old, new

    def redirected(self, buffer: Buffer) -> Buffer | None:
        """Return the other buffer."""
        return self.new if buffer is self.old else None

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Any:
        """Return the same indices."""
        return indices


def inplace_kernel(func: PrimFunc, place: int) -> PrimFunc:
    """Return a kernel that writes its (only) result over argument ``place``."""
    result, target = func.buffers[-1], func.buffers[place]
    params = [one for one in func.params if func.buffer_map.get(one) is not result]
    buffers = {one: buffer for one, buffer in func.buffer_map.items() if buffer is not result}
    body = _Over(result, target).visit(func.body)
    return PrimFunc(params, body, func.ret_type, buffers, func.attrs, func.span)


def _can_be_written(call: Any, arg: Any) -> bool:
    """Return whether an operand has the shape and dtype of the result."""
    own, info = known_struct_info(arg), known_struct_info(call)
    if not isinstance(own, TensorStructInfo) or not isinstance(info, TensorStructInfo):
        return False
    sizes, wanted = sizes_of(own), sizes_of(info)
    if sizes is None or wanted is None or own.dtype != info.dtype:
        return False
    return prove_equal_shapes(sizes, wanted)


def inplace_calls(func: Any) -> dict[Var, list[int]]:
    """Return the variables of a function's dataflow blocks whose elementwise values may be written
    over an operand, with the numbers of these operands.
    """
    graph = live_ranges(func)
    flowing = {
        binding.var
        for block in func.body.blocks
        if isinstance(block, DataflowBlock)
        for binding in block.bindings
    }
    own = {b.var: b.value for b in graph.bindings}
    found: dict[Var, list[int]] = {}
    for step, binding in enumerate(graph.bindings):
        call: Any = binding.value
        if binding.var not in flowing or not _is_elementwise(call):
            continue
        places = [
            place
            for place, arg in enumerate(call.args)
            if isinstance(arg, Var)
            and arg in flowing
            and call.args.count(arg) == 1
            and _ends_here(graph, own[arg], arg, step)
            and _can_be_written(call, arg)
        ]
        if places:
            found[binding.var] = places
    return found


def _is_elementwise(call: Any) -> bool:
    if not isinstance(call, Call) or not isinstance(call.op, Op) or call.op.spec is None:
        return False
    spec = call.op.spec
    is_kernel = spec.execution is Execution.KERNEL and spec.layout is Layout.ELEMENTWISE
    return is_kernel and all(is_known(known_struct_info(one)) for one in (*call.args, call))


def _ends_here(graph: GraphRanges, value: Any, var: Var, step: int) -> bool:
    """Return whether a variable has memory of its own that is needed in no later step."""
    origin = origin_of(value)
    if not origin.is_new or origin.views or var in graph.escaping:
        return False
    return graph.steps_of(var)[1] == step


class _InPlace(PyExprMutator):
    def __init__(self, mod: IRModule, chosen: dict[Var, list[int]]) -> None:
        super().__init__(mod)
        self.chosen = chosen

    def visit_var_binding_(self, binding: VarBinding) -> None:
        if binding.var not in self.chosen:
            super().visit_var_binding_(binding)
            return
        call = self.visit_expr_post_order(binding.value)
        made = self._made(call, self.chosen[binding.var][0])
        self.reemit_binding(binding, call if made is None else made)

    def _made(self, call: Call, place: int) -> Any:
        builder = BlockBuilder()
        lowered = legalize_call(builder, call)
        if lowered is None or not isinstance(lowered.args[1], Tuple) or len(lowered.args) > 2:
            return None
        arguments = list(lowered.args[1].fields)
        target = [number for number, one in enumerate(arguments) if one is call.args[place]]
        kernel: Any = builder.get()[lowered.args[0]]
        if not target or len(kernel.buffers) != len(arguments) + 1:
            return None
        made = inplace_kernel(kernel, target[0])
        name = f"{call.op.spec.short_name}_inplace"
        variable = self.builder_.add_func(made, name)
        info = known_struct_info(call)
        return operators.call_tir_inplace(variable, arguments, [target[0]], info)


@compiler_pass("DataflowUseInplaceCalls")
def dataflow_use_inplace_calls(mod: IRModule) -> IRModule:
    """Lets elementwise operators in dataflow blocks write over an operand that is made in the same
    function and that nothing needs any more (``call_tir_inplace``).

    Operators are looked at, so it runs before LegalizeOps.
    """
    for name, function in list(mod.functions.items()):
        if not isinstance(function, Function) or function.body is None:
            continue
        if "Codegen" in function.attrs or function.attrs.get("Primitive"):
            continue
        chosen = inplace_calls(function)
        if chosen:
            mutator = _InPlace(mod, chosen)
            mutator.builder_.update_func(name, mutator.visit_expr(function))
            mod = mutator.builder_.get()
    return mod
