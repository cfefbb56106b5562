"""Schedules for devices: loops bound to threads, shared memory, reductions over threads.

Each template is a step like those of ``schedules``, but calls several primitives, because only some
combinations are valid: memory of one thread is written and read by that thread, shared memory
within one block of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import IntImm
from tilesmith.testing.fuzz.steps import Nothing, Pick
from tilesmith.tir import For, ForKind, IterVar
from tilesmith.tir.stmt import Block

__all__ = ["THREAD_STEPS", "bind_the_rest"]

_SIZES = (1, 2, 3, 4, 4, 8, 16)


def _tag(pick: Pick, loop: Any) -> str:
    stmt = pick.statement(loop)
    if stmt.kind is not ForKind.THREAD_BINDING:
        return ""
    return str(stmt.thread_binding.thread_tag)


def _bound(pick: Pick, block: Any) -> list[str]:
    """Return the threads that the loops around a block, in all scopes, are bound to."""
    around = [cursor.stmt for cursor in pick.sch.cursor(block).ancestors()]
    return [
        str(stmt.thread_binding.thread_tag)
        for stmt in around
        if isinstance(stmt, For) and stmt.thread_binding is not None
    ]


def _top_blocks(pick: Pick) -> list[Any]:
    root = pick.call("get_block", "root", func_name="main")
    return list(pick.call("get_child_blocks", root))


def tile(pick: Pick) -> None:
    """Fuse the spatial loops of a block and divide them among blocks, virtual threads and
    threads.
    """
    block = pick.among([one for one in _top_blocks(pick) if not _bound(pick, one)])
    loops = pick.driven(block, IterVar.DataPar)
    if not loops:
        raise Nothing
    others = [loop for loop in pick.loops(block) if loop not in loops]
    if len(loops) > 1 and pick.chance(0.3):
        _tile_two(pick, loops[0], loops[1], [*loops[2:], *others])
        return
    if others and loops:
        pick.tried("reorder", *loops, *others)
    loop = pick.call("fuse", *loops) if len(loops) > 1 else loops[0]
    parts: list[Any] = [None, pick.among(_SIZES)]
    tags = ["blockIdx.x", "threadIdx.x"]
    if pick.chance(0.25):
        parts, tags = [None, pick.among([1, 2, 3]), parts[1]], ["blockIdx.x", "vthread.x", tags[1]]
    if pick.chance(0.2):
        parts, tags = [*parts, pick.among([1, 2, 4])], [*tags, "serial"]
    made = pick.call("split", loop, parts)
    for part, tag in zip(made, tags):
        if tag != "serial":
            pick.call("bind", part, tag)


def _tile_two(pick: Pick, first: Any, second: Any, others: list[Any]) -> None:
    outer_y, inner_y = pick.call("split", first, [None, pick.among([1, 2, 4])])
    outer_x, inner_x = pick.call("split", second, [None, pick.among([1, 2, 4])])
    order = [outer_y, outer_x, inner_y, inner_x, *others]
    if not pick.tried("reorder", *order):
        raise Nothing
    for loop, tag in zip(order, ["blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"]):
        pick.call("bind", loop, tag)


def _in_kernel(pick: Pick) -> Any:
    """Return a block under threads that is not a cooperative copy: there each thread does only a
    part.
    """
    blocks = [(one, _bound(pick, one)) for one in _top_blocks(pick)]
    fitting = [one for one, tags in blocks if "threadIdx.x" in tags and len(set(tags)) == len(tags)]
    return pick.among(fitting)


def share(pick: Pick) -> None:
    """Copy what a block reads to memory of its thread block (by all its threads), or of each
    thread.
    """
    block = _in_kernel(pick)
    statement: Block = pick.statement(block)
    written = {region.buffer for region in statement.writes}
    scope = pick.among(["shared", "shared", "shared.dyn", "local"])
    numbers = [
        k for k, one in enumerate(statement.reads)
        # private memory of threads cannot be shared
        if one.buffer not in written and (scope == "local" or one.buffer.scope() != "local")
    ]  # fmt: skip
    loops = list(pick.loops(block))
    tags = [_tag(pick, loop) for loop in loops]
    last = max(k for k, tag in enumerate(tags) if tag)
    blocks = max((k for k, tag in enumerate(tags) if tag.startswith("blockIdx")), default=-1)
    if blocks < 0:
        raise Nothing
    # Under the thread blocks, or in a loop of the threads; local memory only inside all threads.
    first = last if scope == "local" else pick.among([blocks, last])
    place = loops[first] if first == blocks else pick.among(loops[last:])
    cache = pick.call("cache_read", block, pick.among(numbers), scope)
    if not pick.tried("compute_at", cache, place):
        pick.call("set_scope", cache, 0, _fitting_scope(pick, cache))
        return
    if scope != "local" and pick.chance(0.8):
        _cooperate(pick, cache, [t for t in tags if t.startswith("threadIdx")], loops)


def _cooperate(pick: Pick, cache: Any, tags: list[str], loops: list[Any]) -> None:
    """Divide the loops of a copy among the threads that also use it."""
    sizes = {_tag(pick, loop): pick.extent(loop) for loop in loops if _tag(pick, loop)}
    around = [pick.statement(loop).loop_var for loop in loops]
    own = [
        loop for loop in pick.loops(cache)
        if all(pick.statement(loop).loop_var is not one for one in around)
    ]  # fmt: skip
    if not own or any(sizes[tag] is None for tag in tags):
        return
    loop = pick.call("fuse", *own) if len(own) > 1 else own[0]
    parts = pick.call("split", loop, [None, *[sizes[tag] for tag in tags]])
    for part, tag in zip(parts[1:], tags):
        pick.tried("bind", part, tag)


def _fitting_scope(pick: Pick, copy: Any) -> str:
    """Return the scope of a cache such that all threads that read it also see the copy."""
    tags = _bound(pick, copy)
    if any(tag.startswith(("threadIdx", "vthread")) for tag in tags):
        return "local"
    return "shared" if tags else "global"


def stay(pick: Pick) -> None:
    """Let a thread block compute what one of its blocks reads, all threads together, in memory that
    they share.
    """
    block = _in_kernel(pick)
    loops = list(pick.loops(block))
    tags = [_tag(pick, loop) for loop in loops]
    blocks = max((k for k, tag in enumerate(tags) if tag.startswith("blockIdx")), default=-1)
    producers = [one for one in pick.call("get_producers", block) if not _bound(pick, one)]
    made = pick.among(producers)
    if blocks < 0 or any(pick.is_parameter(one.buffer) for one in pick.statement(made).writes):
        raise Nothing
    scope = pick.among(["shared", "shared.dyn", "shared.dyn"])
    count = len(pick.statement(made).writes)
    for number in range(count):
        pick.call("set_scope", made, number, scope)
    if not pick.tried("compute_at", made, loops[blocks]):
        for number in range(count):
            pick.call("set_scope", made, number, "global")
        return
    if pick.chance(0.8):
        _cooperate(pick, made, [tag for tag in tags if tag.startswith("threadIdx")], loops)


def exchange(pick: Pick) -> None:
    """Copy what a block reads to memory of its warp: each lane brings a part, others read it."""
    block = _in_kernel(pick)
    loops = list(pick.loops(block))
    tags = [_tag(pick, loop) for loop in loops]
    blocks = max((k for k, tag in enumerate(tags) if tag.startswith("blockIdx")), default=-1)
    threads = [loop for loop, tag in zip(loops, tags) if tag.startswith("threadIdx")]
    lanes = pick.extent(threads[0])
    # all lanes of one warp take part, and no other warp has memory of its own
    if blocks < 0 or len(threads) != 1 or lanes not in (1, 2, 4, 8, 16, 32):
        raise Nothing
    statement: Block = pick.statement(block)
    written = {region.buffer for region in statement.writes}
    numbers = [
        k for k, one in enumerate(statement.reads)
        if one.buffer not in written and one.buffer.scope() == "global"
    ]  # fmt: skip
    cache = pick.call("cache_read", block, pick.among(numbers), "warp")
    if not pick.tried("compute_at", cache, loops[blocks]):
        pick.call("set_scope", cache, 0, "global")
        return
    _cooperate(pick, cache, ["threadIdx.x"], loops)
    if "threadIdx.x" not in _bound(pick, cache):
        pick.call("set_scope", cache, 0, "shared")


def keep(pick: Pick) -> None:
    """Write the result of a block to memory of each thread first."""
    block = _in_kernel(pick)
    loops = pick.loops(block)
    last = max(k for k, loop in enumerate(loops) if _tag(pick, loop))
    number = pick.among(range(len(pick.statement(block).writes)))
    cache = pick.call("cache_write", block, number, "local")
    if not pick.tried("reverse_compute_at", cache, loops[last]):
        scope = _fitting_scope(pick, cache)
        if scope == "local" and set(_bound(pick, block)) != set(_bound(pick, cache)):
            scope = "shared"  # other threads copy it
        pick.call("set_scope", block, number, scope)


def reduce(pick: Pick) -> None:
    """Let the threads of a block compute a reduction together."""
    unbound = [one for one in _top_blocks(pick) if not _bound(pick, one)]
    block = pick.among([one for one in unbound if pick.statement(one).init is not None])
    loops = pick.driven(block, IterVar.CommReduce)
    loop = pick.among(loops)
    spatial = pick.driven(block, IterVar.DataPar)
    if spatial:
        pick.tried("reorder", *spatial, *loops)
        outer = pick.call("fuse", *spatial) if len(spatial) > 1 else spatial[0]
        if pick.chance(0.3):
            outer, inner = pick.call("split", outer, [None, 2])
            pick.call("bind", inner, "threadIdx.y")
    else:
        outer = pick.call("add_unit_loop", pick.loops(block)[0])
    pick.call("bind", outer, "blockIdx.x")
    parts = pick.call("split", loop, [None, pick.among([2, 3, 4, 8, 16, 32])])
    pick.call("bind", parts[1 if pick.chance(0.8) else 0], "threadIdx.x")
    if pick.chance(0.6):
        _follow(pick, block, outer)


def _follow(pick: Pick, block: Any, loop: Any) -> None:
    """Put a consumer of a reduction into its kernel, outside of the threads; the result may then
    stay inside of the kernel.
    """
    consumers = pick.call("get_consumers", block)
    consumer = pick.among([one for one in consumers if not _bound(pick, one)])
    if not pick.tried("reverse_compute_at", consumer, loop):
        return
    (*_, written) = pick.statement(block).writes
    if len(consumers) == 1 and not pick.is_parameter(written.buffer):
        last = len(pick.statement(block).writes) - 1
        # registers, and memory of a kernel in scope "global", belong to one thread
        several = "threadIdx.y" in _bound(pick, block)
        scope = "shared" if several else pick.among(["local", "shared", "global"])
        pick.call("set_scope", block, last, scope)


def bind_the_rest(pick: Pick) -> None:
    """Bind every nest that has no threads yet, so that the device does all the work."""
    for block in _top_blocks(pick):
        if _bound(pick, block):
            continue
        loops = pick.driven(block, IterVar.DataPar)
        first = pick.loops(block)[:1]
        tag = pick.among(["blockIdx.x", "threadIdx.x"])
        if loops and loops[0] == first[0]:
            size = pick.statement(loops[0]).extent
            small = isinstance(size, IntImm) and size.value <= 64
            if pick.tried("bind", loops[0], tag if small else "blockIdx.x"):
                continue
        unit = pick.call("add_unit_loop", first[0] if first else block)
        pick.call("bind", unit, tag)


THREAD_STEPS: dict[str, tuple[float, Callable[[Pick], Any]]] = {
    "threads: tile": (4, tile),
    "threads: share": (3, share),
    "threads: keep": (1, keep),
    "threads: stay": (2, stay),
    "threads: exchange": (1.5, exchange),
    "threads: reduce": (1.5, reduce),
    "threads: rest": (0, bind_the_rest),
}
"""Kind of step → how often it is drawn, and the function that does it; "rest" comes last."""
