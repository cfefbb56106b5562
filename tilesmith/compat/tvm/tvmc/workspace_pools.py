"""Memory pools of boards on the command line: ``--workspace-pools sram``
``--workspace-pools-targets sram:llvm --workspace-pools-size-hint-bytes sram:4096``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.compat.tvm.tvmc.errors import TVMCException
from tilesmith.ir.memory_pools import PoolInfoProperties, WorkspaceMemoryPools, WorkspacePoolInfo
from tilesmith.target import Target

_NUMBERS = (
    "size_hint_bytes",
    "clock_frequency_hz",
    "read_bandwidth_bytes_per_cycle",
    "write_bandwidth_bytes_per_cycle",
    "read_latency_cycles",
    "write_latency_cycles",
)


def generate_workspace_pools_args(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that describe memory pools to a parser."""
    parser.add_argument("--workspace-pools", help="names of pools, with commas between them")
    parser.add_argument(
        "--workspace-pools-targets", action="append", help="POOL:TARGET,… : who can use a pool"
    )
    for name in _NUMBERS:
        parser.add_argument(
            f"--workspace-pools-{name.replace('_', '-')}",
            nargs="?",
            action="append",
            help=f"POOL:NUMBER,… : {name.replace('_', ' ')}",
        )
    parser.add_argument(
        "--workspace-pools-target-burst-bytes",
        action="append",
        help="POOL:TARGET:NUMBER,… : bytes of a burst",
    )


def _entries(texts: Sequence[str] | None, count: int, pools: Sequence[str]) -> list[list[str]]:
    """Return the parts of entries such as ``sram:4096``; the first part names a pool."""
    found = []
    for word in [word for text in texts or () for word in text.split(",")]:
        parts = [part.strip() for part in word.split(":")]
        if len(parts) != count or not all(parts):
            raise TVMCException(f"'{word}' does not describe a workspace pool")
        if parts[0] not in pools:
            raise TVMCException(
                f"'{word}' is about a workspace pool that is not there",
                notes=("--workspace-pools names: " + (", ".join(pools) or "none"),),
            )
        found.append(parts)
    return found


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise TVMCException(f"a workspace pool is described by numbers, got '{text}'") from None


def workspace_pools_recombobulate(
    parsed: argparse.Namespace, targets: Sequence[Target], extra_target: Sequence[Mapping[str, Any]]
) -> WorkspaceMemoryPools | None:
    """Return the pools that the arguments describe, None where they name none. ``targets`` are
    those that pools may refer to by name; where a pool refers to none, all can use it.
    """
    text = getattr(parsed, "workspace_pools", None)
    if not text:
        return None
    names = [name.strip() for name in text.split(",")]
    by_name = {one.kind.name: one for one in targets}
    values: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key in _NUMBERS:
        for pool, number in _entries(getattr(parsed, f"workspace_pools_{key}"), 2, names):
            values[pool][key] = _number(number)
    bursts: dict[str, dict[Target, int]] = {name: {} for name in names}
    for pool, target, number in _entries(parsed.workspace_pools_target_burst_bytes, 3, names):
        bursts[pool][_named(target, by_name)] = _number(number)
    users: dict[str, list[Target]] = {name: [] for name in names}
    beside = {str(one["name"]) for one in extra_target}
    for pool, target in _entries(parsed.workspace_pools_targets, 2, names):
        if target not in beside:  # a compiler of others brings its own kernels
            users[pool].append(_named(target, by_name))
    return WorkspaceMemoryPools(
        [
            WorkspacePoolInfo(
                name,
                users[name] or list(targets),
                PoolInfoProperties(**values[name], target_burst_bytes=bursts[name]),
            )
            for name in names
        ]
    )


def _named(name: str, by_name: Mapping[str, Target]) -> Target:
    if name not in by_name:
        raise TVMCException(
            f"a workspace pool is for '{name}', which is not a target of this program",
            notes=("targets: " + ", ".join(by_name),),
        )
    return by_name[name]
