"""Schedules overlapping iterations: software pipelines, double buffers, virtual threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.support.errors import ScheduleError
from tilesmith.testing.fuzz.steps import Nothing, Pick
from tilesmith.tir import ForKind
from tilesmith.tir.stmt import SeqStmt

__all__ = ["PIPELINE_STEPS"]


def _children(pick: Pick, loop: Any) -> int:
    body = pick.statement(loop).body
    return len(body.seq) if isinstance(body, SeqStmt) else 1


def _serial(pick: Pick, block: Any) -> list[Any]:
    return [
        loop for loop in pick.loops(block)
        if pick.statement(loop).kind is ForKind.SERIAL and not pick.statement(loop).annotations
    ]  # fmt: skip


def _produced_under(pick: Pick, block: Any, loop: Any) -> str:
    """Put a producer of the block under the loop: a copy of what it reads, or an existing block.
    Returns which ("copy", "block"), or "" where neither is possible.
    """
    near = pick.call("get_producers", block)
    kind = "block" if near and pick.chance(0.4) else "copy"
    if kind == "block":
        source = pick.among(near)
    else:
        reads = pick.statement(block).reads
        own = {region.buffer for region in pick.statement(block).writes}
        numbers = [k for k, one in enumerate(reads) if one.buffer not in own]
        scope = "global" if pick.has_threads else pick.among(["global", "local", "shared"])
        source = pick.call("cache_read", block, pick.among(numbers), scope)
    try:
        pick.call("compute_at", source, loop)
    except ScheduleError:
        pick.recorder.calls.pop()
        return ""
    return kind


def pipeline(pick: Pick) -> None:
    """Make a pipeline of a loop over one or two producers and their consumer.

    Stages and order mostly form a possible pipeline: producers first. The pass must refuse the
    others.
    """
    block = pick.block()
    loop = pick.among(_serial(pick, block))
    made = [_produced_under(pick, block, loop) for _ in range(pick.among([1, 1, 2]))]
    count = _children(pick, loop)
    if not any(made) or count < 2:
        raise Nothing
    stages = sorted([pick.number(0, 2) for _ in range(count)])
    order = list(range(count))
    if pick.chance(0.15):
        stages = pick.shuffled(stages)
    if pick.chance(0.5):
        order = pick.shuffled(order)
    if pick.chance(0.3) and stages[-1] > 0:
        pick.call("annotate", loop, "software_pipeline_async_stages", [0])
    pick.call("annotate", loop, "software_pipeline_stage", stages)
    pick.call("annotate", loop, "software_pipeline_order", order)


def double_buffer(pick: Pick) -> None:
    """Double-buffer the memory of a producer in a loop."""
    block = pick.block()
    loop = pick.among(_serial(pick, block))
    if not _produced_under(pick, block, loop):
        raise Nothing
    near = pick.call("get_producers", block)
    pick.call("annotate", pick.among(near), "double_buffer_scope", 0)


def virtual_threads(pick: Pick) -> None:
    """Bind a loop to virtual threads; their buffers are private, so that others cannot read
    them.
    """
    block = pick.block(
        lambda one: one.init is None and all(r.buffer.scope() != "local" for r in one.writes)
    )
    loop = pick.among(_serial(pick, block))
    if (pick.extent(loop) or 99) > 6:
        loop = pick.call("split", loop, [None, pick.among([2, 3])])[1]
    pick.call("bind", loop, pick.among(["vthread.x", "vthread.y", "vthread"]))


PIPELINE_STEPS: dict[str, tuple[float, Callable[[Pick], Any]]] = {
    "pipelines: stages": (4, pipeline),
    "pipelines: double": (1.5, double_buffer),
    "pipelines: virtual": (1, virtual_threads),
}
"""Kind of step → how often it is drawn, and the function that does it."""
