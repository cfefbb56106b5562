"""C++ as part of a model: compiled, and linked as a shared library.

Linking in the process cannot hold variables that end with the program: their destructors would run
after the code is gone. The system's loader does that right.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilesmith.contrib.cc import create_shared, get_cc
from tilesmith.contrib.programs import run_program
from tilesmith.support.errors import MissingDependencyError

__all__ = ["compile_cplusplus", "is_cplusplus", "link_cplusplus"]

_SIGNS = (b"__gxx_personality", b"__cxa_atexit")


def is_cplusplus(objects: Sequence[bytes]) -> bool:
    """Return whether object files need the run-time library of C++."""
    return any(sign in content for content in objects for sign in _SIGNS)


def _compiler(compiler: str | None, purpose: str) -> str:
    found = compiler or get_cc()
    if found is None:
        raise MissingDependencyError("g++", purpose=purpose)
    return found


def compile_cplusplus(code: str, compiler: str | None = None) -> bytes:
    """Return the object file of a C++ source. Raises MissingDependencyError without a compiler."""
    words = [_compiler(compiler, "compiling C++"), "-c", "-O2", "-std=c++17", "-fPIC", "-w"]
    with tempfile.TemporaryDirectory(prefix="tilesmith-c-") as folder:
        source, made = Path(folder, "code.cc"), Path(folder, "code.o")
        source.write_text(code, encoding="utf-8")
        run_program([*words, "-x", "c++", str(source), "-o", str(made)])
        return made.read_bytes()


def link_cplusplus(
    objects: Sequence[bytes], compiler: str | None = None, name: str = "an external module"
) -> bytes:
    """Return a shared library of object files of C++. Raises MissingDependencyError without a
    compiler, which links it.
    """
    found = _compiler(compiler, f"linking the C++ code of {name}")
    with tempfile.TemporaryDirectory(prefix="tilesmith-c-") as folder:
        paths = [os.path.join(folder, f"code{number}.o") for number in range(len(objects))]
        for path, content in zip(paths, objects):
            Path(path).write_bytes(content)
        library = Path(folder, "code.so")
        create_shared(str(library), paths, options=["-lstdc++"], cc=found)
        return library.read_bytes()
