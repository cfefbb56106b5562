"""KillAfterLastUse: says where each value is needed for the last time.

alloc = R.memory.alloc_tensor(storage, …)         …
cls.exp(x, alloc)                                 cls.add(alloc, y, out)
cls.add(alloc, y, out)                      →     R.memory.kill_tensor(alloc)
return out                                        R.memory.kill_storage(storage)
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Op
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax.analysis.live_ranges import GraphRanges, live_ranges, origin_of
from tilesmith.relax.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    Function,
    SeqExpr,
    Var,
    VarBinding,
    known_struct_info,
)
from tilesmith.relax.op import memory as memory_ops
from tilesmith.relax.op import vm as vm_ops
from tilesmith.relax.spec import Execution
from tilesmith.relax.struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo

_KILLS = {vm_ops.kill_object.op, memory_ops.kill_tensor.op, memory_ops.kill_storage.op}


def _kill(binding: Binding) -> tuple[int, Any] | None:
    """Return the call that says that a value is needed no more, tensors before storages; None for
    values without memory of their own.
    """
    value, var = binding.value, binding.var
    if not isinstance(value, Call) or value.op in _KILLS or not origin_of(value).is_new:
        return None
    spec = value.op.spec if isinstance(value.op, Op) else None
    execution = None if spec is None else spec.execution
    if execution in (Execution.ALLOC_TENSOR, Execution.TENSOR_IN_STORAGE):
        return 0, memory_ops.kill_tensor(var)
    if execution is Execution.ALLOC_STORAGE:
        return 2, memory_ops.kill_storage(var)
    info = known_struct_info(var)
    holds = isinstance(info, (TensorStructInfo, ObjectStructInfo))
    if holds or (isinstance(info, TupleStructInfo) and info.fields):
        return 1, vm_ops.kill_object(var)
    return None


def _kills_by_step(graph: GraphRanges, kept: set[Var]) -> dict[int, list[Any]]:
    found: dict[int, list[tuple[int, Any]]] = {}
    for binding in graph.bindings:
        if binding.var in kept:
            continue
        kill = _kill(binding)
        if kill is None:
            continue
        _, last = graph.steps_of(binding.var)
        if last < len(graph.bindings):
            found.setdefault(last, []).append(kill)
    return {
        step: [call for _, call in sorted(kills, key=lambda one: one[0])]
        for step, kills in found.items()
    }


@compiler_pass("KillAfterLastUse")
def kill_after_last_use(func: Function) -> Function:
    """Says after the last use of each tensor, storage or other value that it is needed no more.

    Results of the function, and what a registered function may have kept, live on; so do values of
    dataflow blocks, which ToNonDataflow makes plain blocks.
    """
    graph = live_ranges(func)
    return with_kills(func, graph, graph.escaping)


def with_kills(func: Any, graph: GraphRanges, kept: set[Var]) -> Function:
    """Return a function that says of each value but those that are ``kept`` when it is needed no
    more.
    """
    if any(isinstance(block, DataflowBlock) for block in func.body.blocks):
        return func
    kills = _kills_by_step(graph, kept)
    if not kills:
        return func
    step, blocks = 0, []
    for block in func.body.blocks:
        bindings: list[Binding] = []
        for binding in block.bindings:
            bindings.append(binding)
            for call in kills.get(step, ()):
                bindings.append(VarBinding(Var("_", known_struct_info(call)), call))
            step += 1
        blocks.append(BindingBlock(tuple(bindings), block.span))
    body = SeqExpr(blocks, func.body.body, func.body.span)
    made: Function = func.with_fields(body=body)
    return made
