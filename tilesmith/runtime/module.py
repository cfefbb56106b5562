"""Defines `Module`: compiled functions, and the formats in which their code can be shown and saved.

A back end hands over object files (or a loaded library, or functions of its own) and, for each
format, the text or bytes or a function that makes them; the module knows no back end.
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

from tilesmith.runtime.device_code import containers_of
from tilesmith.runtime.devices import Device
from tilesmith.runtime.elf import is_elf
from tilesmith.runtime.executable import Executable
from tilesmith.runtime.ffi import as_opaque
from tilesmith.runtime.formats import Format, source_only
from tilesmith.runtime.library import Library, LoadedCode, process_library
from tilesmith.runtime.packed_func import PackedFunc, convert_to_packed
from tilesmith.runtime.requirements import check_code
from tilesmith.runtime.timing import BenchmarkResult, evaluator
from tilesmith.support.errors import (
    ArtifactError,
    TypeMismatchError,
    UnknownMemberError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.support.files import PathLike, write_atomically
from tilesmith.support.lazy import resolve
from tilesmith.support.linker import link_relocatable, link_shared
from tilesmith.support.registry import Registry
from tilesmith.support.static_archive import ARCHIVE_MAGIC, archive_members, static_archive

MODULE_LOADERS: Registry[Callable[[str], Module]] = Registry(
    "format of a module",
    {
        **dict.fromkeys(("ll", "bc"), "tilesmith.codegen.llvm.loading"),
        **dict.fromkeys(("cl", "cu", "cubin", "fatbin", "ptx"), "tilesmith.runtime.device_modules"),
    },
)
"""Functions from a path to a module for files that a back end has to compile, and for the code of
kernels, by suffix."""

_SHARED_SUFFIXES = (".so", ".dylib", ".dll")
_objects_lock = threading.RLock()


class ModulePropertyMask(IntEnum):
    """What a module can do, as bits of `Module.get_property_mask()`."""

    BINARY_SERIALIZABLE = 1
    RUNNABLE = 2
    DSO_EXPORTABLE = 4


class Module:
    """Compiled functions. `module["name"]` is a packed function, `module(...)` calls the entry
    function.

    `objects` are object files, linked in the process at the first use; `library` is code that is
    loaded already; `functions` are packed functions of a back end's own (launchers of a device).
    `symbols` maps functions to their names in the library where these differ. `formats` maps a
    format ("ll", "asm", "o", "cu", …) to its contents or a function making them; the first one is
    shown by default. `load` links object files and loads them. `advice` tells the user what to do
    where there is only source. `saved` is the content of an artifact's member of which a module of
    this type can be made again (`runtime.external`).
    """

    def __init__(
        self,
        type_key: str = "library",
        *,
        objects: Sequence[bytes] = (),
        library: LoadedCode | None = None,
        functions: Mapping[str, PackedFunc] | None = None,
        function_names: Sequence[str] = (),
        entry_name: str | None = None,
        formats: Mapping[str, Format] | None = None,
        runnable: bool = True,
        symbols: Mapping[str, str] | None = None,
        load: Callable[[Sequence[bytes]], Library] = Library.from_objects,
        is_device: bool = False,
        advice: str = "",
        saved: bytes | None = None,
    ) -> None:
        self.saved = saved
        self._type_key = type_key
        self._objects = list(objects)
        self._library = library
        self._functions: dict[str, PackedFunc] = dict(functions or {})
        self._names = list(function_names)
        self._entry_name = entry_name
        self._formats: dict[str, Format] = dict(formats or {})
        self._imports: list[Module] = []
        self._embedded: list[Module] = []
        self._made_later: list[Callable[[], Sequence[bytes]]] = []
        self._runnable = runnable
        self._symbols: dict[str, str] = dict(symbols or {})
        self._load = load
        self._is_device = is_device
        self._advice = advice

    # Packed functions get it as what it is, not as a function that they may call.
    __tvm_ffi_object__ = as_opaque

    # -- functions ------------------------------------------------------------------------------

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunc:
        """Return the packed function of a name; raise UnknownNameError if there is none."""
        found = self._find(name, query_imports)
        if found is None:
            if name in self._names and not self._runnable:
                for content in self._objects:  # says what this machine lacks, if it can be told
                    check_code(content, "the module's code")
            known = self.function_names
            notes = [f"it has: {', '.join(known[:20])}"] if known else []
            if not self._runnable:
                notes.append(_why_not_here(self._objects, self._formats, self._advice))
            raise UnknownMemberError(f"the module has no function '{name}'", notes=notes)
        return found

    def _find(self, name: str, query_imports: bool) -> PackedFunc | None:
        found = self._functions.get(name)
        if found is None and self.library is not None:
            found = self.library.get_function(self._symbols.get(name, name), allow_missing=True)
            if found is not None:
                self._functions[name] = found
        if found is None and name == "get_func_names":
            found = convert_to_packed(lambda: self.function_names)
        if found is None and query_imports:
            for module in self._imports:
                found = found or module._find(name, True)
        return found

    def set_function(self, name: str, function: PackedFunc) -> None:
        """Let `module[name]` be a packed function of a back end's own."""
        self._functions[name] = function

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """True if there is a function of this name."""
        return self._find(name, query_imports) is not None

    @property
    def function_names(self) -> list[str]:
        """Names of the functions, as far as known."""
        library = None if self._made_later else self.library  # listing them compiles nothing
        loaded = library.function_names() if library is not None else []
        loaded = [name for name in loaded if name not in self._symbols.values()]
        return list(dict.fromkeys([*self._names, *self._functions, *loaded]))

    @property
    def entry_name(self) -> str:
        """Return the name of the function that `module(...)` calls: the declared one, or the only
        one.
        """
        if self._entry_name is not None:
            return self._entry_name
        names = self.function_names
        if len(names) == 1:
            return names[0]
        if "main" in names:
            return "main"
        raise UnknownNameError(
            "the module has no entry function", notes=(f"call one by name: {', '.join(names)}",)
        )

    @property
    def entry_func(self) -> PackedFunc:
        """The function that `module(...)` calls."""
        return self.get_function(self.entry_name)

    def __getitem__(self, name: str) -> PackedFunc:
        return self.get_function(name, query_imports=True)

    def __call__(self, *arguments: Any) -> Any:
        try:
            return self.entry_func(*arguments)
        except BufferError as error:
            raise TypeMismatchError(
                f"an argument cannot be shared with the function: {error}",
                notes=("give a copy of an array that is read-only: numpy.array(x)",),
            ) from None

    @property
    def library(self) -> LoadedCode | None:
        """The loaded code; None if there is none that this machine can run."""
        if self._library is None and self._objects and self._runnable:
            self._library = self._load(self.objects)
        return self._library

    @property
    def objects(self) -> list[bytes]:
        """The object files."""
        with _objects_lock:
            while self._made_later:
                self._objects += self._made_later[0]()
                self._made_later.pop(0)
        return list(self._objects)

    @property
    def advice(self) -> str:
        """What a user must do to run the module, where there is only source."""
        return self._advice

    @property
    def mod(self) -> Module:
        """The module itself, so that what `compile` returns always has a `mod`."""
        return self

    def jit(self, *options: Any, **more: Any) -> Module:
        """Return the module itself: its code needs no further work to be called."""
        return self

    # -- imports --------------------------------------------------------------------------------

    def import_module(self, module: Module, is_embedded: bool = False) -> None:
        """Make the functions of another module visible through `module[name]`. `is_embedded` says
        that the object files of this one have its code inside.
        """
        self._imports.append(module)
        if is_embedded:
            self._embedded.append(module)

    @property
    def imported_modules(self) -> list[Module]:
        """The imported modules, such as the code for a device; of a library that was loaded also
        the code that it carries.
        """
        if self._type_key == "library" and not self._embedded:
            made = resolve("tilesmith.runtime.device_modules:module_of_kernels")
            self._embedded = [made(code) for code in containers_of(self.library)]
            self._imports[:0] = self._embedded
        return list(self._imports)

    imports = imported_modules

    def clear_imports(self) -> None:
        """Forget the imported modules."""
        self._imports.clear()
        self._embedded.clear()

    # -- kind and properties --------------------------------------------------------------------

    @property
    def type_key(self) -> str:
        """The back end that made it: "llvm", "c", "cuda", …"""
        return self._type_key

    kind = type_key

    @property
    def format(self) -> str:
        """The format in which the source is shown by default."""
        return next(iter(self._formats), "")

    @property
    def formats(self) -> list[str]:
        """The formats that `get_source` and `save` know."""
        own = list(self._formats)
        return own if "o" in own or not self._objects else [*own, "o"]

    @property
    def is_runnable(self) -> bool:
        """True if this machine can run it."""
        return self._runnable

    @property
    def is_dso_exportable(self) -> bool:
        """True if it has object code."""
        return bool(self._objects)

    @property
    def is_binary_serializable(self) -> bool:
        """True if it can be saved."""
        return bool(self._objects or self._formats or self.saved is not None)

    @property
    def is_device_module(self) -> bool:
        """True if it is code for a device, started by functions on the host."""
        return self._is_device

    def get_property_mask(self) -> int:
        """Return the properties as bits of ModulePropertyMask."""
        held = (self.is_binary_serializable, self.is_runnable, self.is_dso_exportable)
        return sum([int(bit) for bit, has in zip(ModulePropertyMask, held) if has])

    # -- seeing and saving ----------------------------------------------------------------------

    def get_source(self, fmt: str = "") -> str:
        """Return the code as text in a format ("ll", "asm", "c", …; "": the back end's usual
        one). Machine code ("o", "cubin") is no text: `save` writes its bytes.
        """
        made = self._make(fmt or self.format)
        return made if isinstance(made, str) else bytes(made).decode("utf-8", "replace")

    inspect_source = get_source

    def _make(self, fmt: str) -> bytes | str:
        aliases = {"s": "asm", "obj": "o", "bitcode": "bc"}
        fmt = fmt if fmt in self._formats else aliases.get(fmt, fmt)
        if fmt == "o" and len(objects := self.objects) == 1:
            return objects[0]
        content = self._formats.get(fmt)
        if content is None:
            raise UnsupportedError(
                f"a module of type '{self._type_key}' has no format '{fmt}'",
                notes=(f"it has: {', '.join(self.formats) or 'none'}",),
            )
        if callable(content):
            content = content()
            self._formats[fmt] = content
        return content

    def save(self, file_name: PathLike, fmt: str = "") -> None:
        """Write the code to a file in a format; "" takes it from the file's suffix."""
        fmt = fmt or os.path.splitext(os.fspath(file_name))[1].lstrip(".")
        if fmt == "o" and "o" not in self._formats and len(objects := self.objects) > 1:
            link_relocatable(objects, file_name)
            return
        write_atomically(file_name, self._make(fmt))

    def export_library(
        self,
        file_name: PathLike,
        *,
        fcompile: Callable[..., Any] | None = None,
        fpack_imports: Callable[..., str] | None = None,
        addons: Sequence[str] | None = None,
        workspace_dir: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Write one file with the code of this module and its imports.

        The suffix chooses: a shared library (.so, .dylib, .dll), an object file (.o), or an archive
        of object files (.tar, .a). `fcompile(output, object_files, **kwargs)` replaces the linker;
        `addons` are further object files. `fpack_imports(module, is_system_lib, symbol_prefix,
        folder)` writes an object file with the code of imported modules that have none of their
        own, and gives its path. Raises UnsupportedError for parts without object code.
        """
        path = os.fspath(file_name)
        objects = self._collect_objects(fpack_imports)
        for addon in addons or ():
            with open(addon, "rb") as file:
                objects.append(file.read())
        if fcompile:
            _compile_with(fcompile, path, objects, workspace_dir, kwargs)
        elif path.endswith(".tar"):
            write_atomically(path, _tar(objects))
        elif path.endswith(".a"):
            write_atomically(path, static_archive(objects))
        elif path.endswith(".o"):
            if len(objects) == 1:
                write_atomically(path, objects[0])
            else:
                link_relocatable(objects, path)
        elif path.endswith(_SHARED_SUFFIXES):
            link_shared(objects, path)
        else:
            raise UnsupportedError(
                f"cannot tell from '{path}' what kind of library to write",
                notes=("use one of the suffixes .so, .dylib, .dll, .o, .tar, .a",),
            )

    def _collect_objects(self, pack_imports: Callable[..., str] | None = None) -> list[bytes]:
        objects = self.objects
        if not objects and (self._library is not None or self._functions or not self._imports):
            raise UnsupportedError(
                f"a module of type '{self._type_key}' has no object code to export",
                notes=(source_only(self.formats, self._advice),) if self._formats else (),
            )
        if pack_imports is not None and self._imports:
            with tempfile.TemporaryDirectory(prefix="tilesmith-imports-") as folder:
                with open(pack_imports(self, False, "", folder), "rb") as file:
                    return [*objects, file.read()]
        for module in self._imports:
            if module not in self._embedded:
                objects += module._collect_objects()
        return objects

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:
        """Return a function of the arguments that measures `func_name` on them (see
        `time_call`).
        """
        return evaluator(
            self.get_function(func_name, query_imports=True),
            dev,
            number=number,
            repeat=repeat,
            min_repeat_ms=min_repeat_ms,
            limit_zero_time_iterations=limit_zero_time_iterations,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
            cache_flush_bytes=cache_flush_bytes,
            f_preproc=f_preproc,
        )

    def __repr__(self) -> str:
        return f"Module({self._type_key}: {', '.join(self.function_names[:8])})"


def add_objects(module: Module, make: Callable[[], Sequence[bytes]]) -> None:
    """Add object files to a module, which `make` makes when the code is first loaded or saved."""
    module._made_later.append(make)
    module._formats.pop("o", None)  # it would lack them


def content_of(module: Module, fmt: str) -> bytes:
    """Return a module's code in a format as bytes."""
    made = module._make(fmt)
    return made.encode() if isinstance(made, str) else bytes(made)


def _why_not_here(objects: Sequence[bytes], formats: Mapping[str, Format], advice: str) -> str:
    """Return why the functions of a module cannot be called here, and what to do."""
    if objects:
        return "its code is for another machine: it can be saved, but not run here"
    return source_only(list(formats), advice)


def _tar(objects: Sequence[bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for index, content in enumerate(objects):
            info = tarfile.TarInfo(f"lib{index}.o")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _compile_with(
    compile_function: Callable[..., Any],
    path: str,
    objects: Sequence[bytes],
    workspace: str | None,
    options: dict[str, Any],
) -> None:
    with tempfile.TemporaryDirectory(dir=workspace, prefix="tilesmith-export-") as folder:
        files = []
        for index, content in enumerate(objects):
            files.append(os.path.join(folder, f"lib{index}.o"))
            with open(files[-1], "wb") as file:
                file.write(content)
        compile_function(path, files, **options)


def load_module(path: PathLike, fmt: str = "") -> Any:
    """Load a file that `export_library` or `Executable.save` wrote: a shared library, an object
    file, an archive of object files (.tar), or an artifact. Raises ArtifactError when it is none of
    these.
    """
    text = os.fspath(path)
    try:
        with open(text, "rb") as file:
            head = file.read(4)
    except OSError as error:
        raise ArtifactError(f"cannot read '{text}'", notes=(str(error),)) from error
    fmt = fmt or os.path.splitext(text)[1].lstrip(".")
    if head[:2] == b"PK" or Executable.is_inside(text):
        return Executable.load(text)
    if fmt == "tar":
        return Module("library", objects=_read_tar(text))
    if fmt == "o":
        return Module("library", objects=[_read_object(text)])
    if fmt == "a":
        return load_static_library(text, ())
    loader = MODULE_LOADERS.get(fmt, None)
    if loader is not None:
        return loader(text)
    if fmt not in ("so", "dylib", "dll"):
        raise ArtifactError(
            f"'{text}' is neither a library nor a Tilesmith artifact",
            notes=(
                "expected a .so, .dylib, .dll, .o, .a, .tar, .ll, .bc or .tsm file, or the code "
                "of kernels: .cl, .cu, .ptx, .cubin, .fatbin",
            ),
        )
    return Module("library", library=Library.load(text))


def _read_object(path: str) -> bytes:
    with open(path, "rb") as file:
        content = file.read()
    if not is_elf(content) and sys.platform == "linux":
        raise ArtifactError(f"'{path}' is not an object file", notes=("build or copy it again",))
    check_code(content, f"'{path}'")
    return content


def _read_tar(path: str) -> list[bytes]:
    try:
        with tarfile.open(path) as archive:
            members = [archive.extractfile(member) for member in archive if member.isfile()]
            objects = [member.read() for member in members if member is not None]
    except (tarfile.TarError, EOFError) as error:
        raise ArtifactError(f"'{path}' is not a complete archive", notes=(str(error),)) from error
    if not objects:
        raise ArtifactError(f"'{path}' holds no object files")
    return objects


def load_static_library(path: PathLike, func_names: Sequence[str]) -> Module:
    """Load a static library (.a) or an object file as a module, with the names of its functions."""
    with open(path, "rb") as file:
        content = file.read()
    objects = archive_members(content) if content.startswith(ARCHIVE_MAGIC) else [content]
    if not objects:
        raise ArtifactError(f"'{os.fspath(path)}' holds no object files")
    return Module("static_library", objects=objects, function_names=list(func_names))


def system_lib(symbol_prefix: str = "") -> Module:
    """Return the functions with the packed calling convention that are linked into this process."""
    return Module("system-lib", library=process_library(symbol_prefix))


def module_from_functions(functions: Mapping[str, Callable[..., Any]]) -> Module:
    """Return a module of Python functions: they get NDArrays, and are called like compiled ones."""
    packed = {name: convert_to_packed(function) for name, function in functions.items()}
    return Module("python", functions=packed)


def num_threads() -> int:
    """Return the number of threads that parallel loops use."""
    from tilesmith.runtime import threads

    return threads.num_threads()
