"""Imports models of TensorFlow Lite.

    mod, params = relay.frontend.from_tflite("model.tflite")

Converters are functions of (converter, operator), registered in `registry.py` by the operator's
name, and methods of `OperatorConverter`, so that a subclass may have its own.
"""

from tilesmith.relay.frontend.tflite.converter import OperatorConverter
from tilesmith.relay.frontend.tflite.importer import from_tflite
from tilesmith.relay.frontend.tflite.reading import (
    TensorWrapper,
    build_str_map,
    get_pad_value,
    get_scalar_from_constant,
    get_tensor_from_constant,
    get_tensor_name,
)

__all__ = [
    "OperatorConverter", "TensorWrapper", "build_str_map", "from_tflite", "get_pad_value",
    "get_scalar_from_constant", "get_tensor_from_constant", "get_tensor_name",
]  # fmt: skip
