"""Imports the package keras where it is needed: it is an optional dependency.

Keras computes with another package, its backend; which one does not matter here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

from tilesmith.support.errors import MissingDependencyError, UnsupportedError

__all__ = ["require_keras"]

_BACKENDS = ("tensorflow", "torch", "jax")


def require_keras() -> Any:
    """Return the package keras (3); raises MissingDependencyError if it is not installed.

    Keras stops where the backend that it is set to is not installed: unless KERAS_BACKEND says
    otherwise, it gets one that is.
    """
    if "keras" not in sys.modules and "KERAS_BACKEND" not in os.environ:
        _choose_backend()
    try:
        import keras
    except ImportError:
        raise MissingDependencyError(
            "keras", extra="keras", purpose="reading models of Keras"
        ) from None
    if not keras.__version__.startswith("3"):
        raise UnsupportedError(
            f"models of Keras {keras.__version__} are not read", notes=("pip install 'keras>=3'",)
        )
    return keras


def _choose_backend() -> None:
    home = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras")
    try:
        wanted = json.loads((home / "keras.json").read_text())["backend"]
    except (OSError, ValueError, KeyError, TypeError):  # Keras has its default then
        wanted = "tensorflow"
    installed = [name for name in _BACKENDS if importlib.util.find_spec(name) is not None]
    if wanted not in installed and installed:
        os.environ["KERAS_BACKEND"] = installed[0]
