"""Importers: models of other tools as programs of the functional door.

    mod, params = relay.frontend.from_onnx("model.onnx")
    mod, params = relay.frontend.from_pytorch(torch.jit.trace(model, x), [("x", (1, 3, 8, 8))])
    mod, params = relay.frontend.from_keras(model, {"x": (1, 3, 224, 224)})
    mod, params = relay.frontend.from_tflite("model.tflite")
    mod, params = relay.frontend.from_tensorflow("frozen.pb", shape={"x": (1, 224, 224, 3)})

The first two go through relax's importer of ONNX models; the others have converters of their own,
in a package for each, that share `images.py`, `activations.py`, `cells.py` and `tf_operators.py`.
"""

from tilesmith.support.lazy import lazy_attributes

_PLACES = {
    "ChangeDatatype": "change_datatype:ChangeDatatype",
    "change_datatype": "change_datatype",
    "common": "common",
    "from_keras": "keras:from_keras",
    "from_onnx": "onnx:from_onnx",
    "from_pytorch": "pytorch:from_pytorch",
    "from_tensorflow": "tensorflow:from_tensorflow",
    "from_tflite": "tflite:from_tflite",
    "keras": "keras",
    "onnx": "onnx",
    "pytorch": "pytorch",
    "pytorch_utils": "pytorch_utils",
    "tensorflow": "tensorflow",
    "tflite": "tflite",
}

__getattr__, __dir__ = lazy_attributes(
    __name__, {name: f"{__name__}.{place}" for name, place in _PLACES.items()}
)

__all__ = [
    "ChangeDatatype", "from_keras", "from_onnx", "from_pytorch", "from_tensorflow", "from_tflite",
]  # fmt: skip
