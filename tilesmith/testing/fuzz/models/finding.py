"""Keeps findings as files that stand alone: what went wrong, the case, the bytes of its files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilesmith.support.errors import ConfigError
from tilesmith.support.files import write_atomically

__all__ = ["load_finding", "save_finding"]

_KEYS = ("signature", "outcome", "phase", "detail", "case")


def save_finding(finding: dict[str, Any], files: Sequence[bytes], folder: Path) -> Path:
    """Write the file of a finding; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    signature = finding["signature"]
    words = re.sub(r"[^a-z0-9]+", "_", signature.lower()).strip("_")[:60].strip("_")
    number = hashlib.blake2b(signature.encode(), digest_size=2).hexdigest()
    path = folder / f"{words}_{number}.json"
    stored = {
        name: base64.b64encode(content).decode()
        for name, content in zip(finding["names"], files, strict=True)
    }
    record = {**{key: finding[key] for key in _KEYS}, "files": stored}
    write_atomically(path, json.dumps(record, indent=1).encode())
    return path


def load_finding(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return a saved finding and its files by name."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        files = {name: base64.b64decode(text) for name, text in record["files"].items()}
        return {key: record[key] for key in _KEYS}, files
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"{path} is not a finding of `tilesmith fuzz models`",
            notes=(f"{type(error).__name__}: {error}",),
        ) from error
