"""Other forms of stages: nested and opaque blocks, views, branches, lets, assertions around loops.

A stage of a recipe may have a ``form``, a dictionary:

- ``inside``: the number of the first axis whose loop lies inside the block (0: an opaque block)
- ``nested``: the number of the first axis that belongs to a block inside the block
- ``matched``: names of tensors that the block sees through ``match_buffer``
- ``local``: the value goes through a buffer that the block allocates ("twice": after another
  value); ``view``: through a view of it, whose shape is bound by a let: a number, a number that
  depends on an iterator, or on a size
- ``branches``: the block stands twice, on both sides of an ``if`` around it
- ``assertion``, ``assumption``, ``nothing``: statements that are always true, or do nothing
- ``let``: a variable between the loops and the block; ``shift``: a loop that begins elsewhere
- ``begin``: begins of loops and of the iterators that they drive, by the number of their axis
- ``triangle``: two axes; the loop of the second one is as long as the first one has come
- ``where``: an axis, "from" or "to" and a number: the block leaves out the first or last elements
- ``likely``: the condition of the block is a hint; ``pointer``: the block reads a tensor through a
  buffer that is declared at the same pointer
- ``handed``: parts of the block are done by other functions, which get pointers (``handed``)
- ``checked``: after each store that is handed on, the first element is checked to be small enough
- ``loops``: kinds of loops, by the number of their axis
- ``wide``: the block says that it reads all of each buffer
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tilesmith import tir
from tilesmith.ir import GlobalVar, PrimExpr, Range, StringImm, Var, const, structural_equal
from tilesmith.testing.fuzz.handed import Hander, draw_handed
from tilesmith.testing.fuzz.stages import StageBuilder, all_loads
from tilesmith.tir import (
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    PrimFunc,
    decl_buffer,
)
from tilesmith.tir.functor import renew_defs
from tilesmith.tir.stmt import (
    AssertStmt,
    Block,
    BlockRealize,
    DeclBuffer,
    Evaluate,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    SeqStmt,
    Stmt,
    While,
    stmt_seq,
)

__all__ = ["FormBuilder", "check_first", "draw_form", "leave_out"]

Form = dict[str, Any]
_SIMPLE = ("compute", "reduce")


def draw_form(rng: random.Random, stage: dict[str, Any], wanted: Sequence[str] = ()) -> Form:
    """Return a random form of a stage, with one or two properties (some of ``wanted``, if given);
    empty where none applies.
    """
    axes, form = stage["axes"], Form()
    spatial = 0
    while spatial < len(axes) and axes[spatial]["type"] == "S":
        spatial += 1
    is_plain = stage["binding"] == "plain"
    plain = stage["kind"] == "compute" and is_plain
    choices = ["assertion", "nothing", "wide"]
    if stage["kind"] not in ("scatter", "carry"):
        choices += ["assumption", "shift", "loops", "let"]
    if stage["kind"] in _SIMPLE and stage["binding"] == "plain":
        choices += ["nested"] * 3 + ["matched"] * 4 + ["local"] * 2 + ["view"] * 2
        choices += ["inside"] * 2 if stage["kind"] == "compute" else []
    choices += ["branches"] * 2 if plain else []
    choices += ["begin"] * 3 if is_plain and stage["kind"] in _SIMPLE else []
    choices += ["pointer"] if is_plain and stage["kind"] in _SIMPLE else []
    choices += ["handed"] * 2 if stage["kind"] in (*_SIMPLE, "update", "argmax") else []
    choices += ["likely"] * 2 if stage["binding"] == "tiled" else []
    pairs = _triangles(stage) if is_plain and "loop_order" not in stage else []
    choices += ["triangle"] * 4 if pairs else []
    choices = [kind for kind in choices if not wanted or kind in wanted]
    for _ in range(rng.choice([1, 1, 2]) if choices else 0):
        kind = rng.choice(choices)
        if kind in ("inside", "nested") and ("inside" in form or "nested" in form):
            continue
        if kind in _ALONE and form or _ALONE.intersection(form):
            continue
        if {kind, *form} >= {"handed", "nested"}:
            continue  # what is handed on belongs to the whole block
        if kind == "triangle":
            form[kind] = rng.choice(pairs)
        elif kind == "begin":
            begins = {str(k): rng.choice([1, 3, 5]) for k in range(len(axes)) if rng.random() < 0.5}
            form[kind] = begins or {str(len(axes) - 1): 3}
        elif kind == "inside":
            form[kind] = rng.randint(0, len(axes) - 1)
        elif kind == "nested":
            form[kind] = rng.randint(0, spatial)
        elif kind == "matched":
            form[kind] = ["*"]
        elif kind == "handed":
            form[kind] = draw_handed(rng)
        elif kind == "local":
            form[kind] = rng.choice([True, "twice"])
        elif kind == "view":
            form["local"], form[kind] = True, rng.choice(["number", "iterator", "size"])
        elif kind in ("shift", "branches"):
            form[kind] = rng.choice([1, 2, 5])
        elif kind == "loops":
            number = rng.randrange(len(axes))
            kinds = ["unroll", "parallel", "vectorized"] if number < spatial else ["unroll"]
            form[kind] = {str(number): rng.choice(kinds)}
        else:
            form[kind] = True
    return form


def check_first(rng: random.Random, stage: dict[str, Any]) -> bool:
    """Let a stage whose stores are handed on check, after each of them, the first element of its
    result, which the first of them writes; return whether it does.
    """
    (tensor, *_), form = stage["tensors"], stage.get("form", {})
    is_small = -60 < tensor["low"] <= tensor["high"] < 60 and tensor["dtype"] != "bool"
    is_plain = stage["kind"] == "compute" and stage["binding"] == "plain"
    is_alone = list(form) == ["handed"] and form["handed"]["part"] == "writes"
    if is_small and is_plain and is_alone and tensor["ulp"] is None and rng.random() < 0.3:
        form["checked"] = True
    return "checked" in form


def leave_out(rng: random.Random, stages: list[dict[str, Any]]) -> None:
    """Let some stages leave out the first or last elements of results that no other one uses."""
    for stage in stages:
        (name, *_) = [tensor["name"] for tensor in stage["tensors"]]
        others = [one for one in stages if one is not stage]
        used = {one for other in others for one in all_loads(other)}
        used |= {one["name"] for other in others for one in other["tensors"]}
        is_plain = stage["kind"] == "compute" and stage["binding"] == "plain"
        if is_plain and not stage.get("form") and name not in used and rng.random() < 0.3:
            axis = rng.randrange(len(stage["axes"]))
            stage["form"] = {"where": [axis, rng.choice(["from", "to"]), rng.choice([1, 1, 2])]}


_ALONE = {"begin", "pointer"}
"""Properties that blocks with others do not have."""


def _triangles(stage: dict[str, Any]) -> list[list[int]]:
    """Return pairs of axes such that the second one may stop early: it is added up, or updated in
    place.
    """
    axes = stage["axes"]
    kinds = {"reduce": "R", "update": "S"}.get(stage["kind"], "")
    return [
        [outer, inner] for inner, axis in enumerate(axes) for outer in range(inner)
        if axis["type"] in kinds and axes[outer]["type"] == "S"
    ]  # fmt: skip


class FormBuilder(StageBuilder):
    """Builds the nest of a stage in its form."""

    def __init__(self, stage: dict[str, Any], buffers: dict[str, Buffer], sizes: Any, index: str):
        super().__init__(stage, dict(buffers), sizes, index)
        self.given = buffers
        self.form: Form = stage.get("form", {})
        first = self.form.get("inside")
        if first is not None:
            self.inside = list(range(first, len(self.axes)))
        self.builder.buffers = self.buffers
        self.matches: list[MatchBufferRegion] = []
        self.allocated: list[Buffer] = []
        self.hander = Hander(self.form["handed"]) if "handed" in self.form else None
        self.functions: dict[GlobalVar, PrimFunc] = {}  # further ones of the module
        self.begins = {int(k): begin for k, begin in self.form.get("begin", {}).items()}
        for k, begin in self.begins.items():
            self.builder.axes[k] = self.iterators[k] - const(begin, index)

    def nest(self) -> Stmt:
        """Return the loops with the block, and the statements around them."""
        nest = self._carrying_nest() if self.stage["kind"] == "carry" else super().nest()
        if self.form.get("assertion"):
            least = self.extents[0] >= const(1, self.index)
            nest = AssertStmt(least, StringImm("a size is too small"), nest)
        return nest

    def block(self) -> tuple[list[int], Block]:
        """Return the block, and the axes that it iterates itself."""
        if self.form.get("matched"):
            self._match()
        if self.hander is not None:
            own, block = super().block()
            block = self.hander.block(block, self.iterators, self.extents)
            self.functions.update(self.hander.functions)
            return own, self._checked(block) if self.form.get("checked") else block
        if not self.form.get("pointer"):
            return super().block()
        views = {}
        for one in sorted(all_loads(self.stage)):
            buffer = self.given[one]
            label = f"{self.stage['name']}_{one}"
            views[one] = decl_buffer(buffer.shape, buffer.dtype, label, buffer.data)
        self.buffers.update(views)
        own, block = super().block()
        return own, _through_pointers(block, {views[one]: self.given[one] for one in views})

    # What the block does.

    def _body(self) -> tuple[Stmt, Stmt | None]:
        body, init = super()._body()
        if self.form.get("local") and isinstance(body, BufferStore) and init is None:
            body = self._through_a_buffer(body)
        if self.form.get("assumption"):
            body = stmt_seq(Evaluate(tir.assume(self._known())), body)
        if self.form.get("nothing"):
            body = stmt_seq(Evaluate(const(0, "int32")), body)
        first = self.form.get("nested")
        if first is None:
            return body, init
        return self._inner_block(body, init, first), None

    def _known(self) -> PrimExpr:
        """Return a condition that is always true in front of the body."""
        # A `while` binds the iterator of a running sum itself: in front of it the name is free, and
        # `axes` is without it.
        known: PrimExpr = self.extents[0] >= const(1, self.index)
        if self.axes:
            known = self.iterators[0] < self.extents[0]
        return known

    def _inner_block(self, body: Stmt, init: Stmt | None, first: int) -> Stmt:
        """Return a block over the axes from ``first`` on; the others belong to the enclosing
        block.
        """
        own = list(range(first, len(self.axes)))
        block = self._block(own, self.stage["name"] + "_inner", body, init)
        self.axes = self.axes[:first]
        loops = [(Var(f"j{k}", self.index), self.extents[k]) for k in own]
        realize: Stmt = BlockRealize([variable for variable, _ in loops], True, block)
        for variable, extent in reversed(loops):
            realize = self._loop(variable, extent, realize)
        return realize

    def _through_a_buffer(self, store: BufferStore) -> Stmt:
        """Pass the value through a buffer that the block allocates."""
        name = self.stage["name"] + "_kept"
        zero = const(0, self.index)
        kind = self.form.get("view")
        kept = decl_buffer((8 if kind else 1,), store.buffer.dtype, name, scope="local")
        self.allocated.append(kept)
        if kind:
            return self._through_a_view(kept, store, kind)
        earlier = [BufferStore(kept, const(1, kept.dtype), [zero])]
        return stmt_seq(
            *(earlier if self.form["local"] == "twice" else []),
            BufferStore(kept, store.value, [zero]),
            BufferStore(store.buffer, BufferLoad(kept, [zero]), store.indices),
        )

    def _through_a_view(self, kept: Buffer, store: BufferStore, kind: str) -> Stmt:
        """Pass the value through a view of a buffer whose row length is bound by a let."""
        width = Var("width", self.index)
        lengths: dict[str, PrimExpr] = {
            "number": const(3, self.index),
            "iterator": tir.floormod(self.iterators[0], const(3, self.index)) + 1,
            "size": tir.Min(self.extents[0], const(4, self.index)),
        }
        rows = [const(2, self.index), width]
        view = decl_buffer(rows, kept.dtype, kept.name + "_view", data=kept.data, scope="local")
        place = [const(1, self.index), const(0, self.index)]
        body = stmt_seq(
            BufferStore(view, store.value, place),
            BufferStore(store.buffer, BufferLoad(view, place), store.indices),
        )
        return LetStmt(width, lengths[kind], DeclBuffer(view, body))

    def _block(self, own: list[int], name: str, body: Stmt, init: Stmt | None) -> Block:
        block = super()._block(own, name, body, init)
        if self.allocated or self.matches:
            block = self._with_views(block)
        if self.form.get("wide"):
            block = block.with_fields(reads=tuple([_everything(one) for one in block.reads]))
        return block

    def begin(self, number: int) -> int:
        """Return where the domain of an axis begins, as the form says."""
        return int(self.begins.get(number, 0))

    def _with_views(self, block: Block) -> Block:
        """Return the block with its allocations and views; it accesses the sources of its views."""
        matches, allocated = self.matches, self.allocated
        self.matches, self.allocated = [], []
        block = block.with_fields(alloc_buffers=tuple(allocated), match_buffers=tuple(matches))
        inner = [match.buffer for match in matches] + allocated
        regions: dict[str, list[BufferRegion]] = {}
        for kind in ("reads", "writes"):
            seen = getattr(block, kind)
            hidden = {buffer.data for buffer in inner}
            kept = [one for one in seen if one.buffer.data not in hidden]
            for match in matches:
                touched = any(one.buffer is match.buffer for one in seen)
                known = any(one.buffer is match.source.buffer for one in kept)
                if touched and not known:
                    kept.append(match.source)
            regions[kind] = kept
        return block.with_fields(reads=tuple(regions["reads"]), writes=tuple(regions["writes"]))

    # Views.

    def _match(self) -> None:
        """Replace a tensor by a view if all its accesses have the same leading indices."""
        stage = self.stage
        targets = [one["name"] for one in stage["tensors"]]
        found: dict[str, list[list[Any]]] = {name: [stage["indices"]] for name in targets}
        for key in ("value", "other", "condition", "start"):
            _collect(stage.get(key), found)
        outside = self.form.get("inside", self.form.get("nested"))
        count = len(self.axes) if outside is None else outside
        for name, places in sorted(found.items()):
            wanted = self.form["matched"]
            if (wanted == ["*"] or name in wanted) and places[0]:
                self._view(name, places, count)

    def _view(self, name: str, places: list[list[Any]], count: int) -> None:
        """Return a view of one buffer: a row (or less) where its leading indices are the same
        everywhere and consist of iterators of this block.
        """
        buffer = self.buffers[name]
        fixed = 0
        while fixed < len(places[0]) and all(place[fixed] == places[0][fixed] for place in places):
            kind, *rest = places[0][fixed]
            if kind != "axis" or rest[0] >= count or rest[0] in self.inside:
                break
            if not structural_equal(buffer.shape[fixed], self.extents[rest[0]]):
                break  # under a condition some iterations may be out of bounds
            fixed += 1
        one = const(1, self.index)
        zero = const(0, self.index)
        begin: list[PrimExpr] = [self.iterators[place[1]] for place in places[0][:fixed]]
        ranges = [Range.from_min_extent(start, one) for start in begin]
        ranges += [Range.from_min_extent(zero, size) for size in buffer.shape[fixed:]]
        shape = [one] * fixed + list(buffer.shape[fixed:])
        label = f"{self.stage['name']}_{name}"
        strides = [Var(f"{label}_s{k}", self.index) for k in range(len(shape))]
        view = decl_buffer(
            shape, buffer.dtype, label, strides=strides, scope=buffer.scope(), offset_factor=1
        )
        self.matches.append(MatchBufferRegion(view, BufferRegion(buffer, ranges)))
        self.buffers[name] = view
        self.builder.fixed[name] = fixed

    # The loops.

    def _loop(self, variable: Var, extent: PrimExpr, body: Stmt) -> Stmt:
        name = variable.name
        number = name[1:].partition("_")[0]
        own = name[0] == "i" and number.isdigit()
        if own and int(number) in self.begins:
            begin = const(self.begins[int(number)], self.index)
            return For(variable, begin, extent, ForKind.SERIAL, body)
        if own and self.form.get("triangle", [0, -1])[1] == int(number):
            outer = self.loop_variables.get(self.form["triangle"][0])
            if outer is not None and variable is self.loop_variables.get(int(number)):
                extent = tir.Min(outer + 1, extent)
        shift = self.form.get("shift")
        if shift and number == "0" and name[0] == "i":
            moved = Var(name, self.index)
            begin = const(shift, self.index)
            body = tir.functor.substitute(body, {variable: moved - begin})
            return For(moved, begin, extent, ForKind.SERIAL, body)
        kind = self.form.get("loops", {}).get(number) if name[0] == "i" else None
        kinds = {"unroll": ForKind.UNROLLED, "parallel": ForKind.PARALLEL}
        chosen = kinds.get(kind or "", ForKind.SERIAL)
        if kind == "vectorized" and number == str(len(self.axes) - 1):
            chosen = ForKind.VECTORIZED
        return For(variable, const(0, self.index), extent, chosen, body)

    def _realize(self, values: list[PrimExpr], predicate: PrimExpr, block: Block) -> Stmt:
        """Return the block inside the statements between it and its loops."""
        if "where" in self.form:
            predicate = self._within(values)
        if self.form.get("likely"):
            predicate = tir.likely(predicate)
        if self.form.get("let") and values and isinstance(values[0], Var):
            variable = Var("at", self.index)
            made = BlockRealize([variable, *values[1:]], predicate, block)
            return LetStmt(variable, values[0], made)
        limit = self.form.get("branches")
        if limit and values and isinstance(values[0], Var):
            form = {key: value for key, value in self.form.items() if key != "branches"}
            again = {**self.stage, "name": self.stage["name"] + "_else", "form": form}
            builder = FormBuilder(again, self.given, self.sizes, self.index)
            _, other = builder.block()
            # with `tables_outside`, constant memory lies around the loops that both blocks share
            self.builder.tables += builder.builder.tables
            self.functions.update(builder.functions)
            condition = values[0] < const(limit, self.index)
            return IfThenElse(
                condition,
                BlockRealize(values, predicate, block),
                BlockRealize(values, predicate, other),
            )
        return super()._realize(values, predicate, block)

    def _checked(self, block: Block) -> Block:
        """Return a block that checks the first element of its result after each store."""
        buffer, zero = self._target()[0], const(0, self.index)
        zeros = [zero] * len(buffer.shape)
        most = const(self.stage["tensors"][0]["high"], buffer.dtype)
        is_small = BufferLoad(buffer, zeros) <= most
        check = tir.checked(const(0, "int32"), is_small, "the result is too large")
        point = [Range.from_min_extent(zero, const(1, self.index))] * len(zeros)
        reads = (*block.reads, BufferRegion(buffer, point))
        return block.with_fields(body=stmt_seq(block.body, Evaluate(check)), reads=reads)

    def _within(self, values: list[PrimExpr]) -> PrimExpr:
        """Return the condition that leaves out some elements."""
        number, end, count = self.form["where"]
        within: PrimExpr = values[number] < self.extents[number] - count
        if end == "from":
            within = values[number] >= const(count, self.index)
        return within

    # Kinds of stages that only this builder knows.

    def _body_scatter(self) -> tuple[Stmt, None]:
        """Return sums at indices that depend on data, in one opaque block."""
        buffer, indices = self._target()
        self.inside = []
        value = self.builder.make(self.stage["value"])
        start = Var("z", self.index)
        clear: Stmt = BufferStore(buffer, const(0, buffer.dtype), [start])
        clear = super()._loop(start, buffer.shape[0], clear)
        store: Stmt = BufferStore(buffer, BufferLoad(buffer, indices) + value, indices)
        for number in reversed(range(len(self.axes))):
            store = super()._loop(self.iterators[number], self.extents[number], store)
        self.axes = []
        return stmt_seq(clear, store), None

    def _carrying_nest(self) -> Stmt:
        """Return one loop over rows, in which a block makes a row and another one combines it with
        the row before: its first iterator is opaque, since the rows come in order.
        """
        axes = self.axes
        (result, indices), (kept, _) = self._target(), self._target(1)
        make = self.builder.make
        made = self._with_tables(BufferStore(kept, make(self.stage["value"]), indices))
        later = self._with_tables(BufferStore(result, make(self.stage["other"]), indices))
        everything = list(range(len(axes)))
        parts = []
        for name, store, is_ordered in (
            ("_row", made, self.stage["ordered"]),
            ("", later, True),
        ):
            kinds = ["O" if is_ordered else "S", *["S"] * (len(axes) - 1)]
            self.axes = [{**axis, "type": kind} for axis, kind in zip(axes, kinds)]
            block = self._block(everything, self.stage["name"] + name, store, None)
            parts.append(renew_defs(block))
        row = Var("i0", self.index)
        nests = []
        for block in parts:
            inner = [Var(f"i{k}", self.index) for k in everything[1:]]
            nest: Stmt = BlockRealize([row, *inner], True, block)
            for variable, extent in reversed(list(zip(inner, self.extents[1:]))):
                nest = super()._loop(variable, extent, nest)
            nests.append(nest)
        return super()._loop(row, self.extents[0], stmt_seq(*nests))

    def _body_until(self) -> tuple[Stmt, None]:
        """Add up a value as often as the data say."""
        buffer, indices = self._target()
        counter = decl_buffer((1,), self.index, self.stage["name"] + "_count", scope="local")
        self.allocated.append(counter)
        zero = const(0, self.index)
        now = BufferLoad(counter, [zero])
        own = BufferLoad(buffer, indices)
        count = tir.floormod(self.builder.make(self.stage["condition"]), const(5, self.index))
        step: list[Stmt] = [
            BufferStore(buffer, own + self.builder.make(self.stage["value"]), indices),
            BufferStore(counter, now + 1, [zero]),
        ]
        begin: list[Stmt] = [
            BufferStore(buffer, const(0, buffer.dtype), indices),
            BufferStore(counter, zero, [zero]),
        ]
        return SeqStmt([*begin, While(now < count, SeqStmt(step))]), None


def _through_pointers(block: Block, views: dict[Buffer, Buffer]) -> Block:
    """Return a block in which views of other buffers' pointers are declared; its regions name the
    other buffers.
    """
    reads = [BufferRegion(views.get(one.buffer, one.buffer), one.region) for one in block.reads]
    body, init = block.body, block.init
    for view in views:
        body = DeclBuffer(view, body)
        init = None if init is None else DeclBuffer(view, init)
    return block.with_fields(reads=tuple(reads), body=body, init=init)


def _everything(region: BufferRegion) -> BufferRegion:
    whole = [Range.from_min_extent(const(0, size.dtype), size) for size in region.buffer.shape]
    return BufferRegion(region.buffer, whole)


def _collect(expr: Any, found: dict[str, list[list[Any]]]) -> None:
    """Return the indices of all loads, by tensor."""
    if isinstance(expr, list):
        if expr and expr[0] == "load":
            found.setdefault(expr[1], []).append(expr[2:])
        for part in expr:
            _collect(part, found)
