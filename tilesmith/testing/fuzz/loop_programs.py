"""Builds recipes as classic loop programs: no blocks; parts of buffers are realized around their
uses.
"""

from __future__ import annotations

import random
from typing import Any

from tilesmith.ir import Range, const
from tilesmith.testing.fuzz.recipe import Recipe, Sizes, parameters_of, unbound_sizes
from tilesmith.testing.fuzz.stages import StageBuilder
from tilesmith.tir import Buffer, ForKind, PrimFunc, decl_buffer
from tilesmith.tir.stmt import AttrStmt, BufferRealize, For, Stmt, stmt_seq

__all__ = ["LOOP_STAGES", "Bodies", "build_loops", "draw_loops", "nest", "realized"]

LOOP_STAGES = ("compute", "reduce", "contraction", "convolution", "epilogue", "padding", "argmax")
"""Stages that the generator draws for such programs."""

_KINDS = {
    "unroll": ForKind.UNROLLED, "parallel": ForKind.PARALLEL, "vectorized": ForKind.VECTORIZED,
}  # fmt: skip


def draw_loops(rng: random.Random, stage: dict[str, Any]) -> dict[str, Any]:
    """Return how a stage becomes loops: ``kinds`` of loops, ``margins`` around the part of a buffer
    that is used, ``scope``, an ``unroll`` pragma.
    """
    axes = stage["axes"]
    made: dict[str, Any] = {
        "margins": [rng.choice([0, 0, 1, 2]) for _ in range(2 * len(stage["tensors"][0]["shape"]))],
        "kinds": {}, "pragma": rng.random() < 0.15,
    }  # fmt: skip
    for k, axis in enumerate(axes):
        if rng.random() < 0.25:
            last = k == len(axes) - 1 and axis["type"] == "S"
            kinds = ["unroll", "parallel"] if axis["type"] == "S" else ["unroll"]
            made["kinds"][str(k)] = rng.choice([*kinds, *(["vectorized"] * 2 if last else [])])
    return made


def build_loops(recipe: Recipe) -> PrimFunc:
    """Return the classic program of a recipe."""
    sizes = Sizes(recipe)
    index = recipe["index"]
    buffers: dict[str, Buffer] = {}
    names = parameters_of(recipe)
    every = [*recipe["inputs"], *[one for stage in recipe["stages"] for one in stage["tensors"]]]
    for one in every:
        shape = [sizes.expr(size) for size in one["shape"]]
        buffers[one["name"]] = decl_buffer(shape, one["dtype"], one["name"])
    nests = [
        nest(Bodies(stage, buffers, sizes, index), stage.get("loops", {}))
        for stage in recipe["stages"]
    ]
    body = nests.pop()
    for stage in reversed(recipe["stages"]):
        for one in stage["tensors"]:
            if one["name"] not in names:
                body = realized(buffers[one["name"]], stage.get("loops", {}), body, index)
        if nests:
            body = stmt_seq(nests.pop(), body)
    scalars: list[Any] = [sizes.variables[name] for name in unbound_sizes(recipe)]
    return PrimFunc(
        scalars + [buffers[name] for name in names],
        body,
        attrs={"global_symbol": "main", "tir.noalias": True, "from_legacy_te_schedule": True},
    )


def realized(buffer: Buffer, loops: dict[str, Any], body: Stmt, index: str) -> Stmt:
    """Realize a buffer around its uses, with margins that are not used."""
    margins = loops.get("margins", [0] * (2 * len(buffer.shape)))
    bounds = []
    for size, before, after in zip(buffer.shape, margins[::2], margins[1::2]):
        low = const(-before, index)
        bounds.append(Range.from_min_extent(low, size + const(before + after, index)))
    return BufferRealize(buffer, bounds, const(True, "bool"), body)


def nest(builder: Bodies, form: dict[str, Any]) -> Stmt:
    """Return loops over the spatial axes; inside, initial values, and the reduction loops."""
    body, init = builder.bodies()
    axes = range(len(builder.axes))
    reduced = [k for k in axes if builder.axes[k]["type"] == "R"]
    for number in reversed(reduced):
        body = builder.loop(number, form, body)
    if init is not None:
        body = stmt_seq(init, body)
    for number in reversed([k for k in axes if k not in reduced]):
        body = builder.loop(number, form, body)
    return body


class Bodies(StageBuilder):
    """What a stage does in each iteration, without an enclosing block."""

    def bodies(self) -> tuple[Stmt, Stmt | None]:
        """Return the update, and the initial value."""
        return self._body()

    def loop(self, number: int, form: dict[str, Any], body: Stmt) -> Stmt:
        """Return the loop of an axis."""
        kind = _KINDS.get(form.get("kinds", {}).get(str(number), ""), ForKind.SERIAL)
        is_last = number == len(self.stage["axes"]) - 1
        if kind is ForKind.VECTORIZED and not is_last:
            kind = ForKind.SERIAL
        variable, extent = self.iterators[number], self.extents[number]
        made: Stmt = For(variable, const(0, self.index), extent, kind, body)
        if form.get("pragma") and number == 0 and kind is ForKind.SERIAL:
            at, steps = const(0, "int32"), const(8, "int32")
            made = AttrStmt(at, "pragma_auto_unroll_max_step", steps, made)
        return made
