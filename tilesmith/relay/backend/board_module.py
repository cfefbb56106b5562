"""Programs in C for boards: what `relay.build` gives with ``Runtime("crt")``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tilesmith.support.errors import UnknownNameError, UnsupportedError
from tilesmith.support.files import PathLike, write_atomically

__all__ = ["BoardModule", "BoardTensor", "NonStaticShapeError", "not_here"]


@dataclass(frozen=True)
class BoardTensor:
    """An input or output of a program for a board: its name in the program, its member of C's
    structures, and its type.
    """

    name: str
    member: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


class NonStaticShapeError(UnsupportedError):
    """Raised where a program for a board has a tensor whose size is not constant."""


class BoardModule:
    """The C files of a model: ``sources`` and ``headers`` by name. They need the C library and
    nothing else; the program does not run in this process.
    """

    type_key = "c"

    def __init__(
        self,
        module_name: str,
        sources: Mapping[str, str],
        headers: Mapping[str, str],
        inputs: Sequence[BoardTensor],
        outputs: Sequence[BoardTensor],
        memory: Mapping[str, Any],
        constants: Mapping[str, Any],
        target: str,
    ) -> None:
        self.module_name = module_name
        self.sources = dict(sources)
        self.headers = dict(headers)
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.memory = dict(memory)
        """Bytes by the name of a memory: "pools" of the caller, "workspaces" and "constants" of
        the code, and "functions": what each kernel keeps in them. "io": where inputs and outputs
        lie (pool, offset), unless their memory is the caller's; "alignment": of all memories."""
        self.constants = dict(constants)
        """The constants by name, as the code holds them."""
        self.target = target
        self.metadata: dict[str, Any] = {
            "target": target,
            "module_name": module_name,
            "functions": {
                name: {"workspace_bytes": size} for name, size in self.memory["functions"].items()
            },
        }

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs in order."""
        return [one.name for one in self.inputs]

    @property
    def format(self) -> str:
        """The form of the code."""
        return "c"

    def get_source(self, fmt: str = "c") -> str:
        """Return all files as one text, each after a line with its name; or one file by name."""
        files = {**self.headers, **self.sources}
        if fmt in files:
            return files[fmt]
        if fmt not in ("", "c"):
            raise UnknownNameError(
                f"a program for a board has no source '{fmt}'",
                notes=("c, or a file: " + ", ".join(files),),
            )
        return "\n".join([f"/* --- {name} --- */\n{text}" for name, text in files.items()])

    def save(self, folder: PathLike) -> list[str]:
        """Write the files to a folder that exists; return the paths of the sources."""
        for name, text in {**self.headers, **self.sources}.items():
            write_atomically(Path(folder) / name, text)
        return [str(Path(folder) / name) for name in self.sources]

    def export_library(self, file_name: PathLike, **options: Any) -> NoReturn:
        """Raise UnsupportedError: there is no library without a compiler of the board."""
        raise UnsupportedError(
            "a program for a board is C source: there is no library of it to export",
            notes=(
                "micro.export_model_library_format(lib, 'model.tar') packs it; "
                "lib.get_lib().save(folder) writes its files",
            ),
        )

    def get_function(self, name: str, query_imports: bool = False) -> NoReturn:
        """Raise UnsupportedError: the program does not run here."""
        raise not_here()

    def __getitem__(self, name: str) -> NoReturn:
        raise not_here()


def not_here() -> UnsupportedError:
    """Return the error of running a program for a board in this process."""
    return UnsupportedError(
        "this program was built for a board (runtime 'crt'): it does not run in this process",
        notes=(
            "compile its C files with the board's compiler: "
            "micro.export_model_library_format(lib, 'model.tar')",
            "relay.build(…, runtime=Runtime('cpp')) builds the same program for here",
        ),
    )
