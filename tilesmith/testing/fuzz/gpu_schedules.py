"""Schedules that kernels on GPUs have: tiles in shared memory and in registers that threads bring
together, vectors, padding, copies ahead of their use, partial sums, other orders of blocks.

Steps like those of ``thread_schedules``; each does what people write together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tilesmith.testing.fuzz.steps import IndexMapText, Nothing, Pick
from tilesmith.tir import IterVar
from tilesmith.tir.stmt import Block, SeqStmt
from tilesmith.tir.transform.threads.order_blocks import LAUNCH_ORDER, ORDERS

__all__ = ["GPU_STEPS", "Threads", "ahead", "copied_by_threads", "unbound_reductions"]


class Threads(NamedTuple):
    """The threads of a kernel: their tags and numbers, the outermost first."""

    tags: tuple[str, ...]
    sizes: tuple[int, ...]


def _top_blocks(pick: Pick) -> list[Any]:
    """Return the blocks below the root."""
    root = pick.call("get_block", "root", func_name="main")
    return list(pick.call("get_child_blocks", root))


def _is_free(pick: Pick, block: Any) -> bool:
    """Return whether no loop around a block is bound to threads."""
    return all(pick.statement(loop).thread_binding is None for loop in pick.loops(block))


def unbound_reductions(pick: Pick, spatial: int) -> list[Any]:
    """Return the reductions that no threads compute yet, with that many spatial loops or more."""
    found = []
    for block in _top_blocks(pick):
        if pick.statement(block).init is None or not _is_free(pick, block):
            continue
        if len(pick.driven(block, IterVar.DataPar)) >= spatial:
            if pick.driven(block, IterVar.CommReduce):
                found.append(block)
    return found


def _own_loops(pick: Pick, block: Any, around: Any) -> list[Any]:
    """Return the loops of a block inside the loop ``around``."""
    loops = list(pick.loops(block))
    outer = pick.statement(around).loop_var
    places = [k for k, loop in enumerate(loops) if pick.statement(loop).loop_var is outer]
    return loops[places[0] + 1 :] if places else loops


def copied_by_threads(pick: Pick, copy: Any, around: Any, threads: Threads, lanes: int) -> None:
    """Divide the loops of a copy below ``around`` among all threads of a block, and each thread's
    part into vectors.
    """
    own = _own_loops(pick, copy, around)
    if not own:
        return
    loop = pick.call("fuse", *own) if len(own) > 1 else own[0]
    factors: list[Any] = [None, *threads.sizes]
    made = list(pick.call("split", loop, [*factors, lanes] if lanes > 1 else factors))
    for part, tag in zip(made[1:], threads.tags):
        pick.call("bind", part, tag)
    if lanes > 1:
        pick.tried("vectorize", made[-1])


def tiles(pick: Pick) -> None:
    """Divide a product of matrices into tiles of blocks, virtual threads, threads and registers;
    let the threads bring the operands to shared memory, and from there to registers.
    """
    block = pick.among(unbound_reductions(pick, 2))
    results = None
    if pick.chance(0.6):
        results = pick.call("cache_write", block, 0, "local")
    spatial = pick.driven(block, IterVar.DataPar)
    reduced = pick.driven(block, IterVar.CommReduce)
    *others, i, j = spatial
    virtual = [pick.among([1, 1, 1, 2]) for _ in range(2)]
    sizes = [pick.among([2, 1, 4, 4, 8]) for _ in range(2)]
    by, vy, ty, rows = pick.call("split", i, [None, virtual[0], sizes[0], pick.among([1, 2, 3])])
    bx, vx, tx, columns = pick.call("split", j, [None, virtual[1], sizes[1], pick.among([1, 2, 4])])
    outer, inner = pick.call("split", reduced[0], [None, pick.among([2, 4, 3, 8])])
    order = [*others, by, bx, vy, vx, ty, tx, outer, *reduced[1:], inner, rows, columns]
    pick.call("reorder", *order)
    threads, thread = _bound_tiles(pick, (others, by, bx), (vy, vx), (ty, tx), sizes)
    if results is not None:
        pick.call("reverse_compute_at", results, thread)
        if pick.chance(0.5):
            _last_as_vector(pick, results)
    _operands(pick, block, outer, inner, threads)
    if pick.chance(0.7):
        pick.tried("decompose_reduction", block, outer)
    if pick.chance(0.5):
        ahead(pick, outer)


def _last_as_vector(pick: Pick, copy: Any) -> None:
    """Let the innermost loop of a copy be a vector, unless it is one of the threads'."""
    loop = pick.loops(copy)[-1]
    if pick.statement(loop).thread_binding is None:
        pick.tried("vectorize", loop)


