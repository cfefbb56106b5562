"""`tilesmith cache`: lists, empties and trims the caches of compiled models and kernels."""

from __future__ import annotations

import re
import time
from typing import Any

import click

from tilesmith.cli.options import json_option, print_json

_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_AGES = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Quantity(click.ParamType):
    """Parameter type: a number with the letter of a unit → the number in the smallest unit."""

    def __init__(self, name: str, units: dict[str, int], example: str) -> None:
        self.name = name
        self._units = units
        self._example = example

    def convert(self, value: Any, param: Any, context: Any) -> float:
        """Multiply the number with its unit; `500M`, `500MB` and `500 MiB` are the same."""
        if isinstance(value, int | float):
            return float(value)
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]?)(?:i?b)?\s*", value.lower())
        if found is None or found[2] not in self._units:
            self.fail(f"'{value}' is not of the form {self._example}", param, context)
        return float(found[1]) * self._units[found[2]]


_cache_option = click.option(
    "--cache", "names", multiple=True, metavar="NAME",
    help="Only this cache (models, kernels); repeatable.",
)  # fmt: skip


@click.group("cache")
def cache_command() -> None:
    """Look at the caches of compiled models and kernels, and make them smaller.

    They only save time: whatever is removed is compiled again when it is needed. Each of the
    commands below has --json.
    """


@cache_command.command("ls")
@click.option("--all", "show_all", is_flag=True, help="Also list every entry.")
@_cache_option
@json_option
def list_command(show_all: bool, names: tuple[str, ...], as_json: bool) -> None:
    """Say where the caches are, how large, and when they were used."""
    from tilesmith.support.cache import cache_folder

    now = time.time()
    place, caches = str(cache_folder()), [_described(cache, now) for cache in _chosen(names)]
    if as_json:
        print_json({"path": place, "caches": caches})
        return
    click.echo(place)
    for cache in caches:
        newest, oldest = cache["used_seconds_ago"]
        times = f", last used {_age(newest)} ago, oldest {_age(oldest)}" if cache["count"] else ""
        click.echo(f"{cache['name']}: {_entries(cache['count'])}, {_size(cache['bytes'])}{times}")
        for entry in cache["entries"] if show_all else ():
            age = _age(entry["used_seconds_ago"])
            click.echo(f"  {entry['key'][:16]}  {_size(entry['bytes']):>9}  used {age} ago")
    if not caches:
        click.echo("nothing is cached")


@cache_command.command("clear")
@_cache_option
@json_option
def clear_command(names: tuple[str, ...], as_json: bool) -> None:
    """Remove everything from the caches."""
    _report({cache.name: cache.clear() for cache in _chosen(names)}, as_json)


@cache_command.command("prune")
@click.option(
    "--size", type=Quantity("SIZE", _SIZES, "500M"),
    help="Keep so much of each cache, what was used last (500M, 2G).",
)  # fmt: skip
@click.option(
    "--age", type=Quantity("AGE", _AGES, "30d"),
    help="Remove what was not used for so long (12h, 30d).",
)  # fmt: skip
@_cache_option
@json_option
def prune_command(
    size: float | None, age: float | None, names: tuple[str, ...], as_json: bool
) -> None:
    """Remove what was not used for long, or so much that the rest is small enough."""
    from tilesmith.support.errors import ConfigError

    if size is None and age is None:
        raise ConfigError(
            "prune needs a bound", notes=("such as --age 30d or --size 500M; 'clear' removes all",)
        )
    most = None if size is None else int(size)
    _report({cache.name: cache.prune(most, age) for cache in _chosen(names)}, as_json)


def _chosen(names: tuple[str, ...]) -> list[Any]:
    """Return the caches of these names, all without names; UnknownNameError for unknown ones."""
    from tilesmith.support.cache import disk_caches
    from tilesmith.support.errors import UnknownNameError

    found = {cache.name: cache for cache in disk_caches()}
    for name in names:
        if name not in found:
            known = ", ".join(found) or "none yet"
            raise UnknownNameError(f"there is no cache '{name}'", notes=(f"caches: {known}",))
    return [found[name] for name in names or found]


def _described(cache: Any, now: float) -> dict[str, Any]:
    entries = sorted(cache.entries(), key=lambda entry: -entry.used)
    ages = [max(0.0, now - entry.used) for entry in entries]
    return {
        "name": cache.name,
        "count": len(entries),
        "bytes": sum([entry.size for entry in entries]),
        "used_seconds_ago": [ages[0], ages[-1]] if ages else [None, None],
        "entries": [
            {"key": entry.path.name, "bytes": entry.size, "used_seconds_ago": age}
            for entry, age in zip(entries, ages, strict=True)
        ],
    }


def _report(freed: dict[str, int], as_json: bool) -> None:
    if as_json:
        print_json({"freed_bytes": freed})
        return
    for name, size in freed.items():
        click.echo(f"{name}: {_size(size)} freed")
    if not freed:
        click.echo("nothing is cached")


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def _age(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"
