"""Settings, targets and tools that influence the code, for keys of caches and for workers."""

from __future__ import annotations

import json
from typing import Any

from tilesmith.ir.pass_context import PassContext
from tilesmith.target import Target, target_identity
from tilesmith.target.back_end import back_end_of, part

__all__ = ["code_identity", "deciding_settings"]

_DEBUG = ("tir.enable_debug", "tir.debug_script")


def deciding_settings(prefix: str = "") -> dict[str, Any] | None:
    """Return the arguments of the current `PassContext` that change code and are not defaults.

    ``prefix`` begins the names of the options that count ("tir." for kernels). Returns None if the
    settings cannot be written as JSON (they hold the user's own passes) or if line numbers of the
    user's files become part of the code: then nothing may be cached or sent to another process.
    """
    context, plain = PassContext.current(), PassContext()
    config = {name: value for name, value in context.config.items() if name.startswith(prefix)}
    found = {
        "opt_level": context.opt_level,
        "required_pass": list(context.required_pass),
        "disabled_pass": list(context.disabled_pass),
        "config": config,
    }
    if any(config.get(name) for name in _DEBUG):
        return None
    try:
        json.dumps(config)
    except TypeError:
        return None
    default = {"opt_level": plain.opt_level, "required_pass": [], "disabled_pass": [], "config": {}}
    return {name: value for name, value in found.items() if value != default[name]}


def code_identity(target: Target) -> str:
    """Return a text for cache keys: equal if code for ``target``, made here, may be reused.

    Raises UnsupportedError when there is no back end for the target.
    """
    record = back_end_of(target)
    toolchain = "" if record.toolchain is None else part(record.toolchain)(target)
    return f"{target_identity(target)} {toolchain}".rstrip()
