"""Reads programs that older versions saved as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tilesmith.ir.serialization import FORMAT, load_json
from tilesmith.support.errors import ArtifactError

__all__ = ["upgrade_json"]


def upgrade_json(json_str: str) -> str:
    """Return the text of a saved program in the present version of the format.

    There is one version so far. Raises ArtifactError for a text that is none of ours; what TVM
    saved is named as such, with the version that wrote it.
    """
    try:
        document = json.loads(json_str)
    except ValueError:
        document = None
    if isinstance(document, Mapping) and document.get("format") != FORMAT and "nodes" in document:
        written = document.get("attrs")
        version = written.get("tvm_version") if isinstance(written, Mapping) else None
        raise ArtifactError(
            f"this program was saved by TVM {version or 'of an unknown version'}, whose JSON "
            "Tilesmith does not read",
            notes=("there write the text of mod.script() to a file; here tilesmith.script.parse",),
        )
    load_json(json_str)
    return json_str
