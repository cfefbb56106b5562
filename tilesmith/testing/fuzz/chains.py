"""Schedules and programs made for primitives that seldom apply to what is drawn at random.

Each template is a step that calls several primitives in a row: a split that does not divide, then
rfactor of a part; several producers at one loop; a layout that two blocks read. ``CHAIN_STAGES``
draws programs in which there is something for them to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir.operators import is_const
from tilesmith.testing.fuzz.generator import STAGES, Generator, Stages
from tilesmith.testing.fuzz.steps import IndexMapText, Nothing, Pick
from tilesmith.testing.fuzz.values import Known
from tilesmith.tir import ForKind, IterVar
from tilesmith.tir.stmt import Block

__all__ = ["CHAIN_STAGES", "CHAIN_STEPS"]


def factor_reduction(pick: Pick) -> None:
    """Split a loop of a reduction, often by more than it has iterations, and factor a part."""
    block = pick.block(lambda one: one.init is not None)
    loop = pick.among(pick.driven(block, IterVar.CommReduce))
    if is_const(pick.statement(loop).min, 0) and pick.chance(0.85):
        most = (pick.extent(loop) or 4) + 3
        factors: list[Any] = [None, pick.number(1, most)]
        loop = pick.among(pick.call("split", loop, pick.shuffled(factors)))
    pick.call("rfactor", loop, pick.number(0, 2))


def _reads_of(pick: Pick, buffer: Any) -> list[Block]:
    return [one for one in pick.blocks_now() if any(r.buffer is buffer for r in one.reads)]


def inline_backwards(pick: Pick) -> None:
    """Put a block into its only producer, if that has no other consumer."""
    blocks = pick.blocks_now()

    def fits(block: Block) -> bool:
        made = [
            (one, region.buffer) for region in block.reads
            for one in blocks if any(w.buffer is region.buffer for w in one.writes)
        ]  # fmt: skip
        return (
            block.init is None
            and len(made) == 1
            and made[0][0].init is None
            and made[0][0] is not block
            and len(_reads_of(pick, made[0][1])) == 1
        )

    pick.call("reverse_compute_inline", pick.block(fits))


def lay_out(pick: Pick) -> None:
    """Change a layout that several blocks use, mostly without changing its rank."""

    def fits(block: Block) -> bool:
        return any(
            not pick.is_parameter(region.buffer) and len(_reads_of(pick, region.buffer)) > 1
            for region in block.writes
        )

    block = pick.block(fits)
    (number, buffer) = pick.among(
        [(k, r.buffer) for k, r in enumerate(pick.statement(block).writes)
         if not pick.is_parameter(r.buffer)]
    )  # fmt: skip
    rank = len(buffer.shape)
    if pick.chance(0.2):
        mapping = pick.index_map(buffer.shape)
    else:
        mapping = IndexMapText(rank, pick.shuffled([f"i{k}" for k in range(rank)]))
    pick.call("transform_layout", block, ("write", number), mapping)


def several_at(pick: Pick) -> None:
    """Compute several producers of a block, and theirs, at one of its loops."""
    block = pick.block(lambda one: len(one.reads) > 0)
    loops = pick.loops(block)  # at an outer one there is memory for more than one element
    loop = loops[0] if loops and pick.chance(0.4) else pick.loop(block)
    waiting = list(pick.call("get_producers", block))
    done = 0
    while waiting and done < 4:
        producer = waiting.pop(0)
        more = pick.call("get_producers", producer)
        if pick.tried("compute_at", producer, loop):
            done += 1
            waiting += more
    if not done:
        raise Nothing


def hint(pick: Pick) -> None:
    """Split a loop, mostly such that parts of different length are left, and ask for parts without
    conditions.
    """
    block = pick.block()
    serial = [one for one in pick.loops(block) if pick.statement(one).kind is ForKind.SERIAL]
    loop = pick.among(serial)
    size = pick.extent(loop)
    if size is None or size > 2:
        parts = pick.call("split", loop, [None, pick.number(2, max(2, (size or 6) - 1))])
        loop = pick.among(parts)
        if pick.chance(0.3):
            pick.tried("reorder", *pick.shuffled(pick.loops(block)))
    pick.call("annotate", loop, "pragma_loop_partition_hint", 1)


def fuse_epilogue(pick: Pick) -> None:
    """Put what follows a reduction into its last iteration, if nothing else reads its result."""

    def fits(block: Block) -> bool:
        readers = _reads_of(pick, block.writes[0].buffer)
        return block.init is not None and sum(one is not block for one in readers) == 1

    block = pick.block(fits)
    pick.call("fuse_reduction_epilogue", block, pick.among(pick.call("get_consumers", block)))


CHAIN_STEPS: dict[str, tuple[float, Callable[[Pick], Any]]] = {
    "chains: factor": (3, factor_reduction),
    "chains: inline": (3, inline_backwards),
    "chains: layout": (2, lay_out),
    "chains: several": (4, several_at),
    "chains: hint": (2, hint),
    "chains: epilogue": (1, fuse_epilogue),
}
"""Kind of step → how often it is drawn, and the function that does it."""


# Programs.


def _source(make: Generator) -> dict[str, Any]:
    """Return a tensor with exact values that a stage without a sum has just computed; make one
    where there is none.
    """
    last = make.recipe["stages"][-1] if make.recipe["stages"] else None
    if last is None or last["kind"] != "compute" or last["tensors"][0]["ulp"] is not None:
        sizes = [make.dim() for _ in range(make.rng.choice([2, 2, 3]))]
        axes = make.axes(sizes, "S" * len(sizes))
        value, known = make.expressions(axes).value(make.dtype(), 1)
        stage = {
            "kind": "compute", "axes": axes, "value": value, "binding": make.binding(),
            "indices": [["axis", k] for k in range(len(axes))],
        }  # fmt: skip
        make.add(stage, [axis["size"] for axis in axes], [known])
    made: dict[str, Any] = make.recipe["stages"][-1]["tensors"][0]
    make.recipe["stages"][-1]["out"] = False
    return made


def _reader(make: Generator, source: dict[str, Any], alone: bool) -> None:
    """Add a stage that reads each element of a tensor once, with its dimensions in any order;
    ``alone``: and nothing else that is computed.
    """
    rng = make.rng
    order = list(range(len(source["shape"])))
    rng.shuffle(order)
    sizes = [source["shape"][k] for k in order]
    axes = make.axes(sizes, "S" * len(sizes))
    if [axis["size"] for axis in axes] != sizes:
        return
    draw = make.expressions(axes)
    draw.focus = None
    inputs = {tensor["name"] for tensor in make.recipe["inputs"]}
    draw.tensors = [
        one for one in make.tensors
        if one is not source and (not alone or one["name"] in inputs)
    ]  # fmt: skip
    indices: list[Any] = [["axis", order.index(k)] for k in range(len(order))]
    if rng.random() < 0.2:
        k = rng.randrange(len(indices))
        last = ["sub", ["size", source["shape"][k]], ["int", 1]]
        indices[k] = ["sub", last, indices[k]]
    one = (["load", source["name"], *indices], _known(source))
    other = draw.value(source["dtype"], 1) if draw.tensors else draw.leaf(source["dtype"])
    value, known = draw.combine(rng.choice(["add", "sub", "max", "min"]), one, other)
    if source["dtype"] == "bool":
        value, known = ["ne", one[0], other[0]], one[1]
    places = list(range(len(axes)))
    if rng.random() < 0.3:
        rng.shuffle(places)
    stage = {
        "kind": "compute", "axes": axes, "value": value, "binding": "plain",
        "indices": [["axis", k] for k in places],
    }  # fmt: skip
    make.add(stage, [sizes[k] for k in places], [known])


def _known(tensor: dict[str, Any]) -> Known:
    return Known(tensor["dtype"], tensor["low"], tensor["high"], tensor["ulp"])


def _permuted(make: Generator) -> None:
    """Add a stage that reads all of the tensor before it, with its dimensions in another order."""
    _reader(make, _source(make), alone=True)


def _two_readers(make: Generator) -> None:
    """Add two stages that read the same tensor."""
    source = _source(make)
    for _ in range(2):
        _reader(make, source, alone=False)


def _collecting(make: Generator) -> None:
    """Add a stage that reads several tensors of one shape, each of which a stage computes."""
    sizes = [make.dim() for _ in range(make.rng.choice([1, 2, 2]))]
    count = make.rng.choice([2, 3])
    dtype = make.rng.choice(["float32", "int32", "int64", "float64"])
    made = []
    for _ in range(count):
        axes = make.axes(sizes, "S" * len(sizes))
        if [axis["size"] for axis in axes] != sizes:
            return
        value, known = make.expressions(axes).value(dtype, 2)
        indices: list[Any] = [["axis", k] for k in range(len(axes))]
        stage = {"kind": "compute", "axes": axes, "value": value, "indices": indices}
        make.add(stage, sizes, [known])
        made.append(make.recipe["stages"][-1]["tensors"][0])
    axes = make.axes(sizes, "S" * len(sizes))
    if [axis["size"] for axis in axes] != sizes:
        return
    draw = make.expressions(axes)
    indices = [["axis", k] for k in range(len(axes))]
    total = (["load", made[0]["name"], *indices], _known(made[0]))
    for tensor in made[1:]:
        kind = make.rng.choice(["add", "sub", "max"])
        total = draw.combine(kind, total, (["load", tensor["name"], *indices], _known(tensor)))
    stage = {"kind": "compute", "axes": axes, "value": total[0], "indices": indices}
    make.add(stage, sizes, [total[1]])


CHAIN_STAGES: Stages = {
    **{name: STAGES[name] for name in ("compute", "reduce", "contraction", "epilogue", "padding")},
    "permuted": (5, _permuted), "two readers": (3, _two_readers), "collecting": (3, _collecting),
}  # fmt: skip
"""Kinds of stages that the templates find something to do with."""
