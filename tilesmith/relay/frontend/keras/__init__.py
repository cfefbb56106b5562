"""Imports models of Keras 3.

    mod, params = relay.frontend.from_keras(model, {"x": (1, 3, 224, 224)})

Converters of layers are functions, each beside its like (`images.py`, `recurrent.py`, …), found by
the layer's class in `registry.py`; `importer.py` walks through a model.
"""

from tilesmith.relay.frontend.keras.importer import from_keras
from tilesmith.relay.frontend.keras.package import require_keras

__all__ = ["from_keras", "require_keras"]
