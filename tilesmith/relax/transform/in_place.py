"""DataflowUseInplaceCalls: lets elementwise operators write over arguments that end with them.

z = R.add(x, y)               z = R.add(x, y)
w = R.exp(z)            ->    w = R.call_tir_inplace(exp_inplace, (z,), inplace_indices=[0], …)
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax.analysis.in_place import dataflow_inplace_analysis
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import (
    Call,
    DataflowBlock,
    Function,
    SeqExpr,
    Tuple,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.op import call_tir, call_tir_inplace
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.relax.transform.legalize_ops import legalize_call
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir import PrimFunc
from tilesmith.tir.functor import substitute

__all__ = ["dataflow_single_inplace_call"]


def dataflow_single_inplace_call(
    mod: IRModule, call: Call, inplace_indices: list[int]
) -> tuple[Call, IRModule]:
    """Return the call of a kernel that computes an operator's call in place, and the module with
    that kernel. ``inplace_indices``: the argument that each result overwrites, or -1.
    """
    builder = BlockBuilder(mod)
    made = _in_place(builder, call, list(inplace_indices))
    return made, builder.get()


def _in_place(builder: BlockBuilder, call: Call, places: list[int]) -> Call:
    inner = BlockBuilder()
    legal = legalize_call(inner, call)
    if not isinstance(legal, Call) or legal.op is not call_tir.op:
        raise UnsupportedError(f"{call.op.name} has no kernel that could work in place")
    kernel = inner.get()[legal.args[0]]
    given = legal.args[1]
    if not isinstance(kernel, PrimFunc) or not isinstance(given, Tuple):
        raise UnsupportedError(f"{call.op.name} has no kernel that could work in place")
    # A constant may have become a part of the kernel: places are those of its own arguments.
    own = [
        -1
        if place < 0
        else next(n for n, one in enumerate(given.fields) if one is call.args[place])
        for place in places
    ]
    handles = [param for param in kernel.params if param in kernel.buffer_map]
    outputs = handles[len(given.fields) :]
    buffers = dict(kernel.buffer_map)
    replaced = {}
    for place, output in zip(own, outputs):
        if place >= 0:
            replaced[buffers.pop(output)] = buffers[handles[place]]
    params = [one for one in kernel.params if one in buffers or one not in kernel.buffer_map]
    body = substitute(kernel.body, {}, buffers=replaced)
    written = kernel.with_fields(params=tuple(params), buffer_map=buffers, body=body)
    name = f"{call.op.spec.short_name}_inplace"
    variable = builder.add_func(written, name)
    sizes = legal.args[2] if len(legal.args) > 2 else None
    infos = legal.sinfo_args
    return call_tir_inplace(
        variable, given, own, infos[0] if len(infos) == 1 else list(infos), sizes
    )


def _rewritten(builder: BlockBuilder, block: DataflowBlock, inputs: list[Any]) -> DataflowBlock:
    _, exact = dataflow_inplace_analysis(block, inputs)
    chosen = {one.binding_idx: min(one.arg_idxs) for one in exact}
    bindings = list(block.bindings)
    for number, place in chosen.items():
        binding = bindings[number]
        assert isinstance(binding, VarBinding) and isinstance(binding.value, Call)
        if all(_is_known(known_struct_info(arg)) for arg in binding.value.args):
            value = _in_place(builder, binding.value, [place])
            bindings[number] = VarBinding(binding.var, value, binding.span)
    return block if not chosen else DataflowBlock(tuple(bindings), block.span)


def _is_known(info: Any) -> bool:
    return not isinstance(info, TensorStructInfo) or info.shape is not None


@compiler_pass("DataflowUseInplaceCalls")
def dataflow_use_inplace_calls(mod: IRModule) -> IRModule:
    """Lets elementwise operators of dataflow blocks write their results over arguments that are not
    needed any more.
    """
    builder = BlockBuilder(mod)
    changed: dict[GlobalVar, Function] = {}
    for variable, function in mod.functions.items():
        if not isinstance(function, Function) or function.body is None:
            continue
        outside: list[Any] = list(function.params)
        blocks: list[Any] = []
        for block in function.body.blocks:
            is_dataflow = isinstance(block, DataflowBlock)
            blocks.append(_rewritten(builder, block, outside) if is_dataflow else block)
            outside += [binding.var for binding in block.bindings]
        if any(a is not b for a, b in zip(blocks, function.body.blocks)):
            body = SeqExpr(blocks, function.body.body, function.body.span)
            changed[variable] = function.with_fields(body=body)
    if not changed:
        return mod
    made = builder.get()
    made.update(changed)
    return made
