"""Compiles C to LLVM IR with clang."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence

from tilesmith.contrib.utils import is_source_path, tempdir
from tilesmith.support.errors import CodegenError, MissingDependencyError

__all__ = ["create_llvm", "find_clang"]

_NAMES = ("clang", *[f"clang-{version}" for version in range(21, 13, -1)])


def find_clang(required: bool = True) -> list[str]:
    """Return the paths of the machine's clang compilers, the newest first.

    Raises MissingDependencyError where there is none, unless it is not ``required``.
    """
    found = [path for path in map(shutil.which, _NAMES) if path is not None]
    if not found and required and not _zig():
        raise MissingDependencyError("ziglang", purpose="compiling C to LLVM IR")
    return list(dict.fromkeys(found))


def _zig() -> bool:
    return importlib.util.find_spec("ziglang") is not None


def create_llvm(
    inputs: str | Sequence[str],
    output: str | None = None,
    options: Sequence[str] | None = None,
    cc: str | None = None,
) -> str:
    """Return the LLVM IR of C sources (paths or texts), with ``options`` for clang; ``output`` is a
    path to which it is written as well.
    """
    given = [inputs] if isinstance(inputs, str) else list(inputs)
    paths = find_clang()
    command = [cc or paths[0]] if cc or paths else [sys.executable, "-m", "ziglang", "cc"]
    texts = []
    with tempdir() as folder:
        for number, source in enumerate(given):
            path = source
            if not is_source_path(source):
                path = folder.relpath(f"source{number}.cc")
                with open(path, "w") as file:
                    file.write(source)
            made = folder.relpath(f"made{number}.ll")
            line = [*command, "-S", "-emit-llvm", *(options or ()), "-o", made, path]
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise CodegenError(f"'{command[0]}' failed", notes=(done.stderr[-4000:],))
            with open(made) as file:
                texts.append(file.read())
    text = "\n".join(texts)
    if output is not None:
        with open(output, "w") as file:
            file.write(text)
    return text
