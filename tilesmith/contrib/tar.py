"""Packs and unpacks archives of object files."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Sequence

from tilesmith.contrib.utils import TempDirectory
from tilesmith.support.errors import ArtifactError
from tilesmith.support.files import make_atomically


def tar(output: str, files: str | Sequence[str], **options: object) -> None:
    """Put files into an archive under their base names (numbered where they clash)."""
    paths = [files] if isinstance(files, str) else list(files)

    def make(temporary: str) -> None:
        used: set[str] = set()
        with tarfile.open(temporary, "w") as archive:
            for index, path in enumerate(paths):
                name = os.path.basename(path)
                name = f"{index}_{name}" if name in used else name
                used.add(name)
                archive.add(path, name)

    make_atomically(output, make)


def untar(tar_file: str, directory: str) -> None:
    """Unpack an archive into a folder; members that would leave it are refused."""
    try:
        with tarfile.open(tar_file) as archive:
            archive.extractall(directory, filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise ArtifactError(f"'{tar_file}' cannot be unpacked", notes=(str(error),)) from error


def normalize_file_list_by_unpacking_tars(
    temp: TempDirectory, file_list: Sequence[str]
) -> list[str]:
    """Return the files with those inside of each archive (`.tar`) in its place; they are unpacked
    into the folder ``temp``.
    """
    found = []
    for number, path in enumerate(file_list):
        if not path.endswith(".tar"):
            found.append(path)
            continue
        folder = temp.relpath(f"unpacked{number}")
        untar(path, folder)
        found += [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    return found


tar.output_format = "tar"  # type: ignore[attr-defined] # what `export_library` writes by it
