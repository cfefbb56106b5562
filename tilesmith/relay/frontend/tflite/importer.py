"""Imports a model of TensorFlow Lite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relay.expr import Tuple, var
from tilesmith.relay.frontend.common import ExprTable
from tilesmith.relay.frontend.tflite.converter import OperatorConverter
from tilesmith.relay.frontend.tflite.reading import dtype_name, get_tensor_name, load_model
from tilesmith.relay.function import Function
from tilesmith.relay.transform.types import InferType
from tilesmith.runtime.ndarray import NDArray
from tilesmith.support.errors import FrontendError, UnknownNameError

__all__ = ["from_tflite"]


def from_tflite(
    model: Any,
    shape_dict: Mapping[str, Sequence[int]] | None = None,
    dtype_dict: Mapping[str, str] | None = None,
    op_converter: Callable[..., OperatorConverter] = OperatorConverter,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Import a model of TensorFlow Lite, of floats or quantised; return the module and the weights
    by their names. The parameters of ``main`` are the inputs and then the weights.

    Args:
        model: the bytes of a .tflite file, its path, or a ``tflite.Model``.
        shape_dict: input → shape, in place of what the model says.
        dtype_dict: input → dtype, in place of what the model says.
        op_converter: a subclass of `OperatorConverter` with converters of one's own.

    Raises OpNotImplemented (all operators without a converter at once), FrontendError (no model),
    MissingDependencyError (without the package tflite).
    """
    model = load_model(model)
    if model.SubgraphsLength() < 1:
        raise FrontendError("the model has no graph")
    subgraph = model.Subgraphs(0)
    inputs = [subgraph.Inputs(i) for i in range(subgraph.InputsLength())]
    names = [get_tensor_name(subgraph, index) for index in inputs]
    for name in [*(shape_dict or {}), *(dtype_dict or {})]:
        if name not in names:
            raise UnknownNameError(
                f"from_tflite: the model has no input '{name}'",
                notes=(f"its inputs: {', '.join(names)}",),
            )
    table = ExprTable()
    converter = op_converter(model, subgraph, table)
    variables = []
    for index, name in zip(inputs, names):
        tensor = subgraph.Tensors(index)
        shape = (shape_dict or {}).get(name) or [
            int(tensor.Shape(i)) for i in range(tensor.ShapeLength())
        ]
        dtype = (dtype_dict or {}).get(name) or dtype_name(tensor.Type())
        variables.append(var(name, shape=tuple(shape), dtype=dtype))
        table.set_expr(converter.key(index), variables[-1])
    converter.check_unsupported_ops()
    converter.convert_op_to_relay()
    outputs = [subgraph.Outputs(i) for i in range(subgraph.OutputsLength())]
    results = [converter.get_tensor_expr(one) for one in converter.get_tensors(outputs)]
    body = results[0] if len(results) == 1 else Tuple(results)
    weights = [table.get_expr(name) for name in table.params]
    module: IRModule = InferType()(IRModule.from_expr(Function([*variables, *weights], body)))
    return module, table.params
