"""What decides what is compiled (settings, target, tools): for keys of caches, and for workers."""

from __future__ import annotations

import json
from typing import Any

from tilesmith.ir.pass_context import PassContext
from tilesmith.target import Target, target_identity
from tilesmith.target.back_end import back_end_of, part

__all__ = ["code_identity", "deciding_settings"]

_DEBUG = ("tir.enable_debug", "tir.debug_script")


def deciding_settings(prefix: str = "") -> dict[str, Any] | None:
    """The arguments of the current `PassContext` that change code, where they are not the defaults.

    ``prefix`` begins the names of the options that count ("tir." for kernels). None where they
    cannot be written as JSON (passes of the user's own): then nothing may be cached or sent to
    another process, nor where lines of the user's files are part of the code.
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
    """A text for cache keys: equal when code for ``target``, made here, may be used again.

    Raises UnsupportedError when there is no back end for the target.
    """
    record = back_end_of(target)
    toolchain = "" if record.toolchain is None else part(record.toolchain)(target)
    return f"{target_identity(target)} {toolchain}".rstrip()