def _bound_tiles(
    pick: Pick, grid: tuple[list[Any], Any, Any], virtual: tuple[Any, Any],
    inside: tuple[Any, Any], sizes: list[int],
) -> tuple[Threads, Any]:  # fmt: skip
    """Bind the loops over tiles; return the threads, and the innermost of their loops. Of the loops
    outside of the grid, each is an axis of the grid, or a loop of the host around kernels.
    """
    others, by, bx = grid
    pick.call("bind", by, "blockIdx.y")
    pick.call("bind", bx, "blockIdx.x")
    if len(others) == 1 and pick.chance(0.7):
        pick.call("bind", others[0], "blockIdx.z")
    elif not others and pick.chance(0.25):
        pick.call("annotate", by, LAUNCH_ORDER, [pick.among(ORDERS), pick.number(1, 2)])
    for loop, tag in zip(virtual, ("vthread.y", "vthread.x")):
        pick.call("bind", loop, tag)
    if pick.chance(0.5):
        thread = pick.call("fuse", *inside)
        pick.call("bind", thread, "threadIdx.x")
        return Threads(("threadIdx.x",), (sizes[0] * sizes[1],)), thread
    for loop, tag in zip(inside, ("threadIdx.y", "threadIdx.x")):
        pick.call("bind", loop, tag)
    return Threads(("threadIdx.y", "threadIdx.x"), (sizes[0], sizes[1])), inside[1]


def _operands(pick: Pick, block: Any, outer: Any, inner: Any, threads: Threads) -> None:
    """Bring what a block reads to shared memory once for a step of ``outer``, to registers once for
    a step of ``inner``, or neither.
    """
    statement: Block = pick.statement(block)
    written = {region.buffer for region in statement.writes}
    numbers = [k for k, one in enumerate(statement.reads) if one.buffer not in written]
    scope = pick.among(["shared", "shared", "shared.dyn"])
    for number in numbers:
        is_shared, is_local = pick.chance(0.75), pick.chance(0.4)
        shared = pick.call("cache_read", block, number, scope) if is_shared else None
        if is_local:
            fragment = pick.call("cache_read", block, number, "local")
            pick.call("compute_at", fragment, inner)
            if pick.chance(0.5):
                _last_as_vector(pick, fragment)
        if shared is None:
            continue
        pick.call("compute_at", shared, outer)
        _arranged(pick, shared)
        if pick.chance(0.9):
            copied_by_threads(pick, shared, outer, threads, pick.among([1, 1, 2, 4]))


def _arranged(pick: Pick, shared: Any) -> None:
    """Pad or turn a tile in shared memory, or let it have two versions."""
    rank = len(pick.statement(shared).writes[0].buffer.shape)
    if rank > 1 and pick.chance(0.3):
        names = [f"i{k}" for k in range(rank)]
        turned = IndexMapText(rank, [*names[:-2], names[-1], names[-2]])
        pick.tried("transform_layout", shared, ("write", 0), turned)
    if rank > 1 and pick.chance(0.3):
        pick.tried("storage_align", shared, 0, rank - 2, pick.among([4, 8, 32]), pick.number(1, 4))
    if pick.chance(0.25):
        pick.call("annotate", shared, "double_buffer_scope", 0)
    if pick.chance(0.15):
        pick.call("annotate", shared, "tir.manifest_shared_memory_local_stage", 1)


