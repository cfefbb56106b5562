"""Builds recipes as loop programs that keep results in memory of certain kinds: what threads of one
kernel share, or the special memory of a device.

A recipe has ``threads``, the number of threads of its kernel (0: a CPU runs the program). A stage
may have ``memory``, a dictionary:

- ``scope``: where its results lie, unless they are parameters
- ``axis``: the spatial axis that is divided among the threads (one thread works if there is none);
  ``strided``: a thread gets every so-many-th element instead of consecutive ones
- ``again``: stages that follow each other with the same number, not 0, run twice in a loop; what
  only they use is allocated in it
"""

from __future__ import annotations

import itertools
import random
from typing import Any

from tilesmith.ir import PrimExpr, Var, const
from tilesmith.testing.fuzz.intrinsics import SPECIAL_MEMORY
from tilesmith.testing.fuzz.loop_programs import Bodies, draw_loops, nest, realized
from tilesmith.testing.fuzz.recipe import Recipe, Sizes, parameters_of, unbound_sizes
from tilesmith.testing.fuzz.stages import all_loads
from tilesmith.tir import Buffer, ForKind, IterVar, PrimFunc, decl_buffer
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import AttrStmt, For, IfThenElse, Stmt, stmt_seq

__all__ = ["MEMORY_STAGES", "build_memory", "draw_memory"]

MEMORY_STAGES = ("compute", "reduce", "epilogue", "contraction", "padding", "argmax")
"""Stages that the generator draws for such programs."""

_SHARED = ("shared", "shared", "shared.dyn", "shared.dyn", "shared.dyn")
_ON_CPUS = ("global", "local", *SPECIAL_MEMORY)


def draw_memory(rng: random.Random, recipe: Recipe, kind: str) -> None:
    """Add to a recipe where its stages keep their results, and which loops they have: ``kind`` is
    what is drawn most, memory that "threads" share, "special" memory, or memory of "vectors".
    """
    recipe["threads"] = threads = rng.choice([2, 4, 4]) if kind == "threads" else 0
    scopes = rng.sample(_SHARED if threads else _ON_CPUS, rng.choice([1, 1, 2]))
    tensors = [*recipe["inputs"], *[one for stage in recipe["stages"] for one in stage["tensors"]]]
    shapes = {one["name"]: one["shape"] for one in tensors}
    group = 0
    for stage in recipe["stages"]:
        if rng.random() < 0.3:
            group = rng.choice([0, group + 1])
        stage["memory"] = {
            "scope": rng.choice(scopes), "axis": rng.randrange(3), "again": group,
            "strided": rng.random() < 0.5,
        }  # fmt: skip
        stage["loops"] = loops = draw_loops(rng, stage)
        stage["binding"] = "plain"
        if threads:
            loops["kinds"] = {k: kind for k, kind in loops["kinds"].items() if kind != "parallel"}
        if kind == "vectors":
            loops["margins"] = [0] * len(loops["margins"])  # rows begin at multiples of lanes
            loops["kinds"][str(len(stage["axes"]) - 1)] = "vectorized"
            if rng.random() < 0.9:
                stage["value"] = _in_rows(stage["value"], stage, shapes)


def _in_rows(value: Any, stage: dict[str, Any], shapes: dict[str, Any]) -> Any:
    """Return an expression that loads from tensors of the shape of a stage's result the element
    that is computed: a vector of iterations then loads rows.
    """
    if not isinstance(value, list):
        return value
    if value[0] == "load" and shapes[value[1]] == stage["tensors"][0]["shape"]:
        return ["load", value[1], *stage["indices"]]
    return [_in_rows(part, stage, shapes) for part in value]


def build_memory(recipe: Recipe) -> PrimFunc:
    """Return the program of a recipe that keeps its results in such memory."""
    program = _Program(recipe)
    scalars: list[Any] = [program.sizes.variables[name] for name in unbound_sizes(recipe)]
    return PrimFunc(
        scalars + [program.buffers[name] for name in program.parameters],
        program.body(),
        attrs={"global_symbol": "main", "tir.noalias": True, "from_legacy_te_schedule": True},
    )


