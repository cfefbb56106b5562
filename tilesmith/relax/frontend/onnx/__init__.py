"""Imports ONNX models as modules of the graph IR.

    from tilesmith.relax.frontend.onnx import from_onnx
    module = from_onnx("resnet18.onnx", shape_dict={"image": (1, 3, 224, 224)})

Where things are: ``model.py`` reads and checks files, ``importer.py`` walks the graph, ``node.py``
is what a converter sees of a node, ``ops/`` has the converters by family (``registry.py`` is their
table), ``symbolic.py`` computes with sizes. ``values.py`` and ``folding.py``, which computes with
constants, are beside this package, since the importer of torch needs them, too.
"""

from tilesmith.relax.frontend.onnx.importer import ONNXGraphImporter, from_onnx
from tilesmith.relax.frontend.onnx.model import model_files
from tilesmith.relax.frontend.onnx.registry import supported_operators

__all__ = ["ONNXGraphImporter", "from_onnx", "model_files", "supported_operators"]
