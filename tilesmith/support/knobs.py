"""Declares all environment variables of Tilesmith ("knobs") with their types, in one table.

    from tilesmith.support.knobs import knobs
    if knobs.timing: ...

A value is read from the environment when it is asked for. At the first use of any knob, a variable
`TILESMITH_…` that is not in the table, or has a value that its knob does not accept, is an error: a
mistake never goes unnoticed.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from tilesmith.support.errors import ConfigError

Value = TypeVar("Value")
PREFIX = "TILESMITH_"
_TRUE = {"1", "on", "true", "yes"}
_FALSE = {"", "0", "off", "false", "no"}


@dataclass(frozen=True)
class Knob(Generic[Value]):
    """One variable: its type, its default, what it does, whether generated code depends on it."""

    name: str
    kind: type
    default: Value
    meaning: str
    in_cache_key: bool = False
    minimum: int | None = None
    choices: tuple[str, ...] | None = None
    form: tuple[str, str] | None = None
    """A regular expression that the text must match, and its description for messages."""

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return PREFIX + self.name.upper()

    def parse(self, text: str) -> Any:
        """Return the value that `text` stands for; raise ConfigError for any other text."""
        if self.kind is bool:
            lowered = text.strip().lower()
            if lowered in _TRUE or lowered in _FALSE:
                return lowered in _TRUE
            raise self._bad(text, "0 or 1")
        if self.kind is int:
            try:
                number = int(text)
            except ValueError:
                raise self._bad(text, "a whole number") from None
            if self.minimum is not None and number < self.minimum:
                raise self._bad(text, f"a whole number of at least {self.minimum}")
            return number
        if self.kind is Path:
            if not text:
                raise self._bad(text, "a path")
            return Path(text).expanduser()
        if self.choices is not None and text not in self.choices:
            raise self._bad(text, "one of " + ", ".join(self.choices))
        if self.form is not None and not re.fullmatch(self.form[0], text):
            raise self._bad(text, self.form[1])
        return text

    def _bad(self, text: str, expected: str) -> ConfigError:
        return ConfigError(
            f"environment variable {self.variable}: expected {expected}, got '{text}'",
            notes=(f"what it sets: {self.meaning}",),
        )

    def __get__(self, owner: Knobs | None, _class: type | None = None) -> Any:
        if owner is None:
            return self
        return owner.value(self)


class Knobs:
    """The knobs as attributes. `knobs.override(name=value)` changes some within a `with` block."""

    timing = Knob("timing", bool, False, "print the time of every pass")
    debug = Knob(
        "debug", str, "",
        "level of debug output: 1 fallbacks (optimisations that were not done, and why), 2 also "
        "names of passes, 3 also what they changed, 5 the module after each; optionally ',pattern' "
        "of pass names",
        form=(r"\s*(\d+\s*(,.*)?)?", "a level, or a level and patterns of passes (2 or 2,tir.*)"),
    )  # fmt: skip
    traceback = Knob(
        "traceback", str, "short", "'full' shows the internal frames of an error",
        choices=("short", "full"),
    )  # fmt: skip
    check = Knob(
        "check", bool, False,
        "verify and compare programs before and after each pass", True,
    )  # fmt: skip
    check_gpu = Knob(
        "check_gpu", bool, False,
        "run the kernels of each build for a GPU on a part of their grid, and interpret kernels, "
        "with checks of races, barriers and bounds", True,
    )  # fmt: skip
    check_inside = Knob(
        "check_inside", bool, False,
        "a door, or the truth of an `==` of expressions, is an error when Tilesmith itself uses it",
    )  # fmt: skip
    check_schedules = Knob(
        "check_schedules", bool, False, "verify the program after every schedule primitive"
    )
    check_frozen = Knob("check_frozen", bool, False, "assigning to a node's field is an error")
    pass_limit = Knob("pass_limit", int, None, "stop after so many passes", True, minimum=0)
    dump_dir = Knob("dump_dir", Path, None, "write the module after every pass to this folder")
    num_threads = Knob("num_threads", int, None, "threads of generated code", minimum=1)
    thread_runtime = Knob(
        "thread_runtime", str, "auto", "who runs parallel loops",
        choices=("auto", "gomp", "pool", "serial"),
    )  # fmt: skip
    libgomp = Knob("libgomp", Path, None, "path of the libgomp to use")
    cuda_driver = Knob("cuda_driver", Path, None, "path of CUDA's driver library to use")
    opencl_device = Knob(
        "opencl_device", str, "",
        "OpenCL devices to use: those with this text in their name or their platform's",
    )  # fmt: skip
    linker = Knob("linker", str, "", "command that links shared libraries")
    workers = Knob("workers", int, None, "processes that compile kernels; 0: none", minimum=0)
    cache = Knob("cache", bool, True, "keep compiled kernels and models on disk")
    cache_dir = Knob("cache_dir", Path, None, "folder of the disk caches")
    cache_size = Knob("cache_size", int, 2048, "bound of each disk cache in MiB", minimum=1)

    def __init__(self) -> None:
        self._overrides: dict[str, Any] = {}
        self._checked = False
        self._lock = threading.Lock()

    def value(self, knob: Knob[Any]) -> Any:
        """Return the current value of a knob: override, else environment variable, else default."""
        if not self._checked:
            self.check_environment()
        if self._overrides and knob.name in self._overrides:
            return self._overrides[knob.name]
        text = os.environ.get(knob.variable)
        return knob.default if text is None else knob.parse(text)

    @property
    def debug_level(self) -> int:
        """The number at the beginning of `debug`; 0 if `debug` is empty."""
        return int(self.debug.partition(",")[0].strip() or 0)

    def check_environment(self) -> None:
        """Raise ConfigError for a TILESMITH_ variable without a knob, or with a value that its knob
        does not accept.
        """
        known = {knob.variable: knob for knob in self.table()}
        for variable, text in os.environ.items():
            if variable in known:
                known[variable].parse(text)
            elif variable.startswith(PREFIX):
                import difflib

                near = difflib.get_close_matches(variable, known, n=1)
                advice = (
                    f"did you mean {near[0]}?" if near else "known: " + ", ".join(sorted(known))
                )
                raise ConfigError(f"unknown environment variable {variable}", notes=(advice,))
        self._checked = True

    @staticmethod
    def table() -> list[Knob[Any]]:
        """Return all knobs in the order of their declaration."""
        return [knob for knob in vars(Knobs).values() if isinstance(knob, Knob)]

    def cache_key(self) -> tuple[tuple[str, Any], ...]:
        """Return names and values of the knobs on which generated code depends."""
        return tuple((knob.name, self.value(knob)) for knob in self.table() if knob.in_cache_key)

    @contextmanager
    def override(self, **values: Any) -> Iterator[Knobs]:
        """Set knobs for the duration of a `with` block (for the whole process)."""
        table = {knob.name: knob for knob in self.table()}
        for name, value in values.items():
            if name not in table:
                raise ConfigError(f"unknown knob '{name}'", notes=(", ".join(sorted(table)),))
            if table[name].kind is str:
                table[name].parse(value)
        with self._lock:
            saved = self._overrides
            self._overrides = {**saved, **values}
        try:
            yield self
        finally:
            with self._lock:
                self._overrides = saved


knobs = Knobs()
