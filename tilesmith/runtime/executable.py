"""Defines `Executable`: a compiled whole model, callable on anything that supports DLPack.

The convention between the graph builder and this module
--------------------------------------------------------
The code (`Library`) exports for each graph function NAME a packed function (symbol
`__tvm_ffi_NAME`) that returns nothing, and allocates only tensors whose sizes depend on data:

    NAME(inputs…, outputs…, constants, workspace[, frame])

* inputs: the parameters with nested tuples flattened. A "tensor" is one tensor argument; a "shape"
  is one int per extent; a "prim" is one int, float or bool.
* outputs: for each "tensor" leaf of the result, in order with tuples flattened, one tensor argument
  to write; for each "prim" leaf a tensor without axes. "shape" leaves and "none" take no argument.
* constants: an int, the address of an array of pointers `void*[n]`, one for each name in
  `metadata["constants"]`, each to 64-byte aligned contents that are only read (0 if there are no
  constants).
* workspace: an int, the address of `workspace_bytes` bytes, 64-byte aligned (0 if there are none).
  No two running calls share one.
* frame: an int, the number of a `frame.Frame`, if the metadata says `has_frame`. The code reserves
  there what depends on data, and results that are `made_inside`, which are no output arguments.

Where a result's extent or the workspace is not a constant, the metadata of the function names a
`shapes_function`, a packed function of the same library:

    SHAPES(inputs…, buffer)          buffer: int64 tensor with one axis

It writes the extents of the "tensor" and "shape" leaves of the result in order (constant ones
too, none of those `made_inside`), then the number of workspace bytes, and raises ShapeError when
the inputs do not fit.

The code also exports a function that does nothing, whose name ties it to the metadata (see
`interface.py`). The metadata of an executable:

    {"functions": {NAME: metadata as `signature.py` describes},
     "constants": [names in the order of the array],
     "target": "llvm …",
     "programs": {NAME: functions that are run step by step, as `program.py` describes},
     "parts": [names of functions that only programs call],
     "precision": "bfloat16", "float16", "int8" where `tilesmith.compile` was asked for it,
     "late_constants": {NAME: [dtype, shape]} of constants that are given after loading,
     "fallbacks": rows of a `FallbackReport`, where something was given up when it was compiled}

The wrappers in the code check shapes, dtypes and strides again; the checks here exist to name the
input, and to convert what can be converted.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tilesmith.runtime.artifact import has_artifact, read_artifact, write_artifact
from tilesmith.runtime.call import CompiledFunction
from tilesmith.runtime.constants import constant_arrays, pointers_to
from tilesmith.runtime.device_functions import OnDevices
from tilesmith.runtime.device_models import device_kind, device_numbers, on_devices
from tilesmith.runtime.devices import Device
from tilesmith.runtime.elf import machine_of
from tilesmith.runtime.external import ExternalModules
from tilesmith.runtime.formats import Format
from tilesmith.runtime.interface import check_interface
from tilesmith.runtime.library import Library
from tilesmith.runtime.program import Program
from tilesmith.runtime.program_python import program_python
from tilesmith.runtime.program_text import program_text
from tilesmith.runtime.refusals import nothing_to_compare, without_code
from tilesmith.runtime.requirements import check_code, machine_of_process
from tilesmith.runtime.signature import parse_signature
from tilesmith.runtime.timing import BenchmarkResult, evaluator
from tilesmith.support.errors import (
    ArtifactError,
    CodegenError,
    ExecutionError,
    MissingDependencyError,
    UnknownNameError,
    UnsupportedError,
)
from tilesmith.support.fallbacks import FallbackReport, record_fallback
from tilesmith.support.files import PathLike, write_atomically
from tilesmith.support.lazy import DOORS, resolve
from tilesmith.support.linker import find_linkers, link_shared

if TYPE_CHECKING:
    import numpy

    from tilesmith.runtime.observation import ObservedProgram

SHARED_LIBRARY = "library.so"


def _tables(metadata: Mapping[str, Any]) -> tuple[Any, Any, Any, Any]:
    """Return the functions, the names of constants, the programs, and the parts of an executable.
    Raises ArtifactError where metadata have another form.
    """
    functions, names = metadata.get("functions", {}), metadata.get("constants", ())
    if not isinstance(functions, Mapping):
        raise ArtifactError("the metadata have no table of functions")
    if not isinstance(names, (list, tuple)) or not all(isinstance(one, str) for one in names):
        raise ArtifactError("the metadata have no list of the constants' names")
    programs, parts = metadata.get("programs", {}), metadata.get("parts", ())
    if not isinstance(programs, Mapping) or not isinstance(parts, (list, tuple)):
        raise ArtifactError("the metadata have no table of programs")
    return functions, names, programs, parts


class Executable:
    """A compiled model. `executable(x)` calls `main`; `executable["name"]` is any of its functions.

    `code` is a loaded Library, or object files that are linked in the process at the first call;
    `constants` maps names to arrays; `sources` maps formats ("ll", "script", …), the usual one
    first, to texts or functions that make them; it may be a function that makes the mapping.
    `load` links object files and loads them. Without object files there is source only: it can be
    seen, not called; `advice` says what to do then. Code from a file (`is_from_file`) has to belong
    to its metadata.
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        code: Library | Sequence[bytes],
        constants: Mapping[str, Any] | None = None,
        sources: Mapping[str, Format] | Callable[[], Mapping[str, Format]] = MappingProxyType({}),
        shared: bytes | memoryview | None = None,
        load: Callable[[Sequence[bytes]], Library] = Library.from_objects,
        advice: str = "",
        is_from_file: bool = False,
        external: ExternalModules | None = None,
    ) -> None:
        self.metadata = dict(metadata)
        self._external = external
        if external is not None and external.linked and external.library is None:
            external.library = lambda: self.library
        self._library = code if isinstance(code, Library) else None
        self._objects = [] if isinstance(code, Library) else list(code)
        self._shared = shared
        self._linking_failed: CodegenError | None = None
        self._make_sources = sources
        self._load = load
        self._advice = advice
        self._is_checked = not is_from_file
        self.node_program: Callable[[], Executable] | None = None
        """Compiles an executable with a function for each node of the graph, where that can be
        done: not after loading."""
        self.observed_program: Callable[[], ObservedProgram] | None = None
        """Compiles the same model such that observers see its kernels; not after loading."""
        self.c_interface: Callable[..., list[str]] | None = None
        """Writes the model for C programs; not after loading."""
        self.accuracy_report: Callable[[Any], Any] = nothing_to_compare
        """Tells how well each product of a model of low precision agrees with float32, the worst
        first: an `AccuracyReport`. It takes the inputs of one run, or a list of such: dictionaries
        by name, or tuples. Not after loading."""
        self._functions: dict[str, CompiledFunction] = {}
        functions, names, programs, parts = _tables(self.metadata)
        self._signatures = {name: parse_signature(name, entry) for name, entry in functions.items()}
        self._late: Mapping[str, Any] = self.metadata.get("late_constants", {})
        self._constants = constant_arrays(names, constants or {}, self._late)
        arrays = list(self._constants.values())
        self._program_entries = dict(programs)
        self._device_kind = device_kind(self.metadata)
        self.device_type = self._device_kind or "cpu"
        """The name of the type of devices that the code is for: "cpu", "cuda", "opencl"."""
        self._programs = {
            name: Program(name, entry, self.get_function, arrays)
            for name, entry in (programs.items() if self._device_kind is None else ())
        }
        self._parts = frozenset(parts)
        self._pointers = pointers_to(self._constants, self._late)
        self.on_device = OnDevices(
            self.device_type, self._signatures, self._program_entries, arrays,
            lambda: self.library, ctypes.addressof(self._pointers), device_numbers(self.metadata),
        )  # fmt: skip
        """Gives the functions of a model for devices as they run on one: `on_device(cuda(1))`."""

    # -- calling --------------------------------------------------------------------------------

    @property
    def library(self) -> Library:
        """The loaded code."""
        if self._library is None:
            if self._shared is not None:
                self._library = Library.from_shared_bytes(self._shared)
            elif self._objects:
                self._library = self._load(self._objects)
            else:
                raise without_code("called", self._sources, self._advice)
        if not self._is_checked and self._signatures:
            check_interface(self._library, self.metadata["functions"], self._constants)
            self._is_checked = True
        return self._library

    @property
    def imported_modules(self) -> list[Any]:
        """The code of the model's kernels, and the modules that external code generators made."""
        external = [] if self._external is None else list(self._external.modules)
        if self._device_kind is None or not self.is_runnable:
            return external
        made = resolve("tilesmith.runtime.device_modules:modules_of_model")
        return [*made(self.library, "module_name" in self.metadata), *external]

    def get_function(self, name: str) -> CompiledFunction | Program:
        """Return the function of a name; raise UnknownNameError if the model has none."""
        if self._late:
            raise ExecutionError(
                f"constants are not there yet: {', '.join(list(self._late)[:5])}",
                notes=("load_late_bound_consts(path) reads them",),
            )
        if self._device_kind is not None:
            numbers = device_numbers(self.metadata)
            first, *others = [Device(self._device_kind, number) for number in numbers]
            return self.on_device(first, others=others).get_function(name)
        program = self._programs.get(name)
        return self._compiled(name) if program is None else program

    def _compiled(self, name: str) -> CompiledFunction:
        found = self._functions.get(name)
        if found is None:
            signature = self._signatures.get(name)
            if signature is None:
                raise UnknownNameError(
                    f"the model has no function '{name}'",
                    notes=(f"it has: {', '.join(self.function_names) or 'none'}",),
                )
            library = self.library
            shapes = signature.shapes_function
            found = CompiledFunction(
                signature,
                library.get_function(signature.function),
                None if shapes is None else library.get_function(shapes),
                ctypes.addressof(self._pointers) if self._constants else 0,
                keep_alive=(library, self._constants, self._pointers, self._external),
            )
            self._functions[name] = found
        return found

    def __getitem__(self, name: str) -> Any:
        if name == self.metadata.get("module_name") and name not in self.function_names:
            return partial(on_devices, self)  # what `relay.build` names its program
        return self.get_function(name)

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Call `main`. Inputs are NDArrays, numpy arrays, or other DLPack tensors, by position or
        by name. Returns an NDArray, or a tuple of them where the model has several results.
        """
        try:
            main: Callable[..., Any] = self._functions["main"]
        except KeyError:
            main = self.get_function("main")
        return main(*inputs, **named)

    @property
    def is_runnable(self) -> bool:
        """True if there is compiled code, not only source."""
        return self._library is not None or self._shared is not None or bool(self._objects)

    @property
    def function_names(self) -> list[str]:
        """Names of the graph functions."""
        names = [*self._signatures, *self._program_entries]
        return [name for name in names if name not in self._parts]

    @property
    def fallbacks(self) -> FallbackReport:
        """The fallbacks of the compilation of this code, with their reasons."""
        return FallbackReport.from_json(self.metadata.get("fallbacks", ()))

    def add_fallbacks(self, report: FallbackReport) -> None:
        """Store the report's fallbacks that are about the code in the metadata."""
        whole = self.fallbacks
        for fallback, count in report.about_code().rows():
            whole.add(fallback, count)
        if len(whole):
            self.metadata["fallbacks"] = whole.to_json()

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """True if there is a function of this name."""
        return name in self.function_names

    @property
    def input_names(self) -> list[str]:
        """Names of `main`'s inputs, in order."""
        return self.get_function("main").input_names

    @property
    def constants(self) -> dict[str, numpy.ndarray]:
        """The constants by name; they must not be written."""
        return {name: value for name, value in self._constants.items() if name not in self._late}

    def time_evaluator(
        self, func_name: str = "main", dev: Device | None = None, **options: Any
    ) -> Callable[..., BenchmarkResult]:
        """Return a function of the arguments that measures `func_name` on them; `options` are those
        of `timing.time_call`: number, repeat, min_repeat_ms, …
        """
        return evaluator(self.get_function(func_name), dev, **options)

    def profile(self, *inputs: Any, **named: Any) -> Any:
        """Run `main` on some inputs, and return a table of its kernels: `inspect.profile` with its
        usual settings.
        """
        return self.profile_function(inputs, named)

    def profile_function(
        self, inputs: Sequence[Any], named: Mapping[str, Any], **options: Any
    ) -> Any:
        """Return what `inspect.profile` gives; ``options`` are its settings."""
        return resolve(DOORS["tilesmith.runtime.executable"]["profile"])(
            self, inputs, named, **options
        )

    # -- seeing and saving ----------------------------------------------------------------------

    @cached_property
    def _sources(self) -> Mapping[str, Format]:
        made = self._make_sources
        return made() if callable(made) else made

    def get_source(self, fmt: str = "") -> str:
        """Return the code of the whole model as text, in one of the formats that the back end
        writes; "" is its usual one.
        """
        text = _in_format(self._sources, fmt or next(iter(self._sources), ""))
        return text if isinstance(text, str) else bytes(text).decode("utf-8", "replace")

    def save(self, path: PathLike, fmt: str = "", *, params: PathLike | None = None) -> None:
        """Write an artifact (`.tsm`), completely or not at all; or the code alone, without
        constants, in a format of `get_source` ("o", "ll", …) that `fmt` or the suffix names.
        ``params`` names a safetensors file, relative to the artifact's folder, for the constants:
        several artifacts share it, and loaded models of one process share its memory.

        The code is a shared library where a linker is found, so that loading needs no compiler
        package; else object files, which llvmlite links when they are loaded. Code for another
        machine, which this one's linkers refuse, is saved as object files, too.
        """
        fmt = fmt or os.path.splitext(os.fspath(path))[1].lstrip(".")
        if fmt in ("o", "obj", "ll", "asm", "s", "bc", "c"):
            if params is not None:
                raise UnsupportedError(
                    f"code of format '{fmt}' has no parameters",
                    notes=("save an artifact: save('model.tsm', params=…); or export_c",),
                )
            write_atomically(
                path, _in_format(self._sources, {"obj": "o", "s": "asm"}.get(fmt, fmt))
            )
            return
        shared = self._shared_bytes()
        # programs of instructions call registered functions only
        needs_code = bool(self._signatures) or not self._program_entries
        if shared is None and not self._objects and needs_code:
            raise without_code("saved", self._sources, self._advice)
        code = {f"code.{index}.o": content for index, content in enumerate(self._objects)}
        if shared is not None:
            code = {SHARED_LIBRARY: shared}
        parts = _with_external(self._external, self.metadata, code, self.constants)
        write_artifact(path, *parts, shared=params)

    def export_library(
        self, file_name: PathLike, *, params: PathLike | None = None, **options: Any
    ) -> None:
        """Write the model as one file: a shared library that also carries the metadata and the
        constants, or an artifact when the suffix is `.tsm`. `load_module` reads both. ``params``
        as in `save`."""
        path = os.fspath(file_name)
        if path.endswith((".so", ".dylib", ".dll")):
            prefix = self._shared_bytes()
            if prefix is None and not self._objects:
                raise without_code("exported", self._sources, self._advice)
            if prefix is None and self._linking_failed is not None:
                raise self._linking_failed
            if prefix is None:
                raise MissingDependencyError("ziglang", purpose="exporting a shared library")
            parts = _with_external(self._external, self.metadata, {}, self.constants)
            write_artifact(path, *parts, prefix, params)
        else:
            self.save(path, params=params)

    def export_c(
        self, path: PathLike, functions: Sequence[str] | None = None, *, embed: bool = False
    ) -> list[str]:
        """Write the model for C programs that know nothing of Tilesmith: object code ("m.o") or, of
        a model built for the target "c", C source ("m.c"); a header "m.h" with a plain function for
        each graph function (of ``functions``, all by default); and the parameters as
        "m.safetensors", or inside of the code (``embed``). Return the paths of the files.
        """
        if self.c_interface is None or self._late:
            raise UnsupportedError(
                "a model that was loaded or put together cannot be exported to C",
                notes=("build it again: relax.build(module, target).export_c(path)",),
            )
        return self.c_interface(path, functions, embed, self._constants)

    def _shared_bytes(self) -> bytes | None:
        if self._shared is None and self._objects and find_linkers():
            with tempfile.TemporaryDirectory(prefix="tilesmith-save-") as folder:
                path = os.path.join(folder, SHARED_LIBRARY)
                try:
                    link_shared(self._objects, path)
                except CodegenError as error:
                    if not _is_foreign(self._objects):
                        raise
                    record_fallback("code", "linking", error)
                    self._linking_failed = error
                    return None
                with open(path, "rb") as file:
                    self._shared = file.read()
        return None if self._shared is None else bytes(self._shared)

    @staticmethod
    def is_inside(path: PathLike) -> bool:
        """True if a file holds a saved executable."""
        return has_artifact(path)

    @staticmethod
    def load(
        path: PathLike,
        params: PathLike | Mapping[str, Any] | None = None,
        check_contents: bool = True,
    ) -> Executable:
        """Load a saved model. Raises ArtifactError for a file that is truncated, changed, of
        another version, or for another machine. ``params``: where the shared parameters are, if
        they do not lie beside the artifact; or arrays to take in their place, by the names of
        `constants`. ``check_contents``: compare the checksums, for which all of it is read.
        """
        artifact = read_artifact(path, params, check_contents)
        where, external = os.fspath(path), None
        with _named(where):
            if (described := artifact.metadata.get("external")) is not None:
                external = ExternalModules.load(described, artifact.code, artifact.parameters)
            for name, content in artifact.code.items():
                if not name.startswith("external."):
                    check_code(content, f"'{where}'")
            objects = sorted([name for name in artifact.code if name.endswith(".o")])
            shared = artifact.code.get(SHARED_LIBRARY)
            if shared is not None or not objects:
                # without a member, the file itself is the library; programs alone need none
                is_native = shared is None and bool(artifact.metadata.get("functions"))
                library = Library.load(where) if is_native else None
                code: Any = library if library is not None else ()
                loaded = Executable(
                    artifact.metadata, code, artifact.parameters, shared=shared, is_from_file=True,
                    external=external,
                )  # fmt: skip
            else:
                contents = [bytes(artifact.code[name]) for name in objects]
                loaded = Executable(
                    artifact.metadata, contents, artifact.parameters, is_from_file=True,
                    external=external,
                )  # fmt: skip
            for name in loaded._signatures:  # missing symbols show now, not at the first call
                loaded.get_function(name) if loaded._device_kind else loaded._compiled(name)
        return loaded

    # -- names under which users know the parts ---------------------------------------------------

    @property
    def mod(self) -> Executable:
        """The executable itself: the runtime module of a built model."""
        return self

    def jit(self, *arguments: Any, **options: Any) -> Executable:
        """Return the executable itself: its code is linked in the process anyway."""
        return self

    def stats(self) -> str:
        """Return a summary: functions, constants, code."""
        size = sum([value.nbytes for value in self._constants.values()])
        lines = [f"target: {self.metadata.get('target', '')}"]
        lines += _described(self)
        for signature in self._signatures.values():
            workspace = signature.workspace_bytes
            text = "depends on the sizes" if workspace is None else f"{workspace} bytes"
            lines.append(f"workspace of {signature.name}: {text}")
            if signature.streams[0] > 1:
                count, events = signature.streams
                lines.append(f"streams of {signature.name}: {count}, ordered by {events} events")
        lines.append(f"constants: {len(self._constants)} ({size} bytes)")
        return "\n".join(lines)

    def as_text(self) -> str:
        """Return the summary of `stats`, and the programs that are run step by step, as text."""
        programs = self.metadata.get("programs", {})
        return "\n\n".join([self.stats(), *[program_text(*one) for one in programs.items()]])

    def as_python(self) -> str:
        """Return Python code that makes this executable with `relax.ExecBuilder`.

        Raises UnsupportedError where functions are native code.
        """
        if self._signatures:
            raise UnsupportedError(
                f"these functions are native code: {', '.join(self._signatures)}",
                notes=("get_source('script') shows the model as TVMScript",),
            )
        return program_python(self.metadata.get("programs", {}), self.constants)

    def __repr__(self) -> str:
        return f"Executable({'; '.join(_described(self))})"


