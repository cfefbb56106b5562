"""Public names of the importer's module."""

from tilesmith.relax.frontend.onnx.importer import ONNXGraphImporter, from_onnx
from tilesmith.relax.frontend.onnx.tensors import dtype_name, tensor_array

__all__ = ["ONNXGraphImporter", "from_onnx", "get_numpy", "get_type"]


def get_type(elem_type: int) -> str:
    """Return the dtype of one of ONNX's element types."""
    return dtype_name(elem_type, "the tensor")


def get_numpy(tensor_proto: object) -> object:
    """Return a stored tensor as a numpy array."""
    return tensor_array(tensor_proto)
