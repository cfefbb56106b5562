"""Fetches models that tests need."""

from __future__ import annotations

import hashlib
import urllib.request
from typing import Any

import onnx

from tilesmith.relax.frontend.onnx import from_onnx
from tilesmith.support.cache import DiskCache
from tilesmith.support.errors import ArtifactError, UnsupportedError

__all__ = ["fetch_model_from_url", "install_request_hook"]


def install_request_hook(depth: int) -> None:
    """Do nothing: downloads are not redirected. Programs call it for the sake of a CI service that
    has mirrors; ``depth`` is how many folders they lie below the root of its checkout.
    """


def fetch_model_from_url(url: str, model_format: str, sha256: str) -> Any:
    """Download an ONNX model and import it: the module, with its parameters as constants. The file
    is kept in the cache and fetched once.

    Raises ArtifactError if the file is another one than ``sha256`` says, UnsupportedError for
    another format than "onnx".
    """
    if model_format != "onnx":
        raise UnsupportedError(
            f"models of the format '{model_format}' are not imported",
            notes=("convert the model to ONNX",),
        )
    cache = DiskCache("downloads")
    content = cache.get(sha256)
    if content is None:
        with urllib.request.urlopen(url) as answer:
            content = answer.read()
        found = hashlib.sha256(content).hexdigest()
        if found != sha256:
            raise ArtifactError(
                f"'{url}' is another file than expected",
                notes=(f"its sha256 is {found}", f"expected was {sha256}"),
            )
        cache.put(sha256, content)
    return from_onnx(onnx.load_from_string(content))