def _described(model: Executable) -> list[str]:
    """Return a line for each function."""
    return [str(model._signatures.get(name) or _program_head(model, name))
            for name in model.function_names]  # fmt: skip


def _program_head(model: Executable, name: str) -> str:
    params = model._program_entries[name].get("params", ())
    return f"{name}({', '.join([str(one['name']) for one in params])})"


def with_parts(
    executable: Executable, metadata: Mapping[str, Any], constants: Mapping[str, Any] | None = None
) -> Executable:
    """Return an executable of the same code with other metadata or constants."""
    made = Executable(
        metadata,
        executable._objects,
        executable._constants if constants is None else constants,
        executable._make_sources,
        executable._shared,
        executable._load,
        executable._advice,
        not executable._is_checked,
        executable._external,
    )
    made._library = executable._library
    return made


def load(path: PathLike, params: PathLike | Mapping[str, Any] | None = None) -> Executable:
    """Load a model that `Executable.save` or `tilesmith compile` wrote; ``params`` as
    `Executable.load` takes them."""
    return Executable.load(path, params)


def _in_format(sources: Mapping[str, Format], fmt: str) -> bytes | str:
    """Return the code in a format; raises UnsupportedError if there is none."""
    made = sources.get(fmt)
    if made is None:
        raise UnsupportedError(
            f"this executable has no text of format '{fmt}'",
            notes=(f"it has: {', '.join(sources) or 'none (was it loaded?)'}",),
        )
    return made() if callable(made) else made


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Add the file's name to errors that arise while it is loaded."""
    try:
        yield
    except (UnknownNameError, ArtifactError) as error:
        if any(path in text for text in (error.message, *error.notes)):
            raise
        raise ArtifactError(
            f"'{path}' cannot be used: {error.message}", None, error.notes
        ) from error


def _with_external(
    external: ExternalModules | None,
    metadata: Mapping[str, Any],
    code: Mapping[str, bytes],
    constants: Mapping[str, numpy.ndarray],
) -> tuple[Mapping[str, Any], Mapping[str, bytes], Mapping[str, numpy.ndarray]]:
    """Return the parts of an artifact, with those of external modules."""
    if external is None:
        return metadata, code, constants
    import numpy

    described, members, more = external.saved()
    values = {name: numpy.ascontiguousarray(value) for name, value in more.items()}
    return {**metadata, "external": described}, {**code, **members}, {**constants, **values}


def _is_foreign(objects: Sequence[bytes]) -> bool:
    """True if the code is for another architecture, or another system, than this process."""
    own = machine_of_process()
    return own is not None and any(machine_of(content) != own for content in objects)
