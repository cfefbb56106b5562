"""Loads generated code: object files linked in the process, or a shared library.

    library = Library.from_objects([object_bytes])      # llvmlite links, no linker is needed
    library = Library.from_linked([object_bytes])       # the system's linker; no llvmlite
    library = Library.load("kernels.so")                # the system's loader; no llvmlite
    function = library.get_function("main")             # the symbol __tvm_ffi_main

A packed function is `int32 __tvm_ffi_NAME(void* self, const TVMFFIAny* args, int32 num_args,
TVMFFIAny* result)`. Functions keep their library alive.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import os
import struct
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, overload

from tilesmith.runtime import amx, device_code, threads
from tilesmith.runtime.elf import defined_symbols, is_elf, needed_symbols
from tilesmith.runtime.ffi import Function, make_symbols_global, symbol_addresses
from tilesmith.runtime.launch_layout import DESCRIPTOR_PREFIX
from tilesmith.runtime.requirements import check_code
from tilesmith.support.errors import (
    ArtifactError,
    CodegenError,
    MissingDependencyError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.support.linker import link_shared

FUNCTION_PREFIX = "__tvm_ffi_"
_LISTED = (FUNCTION_PREFIX, DESCRIPTOR_PREFIX)

_library_names = itertools.count()
_jit_lock = threading.Lock()


class LoadedCode(Protocol):
    """Code that is loaded somewhere: its functions by name. `Library` is in this process."""

    def get_function(self, name: str, allow_missing: bool) -> Any:
        """Return a function; None if there is none and that is allowed."""

    def function_names(self) -> list[str]:
        """Return the names of the functions, as far as known."""


class Library:
    """Loaded code. `symbol(name)` gives addresses, `get_function(name)` packed functions."""

    def __init__(self, owner: Any, addresses: dict[str, int | None]) -> None:
        # `owner` keeps the code mapped; subclasses fill `addresses` where they know more
        self._owner = owner
        self._addresses = addresses
        # generated code finds the runtime's own functions by name, without asking the registry
        import tilesmith.runtime.builtins  # noqa: F401

        if self.symbol(amx.SYMBOL) is not None and not amx.enable_amx():
            raise UnsupportedError(
                "the code uses AMX, which this machine does not have or its system does not permit",
                notes=("compile for this machine: --target llvm",),
            )
        threads.attach(self)
        device_code.attach(self, list(addresses))

    @staticmethod
    def from_objects(
        objects: Sequence[bytes], exports: Iterable[str] = (), symbols: dict[str, int] | None = None
    ) -> Library:
        """Link object files in the process through llvmlite.

        `exports` names symbols to look up besides the objects' own global ones; `symbols` gives
        the addresses of further undefined symbols. Raises CodegenError when a symbol is undefined.
        """
        return _JitLibrary(objects, exports, symbols or {})

    @staticmethod
    def from_linked(objects: Sequence[bytes]) -> Library:
        """Link object files with the system's linker, and load the result; needs no llvmlite.

        Raises MissingDependencyError when the machine has no linker.
        """
        for content in objects:
            check_code(content, "the code")
        with tempfile.TemporaryDirectory(prefix="tilesmith-library-") as folder:
            path = Path(folder, "code.so")
            link_shared(objects, path)
            return _shared_from_bytes(path.read_bytes())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Library:
        """Load a shared library. Raises ArtifactError when the system cannot load it, and
        IncompatibleCodeError when it is for another machine.
        """
        where = os.fspath(path)
        names = _functions_of_file(where)
        library = _SharedLibrary(where)
        for name in names:
            library.symbol(name)  # so that it is listed
        device_code.attach(library, names)
        return library

    @staticmethod
    def from_shared_bytes(contents: bytes | memoryview) -> Library:
        """Load a shared library from memory (through a file that is removed again)."""
        check_code(contents, "the code")
        return _shared_from_bytes(contents)

    def symbol(self, name: str) -> int | None:
        """Return the address of a symbol, or None if the library does not have it."""
        return self._addresses.get(name)

    @overload
    def get_function(self, name: str, allow_missing: Literal[False] = False) -> Function: ...

    @overload
    def get_function(self, name: str, allow_missing: bool) -> Function | None: ...

    def get_function(self, name: str, allow_missing: bool = False) -> Function | None:
        """Return the packed function of a name. If there is none, raise UnknownNameError or, with
        `allow_missing`, return None.
        """
        address = self.symbol(FUNCTION_PREFIX + name)
        if address is None:
            if allow_missing:
                return None
            raise UnknownNameError(f"the library has no function '{name}'", notes=self._known())
        # not kept here: function and library would keep each other alive for ever
        return Function.__from_extern_c__(address, keep_alive_object=self)

    def function_names(self) -> list[str]:
        """Return names of the packed functions, as far as known."""
        return [
            name.removeprefix(FUNCTION_PREFIX)
            for name, address in self._addresses.items()
            if name.startswith(FUNCTION_PREFIX) and address is not None
        ]

    def _known(self) -> tuple[str, ...]:
        names = sorted(self.function_names())
        return ("it has: " + ", ".join(names[:20]),) if names else ()


class _JitOwner:
    """Keeps the JIT and the linked code alive; the resource tracker must be released before its
    JIT.
    """

    def __init__(self, jit: Any, tracker: Any, pool_stop: int | None = None) -> None:
        self.jit = jit
        self.tracker = tracker
        self.pool_stop = pool_stop  # address of the function that stops the library's own threads

    def __del__(self) -> None:
        # at interpreter shutdown llvmlite may be gone already: leave the memory to the system
        if not sys.is_finalizing():
            with contextlib.suppress(Exception):
                if self.pool_stop is not None:
                    ctypes.CFUNCTYPE(None)(self.pool_stop)()
                self.tracker.close()


_jit: Any = None


def _shared_jit() -> Any:
    """Return the one JIT of the process: creating one costs more than linking into it."""
    global _jit
    if _jit is None:
        try:
            import llvmlite.binding as llvm
        except ImportError as error:
            raise MissingDependencyError("llvmlite", purpose="linking object code") from error
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        # JITLink keeps the sections of an object together. The older linker of LLVM allocates each
        # by itself, and aborts the process where two of them lie more than 2 GiB apart.
        has_jit_link = sys.platform != "win32"
        _jit = llvm.create_lljit_compiler(use_jit_link=has_jit_link, suppress_errors=True)
    return _jit


class _JitLibrary(Library):
    def __init__(
        self, objects: Sequence[bytes], exports: Iterable[str], symbols: dict[str, int]
    ) -> None:
        if not objects:
            raise CodegenError("a library needs at least one object file")
        names = set(exports)
        for content in objects:
            check_code(content, "the code")
            names.update(defined_symbols(content))
        self._is_complete = all(is_elf(content) for content in objects)
        self._name = f"tilesmith.library.{next(_library_names)}"
        with _jit_lock:
            jit = _shared_jit()
            import llvmlite.binding as llvm

            builder = llvm.JITLibraryBuilder()
            for content in objects:
                builder.add_object_img(content)
            builder.add_current_process()
            for name, address in {**symbol_addresses(), **symbols}.items():
                if name not in names:
                    builder.import_symbol(name, address)
            for name in names:
                builder.export_symbol(name)
            try:
                tracker = builder.link(jit, self._name)
            except RuntimeError as error:
                known = {*names, *symbol_addresses(), *symbols}
                missing = _missing_symbols(objects, known)
                notes = (f"undefined: {', '.join(missing)}",) if missing else ()
                raise CodegenError(f"linking object code failed: {error}", notes=notes) from error
        addresses: dict[str, int | None] = {n: int(tracker[n]) for n in sorted(names)}
        stop = addresses.get("__tilesmith_pool_stop")
        super().__init__(_JitOwner(jit, tracker, stop), addresses)

    def symbol(self, name: str) -> int | None:
        """Return the address of a symbol, or None if the library does not have it."""
        if name not in self._addresses and not self._is_complete:
            # an object format whose symbol table we do not read: ask the JIT
            try:
                found = self._owner.jit.lookup(self._name, name)
                self._addresses[name] = int(found[name])
            except RuntimeError:
                self._addresses[name] = None
        return self._addresses.get(name)


class _SharedLibrary(Library):
    def __init__(self, path: str) -> None:
        make_symbols_global()
        try:
            # a name without a folder would be searched for in the system's folders
            self._handle = ctypes.CDLL(path if os.path.isabs(path) else os.path.abspath(path))
        except OSError as error:
            raise ArtifactError(
                f"cannot load the shared library '{path}'",
                notes=(str(error), "was it built for this machine and completely written?"),
            ) from error
        super().__init__(self._handle, {})

    def symbol(self, name: str) -> int | None:
        """Return the address of a symbol, or None if the library does not have it."""
        try:
            return self._addresses[name]
        except KeyError:
            pass
        try:
            address = ctypes.cast(getattr(self._handle, name), ctypes.c_void_p).value
        except AttributeError:
            address = None
        self._addresses[name] = address
        return address


class _ProcessLibrary(Library):
    """Code that is linked into this process; packed functions carry a prefix before their names."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._handle = ctypes.CDLL(None)
        super().__init__(self._handle, {})

    def symbol(self, name: str) -> int | None:
        """Return the address of a symbol, or None if the process does not have it."""
        if name.startswith(FUNCTION_PREFIX):
            name = FUNCTION_PREFIX + self._prefix + name[len(FUNCTION_PREFIX) :]
        try:
            return ctypes.cast(getattr(self._handle, name), ctypes.c_void_p).value
        except AttributeError:
            return None


