"""Public names of the importer's module, among them a class for each operator."""

from __future__ import annotations

from tilesmith.relax.frontend.onnx.importer import ONNXGraphImporter, from_onnx
from tilesmith.relax.frontend.onnx.op_classes import (
    BinaryBase,
    BitwiseBase,
    MultiInputBase,
    Pool,
    classes,
)
from tilesmith.relax.frontend.onnx.op_converter import (
    OnnxOpConverter,
    offer_classes,
    onnx_input,
)
from tilesmith.relax.frontend.onnx.op_values import (
    get_constant,
    get_info,
    get_prim_expr_list,
)
from tilesmith.relax.frontend.onnx.tensors import dtype_name, tensor_array

__all__ = [
    "BinaryBase", "BitwiseBase", "MultiInputBase", "ONNXGraphImporter", "OnnxOpConverter", "Pool",
    "from_onnx", "get_constant", "get_info", "get_numpy", "get_prim_expr_list", "get_type",
    "onnx_input",
]  # fmt: skip

_CLASSES: dict[str, type[OnnxOpConverter]] = classes()
globals().update(_CLASSES)  # Add, Conv, MatMul … (and Constant, which is not the node of the graph)
__all__ += sorted(_CLASSES)


def _get_convert_map() -> dict[str, type[OnnxOpConverter]]:
    """Return operator → class. What is put into it takes part in the imports that follow; so does
    what a function gives that is put in place of this one.
    """
    return _CLASSES


offer_classes(lambda: _get_convert_map())


def get_type(elem_type: int) -> str:
    """Return the dtype of one of ONNX's element types."""
    return dtype_name(elem_type, "the tensor")


def get_numpy(tensor_proto: object) -> object:
    """Return a stored tensor as a numpy array."""
    return tensor_array(tensor_proto)
