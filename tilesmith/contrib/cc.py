"""Links object files with the machine's compiler or linker."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from tilesmith.support.errors import CodegenError, MissingDependencyError
from tilesmith.support.knobs import knobs
from tilesmith.support.linker import link_shared


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
) -> None:
    """Make a shared library from object files (or, with a compiler, sources).

    Without `cc` and `options` any linker of the machine is used; else the compiler, with these
    options.
    """
    files = [objects] if isinstance(objects, str) else list(objects)
    if cc is None and not options and all(path.endswith(".o") for path in files):
        contents = []
        for path in files:
            with open(os.path.join(cwd or "", path), "rb") as file:
                contents.append(file.read())
        link_shared(contents, os.path.join(cwd or "", output))
        return
    _run([_compiler(cc), "-shared", "-fPIC", "-o", output, *files, *(options or ())], cwd)


def create_staticlib(output: str, inputs: str | Sequence[str], ar: str | None = None) -> None:
    """Make a static library (`.a`) from object files."""
    program = ar or shutil.which("ar")
    if program is None:
        raise MissingDependencyError("binutils", purpose="making a static library (`ar`)")
    files = [inputs] if isinstance(inputs, str) else list(inputs)
    _run([program, "rcs", output, *files], None)


def create_executable(
    output: str,
    objects: str | Sequence[str],
    options: Sequence[str] | None = None,
    cc: str | None = None,
    cwd: str | None = None,
) -> None:
    """Make a program from object files and sources."""
    files = [objects] if isinstance(objects, str) else list(objects)
    _run([_compiler(cc), "-o", output, *files, *(options or ())], cwd)


def _compiler(cc: str | None) -> str:
    found = cc or get_cc()
    if found is None:
        raise MissingDependencyError(
            "ziglang", purpose="compiling (no gcc or clang was found, and)"
        )
    return found


def _run(command: list[str], cwd: str | None) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
    except OSError as error:
        raise CodegenError(f"'{command[0]}' cannot be run", notes=(str(error),)) from error
    if done.returncode != 0:
        shown = " ".join(command) if knobs.traceback == "full" else command[0]
        raise CodegenError(f"'{shown}' failed", notes=((done.stderr or done.stdout)[-4000:],))
