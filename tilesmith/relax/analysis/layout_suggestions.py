"""Suggests layouts for the blocks and buffers of a kernel from those wished for its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.ir import PrimExpr, Var
from tilesmith.ir.queries import variables
from tilesmith.support.errors import ShapeError
from tilesmith.tir import Block, Buffer, IndexMap, PrimFunc
from tilesmith.tir.analysis import unscheduled_blocks
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import loads, stores

__all__ = ["suggest_layout_transforms"]


def suggest_layout_transforms(
    func: PrimFunc, write_buffer_transforms: Sequence[IndexMap | Callable[..., Any]]
) -> dict[Block, dict[Block | Buffer, IndexMap]]:
    """Return, for each block of an unscheduled kernel, how its iterators and the buffers that it
    reads could be transformed, given the transformations of the results.

    A suggestion for a block has its own map under the block, and those of the buffers under them;
    a block whose accesses do not tell one has none. Raises ShapeError unless there is one map for
    each result.
    """
    blocks = unscheduled_blocks(func) or []
    written = {one.buffer for block in blocks for one in stores(block)}
    results = [buffer for buffer in func.buffers if buffer in written]
    if len(results) != len(write_buffer_transforms):
        raise ShapeError(
            f"{len(write_buffer_transforms)} transformations for {len(results)} results"
        )
    known: dict[Buffer, IndexMap] = {}
    for buffer, given in zip(results, write_buffer_transforms):
        is_map = isinstance(given, IndexMap)
        known[buffer] = given if is_map else IndexMap.from_func(given, len(buffer.shape))
    found: dict[Block, dict[Block | Buffer, IndexMap]] = {}
    for block in reversed(blocks):
        suggested = _suggestion(block, known)
        if suggested is not None:
            found[block] = suggested
            for key, index_map in suggested.items():
                if isinstance(key, Buffer):
                    known.setdefault(key, index_map)
    return found


def _suggestion(
    block: Block, known: dict[Buffer, IndexMap]
) -> dict[Block | Buffer, IndexMap] | None:
    written = list(stores(block))
    target = written[0].buffer
    iterators = [one.var for one in block.iter_vars]
    indices = _only([one.indices for one in written])
    index_map = known.get(target)
    if any(one.buffer is not target for one in written) or index_map is None:
        return None
    if indices is None or not _are_distinct(indices, iterators):
        return None
    spatial = {id(one) for one in indices}
    rest = [var for var in iterators if id(var) not in spatial]
    final = [*index_map.map_indices(list(indices)), *rest]
    suggested: dict[Block | Buffer, IndexMap] = {block: _map(iterators, final)}
    for buffer in dict.fromkeys([one.buffer for one in loads(block)]):
        if buffer is not target:
            made = _of_read(block, buffer, final, iterators)
            if made is not None:
                suggested[buffer] = made
    return suggested


def _only(accesses: list[tuple[PrimExpr, ...]]) -> tuple[PrimExpr, ...] | None:
    """Return the indices that all accesses have, None if they are not the same ones."""
    first = accesses[0]
    same = all(a is b for other in accesses for a, b in zip(first, other))
    return first if same else None


def _are_distinct(indices: Sequence[PrimExpr], iterators: list[Var]) -> bool:
    """Return whether indices are iterators, each another one."""
    known = {id(one) for one in iterators}
    found = {id(one) for one in indices}
    return found <= known and len(found) == len(indices)


def _of_read(
    block: Block, buffer: Buffer, final: list[Any], iterators: list[Var]
) -> IndexMap | None:
    """Return the map of a buffer that a block reads: what of the block's new iterators is made of
    the buffer's indices; None if they say nothing, or nothing new.
    """
    indices = _only([one.indices for one in loads(block, buffer)])
    if indices is None or not _are_distinct(indices, iterators):
        return None
    own = {id(one) for one in indices}
    kept = []
    for expr in final:
        inside = [id(var) in own for var in variables(expr)]
        if all(inside):
            kept.append(expr)
        elif any(inside):
            return None  # mixed with an iterator that the buffer does not have
    if len(kept) == len(indices) and all(a is b for a, b in zip(kept, indices)):
        return None
    return _map(list(indices), kept)  # type: ignore[arg-type]


def _map(initial: list[Var], final: list[Any]) -> IndexMap:
    """Return an index map with variables of its own."""
    fresh = [Var(one.name, one.dtype) for one in initial]
    return IndexMap(fresh, [substitute(one, dict(zip(initial, fresh))) for one in final])
