"""Ties the code of a model to its metadata.

The metadata say how large a workspace a function needs, and which constants it reads; the code
takes their addresses and believes it. So the code exports a function that does nothing, whose name
depends on the metadata that it was compiled with:

    interface_symbol({"main": {"workspace_bytes": 1024, …}}, {"w": weights})
                                                   # "tilesmith_interface_5f0c2a…"

Code without the function of the metadata beside it is refused before any of it runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilesmith.support.errors import ArtifactError

if TYPE_CHECKING:
    import numpy

    from tilesmith.runtime.library import Library

__all__ = ["check_interface", "interface_symbol"]

_PREFIX = "tilesmith_interface_"


def interface_symbol(
    functions: Mapping[str, Any], constants: Mapping[str, numpy.ndarray[Any, Any]]
) -> str:
    """Return the name of the function that code for these functions and constants exports.

    ``functions``: metadata as `signature.py` describes them. Of the constants, names and sizes
    count; other values are no danger.
    """
    sizes = [(name, int(array.nbytes)) for name, array in constants.items()]
    text = json.dumps([functions, sizes], sort_keys=True)
    return _PREFIX + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def check_interface(
    library: Library,
    functions: Mapping[str, Any],
    constants: Mapping[str, numpy.ndarray[Any, Any]],
) -> None:
    """Raise ArtifactError unless code was compiled for these functions and constants."""
    symbol = interface_symbol(functions, constants)
    if functions and library.get_function(symbol, allow_missing=True) is None:
        raise ArtifactError(
            "the code of the model does not belong to its metadata",
            notes=("the file was changed, or put together from several: compile the model again",),
        )
