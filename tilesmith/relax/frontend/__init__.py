"""Importers: models of other tools as modules of the graph IR.

from tilesmith.relax.frontend.onnx import from_onnx
module = from_onnx("model.onnx")
"""

from tilesmith.relax.frontend.common import detach_params
from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "nn": "tilesmith.relax.frontend.nn",
        "onnx": "tilesmith.relax.frontend.onnx",
        "torch": "tilesmith.relax.frontend.torch",
    },
)

__all__ = ["detach_params"]
