"""Reads packages for boards, and writes C headers with values for tests."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import PurePosixPath
from typing import Any

import numpy

from tilesmith.codegen.c.dialect import C99, c_type, identifier
from tilesmith.micro.model_library_format import METADATA_FILE
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ArtifactError
from tilesmith.support.files import PathLike

__all__ = ["create_header_file", "mlf_extract_workspace_size_bytes"]


def mlf_extract_workspace_size_bytes(mlf_tar_path: PathLike) -> int:
    """Return how many bytes of workspace the program of a package needs; of several, the most."""
    with tarfile.open(mlf_tar_path) as archive:
        names = {name.removeprefix("./"): name for name in archive.getnames()}
        member = archive.extractfile(names[METADATA_FILE]) if METADATA_FILE in names else None
        if member is None:
            raise ArtifactError(
                f"{mlf_tar_path} is no package for boards: it has no {METADATA_FILE}",
                notes=("micro.export_model_library_format writes packages",),
            )
        modules = json.load(member)["modules"].values()
    return max(
        [
            int(main["workspace_size_bytes"])
            for one in modules
            for main in one["memory"]["functions"]["main"]
        ]
    )


def create_header_file(
    tensor_name: str, npy_data: Any, output_path: str, tar_file: tarfile.TarFile
) -> None:
    """Add a C header with the elements of an array, ``const TYPE NAME[]`` and ``NAME_len``, to an
    archive that is open for writing, in the folder ``output_path``.
    """
    array = numpy.ascontiguousarray(npy_data)
    dtype, name = DataType(str(array.dtype)), identifier(tensor_name)
    text = (
        "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n"
        f"const size_t {name}_len = {array.size};\n"
        f"static const {c_type(dtype)} {name}[] = {C99.array_text(array, dtype)};\n"
    )
    content = text.encode()
    member = tarfile.TarInfo(str(PurePosixPath(output_path) / f"{name}.h"))
    member.size = len(content)
    tar_file.addfile(member, io.BytesIO(content))
