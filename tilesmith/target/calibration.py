"""Figures of the machine model that are not its class's: of CPUs by name, measured on this machine
(`tilesmith doctor --calibrate`), or given in the target (`-machine=l2_bandwidth:60,fma_latency:5`).

    adjusted(model, target)              # a model with these figures; machine_model does it
    figures_of(model, target)            # name → value and where it comes from

A later source wins: the name of the CPU, the calibration (where the target is this machine), the
target. The calibration is a file in the folder of the caches; `TILESMITH_CACHE=0` leaves it unread.
Code made with other figures has other cache keys (`target_identity`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from tilesmith.support.cache import cache_folder, digest
from tilesmith.support.errors import ConfigError, TargetError, reason_of
from tilesmith.support.fallbacks import record_fallback
from tilesmith.support.files import write_atomically
from tilesmith.support.knobs import knobs
from tilesmith.target.features import ALIASES, is_host
from tilesmith.target.host import host_cpu
from tilesmith.target.target import Target

__all__ = [
    "Calibration", "Figure", "adjusted", "calibration", "calibration_file", "figures_of", "forget",
    "store", "this_cpu",
]  # fmt: skip

VERSION = 1
_KIB = 1024
_MAY_BE_ABSENT = ("l2_bytes", "l3_bytes")
_NOT_MEASURED = ("name", "vector_bytes", "cores")
_Model = TypeVar("_Model")

_Figures = dict[str, float]
_SKYLAKE: _Figures = {"l2_bytes": 1024 * _KIB}
_ICE_LAKE: _Figures = {
    "front_end_width": 5, "l1_bytes": 48 * _KIB, "l2_bytes": 1280 * _KIB, "l2_bandwidth": 48.0,
}  # fmt: skip
_GOLDEN_COVE: _Figures = {
    "front_end_width": 6, "l1_bytes": 48 * _KIB, "l2_bytes": 2048 * _KIB, "l2_bandwidth": 48.0,
}  # fmt: skip
_ZEN4: _Figures = {
    "fma_per_cycle": 1, "loads_per_cycle": 1, "front_end_width": 6, "l2_bandwidth": 32.0,
    "l3_bandwidth": 26.0, "memory_bandwidth": 8.0,
}  # fmt: skip
_ZEN5: _Figures = {
    "front_end_width": 8, "l1_bytes": 48 * _KIB, "l2_bandwidth": 55.0, "l3_bandwidth": 28.0,
    "memory_bandwidth": 10.0,
}  # fmt: skip
_WIDE_ARM: _Figures = {"fma_per_cycle": 4, "loads_per_cycle": 3, "front_end_width": 8}
_APPLE: _Figures = {
    **_WIDE_ARM, "l1_bytes": 128 * _KIB, "l2_bytes": 12288 * _KIB, "l3_bytes": 0,
    "memory_bandwidth": 20.0,
}  # fmt: skip
_CLASSES: dict[str, _Figures] = {
    **dict.fromkeys(("skylake-avx512", "cascadelake", "cooperlake"), _SKYLAKE),
    **dict.fromkeys(("icelake-client", "icelake-server", "tigerlake", "rocketlake"), _ICE_LAKE),
    **dict.fromkeys(("sapphirerapids", "emeraldrapids", "graniterapids"), _GOLDEN_COVE),
    "znver4": _ZEN4,
    "znver5": _ZEN5,
    **{f"apple-m{number}": _APPLE for number in range(1, 5)},
    **{f"apple-a{number}": _APPLE for number in range(14, 18)},
    "neoverse-v1": _WIDE_ARM,
    "neoverse-v2": {**_WIDE_ARM, "l2_bytes": 2048 * _KIB},
    "cortex-a57": {"fma_latency": 5, "front_end_width": 3, "l1_bytes": 32 * _KIB},
    "cortex-a72": {"fma_latency": 7, "front_end_width": 3, "l1_bytes": 32 * _KIB},
    "cortex-a76": {"l2_bytes": 512 * _KIB},
}
"""What differs from the class that the features name. Figures of Skylake and Zen 5 were measured,
the others are the makers' (Zen 4 splits vectors of 512 bits in two)."""


@dataclass(frozen=True)
class Calibration:
    """What was measured on one machine."""

    cpu: str
    """Name and features of the CPU: figures of another one are not used."""
    figures: Mapping[str, float]
    """Fields of the machine model."""
    facts: Mapping[str, float]
    """What else was found, for people."""
    time: str


@dataclass(frozen=True)
class Figure:
    """A figure of the machine model, and where it comes from."""

    value: Any
    source: str
    """`cpu NAME`, `calibrated` or `target`."""