class _Program:
    """The buffers and threads of a program."""

    def __init__(self, recipe: Recipe) -> None:
        self.stages: list[dict[str, Any]] = recipe["stages"]
        self.index: str = recipe["index"]
        self.sizes = Sizes(recipe)
        self.parameters = parameters_of(recipe)
        self.threads: int = recipe["threads"]
        self.thread = Var("threadIdx_x", self.index)
        self.buffers: dict[str, Buffer] = {}
        made = [(one, stage.get("memory", {})) for stage in self.stages for one in stage["tensors"]]
        for one, memory in [*[(one, {}) for one in recipe["inputs"]], *made]:
            name = one["name"]
            scope = "global" if name in self.parameters else memory.get("scope", "global")
            if self.threads and name not in self.parameters and not scope.startswith("shared"):
                scope = "shared"  # other memory belongs to one thread
            shape = [self.sizes.expr(size) for size in one["shape"]]
            self.buffers[name] = decl_buffer(shape, one["dtype"], name, scope=scope)

    def body(self) -> Stmt:
        """Return all stages, in a kernel if there are threads."""
        groups = [
            (number, list(group))
            for number, group in itertools.groupby(
                self.stages, lambda stage: stage.get("memory", {}).get("again", 0)
            )
        ]
        body: Stmt | None = None
        for position in reversed(range(len(groups))):
            number, group = groups[position]
            later = [stage for _, others in groups[position + 1 :] for stage in others]
            kept = {name for stage in later for name in all_loads(stage)} if number else set()
            inside = [name for name in self.made_by(group) if number and name not in kept]
            found = self.in_order(group, inside)
            if number:
                twice = const(2, self.index)
                found = For(
                    Var("again", self.index), const(0, self.index), twice, ForKind.SERIAL, found
                )
            body = found if body is None else stmt_seq(found, body)
            outside = [name for name in self.made_by(group) if name not in inside]
            body = self.with_memory(group, outside, body)
        assert body is not None
        return self.in_kernel(body) if self.threads else body

    def made_by(self, stages: list[dict[str, Any]]) -> list[str]:
        """Return the names of the tensors that stages make and that are no parameters."""
        names = [one["name"] for stage in stages for one in stage["tensors"]]
        return [name for name in names if name not in self.parameters]

    def with_memory(self, stages: list[dict[str, Any]], names: list[str], body: Stmt) -> Stmt:
        """Return a body with memory for some of the tensors that stages make."""
        for stage in stages:
            for one in stage["tensors"]:
                if one["name"] in names:
                    buffer = self.buffers[one["name"]]
                    body = realized(buffer, stage.get("loops", {}), body, self.index)
        return body

    def in_order(self, stages: list[dict[str, Any]], inside: list[str]) -> Stmt:
        """Return stages one after the other, each with the memory for the results named."""
        body: Stmt | None = None
        for stage in reversed(stages):
            form = stage.get("memory", {})
            if self.threads:
                found = _Threads(stage, self, form).whole()
            else:
                bodies = Bodies(stage, self.buffers, self.sizes, self.index)
                found = nest(bodies, stage.get("loops", {}))
            body = found if body is None else stmt_seq(found, body)
            body = self.with_memory([stage], inside, body)
        assert body is not None
        return body

    def in_kernel(self, body: Stmt) -> Stmt:
        """Return a body that the threads of one block run."""
        block = Var("blockIdx_x", self.index)
        for variable, count in ((self.thread, self.threads), (block, 1)):
            tag = variable.name.replace("_", ".")
            axis = IterVar(None, variable, IterVar.ThreadIndex, tag)
            body = AttrStmt(axis, "thread_extent", const(count, self.index), body)
        return body


class _Threads(Bodies):
    """The loops of a stage whose iterations threads share."""

    def __init__(self, stage: dict[str, Any], program: _Program, form: dict[str, Any]) -> None:
        super().__init__(stage, program.buffers, program.sizes, program.index)
        self.thread: PrimExpr = program.thread
        self.threads = program.threads
        self.count = const(program.threads, program.index)
        self.strided = form.get("strided", True)
        spatial = [k for k, axis in enumerate(self.axes) if axis["type"] == "S"]
        self.divided = spatial[form.get("axis", 0) % len(spatial)] if spatial else None

    def whole(self) -> Stmt:
        """Return the loops, which only the first thread runs if there is no axis to divide."""
        body = nest(self, self.stage.get("loops", {}))
        return body if self.divided is not None else IfThenElse(self.thread.equal(0), body, None)

    def loop(self, number: int, form: dict[str, Any], body: Stmt) -> Stmt:
        if number != self.divided:
            return super().loop(number, form, body)
        extent = self.extents[number]
        each = (extent + (self.count - 1)) // self.count
        own = Var(f"{self.iterators[number].name}_own", self.index)
        place = own * self.count + self.thread if self.strided else self.thread * each + own
        body = substitute(body, {self.iterators[number]: place})
        size = getattr(extent, "value", None)
        if size is None or size % self.threads:
            body = IfThenElse(place < extent, body, None)
        return For(own, const(0, self.index), each, ForKind.SERIAL, body)
