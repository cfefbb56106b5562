"""Finds and runs programs of the system: compilers, linkers, tools of vendors."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence

from tilesmith.support.errors import CodegenError, ConfigError
from tilesmith.support.knobs import knobs

__all__ = ["find_program", "listed", "run_program"]


def listed(files: str | Iterable[str] | None) -> list[str]:
    """Return one file or several as a list."""
    return [files] if isinstance(files, str) else list(files or ())


def find_program(names: Iterable[str], advice: str) -> str:
    """Return the path of the first program that is there; ConfigError with ``advice`` otherwise."""
    wanted = list(names)
    for name in wanted:
        found = shutil.which(name)
        if found is not None:
            return found
    raise ConfigError(f"the program '{wanted[0]}' was not found", notes=(advice,))


def run_program(
    command: Sequence[str], cwd: str | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run a program and return what it writes; ``env`` is added to the environment.

    Raises CodegenError, with the end of its messages, where it fails.
    """
    try:
        done = subprocess.run(
            list(command),
            capture_output=True,
            text=True,
            cwd=cwd,
            check=False,
            env=None if env is None else {**os.environ, **env},
        )
    except OSError as error:
        raise CodegenError(f"'{command[0]}' cannot be run", notes=(str(error),)) from error
    if done.returncode != 0:
        shown = " ".join(command) if knobs.traceback == "full" else command[0]
        raise CodegenError(f"'{shown}' failed", notes=((done.stderr or done.stdout)[-4000:],))
    return done.stdout
