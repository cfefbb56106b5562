"""Tells what a file is that is not an ONNX model: those of torch, keras and TensorFlow Lite."""

from __future__ import annotations

import io
import zipfile

from tilesmith.support.errors import FrontendError

__all__ = ["refuse_other_formats"]

_EXPORTED = (
    "is a program that torch.export.save wrote; torch reads such files with pickle, which runs "
    "what is in them, so that they are not opened here",
    "if you trust the file: tilesmith.compile(torch.export.load('model.pt2'))",
)
_PICKLED = (
    "was written by torch.save: it has weights or objects of Python, but no graph",
    "load it with torch, then tilesmith.compile(torch.export.export(model.eval(), example_inputs))",
)
_KERAS = (
    "is a model of keras",
    "relay.frontend.from_keras(keras.models.load_model('model.keras'), shapes) imports it",
)
_TFLITE = (
    "is a model of TensorFlow Lite",
    "relay.frontend.from_tflite(tflite.Model.GetRootAsModel(data, 0)) imports it",
)
_MEMBERS = {
    "archive_format": _EXPORTED,
    "serialized_exported_program.json": _EXPORTED,
    "data.pkl": _PICKLED,
    "model.weights.h5": _KERAS,
}
"""A file inside of a zip archive, without its folder, that tells what the archive is."""


def refuse_other_formats(data: bytes, what: str) -> None:
    """Raise FrontendError if a file's contents are a model of another program."""
    found = None
    if data.startswith(b"PK\x03\x04"):
        found = next((_MEMBERS[name] for name in _members(data) if name in _MEMBERS), None)
    elif data.startswith(b"\x89HDF\r\n"):
        found = _KERAS
    elif data[4:8] == b"TFL3":
        found = _TFLITE
    if found is not None:
        raise FrontendError(f"{what} {found[0]}", notes=(found[1],))


def _members(data: bytes) -> list[str]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [name.rpartition("/")[2] for name in archive.namelist()]
    except (zipfile.BadZipFile, ValueError):
        return []
