"""Defines `Target`: what the compiler generates code for.

Target("llvm -mcpu=skylake-avx512 -num-cores=4")
Target({"kind": "cuda", "arch": "sm_90a"}, host="llvm")
Target("nvidia/geforce-rtx-4090")

with Target("llvm"):
    Target.current()
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any

from tilesmith.ir.node import Node, data
from tilesmith.support.errors import TargetError
from tilesmith.target.features import TargetFeatures
from tilesmith.target.kind import KINDS, TargetKind, target_kind
from tilesmith.target.parse import (
    LEADING,
    canonical,
    config_from_device,
    config_from_text,
    to_text,
)


class _Scopes(threading.local):
    """The targets of the `with` blocks that this thread is in."""

    def __init__(self) -> None:
        self.stack: list[Target] = []


_scopes = _Scopes()


class Target(Node, key="target.Target", slots=("_text", "attrs", "host", "keys", "kind", "tag")):
    """A kind (`llvm`, `cuda`, …) with its options, and optionally a host.

    `target` is a text, a dictionary, JSON, a tag, another Target, or a list of these (a composite
    target). Without `-mcpu`, `-mattr` and `-mtriple`, an `llvm` target stands for this machine.

    `kind` is the TargetKind, `keys` what strategies are chosen by, `attrs` the options with a
    value, `tag` the tag it came from, `host` the target of the host code or None.
    Raises TargetError for unknown kinds, tags and options.
    """

    config: Mapping[str, Any] = data()

    def __init__(self, target: Any, host: Any = None) -> None:
        if isinstance(target, list | tuple):
            target = {"kind": "composite", "devices": [Target(part) for part in target]}
        if isinstance(target, Target):
            config = dict(target.config)
        elif isinstance(target, str):
            config = canonical(config_from_text(target))
        elif isinstance(target, TargetKind):
            config = canonical({"kind": target.name})
        elif isinstance(target, Mapping):
            config = canonical(target)
        else:
            raise TargetError(
                f"a target is a text, a dictionary or a Target, not {type(target).__name__}",
                notes=("for this machine's CPU: 'llvm'",),
            )
        given_host = host if host is not None else config.get("host")
        self.host: Target | None = None if given_host is None else canon_target(given_host)
        if self.host is not None:
            config["host"] = self.host.export()
        if "devices" in config:
            config["devices"] = tuple(Target(part).export() for part in config["devices"])
        self.config = config
        self.kind: TargetKind = target_kind(config["kind"])
        self.keys: tuple[str, ...] = config["keys"]
        self.tag: str = config.get("tag", "")
        self.attrs: Mapping[str, Any] = MappingProxyType(
            {name: value for name, value in config.items() if name not in LEADING}
        )
        self._text = to_text(config)

    # -- forms

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Target({self._text!r}" + (f", host={str(self.host)!r})" if self.host else ")")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self.config == other.config

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Any, ...]:
        return Target, (self.export(),)

    def export(self) -> dict[str, Any]:
        """Return a dictionary of JSON values that `Target` accepts."""
        return {name: _plain(value) for name, value in self.config.items()}

    def to_json(self) -> str:
        """Return the text of `export()`."""
        return json.dumps(self.export())

    def with_host(self, host: Any = None) -> Target:
        """Return this target with another host."""
        return Target(self, host)

    # -- scopes

    def __enter__(self) -> Target:
        _scopes.stack.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _scopes.stack.pop()

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """Return the target of the innermost `with` block of this thread.

        Outside of all blocks: None, or TargetError unless `allow_none`.
        """
        if _scopes.stack:
            return _scopes.stack[-1]
        if allow_none:
            return None
        raise TargetError(
            "there is no current target", notes=("wrap the code in: with Target('llvm'): …",)
        )

    # -- attributes

    def get_kind_attr(self, attr_name: str) -> Any:
        """Return an attribute that `register_kind_attr` gave the kind, or a property of it:
        `default_keys`, `device_type`, `options`; else None.
        """
        if attr_name in self.kind.attrs:
            return self.kind.attrs[attr_name]
        return getattr(self.kind, attr_name, None) if not attr_name.startswith("_") else None

    def get_target_device_type(self) -> int:
        """Return the DLPack device type of the code's memory; `-target_device_type` overrides the
        kind's.
        """
        return int(self.attrs.get("target_device_type", self.kind.device_type))

    @property
    def mcpu(self) -> str:
        """Name of the CPU as LLVM knows it, or an empty text."""
        return str(self.attrs.get("mcpu", ""))

    @property
    def mattr(self) -> tuple[str, ...]:
        """Features switched on (`+avx2`) and off (`-avx512f`)."""
        return tuple(self.attrs.get("mattr", ()))

    @property
    def mtriple(self) -> str:
        """LLVM's name of the platform, or an empty text."""
        return str(self.attrs.get("mtriple", ""))

    @property
    def num_cores(self) -> int | None:
        """Bound on the threads of generated code, where the target gives one."""
        return self.attrs.get("num-cores")

    @property
    def arch(self) -> str:
        """Architecture of a GPU, such as `sm_90a`, or an empty text."""
        return str(self.attrs.get("arch", ""))

    @property
    def model(self) -> str:
        """Name of the device's model."""
        return str(self.attrs.get("model", "unknown"))

    @property
    def device_name(self) -> str:
        """The `-device` option, or an empty text."""
        return str(self.attrs.get("device", ""))

    @property
    def libs(self) -> tuple[str, ...]:
        """Libraries that code may call (`-libs=cblas`)."""
        return tuple(self.attrs.get("libs", ()))

    @property
    def max_num_threads(self) -> int:
        """The most threads of one GPU block."""
        return self._number("max_num_threads")

    @property
    def max_block_size_x(self) -> int:
        """The largest extent of a block along x."""
        return self._number("max_block_size_x", self.attrs.get("max_num_threads"))

    @property
    def max_block_size_y(self) -> int:
        """The largest extent of a block along y."""
        return self._number("max_block_size_y", self.attrs.get("max_num_threads"))

    @property
    def thread_warp_size(self) -> int:
        """Threads that run in lockstep."""
        return self._number("thread_warp_size")

    @property
    def max_shared_memory_per_block(self) -> int:
        """Bytes of memory that a block shares."""
        return self._number("max_shared_memory_per_block")

    @property
    def max_function_args(self) -> int:
        """The most arguments of a kernel; -1 when there is no bound."""
        return int(self.attrs.get("max_function_args", -1))

    @property
    def vtcm_capacity(self) -> int:
        """Bytes of tightly coupled memory."""
        return int(self.attrs.get("vtcm-capacity", 0))

    @property
    def l2_cache_size_bytes(self) -> int:
        """Bytes of the second-level cache; 0 when unknown."""
        return int(self.attrs.get("l2_cache_size_bytes", 0))

    @property
    def supports_integer_dot_product(self) -> bool:
        """True if the device multiplies and adds packed 8-bit integers."""
        if "supports_integer_dot_product" in self.attrs:
            return bool(self.attrs["supports_integer_dot_product"])
        digits = "".join(c for c in self.arch if c.isdigit())
        first = self.kind.dot_products_from
        return first is not None and bool(digits) and int(digits) >= first

    @property
    def supports_cooperative_matrix(self) -> bool:
        """True if the device has matrix instructions for a group of threads."""
        return bool(self.attrs.get("supports_cooperative_matrix", False))

    @property
    def features(self) -> TargetFeatures:
        """The features of the CPU, as attributes (`features.has_sve`)."""
        return TargetFeatures(self)

    def _number(self, name: str, default: int | None = None) -> int:
        value = self.attrs.get(name, default)
        if value is None:
            raise TargetError(
                f"target '{self}' does not say its '{name}'", notes=(f"add: -{name}=…",)
            )
        return int(value)

    # -- canonical forms

    @staticmethod
    def from_device(device: Any) -> Target:
        """Return the target for a device (`"cuda"`, `tilesmith.cpu(0)`)."""
        return Target(config_from_device(device))

    @staticmethod
    def list_kinds() -> list[str]:
        """Return the names of all kinds."""
        return KINDS.names()

    @staticmethod
    def canon_target(target: Any) -> Target | None:
        """Return `target` as a Target; None stays None."""
        return canon_target(target)

    @staticmethod
    def canon_target_and_host(
        target: Any, target_host: Any = None
    ) -> tuple[Target | None, Target | None]:
        """Return the target with its host, and the host; a host inside `target` wins."""
        target, target_host = canon_target(target), canon_target(target_host)
        if target is None:
            if target_host is not None:
                raise TargetError("a target host is given, but no target")
            return None, None
        if target.host is None and target_host is not None:
            target = target.with_host(target_host)
        return target, target.host

    @staticmethod
    def canon_multi_target(multi_targets: Any) -> list[Target] | None:
        """Return one target, a list, or a dictionary from devices to targets, as a list."""
        if multi_targets is None:
            return None
        if isinstance(multi_targets, Mapping) and "kind" not in multi_targets:
            return [Target(part) for part in multi_targets.values()]
        if isinstance(multi_targets, Sequence) and not isinstance(multi_targets, str):
            return [Target(part) for part in multi_targets]
        return [Target(multi_targets)]

    @staticmethod
    def canon_multi_target_and_host(target: Any, target_host: Any = None) -> list[Target]:
        """Do what `canon_multi_target` does, and set the host of each target without one."""
        targets = Target.canon_multi_target(target) or []
        return [Target.canon_target_and_host(part, target_host)[0] for part in targets]

    @staticmethod
    def canon_target_map_and_host(
        target_map: Mapping[Any, Any], target_host: Any = None
    ) -> tuple[dict[Target, Any], Target | None]:
        """Return a dictionary whose keys are targets, and its host."""
        result: dict[Target, Any] = {}
        for target, value in target_map.items():
            target, target_host = Target.canon_target_and_host(target, target_host)
            result[target] = value
        return result, canon_target(target_host)

    @staticmethod
    def target_or_current(target: Any) -> Target:
        """Return `target`, else the current one; TargetError when there is neither."""
        if target is None:
            return Target.current(allow_none=False)
        return Target(target)


def _plain(value: Any) -> Any:
    """Return `value` with tuples as lists and mappings as dictionaries."""
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return value


def canon_target(target: Any) -> Target | None:
    """`target` as a Target; None stays None."""
    if target is None or isinstance(target, Target):
        return target
    return Target(target)
