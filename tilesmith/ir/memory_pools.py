"""Describes the memories of a board: regions of fixed size that a memory plan lays tensors into.

A pool names a region, the targets that reach it, and its properties. Workspaces are written while a
program runs, constants are in place before it starts::

    sram = WorkspacePoolInfo("sram", ["llvm"], PoolInfoProperties(size_hint_bytes=64 * 1024))
    pools = WorkspaceMemoryPools([sram])       # the first that has room is taken

Plans answer with `AllocatedPoolInfo` (how much of a pool they use) and `ConstantInfo` (where in a
pool a constant lies).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilesmith.ir.global_info import as_target
from tilesmith.ir.node import Node, child, data
from tilesmith.support.errors import ConfigError, TypeMismatchError

if TYPE_CHECKING:
    from tilesmith.runtime.ndarray import NDArray
    from tilesmith.target import Target

__all__ = [
    "AllocatedPoolInfo", "ConstantInfo", "ConstantMemoryPools", "ConstantPoolInfo", "PoolInfo",
    "PoolInfoProperties", "WorkspaceMemoryPools", "WorkspacePoolInfo",
]  # fmt: skip

UNKNOWN = -1
"""A size, frequency or bandwidth that nobody has stated; as a size it is no limit."""


def _targets(targets: Any) -> tuple[Any, ...]:
    if isinstance(targets, (str, Mapping)) or not isinstance(targets, Sequence):
        raise TypeMismatchError(
            f"the targets of a pool are a list, not {targets!r}", notes=(f"[{targets!r}]",)
        )
    return tuple([as_target(target) for target in targets])


def _burst_bytes(table: Any) -> dict[Target, int]:
    return {as_target(target): int(size) for target, size in (table or {}).items()}


def _check_at_least(node: Node, least: int, names: Sequence[str]) -> None:
    for name in names:
        value = getattr(node, name)
        if value < least:
            what = f"{type(node).__name__}.{name}"
            advice = f"{UNKNOWN} says that it is not known" if least == UNKNOWN else "it counts up"
            raise ConfigError(f"{what} is {value}: it is at least {least}", notes=(advice,))


class PoolInfoProperties(Node, key="ir.PoolInfoProperties"):
    """The size and speed of a memory; ``target_burst_bytes`` maps a target to the size of its
    bursts. What is -1 is not known; an unknown size is no limit.
    """

    size_hint_bytes: int = data(default=UNKNOWN, convert=int)
    clock_frequency_hz: int = data(default=UNKNOWN, convert=int)
    read_bandwidth_bytes_per_cycle: int = data(default=UNKNOWN, convert=int)
    write_bandwidth_bytes_per_cycle: int = data(default=UNKNOWN, convert=int)
    read_latency_cycles: int = data(default=0, convert=int)
    write_latency_cycles: int = data(default=0, convert=int)
    target_burst_bytes: Mapping[Target, int] = data(default=None, convert=_burst_bytes)

    def _finish(self) -> None:
        names = [field.name for field in self.node_fields[:6]]
        _check_at_least(self, UNKNOWN, names[:4])
        _check_at_least(self, 0, names[4:])


def _properties(properties: PoolInfoProperties | None) -> PoolInfoProperties:
    return PoolInfoProperties() if properties is None else properties


class PoolInfo(Node, key="ir.PoolInfo"):
    """Base of the pools. The properties can be read from the pool itself."""

    pool_name: str = data(convert=str)
    targets: tuple[Target, ...] = data(convert=_targets)

    pool_info_properties: PoolInfoProperties

    def _finish(self) -> None:
        if type(self) is PoolInfo:
            raise TypeMismatchError("a pool is a WorkspacePoolInfo or a ConstantPoolInfo")
        if not self.pool_name:
            raise ConfigError("a pool needs a name", notes=("plans and errors refer to it",))
        if not isinstance(self.pool_info_properties, PoolInfoProperties):
            raise TypeMismatchError(
                f"the properties of the pool '{self.pool_name}' are PoolInfoProperties, "
                f"not {self.pool_info_properties!r}"
            )

    @property
    def size_hint_bytes(self) -> int:
        """How many bytes the memory holds, -1 without a limit."""
        return self.pool_info_properties.size_hint_bytes

    @property
    def clock_frequency_hz(self) -> int:
        """The frequency of the memory, -1 if it is not known."""
        return self.pool_info_properties.clock_frequency_hz

    @property
    def read_bandwidth_bytes_per_cycle(self) -> int:
        """How many bytes are read in a cycle, -1 if that is not known."""
        return self.pool_info_properties.read_bandwidth_bytes_per_cycle

    @property
    def write_bandwidth_bytes_per_cycle(self) -> int:
        """How many bytes are written in a cycle, -1 if that is not known."""
        return self.pool_info_properties.write_bandwidth_bytes_per_cycle

    @property
    def read_latency_cycles(self) -> int:
        """Cycles until the first byte has been read."""
        return self.pool_info_properties.read_latency_cycles

    @property
    def write_latency_cycles(self) -> int:
        """Cycles until the first byte has been written."""
        return self.pool_info_properties.write_latency_cycles

    @property
    def target_burst_bytes(self) -> Mapping[Target, int]:
        """The size of the bursts of each target."""
        return self.pool_info_properties.target_burst_bytes


class WorkspacePoolInfo(PoolInfo, key="ir.WorkspacePoolInfo"):
    """A memory that programs read and write while they run."""

    pool_info_properties: PoolInfoProperties = child(default=None, convert=_properties)


class ConstantInfo(Node, key="ir.ConstantInfo"):
    """A constant and where in its pool it begins."""

    name_hint: str = data(convert=str)
    byte_offset: int = data(convert=int)
    data: NDArray = data()

    def _finish(self) -> None:
        _check_at_least(self, 0, ["byte_offset"])


class ConstantPoolInfo(PoolInfo, key="ir.ConstantPoolInfo"):
    """A memory that holds constants before a program starts: those in ``constant_info_arr``."""

    constant_info_arr: tuple[ConstantInfo, ...] = child(
        default=(), convert=lambda constants: tuple(constants or ())
    )
    pool_info_properties: PoolInfoProperties = child(default=None, convert=_properties)


def _check_pools(node: Any, kind: type[PoolInfo]) -> None:
    names = set()
    for pool in node.pools:
        if not isinstance(pool, kind):
            raise TypeMismatchError(
                f"{type(node).__name__} holds {kind.__name__}, not {type(pool).__name__}"
            )
        if pool.pool_name in names:
            raise ConfigError(
                f"two memory pools are called '{pool.pool_name}'",
                notes=("give each a name of its own: plans refer to pools by name",),
            )
        names.add(pool.pool_name)


class WorkspaceMemoryPools(Node, key="ir.WorkspaceMemoryPools"):
    """The pools for what a program writes, in the order in which a plan tries them."""

    pools: tuple[PoolInfo, ...] = child()

    def _finish(self) -> None:
        _check_pools(self, WorkspacePoolInfo)


class ConstantMemoryPools(Node, key="ir.ConstantMemoryPools"):
    """The pools for constants, in the order in which a plan tries them."""

    pools: tuple[ConstantPoolInfo, ...] = child()

    def _finish(self) -> None:
        _check_pools(self, ConstantPoolInfo)


class AllocatedPoolInfo(Node, key="ir.AllocatedPoolInfo"):
    """How many bytes of a pool a plan uses; ``pool_var_idx`` is the position of the parameter
    through which a function receives it.
    """

    pool_info: PoolInfo = child()
    allocated_size: int = data(convert=int)
    pool_var_idx: int = data(default=0, convert=int)

    def _finish(self) -> None:
        _check_at_least(self, 0, ["allocated_size", "pool_var_idx"])