def ahead(pick: Pick, loop: Any) -> None:
    """Let the copies of a loop run ahead of their use. A wrong number of statements, or an order
    that is not possible, must be refused by the pass.
    """
    body = pick.statement(loop).body
    count = len(body.seq) if isinstance(body, SeqStmt) else 1
    if count < 2:
        return
    for name in ("double_buffer_scope", "tir.manifest_shared_memory_local_stage"):
        for one in getattr(body, "seq", ()):
            if name in getattr(getattr(one, "block", None), "annotations", {}):
                return
    last = pick.among([1, 1, 2, 3])
    stages = [0] * (count - 1) + [last]
    order = list(range(count))
    if pick.chance(0.4):
        order = [*range(1, count), 0]
    if pick.chance(0.1):
        order = pick.shuffled(order)
    if pick.chance(0.6):
        pick.call("annotate", loop, "software_pipeline_async_stages", [0])
    pick.call("annotate", loop, "software_pipeline_stage", stages)
    pick.call("annotate", loop, "software_pipeline_order", order)


def partial_sums(pick: Pick) -> None:
    """Let each thread reduce a part, and the threads of a block reduce these (``rfactor``)."""
    block = pick.among(unbound_reductions(pick, 1))
    reduced = pick.among(pick.driven(block, IterVar.CommReduce))
    count = pick.among([4, 2, 8, 16, 32, 3])
    _, lanes = pick.call("split", reduced, [None, count])
    rank = len(pick.statement(block).writes[0].buffer.shape)
    part = pick.call("rfactor", lanes, pick.number(0, rank))
    spatial = pick.driven(block, IterVar.DataPar)
    outer = pick.call("fuse", *spatial) if len(spatial) > 1 else pick.among(spatial)
    threads = []
    if pick.chance(0.4):
        outer, inner = pick.call("split", outer, [None, pick.among([2, 4])])
        threads = [inner]
    pick.call("bind", outer, "blockIdx.x")
    for loop in threads:
        pick.call("bind", loop, "threadIdx.y")
    (own,) = pick.driven(block, IterVar.CommReduce)
    together = pick.chance(0.7)
    if together:
        pick.call("bind", own, "threadIdx.x")
    place = threads[0] if threads and pick.chance(0.7) else outer
    if not pick.tried("compute_at", part, place):
        return
    mine = _own_loops(pick, part, place)
    if place is outer and threads:
        pick.call("set_scope", part, 0, "shared")
        return
    if together:
        # the loop over partial sums is the one with as many iterations
        fitting = [loop for loop in mine if pick.extent(loop) == count]
        if fitting:
            pick.tried("bind", fitting[0], "threadIdx.x")
            pick.call("set_scope", part, 0, pick.among(["shared", "local"]))
            return
    pick.call("set_scope", part, 0, "shared" if together else "local")


def vectors(pick: Pick) -> None:
    """Let each thread compute several neighbours as one vector."""
    free = [
        one for one in _top_blocks(pick)
        if pick.statement(one).init is None and _is_free(pick, one)
        and pick.driven(one, IterVar.DataPar)
    ]  # fmt: skip
    block = pick.among(free)
    loops = pick.driven(block, IterVar.DataPar)
    if len(loops) != len(pick.loops(block)):
        raise Nothing
    loop = pick.call("fuse", *loops) if len(loops) > 1 else loops[0]
    factors = [None, pick.among([4, 8, 16, 32]), pick.among([2, 4, 8, 16])]
    outer, thread, lanes = pick.call("split", loop, factors)
    pick.call("bind", outer, "blockIdx.x")
    pick.call("bind", thread, "threadIdx.x")
    pick.call("vectorize", lanes)


GPU_STEPS: dict[str, tuple[float, Callable[[Pick], Any]]] = {
    "gpu: tiles": (4, tiles),
    "gpu: partial sums": (2, partial_sums),
    "gpu: vectors": (2, vectors),
}
"""Kind of step → how often it is drawn, and the function that does it."""