def this_cpu() -> str:
    """Return a text that is the same on machines with the same CPU."""
    host = host_cpu()
    return f"{host.name} {digest(*sorted(host.features))[:12]}"


def calibration_file() -> Path:
    """Return where the calibration is; OSError where there is no folder for caches."""
    return cache_folder() / "calibration.json"


_read: dict[Path, Calibration | None] = {}


def forget() -> None:
    """Read the file again at the next use."""
    _read.clear()


def calibration() -> Calibration | None:
    """Return what was measured on this machine; None if nothing was, or if it cannot be used."""
    if not knobs.cache:
        return None
    try:
        path = calibration_file()
    except OSError:
        return None  # no folder, so no calibration
    if path not in _read:
        _read[path] = _load(path)
    return _read[path]


def _load(path: Path) -> Calibration | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        _record(path, reason_of(error))
        return None
    try:
        return _parsed(text)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        _record(path, f"it is not what was written ({type(error).__name__}: {reason_of(error)})")
        return None


def _record(path: Path, reason: str) -> None:
    advice = "write it again with: tilesmith doctor --calibrate"
    record_fallback("machine", str(path), f"{reason}; {advice}")


def _parsed(text: str) -> Calibration | None:
    found = json.loads(text)
    if found["version"] != VERSION or found["cpu"] != this_cpu():
        return None  # written by another version, or on another machine with the same home
    tables = [found["figures"], found["facts"]]
    for table in tables:
        for name, value in table.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"'{name}' is {value!r}")
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"'{name}' is {value!r}")
    return Calibration(str(found["cpu"]), tables[0], tables[1], str(found["time"]))


def store(found: Calibration) -> Path:
    """Write a calibration, which is used from now on; ConfigError if caches are switched off."""
    if not knobs.cache:
        raise ConfigError("calibration: caches are switched off", notes=("unset TILESMITH_CACHE",))
    try:
        path = calibration_file()
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"calibration: there is no folder for it: {reason_of(error)}",
            notes=("name one in TILESMITH_CACHE_DIR",),
        ) from error
    values = {"version": VERSION, "cpu": found.cpu, "time": found.time,
              "figures": dict(found.figures), "facts": dict(found.facts)}  # fmt: skip
    write_atomically(path, json.dumps(values, indent=2) + "\n")
    forget()
    return path


def adjusted(model: _Model, target: Target) -> _Model:
    """Return a machine model with the figures of `figures_of`."""
    found = figures_of(model, target)
    values = {name: figure.value for name, figure in found.items()}
    return replace(model, **values) if values else model  # type: ignore[type-var]


def figures_of(model: Any, target: Target) -> dict[str, Figure]:
    """Return the figures that are not those of the model's class, by field of the model."""
    kinds = {one.name: type(getattr(model, one.name)) for one in fields(model)}
    is_here = is_host(target)
    named = str(target.mcpu or "")
    cpu = host_cpu().name if is_here else ALIASES.get(named, named)
    # Caches of this machine are asked of the system, not looked up.
    figures = {
        name: Figure(value, f"cpu {cpu}")
        for name, value in _CLASSES.get(cpu, {}).items()
        if name in kinds and not (is_here and name.endswith("_bytes"))
    }
    found = calibration() if is_here else None
    for name, value in {} if found is None else found.figures.items():
        if name in kinds and name not in _NOT_MEASURED:
            figures[name] = Figure(kinds[name](value), "calibrated")
    for word in target.attrs.get("machine", ()):
        name, value = _given(str(word), kinds)
        figures[name] = Figure(value, "target")
    return figures


def _given(word: str, kinds: Mapping[str, type]) -> tuple[str, Any]:
    """Return name and value of a figure that the target gives, such as `fma_latency:5`."""
    name, _, text = word.partition(":")
    name = name.strip().replace("-", "_")
    if name in _NOT_MEASURED or name not in kinds:
        others = {"vector_bytes": "use '-vector-width' (in bits)", "cores": "use '-num-cores'"}
        known = ", ".join([one for one in kinds if one not in _NOT_MEASURED])
        advice = others.get(name, f"there are {known}")
        raise TargetError(f"'-machine' has no figure '{name}'", notes=(advice,))
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    kind = kinds[name]
    fits = math.isfinite(value) and (kind is float or value == math.floor(value))
    least = 0 if kind is bool or name in _MAY_BE_ABSENT else 1e-9
    if not fits or value < least or (kind is bool and value > 1):
        words: dict[type, str] = {float: "a positive number", bool: "0 or 1"}
        expected = words.get(kind, "a positive whole number")
        raise TargetError(f"'-machine={word}': '{name}' expects {expected}")
    return name, kind(value)
