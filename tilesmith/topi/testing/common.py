"""Choosing by target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.support.errors import UnknownNameError
from tilesmith.target import Target

__all__ = ["dispatch"]


def dispatch(target: Any, dispatch_map: Mapping[str, Any]) -> Any:
    """Return the entry of the first of a target's keys that has one, else that of "generic"."""
    keys = Target(target).keys
    for key in (*keys, "generic"):
        if key in dispatch_map:
            return dispatch_map[key]
    raise UnknownNameError(
        f"there is no entry for the keys {', '.join(keys)}",
        notes=(f"there are: {', '.join(dispatch_map)}; 'generic' serves all others",),
    )
