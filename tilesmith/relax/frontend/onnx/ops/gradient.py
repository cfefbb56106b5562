"""The operator Gradient (`ai.onnx.preview.training`): derives the nodes between two values."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar
from tilesmith.relax import op
from tilesmith.relax.analysis import free_vars
from tilesmith.relax.expr import Call, Function, SeqExpr, TupleGetItem, Var, known_struct_info
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.ops.training import DOMAIN
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.values import rank_of, tensor_info
from tilesmith.relax.transform.gradient import differentiate
from tilesmith.support.errors import FrontendError


@converter("Gradient", domain=DOMAIN)
def _gradient(node: OnnxNode) -> Any:
    """Convert the nodes that lead from the inputs to ``y`` once more, as a function of the
    inputs, and call the function that computes its gradients.
    """
    names = [*node.required("xs"), *(node.attribute("zs") or [])]
    if len(names) != len(node):
        raise FrontendError(f"it has {len(node)} inputs for {len(names)} names in xs and zs")
    target = str(node.required("y"))
    builder = node.importer.builder
    inputs = [node[index] for index in range(len(names))]
    params = [Var(name, tensor_info(value)) for name, value in zip(names, inputs)]
    values = {**node.scope, **dict(zip(names, params))}
    builder.begin_dataflow_block()
    try:
        node.importer.import_nodes(_between(node.around, names, target), values)
        y = node.importer.tensor(values[target])
        # The gradient of all elements together is that of their sum.
        y = builder.emit_output(op.sum(y) if rank_of(y) else op.add(y, op.zeros_like(y)))
    finally:
        block = builder.end_block()
    wanted = list(params[: len(node.required("xs"))])
    captured = [var for var in free_vars(SeqExpr([block], y)) if var not in params]
    whole = Function([*params, *captured], SeqExpr([block], y), known_struct_info(y), True, {})
    derived = differentiate(whole, wanted, 0, builder)
    name = GlobalVar(builder.get_unique_name("gradient"))
    builder.update_func(name, derived)
    name.describe(derived.struct_info)
    both = node.emit(Call(name, [*inputs, *captured]))
    gradients = node.emit(TupleGetItem(both, 1))
    return tuple([TupleGetItem(gradients, place) for place in range(len(wanted))])


def _between(nodes: Any, names: list[str], target: str) -> list[Any]:
    """Return the nodes that compute the target from values of these names, in order."""
    needed, found = {target}, []
    for proto in reversed(nodes):
        if any(output in needed and output not in names for output in proto.output if output):
            found.append(proto)
            needed.update(proto.input)
    if not found and target not in names:
        raise FrontendError(f"no node computes '{target}'")
    return found[::-1]
