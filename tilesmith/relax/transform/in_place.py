"""Writes the call of one operator as that of a kernel that overwrites an argument.

    R.exp(z)    ->    R.call_tir_inplace(exp_inplace, (z,), inplace_indices=[0], …)

`analysis.in_place` says which arguments may be overwritten.
"""

from __future__ import annotations

from tilesmith.ir import IRModule
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import Call, Tuple
from tilesmith.relax.op import call_tir, call_tir_inplace
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
