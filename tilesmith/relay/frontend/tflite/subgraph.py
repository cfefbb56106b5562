"""The tensors of a subgraph, as wrappers and as expressions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from tilesmith.relay.expr import Constant, const
from tilesmith.relay.frontend.common import ExprTable
from tilesmith.relay.frontend.tflite.reading import (
    Options,
    TensorWrapper,
    build_str_map,
    dtype_name,
    get_tensor_name,
    quantisation,
    require_tflite,
    tensor_values,
)
from tilesmith.relay.op.view import sizes
from tilesmith.support.errors import FrontendError, OpAttributeUnImplemented

__all__ = ["SubgraphTables"]


class SubgraphTables:
    """A subgraph of a model, and the expressions that its tensors stand for so far."""

    def __init__(self, model: Any, subgraph: Any, exp_tab: ExprTable) -> None:
        self.model = model
        self.subgraph = subgraph
        self.exp_tab = exp_tab
        self.builtin_op_code = build_str_map(require_tflite().BuiltinOperator)
        self.prefetched_nodes: dict[Any, Any] = {}
        names = [get_tensor_name(subgraph, i) for i in range(subgraph.TensorsLength())]
        counts = Counter(names)
        self._keys = [
            name if counts[name] == 1 else f"{name}:{index}" for index, name in enumerate(names)
        ]

    def key(self, index: int) -> str:
        """Return the name of a tensor, which no other one has."""
        return self._keys[index]

    # Operators and their tensors

    def get_op_code_str(self, op: Any) -> str:
        """Return the name of an operator; a custom one has its own."""
        code = self.model.OperatorCodes(op.OpcodeIndex())
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        name = self.builtin_op_code.get(number)
        if name is None:
            raise FrontendError(
                f"the operator of number {number} is newer than the package tflite",
                notes=("pip install -U tflite",),
            )
        return code.CustomCode().decode() if name == "CUSTOM" else name

    def options(self, op: Any) -> Options:
        """Return the options of an operator."""
        return Options(require_tflite(), op)

    def get_input_tensors(self, op: Any) -> list[Any]:
        """Return the operands of an operator; None where one is left out."""
        return self.get_tensors([op.Inputs(i) for i in range(op.InputsLength())])

    def get_output_tensors(self, op: Any) -> list[Any]:
        """Return the results of an operator."""
        return self.get_tensors([op.Outputs(i) for i in range(op.OutputsLength())])

    def get_tensors(self, tensors_idx_list: Sequence[int]) -> list[Any]:
        """Return tensors by their numbers; None for -1."""
        found: list[Any] = []
        for index in tensors_idx_list:
            if index < 0:
                found.append(None)
                continue
            tensor = self.subgraph.Tensors(index)
            buffer = self.model.Buffers(tensor.Buffer())
            found.append(TensorWrapper(int(index), tensor, buffer, quantisation(tensor)))
        return found

    def get_tensor_type_as_numpy(self, tensor_wrapper: TensorWrapper) -> type:
        """Return the dtype of a tensor as numpy's class."""
        return numpy.dtype(tensor_wrapper.dtype).type

    def get_tensor_type_str(self, tensor_type: int) -> str:
        """Return the dtype of a TensorType."""
        return dtype_name(tensor_type)

    def get_tensor_value(self, tensor_wrapper: TensorWrapper, is_sparse: bool = False) -> Any:
        """Return the values of a tensor that the model has."""
        if is_sparse:
            raise OpAttributeUnImplemented(f"'{tensor_wrapper.name}' is stored sparsely")
        return tensor_values(tensor_wrapper)

    def get_tensor_shape(self, tensor_wrapper: TensorWrapper) -> tuple[Any, ...]:
        """Return the sizes of a tensor."""
        if tensor_wrapper.is_constant:
            return tensor_wrapper.shape
        return tuple(sizes(self.get_tensor_expr(tensor_wrapper)))

    def known_value(self, wrapper: TensorWrapper) -> numpy.ndarray | None:
        """Return the values of a tensor that is known now, else None."""
        if wrapper.is_constant:
            return tensor_values(wrapper)
        held = self.exp_tab.exprs.get(self.key(wrapper.tensor_idx))
        return numpy.asarray(held.data.numpy()) if isinstance(held, Constant) else None

    def value(self, wrapper: TensorWrapper, purpose: str) -> numpy.ndarray:
        """Return the values of a tensor that has to be known; ``purpose`` says what it is."""
        found = self.known_value(wrapper)
        if found is None:
            raise OpAttributeUnImplemented(
                f"{purpose} is '{wrapper.name}', which is only known when the model runs",
                notes=("such a model has shapes that depend on data; fix them before the export",),
            )
        return found

    # Expressions

    def get_expr(self, input_tensor_idx: int) -> Any:
        """Return the expression of a tensor by its number."""
        return self.exp_tab.get_expr(self.key(input_tensor_idx))

    def has_expr(self, input_tensor_idx: int) -> bool:
        """Return whether a tensor has an expression already."""
        return self.exp_tab.has_expr(self.key(input_tensor_idx))

    def get_tensor_expr(self, tensor: TensorWrapper, is_sparse: bool = False) -> Any:
        """Return a tensor as an expression: a weight becomes a parameter, a number a constant."""
        if self.has_expr(tensor.tensor_idx) or not tensor.is_constant:
            return self.get_expr(tensor.tensor_idx)
        values = self.get_tensor_value(tensor, is_sparse)
        if values.size == 1:
            return const(values, str(values.dtype))
        return self.exp_tab.new_const(
            values, dtype=str(values.dtype), source_name=self.key(tensor.tensor_idx)
        )

    def weight(self, tensor: TensorWrapper, arrange: Callable[[Any], Any], form: str) -> Any:
        """Return a constant arranged by a function, as a parameter; ``form`` names the arrangement.
        A tensor that is computed is arranged when the model runs.
        """
        if not tensor.is_constant:
            raise OpAttributeUnImplemented(f"the weight '{tensor.name}' is no constant")
        name = f"{self.key(tensor.tensor_idx)}:{form}"
        if not self.exp_tab.has_expr(name):
            values = numpy.ascontiguousarray(arrange(self.plain_weight(tensor)))
            self.exp_tab.new_const(values, dtype=str(values.dtype), source_name=name)
        return self.exp_tab.get_expr(name)

    def plain_weight(self, tensor: TensorWrapper) -> numpy.ndarray:
        """Return the values of a weight; those of float16 as float32."""
        values = tensor_values(tensor)
        return values.astype("float32") if values.dtype == "float16" else values

    def is_prefetched(self, input_tensor_idx: int) -> bool:
        """Return whether the value of a tensor was computed beforehand."""
        return self.key(input_tensor_idx) in self.prefetched_nodes

    def set_prefetched_node(self, input_tensor_idx: int, value: Any) -> None:
        """Remember the value of a tensor."""
        self.prefetched_nodes[self.key(input_tensor_idx)] = value

    def get_prefetched_node(self, input_tensor_idx: int) -> Any:
        """Return the value of a tensor that was remembered."""
        return self.prefetched_nodes[self.key(input_tensor_idx)]
