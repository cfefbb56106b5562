"""Makes modules that show the code of kernels: of a library that was loaded, and of files.

    library = tilesmith.runtime.load_module("lib.so")
    library.import_module(tilesmith.runtime.load_module("kernels.ptx"))

A library carries the code of its kernels and launches that. The import is welcome, and changes
nothing.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tilesmith.runtime.device_code import containers_of
from tilesmith.runtime.device_container import CodeContainer
from tilesmith.runtime.formats import Format
from tilesmith.runtime.library import Library
from tilesmith.runtime.module import MODULE_LOADERS, Module
from tilesmith.support.errors import ArtifactError
from tilesmith.support.lazy import resolve

__all__ = ["load_cubin", "load_cuda", "load_opencl", "module_of_kernels", "modules_of_model"]

_TEXTS = ("cl", "cu", "ptx")
_ADVICE = "load the library that launches these kernels: it carries them"


def module_of_kernels(code: CodeContainer) -> Module:
    """Return a module that shows the code of kernels that a library carries."""
    order = sorted(code.parts, key=lambda name: name not in ("cl", "cu"))
    formats: dict[str, Format] = {name: _shown(name, code.parts[name]) for name in order}
    if "cu" in formats and code.architecture:
        formats.setdefault("ptx", partial(_ptx, code))
    names = [kernel.name for kernel in code.kernels]
    return Module(
        code.kind, formats=formats, function_names=names, is_device=True, advice=_ADVICE,
        runnable=False,
    )  # fmt: skip


def modules_of_model(library: Library, is_of_relay: bool) -> list[Module]:
    """Return what a model imports: the code of its kernels where relay has built it, else, as
    programs of relax expect, the library that imports this code.
    """
    if not is_of_relay:
        return [Module("library", library=library)]
    return [module_of_kernels(code) for code in containers_of(library)]


def _ptx(code: CodeContainer) -> str:
    """Compile CUDA C to PTX, by the compiler of the code generator."""
    compile_source = resolve("tilesmith.codegen.gpu.nvrtc:compile_source")
    source = code.parts["cu"].decode()
    return bytes(compile_source(source, code.architecture, "ptx", code.options)).decode()


def _shown(name: str, content: bytes) -> str | bytes:
    return content.decode("utf-8", "replace") if name in _TEXTS else content


def _of_file(kind: str, path: str) -> Module:
    name, content = Path(path).suffix.lstrip("."), Path(path).read_bytes()
    formats = {name: _shown(name, content)}
    return Module(kind, formats=formats, is_device=True, advice=_ADVICE, runnable=False)


@MODULE_LOADERS.register("cl")
def load_opencl(path: str) -> Module:
    """Load a file of OpenCL C."""
    return _of_file("opencl", path)


@MODULE_LOADERS.register("cu")
@MODULE_LOADERS.register("ptx")
def load_cuda(path: str) -> Module:
    """Load a file of CUDA C or PTX."""
    return _of_file("cuda", path)


@MODULE_LOADERS.register("cubin")
@MODULE_LOADERS.register("fatbin")
def load_cubin(path: str) -> Module:
    """Load a file of machine code for CUDA. ArtifactError for anything else."""
    if Path(path).read_bytes()[:4] not in (b"\x7fELF", b"\x50\xed\x55\xba"):
        raise ArtifactError(f"'{path}' is neither a cubin nor a fat binary")
    return _of_file("cuda", path)
