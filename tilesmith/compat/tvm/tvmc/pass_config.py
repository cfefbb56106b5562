"""Options of PassContext on the command line: ``--pass-config tir.disable_vectorize=true``."""

from __future__ import annotations

import difflib
import importlib
import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from tilesmith.compat.tvm.tvmc.errors import TVMCException
from tilesmith.ir.pass_context import PassContext

_WHERE_DECLARED = (
    "tilesmith.tir.transform.options",
    "tilesmith.relax.transform.fuse_ops",
    "tilesmith.relay.options",
    "tilesmith.te",
)
_TYPES = {
    "IntImm": "int",
    "FloatImm": "float",
    "Boolean": "bool",
    "runtime.String": "str",
    "Array": "list",
    "Map": "dict",
}
"""The names of types elsewhere, and here."""


def load_function(full_name: str) -> Callable[..., Any]:
    """Return a function by its full name, such as "package.module.function"."""
    module_name, _, name = full_name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), name)
    except (ImportError, ValueError, AttributeError) as error:
        raise TVMCException(f"there is no function '{full_name}': {error}") from None
    if not callable(found):
        raise TVMCException(f"'{full_name}' is not a function")
    function: Callable[..., Any] = found
    return function


def get_pass_config_value(name: str, value: str, config_type: str) -> Any:
    """Return the value that a text stands for, for an option of a type. Steps to insert are written
    ``tir.add_lower_pass=3:package.function,…``; tables and lists as JSON.
    """
    kind = _TYPES.get(config_type, config_type)
    if name == "tir.add_lower_pass":
        return _lower_passes(value)
    if kind == "str":
        return value
    if kind == "bool":
        if value.lower() in ("true", "1", "false", "0"):
            return value.lower() in ("true", "1")
        raise TVMCException(f"the option '{name}' is true or false, got '{value}'")
    try:
        if kind in ("int", "float"):
            return int(value, 0) if kind == "int" else float(value)
    except ValueError:
        raise TVMCException(f"the option '{name}' takes an {kind}, got '{value}'") from None
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        if kind == "object":  # anything
            return value
        raise TVMCException(f"the option '{name}' takes a {kind} as JSON: {error}") from None


def _lower_passes(text: str) -> list[tuple[int, Any]]:
    """Return the pairs of a step and a pass."""
    pairs = []
    for word in text.split(","):
        step, colon, function = word.partition(":")
        if not colon or not step.strip().isdigit():
            raise TVMCException(
                f"tir.add_lower_pass is written STEP:package.function, got '{word}'"
            )
        pairs.append((int(step), load_function(function.strip())))
    return pairs


@lru_cache(maxsize=1)
def _load_options() -> None:
    """Import what declares options."""
    for module in _WHERE_DECLARED:
        importlib.import_module(module)


def parse_configs(input_configs: Iterable[str] | None) -> dict[str, Any]:
    """Return the options in texts ``NAME=VALUE``, with values of their types.

    Raises TVMCException for an unknown option or a value of another type.
    """
    _load_options()
    known = PassContext.list_configs()
    found: dict[str, Any] = {}
    for text in input_configs or ():
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not value:
            raise TVMCException(f"an option of passes is written NAME=VALUE, got '{text}'")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            advice = f"did you mean '{near[0]}'?" if near else "options: " + ", ".join(known)
            raise TVMCException(f"no pass has an option '{name}'", notes=(advice,))
        found[name] = get_pass_config_value(name, value.strip(), known[name]["type"])
    return found
