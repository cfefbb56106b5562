"""Holds the settings under which passes run, and declares the options that they read.

Options of ``PassContext(config=...)`` are declared with a type by the package that reads them; an
unknown name or a value of another type is an error.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tilesmith.support.errors import ConfigError, TilesmithError
from tilesmith.support.registry import Loader, Registry

__all__ = ["PassContext", "PassInfo", "register_config_option"]


class PassInfo:
    """The properties of a pass: its name, the lowest ``opt_level`` at which it runs, and the names
    of the passes that must run before it.
    """

    def __init__(
        self,
        opt_level: int,
        name: str,
        required: Iterable[str] | None = None,
        traceable: bool = False,
    ) -> None:
        self.opt_level = int(opt_level)
        self.name = name
        self.required = tuple(required or ())
        self.traceable = traceable

    def __repr__(self) -> str:
        required = f", required={list(self.required)}" if self.required else ""
        return f"PassInfo({self.name!r}, opt_level={self.opt_level}{required})"


# Options of contexts.


class ConfigOption(NamedTuple):
    """A declared option: ``kind`` is a type, or a mapping of sub-options to types."""

    name: str
    kind: Any
    default: Any
    meaning: str


_OPTIONS: Registry[ConfigOption] = Registry(
    "pass option",
    providers={
        "tir.": "tilesmith.tir.transform",
        "te.": "tilesmith.te",
        "relax.": "tilesmith.relax.transform",
        "relay.": "tilesmith.relay.options",
    },
)


def register_config_option(
    name: str, kind: Any, default: Any = None, meaning: str = ""
) -> ConfigOption:
    """Declare an option of ``PassContext(config=...)``; its owner does this when it is imported.

    ``kind`` is ``bool``, ``int``, ``float``, ``str``, ``list``, ``dict`` or ``object`` (anything),
    or a mapping from the names of sub-options to such types.
    """
    return _OPTIONS.register(name, ConfigOption(name, kind, default, meaning), override=True)


def provide_options(prefix: str, loader: Loader) -> None:
    """Set the loader that declares the options whose names begin with ``prefix``."""
    _OPTIONS.provide(prefix, loader)


def _option(name: str) -> ConfigOption:
    try:
        return _OPTIONS.get(name)
    except ModuleNotFoundError as error:
        raise ConfigError(f"unknown pass option '{name}': {error}") from None
    except TilesmithError as error:
        known = "\n".join(sorted(map(str, _OPTIONS)))
        raise ConfigError(error.message, notes=error.notes or (known,)) from None


def _checked_value(name: str, kind: Any, value: Any) -> Any:
    if isinstance(kind, Mapping):
        if not isinstance(value, Mapping):
            raise ConfigError(f"pass option '{name}' takes a dict, got {value!r}")
        for key in value:
            if key not in kind:
                known = ", ".join(sorted(kind))
                raise ConfigError(
                    f"pass option '{name}' has no '{key}'", notes=(f"it has: {known}",)
                )
        return {
            key: _checked_value(f"{name}.{key}", kind[key], item) for key, item in value.items()
        }
    value = getattr(value, "value", value) if kind in (bool, int, float, str) else value
    if kind is bool and isinstance(value, int) and value in (0, 1):
        return bool(value)
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if kind is list and isinstance(value, (list, tuple)):
        return list(value)
    if kind not in (bool, int, float, list) and (kind is object or isinstance(value, kind)):
        return value
    raise ConfigError(f"pass option '{name}' takes a value of type {kind.__name__}, got {value!r}")


# The context.


def _level(value: Any) -> int:
    """Return an optimisation level as a number. Raises ConfigError for anything else."""
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ConfigError(f"opt_level is a number such as 0, 2 or 3, got {value!r}") from None


class PassContext:
    """The settings under which passes run; entered with ``with``, one stack per thread."""

    _local = threading.local()

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Iterable[str] | None = None,
        disabled_pass: Iterable[str] | None = None,
        instruments: Iterable[Any] | None = None,
        config: Mapping[str, Any] | None = None,
        trace: Any = None,
        trace_stack: Iterable[Any] | None = None,
        make_traceable: Iterable[str] | None = None,
        num_evals: int = 0,
        tuning_api_database: Any = None,
    ) -> None:
        self.opt_level = _level(opt_level)
        self.required_pass = _names(required_pass, "required_pass")
        self.disabled_pass = _names(disabled_pass, "disabled_pass")
        self.instruments: tuple[Any, ...] = tuple(instruments or ())
        self.config: Mapping[str, Any] = MappingProxyType(
            {
                name: _checked_value(name, _option(name).kind, value)
                for name, value in (config or {}).items()
            }
        )
        self.trace_stack = list(trace_stack or ([] if trace is None else [trace]))
        self.make_traceable = None if make_traceable is None else tuple(make_traceable)
        self.num_evals = int(num_evals)
        self.tuning_api_database = tuning_api_database

    @staticmethod
    def current() -> PassContext:
        """Return the innermost context of this thread, or one with the defaults if none was
        entered.
        """
        stack = _stack()
        return stack[-1] if stack else _default()

    @staticmethod
    def is_entered() -> bool:
        """True if this thread has entered a context, whose settings somebody has chosen."""
        return bool(_stack())

    @staticmethod
    def list_configs() -> dict[str, dict[str, Any]]:
        """Return all declared options with their type, default and meaning."""
        names = _OPTIONS.names()
        return {
            name: {
                "type": getattr(_OPTIONS[name].kind, "__name__", "dict"),
                "default": _OPTIONS[name].default,
                "meaning": _OPTIONS[name].meaning,
            }
            for name in names
        }

    def get_config(self, name: str, default: Any = None) -> Any:
        """Return the value of an option: as given, else ``default``, else the declared default."""
        if name in self.config:
            return self.config[name]
        return default if default is not None else _option(name).default

    def pass_enabled(self, info: PassInfo) -> bool:
        """True if a sequence runs a pass under these settings."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or self.opt_level >= info.opt_level

    def override_instruments(self, instruments: Iterable[Any] | None) -> None:
        """Leave the current instruments and enter others."""
        _leave_instruments(self.instruments)
        self.instruments = ()
        self.instruments = _enter_instruments(tuple(instruments or ()))

    def __enter__(self) -> PassContext:
        _enter_instruments(self.instruments)
        _stack().append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _stack().pop()
        _leave_instruments(self.instruments)

    def without_instruments(self) -> PassContext:
        """Return a context with the same settings and no instruments, for passes that run later."""
        return PassContext(
            self.opt_level, self.required_pass, self.disabled_pass, config=self.config
        )

    # Traces of passes that are tuned.

    def push_trace(self, trace: Any) -> None:
        """Make a trace the current one."""
        self.trace_stack.append(trace)

    def pop_trace(self, return_current: bool = True) -> Any:
        """Drop the current trace and return it, or the one below it."""
        trace = self.trace_stack.pop()
        if return_current:
            return trace
        return self.trace_stack[-1] if self.trace_stack else None

    def get_trace_stack(self) -> list[Any]:
        """Return the traces, the current one last."""
        return list(self.trace_stack)

    def get_trace_stack_size(self) -> int:
        """Return the number of traces."""
        return len(self.trace_stack)

    def get_current_trace(self) -> Any:
        """Return the current trace, or None."""
        return self.trace_stack[-1] if self.trace_stack else None

    def set_num_evals(self, num: int) -> None:
        """Set the number of candidates that were measured."""
        self.num_evals = int(num)

    def inc_num_evals(self, num: int) -> None:
        """Add to the number of candidates that were measured."""
        self.num_evals += int(num)

    def get_tuning_api_database(self) -> Any:
        """Return the database of tuning results, or None."""
        return self.tuning_api_database

    def __repr__(self) -> str:
        parts = [f"opt_level={self.opt_level}"]
        for name in ("required_pass", "disabled_pass", "config"):
            value = getattr(self, name)
            if value:
                parts.append(f"{name}={dict(value) if name == 'config' else list(value)}")
        return f"PassContext({', '.join(parts)})"


def _names(values: Iterable[str] | None, what: str) -> tuple[str, ...]:
    if isinstance(values, str):
        raise ConfigError(f"{what} takes a list of names, got the text {values!r}")
    return tuple(values or ())


def _stack() -> list[PassContext]:
    local = PassContext._local
    try:
        stack: list[PassContext] = local.stack
    except AttributeError:
        stack = local.stack = []
    return stack


def _default() -> PassContext:
    local = PassContext._local
    try:
        default: PassContext = local.default
    except AttributeError:
        default = local.default = PassContext()
    return default


def _enter_instruments(instruments: tuple[Any, ...]) -> tuple[Any, ...]:
    entered: list[Any] = []
    try:
        for instrument in instruments:
            instrument.enter_pass_ctx()
            entered.append(instrument)
    except BaseException:
        _leave_instruments(tuple(entered))
        raise
    return instruments


def _leave_instruments(instruments: tuple[Any, ...]) -> None:
    for instrument in instruments:
        instrument.exit_pass_ctx()