def _functions_of_file(path: str) -> list[str]:
    """Return the symbols of a library's packed functions and device code, as far as its format
    tells them.

    Raises IncompatibleCodeError if this machine cannot run it.
    """
    try:
        with (
            open(path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole,
        ):
            check_code(whole, f"'{path}'")
            return [name for name in defined_symbols(whole) if name.startswith(_LISTED)]
    except (OSError, ValueError, struct.error):
        return []  # not readable, empty or cut off: the system's loader says why


def process_library(symbol_prefix: str = "") -> Library:
    """Return the packed functions `__tvm_ffi_PREFIXname` that are linked into this process, or that
    come from a library loaded with symbols visible to all (`RTLD_GLOBAL`).
    """
    return _ProcessLibrary(symbol_prefix)


def _shared_from_bytes(contents: bytes | memoryview) -> Library:
    """Load a library from a file that is removed again: the mapping keeps the memory.

    Code that opens a loaded library by its name afterwards (tvm-ffi does, to report where an error
    came from) does not find it. The name of an anonymous file, a descriptor's number, could by then
    belong to another file.
    """
    descriptor, name = tempfile.mkstemp(suffix=".so", prefix="tilesmith-")
    path = Path(name)
    try:
        with open(descriptor, "wb") as file:
            file.write(contents)
        try:
            library: Library = _SharedLibrary(name)
        except ArtifactError:
            if not hasattr(os, "memfd_create"):
                raise
            library = _from_anonymous_file(contents)  # the folder may forbid code
        device_code.attach(library, defined_symbols(contents))
        return library
    finally:
        if sys.platform != "win32":  # a loaded library cannot be removed there
            path.unlink()


def _from_anonymous_file(contents: bytes | memoryview) -> Library:
    """Load a library where no folder for temporary files allows code.

    Its descriptor stays open, so that the name by which the loader knows it is not used again.
    """
    descriptor = os.memfd_create("tilesmith-library")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(contents)
    try:
        return _SharedLibrary(f"/proc/self/fd/{descriptor}")
    except ArtifactError:
        os.close(descriptor)
        raise


def _missing_symbols(objects: Sequence[bytes], known: set[str]) -> list[str]:
    """Return the symbols that the objects need and that neither `known` nor the process has."""
    process = ctypes.CDLL(None)
    needed = {name for content in objects for name in needed_symbols(content)}
    return sorted([name for name in needed - known if not hasattr(process, name)])
