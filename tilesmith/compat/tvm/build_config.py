"""Defines ``build_config``, which held the options of lowering until 2019.

Each option is translated to those of a ``PassContext``. An option that has nothing to act on here
says so.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable
from typing import Any

from tilesmith.ir.instrument import PrintAfterAll
from tilesmith.ir.pass_context import PassContext
from tilesmith.ir.transform import Pass
from tilesmith.support.errors import ConfigError
from tilesmith.te.arguments import DATA_ALIGNMENT, OFFSET_FACTOR
from tilesmith.tir import PrimFunc, Stmt
from tilesmith.tir.transform import prim_func_pass

__all__ = ["BuildConfig", "build_config"]

_DEFAULTS: dict[str, Any] = {
    "auto_unroll_max_step": 0,
    "auto_unroll_max_depth": 8,
    "auto_unroll_max_extent": 0,
    "unroll_explicit": True,
    "detect_global_barrier": False,
    "partition_const_loop": False,
    "offset_factor": 0,
    "data_alignment": -1,
    "restricted_func": True,
    "double_buffer_split_loop": 1,
    "add_lower_pass": None,
    "dump_pass_ir": False,
    "instrument_bound_checkers": False,
    "disable_select_rewriting": False,
    "disable_vectorize": False,
    "disable_assert": False,
}
_WITH_A_NAME = {
    "detect_global_barrier": "tir.detect_global_barrier",
    "instrument_bound_checkers": "tir.instrument_bound_checkers",
    "disable_vectorize": "tir.disable_vectorize",
    "disable_assert": "tir.disable_assert",
    "restricted_func": "tir.noalias",
    "offset_factor": OFFSET_FACTOR,
    "data_alignment": DATA_ALIGNMENT,
}
_IN_A_GROUP = {
    "auto_unroll_max_step": ("tir.UnrollLoop", "auto_max_step"),
    "auto_unroll_max_depth": ("tir.UnrollLoop", "auto_max_depth"),
    "auto_unroll_max_extent": ("tir.UnrollLoop", "auto_max_extent"),
    "unroll_explicit": ("tir.UnrollLoop", "explicit_unroll"),
    "partition_const_loop": ("tir.LoopPartition", "partition_const_loop"),
    "double_buffer_split_loop": ("tir.InjectDoubleBuffer", "split_loop"),
}


class BuildConfig(PassContext):
    """The options under which programs are lowered and built, entered with ``with``."""

    def __init__(self, **options: Any) -> None:
        self.options = {**_DEFAULTS, **_checked(options)}
        super().__init__(
            instruments=[PrintAfterAll()] if self.options["dump_pass_ir"] else None,
            config=_translated(options),
        )

    def __getattr__(self, name: str) -> Any:
        options = self.__dict__.get("options", {})
        if name not in options:
            raise AttributeError(f"BuildConfig has no option '{name}'")
        return options[name]

    @staticmethod
    def current() -> PassContext:
        """Return the options in effect, the defaults if none were entered."""
        found = PassContext.current()
        return found if isinstance(found, BuildConfig) else BuildConfig()


def build_config(**options: Any) -> BuildConfig:
    """Return the options for a ``with`` statement. Raises ConfigError for an unknown one."""
    return BuildConfig(**options)


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    for name in options:
        if name not in _DEFAULTS:
            near = difflib.get_close_matches(name, _DEFAULTS, n=1)
            advice = f"did you mean '{near[0]}'?" if near else "known: " + ", ".join(_DEFAULTS)
            raise ConfigError(f"build_config has no option '{name}'", notes=(advice,))
    if options.get("disable_select_rewriting"):
        warnings.warn(
            "build_config: disable_select_rewriting has no effect: a Select whose operands are not"
            " safe to evaluate is always rewritten (tir.transform.RewriteUnsafeSelect)",
            stacklevel=4,
        )
    return options


def _translated(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a ``PassContext`` that the given options stand for."""
    config: dict[str, Any] = {}
    for name, value in options.items():
        if name in _WITH_A_NAME:
            config[_WITH_A_NAME[name]] = value
        elif name in _IN_A_GROUP:
            group, part = _IN_A_GROUP[name]
            config.setdefault(group, {})[part] = value
    if options.get("add_lower_pass"):
        config["tir.add_lower_pass"] = [
            (phase, _on_functions(step)) for phase, step in options["add_lower_pass"]
        ]
    return config


def _on_functions(step: Any) -> Any:
    """Return a pass for a function of that time, which rewrites a statement."""
    if isinstance(step, Pass):
        return step
    rewrite: Callable[[Any], Any] = step

    def on_function(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
        found = rewrite(func.body)
        if not isinstance(found, Stmt):
            raise ConfigError(
                f"'add_lower_pass': {getattr(step, '__name__', step)!r} returned {found!r}, not a"
                " statement"
            )
        return func if found is func.body else func.with_body(found)

    return prim_func_pass(on_function, opt_level=0, name=getattr(step, "__name__", "lower_pass"))
