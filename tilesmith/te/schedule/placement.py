"""Where the stages of a schedule are computed: the loops around each, and in which memory.

A stage that is computed at a loop lies inside of that loop, of the loops around it, and of those
around the stage that they belong to. Threads launched around a stage say which memory it can use:
inside of blocks, memory that the threads of a block share; inside of threads, their registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilesmith.te.schedule.message_passing import thread_of
from tilesmith.te.schedule.refusals import describe, position, refuse
from tilesmith.te.schedule.schedule import Schedule
from tilesmith.te.schedule.stage import AttachType, Stage
from tilesmith.te.tensor import Operation
from tilesmith.tir.expr import IterVar

__all__ = [
    "AttachPaths", "attach_point", "create_attach_path", "memory_rank", "memory_scope",
    "thread_rank",
]  # fmt: skip

_RANKS = {"global": 0, "texture": 0, "shared": 1, "warp": 2, "local": 3}
_DEFAULT_SCOPES = {-1: "global", 0: "shared", 1: "local"}


@dataclass(frozen=True)
class Loop:
    """A loop around a stage, and the stage that it belongs to."""

    axis: IterVar
    stage: Stage


def attach_point(stage: Stage) -> tuple[Stage | None, IterVar | None]:
    """Return the stage and its loop at which a stage, or the group that it belongs to, is
    computed.
    """
    spec = stage.group_spec()
    if spec.attach_type in (AttachType.SCOPE, AttachType.SCAN_UPDATE):
        return spec.attach_stage, spec.attach_ivar
    return None, None


class AttachPaths:
    """The loops around each stage, from the innermost one outwards; found once for each stage."""

    def __init__(self) -> None:
        self._paths: dict[Stage, list[Loop]] = {}

    def __getitem__(self, stage: Stage) -> list[Loop]:
        found = self._paths.get(stage)
        if found is None:
            found = self._paths[stage] = self._find(stage)
        return found

    def _find(self, stage: Stage) -> list[Loop]:
        chain: list[tuple[Stage, Stage, IterVar]] = []  # a stage, where it is computed
        inner = stage
        while inner not in self._paths:
            parent, axis = attach_point(inner)
            if parent is None or axis is None:
                self._paths[inner] = []
                break
            if any(parent is above for above, _, _ in chain) or parent is inner:
                raise refuse(
                    "compute_at", stage,
                    f"stages are computed inside of each other: '{inner.name}' in '{parent.name}'",
                    axis, "compute one of them at the root: compute_root()", stage.placed_at,
                )  # fmt: skip
            chain.append((inner, parent, axis))
            inner = parent
        for inner, parent, axis in reversed(chain):
            self._paths[inner] = self._loops_around(inner, parent, axis) + self._paths[parent]
        return self._paths[stage]

    def _loops_around(self, inner: Stage, parent: Stage, axis: IterVar) -> list[Loop]:
        where = position(parent.leaf_iter_vars, axis)
        if where is None:
            raise refuse(
                "compute_at", parent,
                f"{describe(axis)}, at which '{inner.name}' is to be computed, is no longer a "
                "loop of the stage",
                axis, "call compute_at after the loops of the other stage have been scheduled",
                inner.group_spec().placed_at,
            )  # fmt: skip
        return [Loop(one, parent) for one in reversed(parent.leaf_iter_vars[: where + 1])]


def create_attach_path(sch: Schedule) -> dict[Operation, list[IterVar]]:
    """Return the loops around each operation, from the innermost one outwards."""
    paths = AttachPaths()
    return {
        stage.op: [loop.axis for loop in paths[stage]]
        for stage in sch.stages
        if stage.attach_type != AttachType.INLINED_ALREADY
    }


def memory_rank(scope: str) -> int:
    """Return how widely memory is seen: 0 by all threads, 1 by those of a block, 2 by those of a
    warp, 3 by one.
    """
    kind = scope.partition(".")[0]
    # Memory of accelerators ("local.acc_buffer", "wmma.accumulator") belongs to a thread or warp.
    return 2 if kind in ("wmma", "m16n8k8", "mma") else _RANKS.get(kind, 0)


def thread_rank(tag: str) -> int | None:
    """Return 0 for blocks, 1 for threads of a block; None for what is no thread."""
    if not tag or tag == "pipeline":
        return None
    return 0 if tag.startswith("blockIdx") else 1


def memory_scope(stage: Stage, around: list[Loop]) -> str:
    """Return the memory of a stage: the one that is set, or the one that the threads around the
    stage have.
    """
    if stage.scope:
        return stage.scope
    most = -1
    for loop in around:
        thread = thread_of(loop.stage, loop.axis)
        rank = None if thread is None else thread_rank(thread.thread_tag)
        most = max(most, -1 if rank is None else rank)
    return _DEFAULT_SCOPES[most]
