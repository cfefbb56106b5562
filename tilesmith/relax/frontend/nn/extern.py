"""External code as a part of a model: object files, and sources that are compiled when the model
is.

    ext = nn.SourceModule(
        {"scalar_add": lambda a, b: nn.Tensor.placeholder((), "float32")},
        source_code=Path("add.cc"), source_format="cpp",
    )
    y = ext["scalar_add"](a, b)                   # in a method

A function NAME is the symbol ``__tvm_ffi_NAME`` of the packed calling convention, which the headers
of tvm-ffi declare (``TVM_FFI_DLL_EXPORT_TYPED_FUNC`` in C++); it writes its results into its last
arguments.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tilesmith.contrib.cc import get_cc
from tilesmith.contrib.cplusplus import is_cplusplus, link_cplusplus
from tilesmith.contrib.programs import run_program
from tilesmith.runtime.module import Module as RuntimeModule
from tilesmith.runtime.module import load_static_library
from tilesmith.runtime.shared_library import shared_library
from tilesmith.support.errors import (
    FileError,
    MissingDependencyError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.support.lazy import resolve

__all__ = ["ExternModule", "ObjectModule", "SourceModule"]


class ExternModule:
    """Functions by name, each with a function that gives its results' shapes and data types: it
    takes what the call takes, and returns tensors (`Tensor.placeholder`).
    """

    def __init__(self, symbols: Mapping[str, Callable[..., Any]]) -> None:
        for name, infer in symbols.items():
            if not callable(infer):
                raise TypeMismatchError(
                    f"the external function '{name}' comes with {infer!r}",
                    notes=("a function is needed that returns tensors like the results",),
                )
        self._symbols = dict(symbols)

    def __getitem__(self, func_name: str) -> Callable[..., Any]:
        infer = self._symbols.get(func_name)
        if infer is None:
            raise UnknownNameError(
                f"the external module has no function '{func_name}'",
                notes=(f"it has: {', '.join(self._symbols)}",),
            )

        def call(*args: Any) -> Any:
            resolve("tilesmith.relax.frontend.nn.exporter:add_extern")(self)
            return resolve("tilesmith.relax.frontend.nn.op:extern")(func_name, args, infer(*args))

        return call

    def load(self) -> RuntimeModule:
        """Return the module that has the functions."""
        raise NotImplementedError(f"{type(self).__name__} defines no load")


class ObjectModule(ExternModule):
    """Functions of an object file or static library."""

    def __init__(self, symbols: Mapping[str, Callable[..., Any]], filepath: Any) -> None:
        path = Path(filepath)
        if not path.is_file():
            raise FileError(f"there is no object file '{path}'")
        super().__init__(symbols)
        self.filepath = path

    def load(self) -> RuntimeModule:
        """Return the module that has the functions."""
        return _load(self.filepath, list(self._symbols), get_cc())


class SourceModule(ExternModule):
    """Functions in C ("c") or C++ ("cpp"): the code itself, or the path of a file.

    ``compile_options`` replace those of `get_compile_options`, ``compiler`` the machine's compiler.
    """

    def __init__(
        self,
        symbols: Mapping[str, Callable[..., Any]],
        source_code: str | Path,
        source_format: str,
        compile_options: list[str] | None = None,
        compiler: str | None = None,
        output_format: str = "obj",
    ) -> None:
        super().__init__(symbols)
        _check_format(source_format)
        if output_format != "obj":
            raise UnsupportedError(
                f"output_format is 'obj', got '{output_format}'",
                notes=("models run on this machine's CPU; there is no target for the web",),
            )
        self.source_code = _text(source_code)
        self.source_format = source_format
        self.output_format = output_format
        self.compile_options = compile_options
        self.compiler = compiler

    @staticmethod
    def tvm_home() -> Path:
        """Return the folder that TVM_HOME names; without it, the package tvm-ffi, whose headers
        declare the calling convention.
        """
        named = os.environ.get("TVM_HOME")
        if named and Path(named).is_dir():
            return Path(named)
        import tvm_ffi

        return Path(tvm_ffi.__file__).resolve().parent

    @staticmethod
    def get_includes(tvm_pkg: list[str] | None = None) -> list[Path]:
        """Return the folders of headers; ``tvm_pkg`` names further ones below ``3rdparty`` of
        `tvm_home`.
        """
        import tvm_ffi.libinfo

        found = [
            Path(tvm_ffi.libinfo.find_include_path()),
            Path(tvm_ffi.libinfo.find_dlpack_include_path()),
        ]
        home = SourceModule.tvm_home()
        found += [one for one in (home / "include",) if one.is_dir()]
        for name in tvm_pkg or ():
            path = home / "3rdparty" / name
            if not path.is_dir():
                raise FileError(
                    f"there is no folder '{path}'",
                    notes=("set TVM_HOME, or give compile_options with -I for its headers",),
                )
            found.append(path)
        return list(dict.fromkeys(found))

    @staticmethod
    def get_compile_options(source_format: str, tvm_pkg: list[str] | None = None) -> list[str]:
        """Return options for compiling a source to an object file."""
        _check_format(source_format)
        includes = [f"-I{path}" for path in SourceModule.get_includes(tvm_pkg)]
        standard = "-std=c++17" if source_format == "cpp" else "-std=c11"
        return ["-c", "-O3", standard, "-fPIC", *includes]

    def compile(self, output_path: Path) -> None:
        """Compile the source. Raises MissingDependencyError without a compiler."""
        compiler = self.compiler or get_cc()
        if compiler is None or shutil.which(compiler) is None:
            raise MissingDependencyError(
                compiler or "gcc", purpose="compiling the source of an external module"
            )
        options = self.compile_options
        if options is None:
            options = self.get_compile_options(self.source_format)
        suffix = {"cpp": ".cc", "c": ".c"}[self.source_format]
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / f"source{suffix}"
            source.write_text(self.source_code, encoding="utf-8")
            language = {"cpp": "c++", "c": "c"}[self.source_format]
            run_program(
                [compiler, *options, "-x", language, str(source), "-o", str(output_path)]
            )  # fmt: skip

    def load(self) -> RuntimeModule:
        """Compile the source; return the module that has the functions."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "code.o"
            self.compile(path)
            return _load(path, list(self._symbols), self.compiler or get_cc())


def _load(path: Path, names: list[str], compiler: str | None) -> RuntimeModule:
    """Load an object file: C++, whose variables end with the program, as a shared library."""
    objects = [path.read_bytes()]
    if not is_cplusplus(objects):
        return load_static_library(str(path), func_names=names)
    made: RuntimeModule = shared_library(link_cplusplus(objects, compiler, f"'{path.name}'"))
    return made


def _check_format(source_format: str) -> None:
    if source_format in ("cu", "cuda"):
        raise UnsupportedError(
            "sources of CUDA cannot be external modules of a model: these run on the host",
            notes=(
                "source_format 'cpp' or 'c'",
                "the pragma import_c puts CUDA C into the kernels of a T.prim_func",
            ),
        )
    if source_format not in ("c", "cpp"):
        raise UnsupportedError(f"source_format is 'cpp' or 'c', got '{source_format}'")


def _text(source_code: str | Path) -> str:
    """Return the code; a path, or a text that is one, is read."""
    if isinstance(source_code, str):
        if "\n" in source_code or not source_code.endswith((".c", ".cc", ".cpp")):
            return source_code
    try:
        return Path(source_code).read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(f"the source '{source_code}' cannot be read: {error}") from error
