"""A program with a function for each node of its graph, for debugging: each calls one kernel.

    def main(x):                              def fused_add__node(x, p0):
        lv = R.call_tir(fused_add, (x, c))  →     return R.call_tir(fused_add, (x, p0))
        …                                     …

The functions bear the names that the nodes have in the graph's JSON, with `NODE` behind them, and
their parameters are the node's inputs in this order, constants among them.
"""

from __future__ import annotations

from typing import Any

from tilesmith import relax
from tilesmith.contrib.debugger.debug_executor import NODE
from tilesmith.driver.relax_build import build_graph
from tilesmith.ir import IRModule
from tilesmith.relax.expr import known_struct_info
from tilesmith.relay.backend.graph_json import graph_nodes
from tilesmith.runtime.executable import Executable
from tilesmith.support.recursion import deep_recursion
from tilesmith.target import Target
from tilesmith.tir import PrimFunc

__all__ = ["function_of_call", "node_program"]


def node_program(lowered: IRModule, target: Target) -> Executable:
    """Compile the functions of the nodes of ``main``; ``lowered`` is a module after the passes of
    the graph.
    """
    module = IRModule({name: one for name, one in lowered.items() if isinstance(one, PrimFunc)})
    main: Any = lowered["main"]
    for name, value in graph_nodes(main):
        module[name + NODE] = function_of_call(value, name + NODE)
    with deep_recursion(), target:
        return build_graph(module, target)


def function_of_call(call: relax.Call, name: str) -> relax.Function:
    """Return a function that makes one call; its leaves are the parameters."""
    params: list[relax.Var] = []

    def parameter(operand: Any) -> Any:
        if isinstance(operand, relax.Tuple):
            return relax.Tuple([parameter(field) for field in operand.fields])
        info = known_struct_info(operand)
        if isinstance(info, relax.TupleStructInfo):
            return relax.Tuple([variable(field) for field in info.fields])
        return variable(info) if isinstance(info, relax.TensorStructInfo) else operand

    def variable(info: Any) -> Any:
        if isinstance(info, relax.TupleStructInfo):
            return relax.Tuple([variable(field) for field in info.fields])
        params.append(relax.Var(f"x{len(params)}", info))
        return params[-1]

    args = [
        arg if isinstance(arg, (relax.GlobalVar, relax.ExternFunc)) else parameter(arg)
        for arg in call.args
    ]
    made = relax.Call(call.op, args, call.attrs, call.sinfo_args, call.span)
    result = relax.Var("result", known_struct_info(call))
    block = relax.BindingBlock((relax.VarBinding(result, made),))
    attrs = {"global_symbol": name, "relax.force_pure": True}
    return relax.Function(params, relax.SeqExpr([block], result), None, False, attrs)
