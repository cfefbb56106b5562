"""Runs a compiled module as a measurement does: exported, loaded, called, timed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy

from tilesmith.rpc.client import connect_tracker
from tilesmith.runtime import NDArray, device, load_module
from tilesmith.runtime.devices import Device, cpu
from tilesmith.runtime.module import Module
from tilesmith.runtime.ndarray import array
from tilesmith.runtime.timing import BenchmarkResult
from tilesmith.support.errors import ConfigError

__all__ = ["local_run", "rpc_run"]

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
    where = device(device_type)
    with tempfile.TemporaryDirectory() as folder:
        loaded = load_module(_export(mod, folder, export_func, output_format))
    return _run(loaded, mod.entry_name, where, args, _options(evaluator_config))


def rpc_run(
    mod: Module,
    device_type: str,
    args: Sequence[Any],
    evaluator_config: Any = None,
    rpc_config: Any = None,
    export_func: str | Callable[..., Any] = "tar",
    output_format: str | None = None,
) -> tuple[list[Any], BenchmarkResult]:
    """Do what `local_run` does in a session that a tracker gives.

    ``rpc_config`` (a mapping or an object) has ``tracker_host``, ``tracker_port`` and
    ``tracker_key`` (TVM_TRACKER_HOST, TVM_TRACKER_PORT and TVM_TRACKER_KEY in the environment),
    ``session_priority`` and ``session_timeout_sec``. The results are copies on this machine.
    """
    options = _options(evaluator_config)
    wishes = _session_wishes(rpc_config)
    tracker = connect_tracker(wishes["tracker_host"], int(wishes["tracker_port"]))
    priority, seconds = int(wishes["session_priority"]), float(wishes["session_timeout_sec"])
    with (
        tempfile.TemporaryDirectory() as folder,
        tracker.request(wishes["tracker_key"], priority, seconds) as session,
    ):
        path = _export(mod, folder, export_func, output_format)
        session.upload(path)
        loaded = session.load_module(os.path.basename(path))
        where = session.device(device_type)
        results, times = _run(loaded, mod.entry_name, where, args, options)
        here = cpu()
        return [_on_device(value, here) for value in results], times


def _session_wishes(config: Any) -> dict[str, Any]:
    known = {
        "tracker_host": os.environ.get("TVM_TRACKER_HOST"),
        "tracker_port": os.environ.get("TVM_TRACKER_PORT"),
        "tracker_key": os.environ.get("TVM_TRACKER_KEY"),
        "session_priority": 1,
        "session_timeout_sec": 300,
    }
    given = config if isinstance(config, Mapping) else {
        name: getattr(config, name) for name in known if hasattr(config, name)
    }  # fmt: skip
    wishes = {**known, **{name: value for name, value in given.items() if value is not None}}
    missing = [name for name in ("tracker_host", "tracker_port", "tracker_key")
               if wishes[name] in (None, "")]  # fmt: skip
    if missing:
        raise ConfigError(
            f"rpc_run does not know the {missing[0]} of its session",
            notes=(f"give rpc_config a {missing[0]}, or set TVM_{missing[0].upper()}",),
        )
    return wishes


def _export(
    mod: Module, folder: str, export_func: str | Callable[..., Any], output_format: str | None
) -> str:
    if export_func == "tar":
        suffix, link = output_format or "tar", None
    elif callable(export_func):
        suffix, link = output_format or "so", export_func
    else:
        raise ConfigError(
            f"export_func is 'tar' or a function that links, not {export_func!r}",
            notes=("for boards: a linker of theirs",),
        )
    path = str(Path(folder, f"module.{suffix}"))
    mod.export_library(path, fcompile=link)
    return path


def _run(
    loaded: Any, name: str, where: Device, args: Sequence[Any], options: Mapping[str, Any]
) -> tuple[list[Any], BenchmarkResult]:
    """Call a function once, and measure it; return the results of the call, and the times."""
    values = [_on_device(value, where) for value in args]
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
