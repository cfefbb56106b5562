"""Runs a compiled module as a measurement does: exported, loaded, called, timed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy

from tilesmith.runtime import NDArray, device, load_module
from tilesmith.runtime.module import Module
from tilesmith.runtime.ndarray import array
from tilesmith.runtime.timing import BenchmarkResult
from tilesmith.support.errors import ConfigError

__all__ = ["local_run"]

_MEASURING = {"number": 3, "repeat": 1, "min_repeat_ms": 100, "enable_cpu_cache_flush": False}


def _options(config: Any) -> dict[str, Any]:
    """Return the options of a measurement: those of a mapping or an object, else the defaults."""
    given = config if isinstance(config, Mapping) else vars(config) if config is not None else {}
    unknown = [name for name in given if name not in _MEASURING]
    if unknown:
        raise ConfigError(
            f"a measurement has no option '{unknown[0]}'",
            notes=("it has: " + ", ".join(_MEASURING),),
        )
    return {**_MEASURING, **{name: value for name, value in given.items() if value is not None}}


def local_run(
    mod: Module,
    device_type: str,
    args: Sequence[Any],
    evaluator_config: Any = None,
    export_func: str | Callable[..., Any] = "tar",
    output_format: str | None = None,
) -> tuple[list[Any], BenchmarkResult]:
    """Export a module, load it again, call it once, and measure it; return the arguments, in which
    the first call's results are, and the times.

    ``args`` are numbers, arrays and tensors (moved to the device). ``evaluator_config`` (a mapping
    or an object) has ``number``, ``repeat``, ``min_repeat_ms`` and ``enable_cpu_cache_flush``.
    ``export_func``: "tar", or a function that links: ``f(output, object_files)``; then
    ``output_format`` is the suffix of the file, "so" unless given.
    """
    options = _options(evaluator_config)
    if export_func == "tar":
        suffix, link = output_format or "tar", None
    elif callable(export_func):
        suffix, link = output_format or "so", export_func
    else:
        raise ConfigError(
            f"export_func is 'tar' or a function that links, not {export_func!r}",
            notes=("for boards: a linker of theirs",),
        )
    where = device(device_type)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, f"module.{suffix}"))
        mod.export_library(path, fcompile=link)
        loaded = load_module(path)
    values = [_on_device(value, where) for value in args]
    name = mod.entry_name
    loaded[name](*values)
    results = [
        array(value.numpy(), where) if isinstance(value, NDArray) else value for value in values
    ]
    measure = loaded.time_evaluator(
        name,
        where,
        number=options["number"],
        repeat=options["repeat"],
        min_repeat_ms=options["min_repeat_ms"],
        cache_flush_bytes=64 << 20 if options["enable_cpu_cache_flush"] else 0,
    )
    return results, measure(*values)


def _on_device(value: Any, where: Any) -> Any:
    if isinstance(value, (NDArray, numpy.ndarray)):
        return array(value, where)
    return value
