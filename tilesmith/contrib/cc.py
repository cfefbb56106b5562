"""Links object files with the machine's compiler or linker, or with another machine's compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilesmith.contrib.programs import find_program, listed, run_program
from tilesmith.contrib.tar import normalize_file_list_by_unpacking_tars
from tilesmith.contrib.utils import tempdir
from tilesmith.support.errors import MissingDependencyError, TypeMismatchError
from tilesmith.support.linker import link_shared

__all__ = [
    "create_executable", "create_shared", "create_staticlib", "cross_compiler", "get_cc",
    "get_global_symbol_section_map", "get_target_by_dump_machine",
]  # fmt: skip


def get_cc() -> str | None:
    """Return the path of a C compiler: that of the variable CXX or CC, else g++, gcc, clang++,
    clang.
    """
    for name in (os.environ.get("CXX"), os.environ.get("CC"), "g++", "gcc", "clang++", "clang"):
        if name and shutil.which(name):
            return shutil.which(name)
    return None


def create_shared(
    output: str,
    objects: str | Sequence[str],
    options: Sequence[str] | None = None,
    cc: str | None = None,
    cwd: str | None = None,
    ccache_env: Mapping[str, str] | None = None,
) -> None:
    """Make a shared library from object files (or, with a compiler, sources).

    Without `cc` and `options` any linker of the machine is used; else the compiler, with these
    options. With `ccache_env`, variables for `ccache`, results are taken from its cache.
    """
    files = listed(objects)
    is_plain = cc is None and not options and ccache_env is None
    if is_plain and all(path.endswith(".o") for path in files):
        contents = []
        for path in files:
            with open(os.path.join(cwd or "", path), "rb") as file:
                contents.append(file.read())
        link_shared(contents, os.path.join(cwd or "", output))
        return
    _compile(["-shared", "-fPIC", "-o", output], files, options, cc, cwd, ccache_env)


def create_staticlib(output: str, inputs: str | Sequence[str], ar: str | None = None) -> None:
    """Make a static library (`.a`) from object files, and from the files inside of archives
    (`.tar`).
    """
    program = ar or shutil.which("ar")
    if program is None:
        raise MissingDependencyError("binutils", purpose="making a static library (`ar`)")
    with tempdir() as folder:
        files = normalize_file_list_by_unpacking_tars(folder, listed(inputs))
        run_program([program, "rcs", output, *files])


def create_executable(
    output: str,
    objects: str | Sequence[str],
    options: Sequence[str] | None = None,
    cc: str | None = None,
    cwd: str | None = None,
    ccache_env: Mapping[str, str] | None = None,
) -> None:
    """Make a program from object files and sources."""
    _compile(["-o", output], listed(objects), options, cc, cwd, ccache_env)


def _compile(
    first: Sequence[str],
    files: Sequence[str],
    options: Sequence[str] | None,
    cc: str | None,
    cwd: str | None,
    ccache_env: Mapping[str, str] | None,
) -> None:
    command = [_compiler(cc), *first, *files, *(options or ())]
    if ccache_env is not None:
        advice = "install ccache, or leave ccache_env out"
        command.insert(0, find_program(("ccache",), advice))
    with tempdir() as folder:
        plain = normalize_file_list_by_unpacking_tars(folder, command)
        run_program(plain, cwd, ccache_env)


def _compiler(cc: str | None) -> str:
    found = cc or get_cc()
    if found is None:
        raise MissingDependencyError("ziglang", purpose="compiling without gcc or clang")
    return found


def get_global_symbol_section_map(path: str, *, nm: str | None = None) -> dict[str, str]:
    """Return the defined global symbols of a library or an object file, each with the letter that
    `nm` gives to its section ("T" for code).
    """
    program = nm or find_program(("nm", "llvm-nm"), "install binutils, or name it: nm=…")
    flags = ["-gU"] if sys.platform == "darwin" else ["-g", "--defined-only"]
    if path.endswith((".so", ".dylib")) and sys.platform != "darwin":
        flags.append("-D")  # the symbols of a library that was stripped are dynamic
    found = {}
    for line in run_program([program, *flags, path]).splitlines():
        words = line.split()
        if len(words) == 3 and len(words[1]) == 1:
            found[words[2]] = words[1]
    return found


def get_target_by_dump_machine(compiler: str | None) -> Callable[[], str | None]:
    """Return a function that asks a compiler for the triple of its machine; it returns None where
    there is no such compiler, or it does not know the question.
    """

    def ask() -> str | None:
        if not compiler:
            return None
        try:
            done = subprocess.run(
                [compiler, "-dumpmachine"], capture_output=True, text=True, check=False
            )
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    return ask


def cross_compiler(
    compile_func: str | Callable[..., None],
    options: Sequence[str] | None = None,
    output_format: str | None = None,
    get_target_triple: Callable[[], str | None] | None = None,
    add_files: Sequence[str] | None = None,
) -> Callable[..., None]:
    """Return a function for `export_library(…, fcompile=…)` that links for another machine.

    ``compile_func``: the path of a compiler, or a function with the arguments of `create_shared`;
    ``options`` for it; ``output_format``: the suffix of its files; ``add_files``: further files
    that are linked.
    """
    if isinstance(compile_func, str):
        named: dict[str, Any] = {"cc": compile_func}
        base: Callable[..., None] = create_shared
        get_target_triple = get_target_triple or get_target_by_dump_machine(compile_func)
    elif callable(compile_func):
        named, base = {}, compile_func
    else:
        raise TypeMismatchError(
            f"cross_compiler: a path or a function is needed, not {type(compile_func).__name__}"
        )
    always, files = list(options or ()), list(add_files or ())

    def compile_for(
        outputs: str,
        objects: str | Sequence[str],
        options: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        every = [*always, *(options or ())]
        base(outputs, listed(objects) + files, options=every, **named, **kwargs)

    compile_for.output_format = (  # type: ignore[attr-defined]
        output_format or getattr(base, "output_format", "so")
    )
    compile_for.get_target_triple = (  # type: ignore[attr-defined]
        get_target_triple or getattr(base, "get_target_triple", lambda: None)
    )
    return compile_for


_SUFFIXES = {"win32": "dll", "darwin": "dylib"}

create_shared.output_format = _SUFFIXES.get(sys.platform, "so")  # type: ignore[attr-defined]
create_shared.get_target_triple = (  # type: ignore[attr-defined]
    lambda: get_target_by_dump_machine(get_cc())()
)
create_executable.get_target_triple = (  # type: ignore[attr-defined]
    create_shared.get_target_triple  # type: ignore[attr-defined]
)
