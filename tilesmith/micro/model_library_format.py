"""Packs programs for boards: C files, what they need, and what they compute, as one tar file.

metadata.json                        who made it, memory by function, targets, executors
codegen/host/include/tvmgen_NAME.h   the interface
codegen/host/src/NAME_lib0.c, …      constants and the function to call; the kernels
parameters/NAME.params               the constants once more, as safetensors
src/relay.txt                        the program (of several: src/NAME.relay.txt)
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from tilesmith.codegen.c.model_interface import interface_header, model_prefix
from tilesmith.ir.memory_pools import AllocatedPoolInfo
from tilesmith.relay.backend.board_module import BoardModule, BoardTensor, NonStaticShapeError
from tilesmith.relay.backend.executor_factory import (
    AOTExecutorFactoryModule,
    ExecutorFactoryModule,
)
from tilesmith.runtime.params import save_param_dict
from tilesmith.support.errors import ConfigError, TypeMismatchError, UnsupportedError
from tilesmith.support.files import PathLike, make_atomically, write_atomically

__all__ = [
    "EPHEMERAL_MODULE_TYPE_KEYS", "ExportableModule", "MAIN_FUNC_NAME_STR", "METADATA_FILE",
    "NonStaticShapeError", "UnsupportedInModelLibraryFormatError", "export_model_library_format",
    "generate_c_interface_header",
]  # fmt: skip

VERSION = 7
"""The version of the format."""
METADATA_FILE = "metadata.json"
MAIN_FUNC_NAME_STR = "__tvm_main__"
EPHEMERAL_MODULE_TYPE_KEYS: tuple[str, ...] = ()
"""The kinds of modules that exist while programs are built only: there are none."""
ExportableModule: TypeAlias = AOTExecutorFactoryModule
"""What can be packed: a program that was built with the runtime "crt"."""

_CPU = 1
_HOST = "codegen/host"


class UnsupportedInModelLibraryFormatError(UnsupportedError):
    """Raised for what a package for boards cannot hold."""


def generate_c_interface_header(
    module_name: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    pools: Mapping[str, Any],
    io_pool_allocations: Mapping[str, Any],
    devices: Sequence[str],
    workspace_size: int,
    include_path: PathLike,
    input_sizes: Mapping[str, int] | None = None,
    output_sizes: Mapping[str, int] | None = None,
) -> str:
    """Write the header of a model to a folder; return its path. ``pools`` maps the memories that
    the caller provides to AllocatedPoolInfo, or to the bytes needed; if ``io_pool_allocations``
    says where inputs and outputs lie in them, functions of the model tell their addresses.
    """
    sizes = {
        name: one.allocated_size if isinstance(one, AllocatedPoolInfo) else int(one)
        for name, one in pools.items()
    }
    known = {**(input_sizes or {}), **(output_sizes or {})}
    text = interface_header(
        module_name,
        inputs,
        outputs,
        sizes,
        devices,
        workspace_size,
        known,
        has_own_io=bool(io_pool_allocations),
    )
    path = Path(include_path) / f"{model_prefix(module_name)}.h"
    write_atomically(path, text)
    return str(path)


def export_model_library_format(
    mods: ExportableModule | Sequence[ExportableModule], file_name: PathLike
) -> PathLike:
    """Write programs for boards as a tar file in the Model Library Format; return its path."""
    programs: list[Any] = list(mods) if isinstance(mods, (list, tuple)) else [mods]
    files: dict[str, bytes] = {}
    described: dict[str, Any] = {}
    if not programs:
        raise ConfigError("a package for boards holds one program at least, got none")
    for program in programs:
        library = _library(program)
        name = library.module_name
        if name in described:
            raise ConfigError(
                f"two programs of the package are called '{name}'",
                notes=("give each a name: relay.build(…, mod_name=…)",),
            )
        described[name] = _description(program, library)
        files.update(_files(program, library, len(programs) == 1))
    metadata = {"version": VERSION, "modules": described}
    text = json.dumps(metadata, indent=2, sort_keys=True) + "\n"
    _pack(file_name, {METADATA_FILE: text.encode(), **files})
    return file_name


def _library(program: Any) -> BoardModule:
    if not isinstance(program, ExecutorFactoryModule):
        raise TypeMismatchError(
            f"packages for boards hold what relay.build gives, not {type(program).__name__}"
        )
    if not isinstance(program.lib, BoardModule):
        raise UnsupportedInModelLibraryFormatError(
            f"'{program.libmod_name}' was built for this process, whose runtime boards do not have",
            notes=('relay.build(mod, "c", executor=Executor("aot"), runtime=Runtime("crt"))',),
        )
    return program.lib


def _description(program: ExecutorFactoryModule, library: BoardModule) -> dict[str, Any]:
    """Return what the metadata say of a program."""
    memory = library.memory
    main = {
        "device": _CPU,
        "workspace_size_bytes": sum(memory["workspaces"].values()) + sum(memory["pools"].values()),
        "constants_size_bytes": sum(memory["constants"].values()),
        "io_size_bytes": sum([one.nbytes for one in (*library.inputs, *library.outputs)]),
        "inputs": _tensors(library.inputs),
        "outputs": _tensors(library.outputs),
        "pools": memory["pools"],
        "constant_pools": memory["constants"],
    }
    symbol = f"{model_prefix(library.module_name)}_{MAIN_FUNC_NAME_STR}"
    operators = [
        {"function_name": name, "workspace": [{"device": _CPU, "workspace_size_bytes": size}]}
        for name, size in memory["functions"].items()
        if name != symbol
    ]
    return {
        "model_name": library.module_name,
        "export_datetime": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%SZ"),
        "memory": {"functions": {"main": [main], "operator_functions": operators}},
        "target": [library.target],
        "executors": [program.executor.name],
        "interface_api": program.executor.options.get("interface-api", "packed"),
        "style": "full-model",
    }


def _tensors(tensors: Sequence[BoardTensor]) -> dict[str, Any]:
    return {
        one.member: {"size": one.nbytes, "dtype": one.dtype, "shape": list(one.shape)}
        for one in tensors
    }


def _files(
    program: ExecutorFactoryModule, library: BoardModule, is_alone: bool
) -> dict[str, bytes]:
    name = library.module_name
    relay = "src/relay.txt" if is_alone else f"src/{name}.relay.txt"
    texts = {
        **{f"{_HOST}/include/{file}": text for file, text in library.headers.items()},
        **{f"{_HOST}/src/{file}": text for file, text in library.sources.items()},
        relay: str(program.ir_mod),
    }
    files = {path: text.encode() for path, text in texts.items()}
    return {**files, f"parameters/{name}.params": save_param_dict(program.get_params())}


def _pack(path: PathLike, files: Mapping[str, bytes]) -> None:
    def make(temporary: str) -> None:
        with tarfile.open(temporary, "w") as archive:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))

    make_atomically(path, make)
