"""Links object files into shared libraries with whichever linker the machine has.

Running code in the process needs none of this (`runtime/library.py`); exporting a library does.
`ld` is the fastest (6 ms), compilers know the system's libraries, the `ziglang` wheel brings a
linker for every platform.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from tilesmith.support.errors import CodegenError, ConfigError, MissingDependencyError
from tilesmith.support.files import PathLike, make_atomically
from tilesmith.support.knobs import knobs

_TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Linker:
    """A command that links; `is_compiler` if it takes a compiler's options rather than ld's."""

    command: tuple[str, ...]
    is_compiler: bool

    @property
    def name(self) -> str:
        """The command as a user would type it."""
        return shlex.join(self.command)

    def shared(self, objects: Sequence[str], output: str, libraries: Sequence[str]) -> list[str]:
        """Return the command line that makes a shared library."""
        line = [*self.command, "-shared", "-o", output, *objects]
        if sys.platform.startswith("linux"):
            # calls bind to the library's own function when the process has one of that name
            line.insert(-len(objects), "-Wl,-Bsymbolic" if self.is_compiler else "-Bsymbolic")
        if self.is_compiler:
            if sys.platform == "darwin":
                line += ["-undefined", "dynamic_lookup"]
            return line + (["-lm"] if libraries else [])
        # a library is recorded as needed only if the code uses it
        return [*line, "--as-needed", *libraries]

    def relocatable(self, objects: Sequence[str], output: str) -> list[str]:
        """Return the command line that joins objects into one."""
        return [*self.command, "-r", "-o", output, *objects]


CommandLine = Callable[[Linker, Sequence[str], str], list[str]]


def find_linkers() -> list[Linker]:
    """Return all linkers of this machine, the preferred first; only `TILESMITH_LINKER` if it is
    set.
    """
    named = knobs.linker
    if named:
        try:
            command = tuple(shlex.split(named))
        except ValueError as error:
            raise ConfigError(
                f"environment variable TILESMITH_LINKER: cannot split '{named}' into words: {error}"
            ) from None
        if not command:
            raise ConfigError(
                f"environment variable TILESMITH_LINKER: expected a command, got '{named}'"
            )
        base = os.path.basename(command[-1])
        return [Linker(command, not (base.startswith("ld") or base.endswith("lld")))]
    return list(_found_linkers())


@cache
def _found_linkers() -> tuple[Linker, ...]:
    found = []
    plain = ("ld", "ld.lld") if sys.platform.startswith("linux") else ()
    for name in plain:
        if shutil.which(name):
            found.append(Linker((name,), False))
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            found.append(Linker((name,), True))
    if shutil.which("zig"):
        found.append(Linker(("zig", "ld.lld"), False))
    elif importlib.util.find_spec("ziglang") is not None:
        found.append(Linker((sys.executable, "-m", "ziglang", "ld.lld"), False))
    return tuple(found)


def link_shared(objects: Sequence[bytes], path: PathLike) -> None:
    """Link object files into the shared library `path`, which is never left half-written.

    Raises MissingDependencyError when the machine has no linker, CodegenError when all refuse.
    """
    libraries = _host_math_library() if objects and _is_for_host(objects[0]) else []
    _link(objects, path, lambda linker, inputs, out: linker.shared(inputs, out, libraries))


def link_relocatable(objects: Sequence[bytes], path: PathLike) -> None:
    """Join object files into one object file. Raises as `link_shared` does."""
    _link(objects, path, lambda linker, inputs, out: linker.relocatable(inputs, out))


def keep_public(path: PathLike, names: Sequence[str]) -> bool:
    """Make all functions and variables of an object file local but those with these names (`m_*`
    stands for all that begin with `m_`). Return False where no tool of this machine can.
    """
    for tool in ("objcopy", "llvm-objcopy"):
        if shutil.which(tool):
            words = [f"--keep-global-symbol={name}" for name in names]
            if _run([tool, "--wildcard", *words, os.fspath(path)]) is None:
                return True
    return False


def _link(objects: Sequence[bytes], path: PathLike, line: CommandLine) -> None:
    if not objects:
        raise CodegenError(f"there is no object code to link into '{os.fspath(path)}'")
    linkers = find_linkers()
    if not linkers:
        raise MissingDependencyError(
            "ziglang", purpose="exporting a library without ld, gcc, clang or zig"
        )
    with tempfile.TemporaryDirectory(prefix="tilesmith-link-") as folder:
        inputs = []
        for index, content in enumerate(objects):
            inputs.append(os.path.join(folder, f"object{index}.o"))
            with open(inputs[-1], "wb") as file:
                file.write(content)

        def make(output: str) -> None:
            failures = []
            for linker in linkers:
                failure = _run(line(linker, inputs, output))
                if failure is None:
                    return
                failures.append(f"{linker.name}: {failure}")
            raise CodegenError(f"linking '{os.fspath(path)}' failed", notes=failures)

        make_atomically(path, make)


def _run(command: list[str]) -> str | None:
    """Run the command; return None if it succeeded, else its error output."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else (done.stderr or done.stdout).strip()[-2000:]


def _is_for_host(content: bytes) -> bool:
    """True if the ELF object has the same machine number as the running Python."""
    if content[:4] != b"\x7fELF" or not sys.platform.startswith("linux"):
        return False
    with open("/proc/self/exe", "rb") as file:
        return file.read(20)[18:20] == content[18:20]


def _host_math_library() -> list[str]:
    """Return the path of the C mathematics library that this process has loaded."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            for line in maps:
                path = line.split(maxsplit=5)[-1].strip()
                if os.path.basename(path).startswith(("libm.so", "libm-")):
                    return [path]
    except OSError:
        pass
    return []
