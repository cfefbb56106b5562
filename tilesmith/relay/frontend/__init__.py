"""Importers: models of other tools as programs of the functional door.

    mod, params = relay.frontend.from_onnx("model.onnx")
    mod, params = relay.frontend.from_pytorch(torch.jit.trace(model, x), [("x", (1, 3, 8, 8))])

Both go through relax's importer of ONNX models, whose operators are all there are.
"""

from tilesmith.support.lazy import lazy_attributes

_PLACES = {
    "ChangeDatatype": "change_datatype:ChangeDatatype",
    "change_datatype": "change_datatype",
    "common": "common",
    "from_keras": "keras:from_keras",
    "from_onnx": "onnx:from_onnx",
    "from_pytorch": "pytorch:from_pytorch",
    "keras": "keras",
    "from_tensorflow": "tensorflow:from_tensorflow",
    "from_tflite": "tflite:from_tflite",
    "onnx": "onnx",
    "pytorch": "pytorch",
    "pytorch_utils": "pytorch_utils",
    "tensorflow": "tensorflow",
    "tflite": "tflite",
}

__getattr__, __dir__ = lazy_attributes(
    __name__, {name: f"{__name__}.{place}" for name, place in _PLACES.items()}
)

__all__ = ["ChangeDatatype", "from_onnx", "from_pytorch"]
