"""A stage: how one operation of a classic schedule is computed, where, and by which loops."""

from __future__ import annotations

import copy
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from tilesmith.ir import IntImm, PrimExpr, StringImm, Var, convert
from tilesmith.support.caller import CallerPlace, place_of_caller
from tilesmith.support.fallbacks import record_fallback
from tilesmith.te.schedule.layouts import transform_layout
from tilesmith.te.schedule.loop_attributes import LoopAttributes, Pragma, Prefetched
from tilesmith.te.schedule.refusals import check_scope, describe, position, refuse
from tilesmith.te.schedule.relations import Fuse, IterVarRelation, Singleton, Split
from tilesmith.te.tensor import ComputeOp, HybridOp, Operation, PlaceholderOp, ScanOp
from tilesmith.tir.expr import IterVar
from tilesmith.tir.index_map import IndexMap

__all__ = ["AttachType", "Stage"]


class AttachType(IntEnum):
    """Where a stage is computed. The numbers are those that users know."""

    GROUP_ROOT = 1
    INLINE = 2
    INLINED_ALREADY = 3
    SCOPE = 4
    SCAN_UPDATE = 5


_SPLITTABLE = (IterVar.DataPar, IterVar.CommReduce, IterVar.Ordered)
_MOVABLE = (IterVar.DataPar, IterVar.CommReduce, IterVar.ThreadIndex)


class Stage:
    """One operation of a schedule, or a group of operations.

    ``op`` is the operation as it is now (primitives of the schedule may replace it), ``origin_op``
    the one that the user made. ``leaf_iter_vars`` are the loops from outside to inside,
    ``all_iter_vars`` also those that were split or fused. ``relations`` say how they hang together.
    """

    def __init__(self, op: Operation | None) -> None:
        self.op: Any = op
        self.origin_op: Any = op
        roots = [] if op is None else list(op.root_iter_vars)
        self.all_iter_vars: list[IterVar] = list(roots)
        # An axis that cannot become a loop (the spatial axes of scans) is no leaf.
        self.leaf_iter_vars = [axis for axis in roots if axis.iter_type != IterVar.Opaque]
        self.env_thread_axes: list[IterVar] = []
        self.store_predicate: PrimExpr | None = None
        self.relations: list[IterVarRelation] = []
        self.iter_var_attrs: dict[IterVar, LoopAttributes] = {}
        self.attach_type = AttachType.GROUP_ROOT
        self.attach_ivar: IterVar | None = None
        self.attach_stage: Stage | None = None
        self.placed_at: CallerPlace | None = None
        """Where the user's program placed the stage, for errors that show when it is lowered."""
        self.tensorized_at: CallerPlace | None = None
        self.scope = ""
        self.is_output = False
        self.has_double_buffer = False
        self.has_rolling_buffer = False
        self.group: Stage | None = None
        self.num_child_stages = 0
        self.layout_transforms: list[IndexMap] = []
        self.axis_separators: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The name of the operation; of a group, "group"."""
        return "group" if self.op is None else self.op.name

    @property
    def is_scheduled(self) -> bool:
        """True if a primitive changed the loops."""
        return bool(
            self.relations
            or self.attach_type != AttachType.GROUP_ROOT
            or len(self.all_iter_vars) != len(self.leaf_iter_vars)
            or any(a is not b for a, b in zip(self.all_iter_vars, self.leaf_iter_vars))
        )

    def group_spec(self) -> Stage:
        """Return the outermost stage that attaches this one: its group's while the stage itself
        stands at the root of the group.
        """
        stage = self
        while stage.attach_type == AttachType.GROUP_ROOT and stage.group is not None:
            stage = stage.group
        return stage

    def copy(self) -> Stage:
        """Return a stage that can change on its own; it still names the stage that it is computed
        in, and its group.
        """
        new = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, list):
                setattr(new, name, list(value))
        new.iter_var_attrs = {axis: one.copy() for axis, one in self.iter_var_attrs.items()}
        return new

    def attributes(self, axis: IterVar) -> LoopAttributes:
        """Return what is said about a loop, to be changed."""
        found = self.iter_var_attrs.get(axis)
        if found is None:
            found = self.iter_var_attrs[axis] = LoopAttributes(axis.iter_type)
        return found

    def relate(self, relation: IterVarRelation, where: int) -> None:
        """Replace the leaves that a relation takes by those that it makes, at a position."""
        taken = relation.above
        for axis in taken:
            marks = self.iter_var_attrs[axis].marks(axis) if axis in self.iter_var_attrs else ()
            if marks:
                what = f"{', '.join(marks)} of loop '{axis.var.name}'"
                reason = f"{what} is lost: the loop is no more, mark those that take its place"
                record_fallback("schedule", f"stage '{self.name}'", reason)
        self.leaf_iter_vars = [
            axis for axis in self.leaf_iter_vars if not any(axis is one for one in taken)
        ]
        self.leaf_iter_vars[where:where] = relation.below
        self.all_iter_vars += relation.below
        self.relations.append(relation)

    # Loops

    def split(
        self,
        parent: IterVar,
        factor: Any = None,
        nparts: Any = None,
        disable_predication: bool = False,
    ) -> tuple[IterVar, IterVar]:
        """Split a loop by the extent of the inner loop (``factor``) or of the outer one
        (``nparts``); returns outer and inner.

            for i in range(10): …            for i_outer in range(3):
          split(i, factor=4)                     for i_inner in range(4):
                                                     if i_outer * 4 + i_inner < 10: …

        ``disable_predication`` leaves out the guard: the extent must be known to divide.
        """
        _check_loops(self, "split")
        where = _position_of_loop(self, "split", parent)
        if parent.iter_type not in _SPLITTABLE:
            raise refuse("split", self, f"{describe(parent)} cannot be split", parent)
        if (factor is None) == (nparts is None):
            raise refuse(
                "split", self, "one of factor and nparts is needed", parent,
                "factor is the extent of the inner loop, nparts that of the outer one",
            )  # fmt: skip
        name, kind = parent.var.name, parent.iter_type
        dtype = parent.var.dtype
        size = _number_of_iterations(self, "split", parent, factor if nparts is None else nparts)
        outer = IterVar(None, Var(f"{name}.outer", dtype), kind)
        inner = IterVar(None, Var(f"{name}.inner", dtype), kind)
        factor, nparts = (size, None) if nparts is None else (None, size)
        split = Split(parent, outer, inner, factor, nparts, disable_predication, place_of_caller())
        self.relate(split, where)
        return outer, inner

    def fuse(self, *args: Any) -> IterVar:
        """Fuse loops that follow each other into one; without loops: make a loop of one iteration.

        for i in range(4):
            for j in range(8): …         for i_j_fused in range(32): …
        """
        _check_loops(self, "fuse")
        loops = list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        if not loops:
            if self.leaf_iter_vars:
                raise refuse("fuse", self, "name the loops to fuse; the stage has some")
            single = IterVar(None, Var("singleton", "int32"), IterVar.DataPar)
            self.relate(Singleton(single), 0)
            return single
        fused: IterVar = loops[0]
        _position_of_loop(self, "fuse", fused)
        for inner in loops[1:]:
            fused = _fuse_two(self, fused, inner)
        return fused

    def reorder(self, *args: IterVar) -> None:
        """Bring loops into the order in which they are given, at the places that they have now."""
        _check_loops(self, "reorder")
        where = [_position_of_loop(self, "reorder", axis) for axis in args]
        for axis, place in zip(args, where):
            if axis.iter_type not in _MOVABLE:
                raise refuse("reorder", self, f"{describe(axis)} keeps its place", axis)
            if where.count(place) > 1:
                raise refuse("reorder", self, f"'{axis.var.name}' is given twice", axis)
        for place, axis in zip(sorted(where), args):
            self.leaf_iter_vars[place] = axis

    def tile(
        self, x_parent: IterVar, y_parent: IterVar, x_factor: Any, y_factor: Any
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Split two loops and bring the inner ones inside: tiles of ``x_factor × y_factor``.
        Returns x outer, y outer, x inner, y inner.
        """
        x_outer, x_inner = self.split(x_parent, x_factor)
        y_outer, y_inner = self.split(y_parent, y_factor)
        self.reorder(x_outer, y_outer, x_inner, y_inner)
        return x_outer, y_outer, x_inner, y_inner

    def bind(self, ivar: IterVar, thread_ivar: IterVar) -> None:
        """Run the iterations of a loop on the threads of ``te.thread_axis(…)``."""
        _check_loops(self, "bind")
        _position_of_loop(self, "bind", ivar)
        if not isinstance(thread_ivar, IterVar) or thread_ivar.iter_type != IterVar.ThreadIndex:
            raise refuse(
                "bind", self, f"a thread axis is needed, got {thread_ivar!r}", ivar,
                'for example te.thread_axis("threadIdx.x")',
            )  # fmt: skip
        if ivar.iter_type == IterVar.ThreadIndex:
            raise refuse("bind", self, f"{describe(ivar)} is a thread already", ivar)
        found = self.attributes(ivar)
        found.bind_thread, found.bound_at = thread_ivar, place_of_caller()

    def vectorize(self, var: IterVar) -> None:
        """Run the iterations of a loop as lanes of vectors."""
        self._set_kind("vectorize", var, IterVar.Vectorized)

    def unroll(self, var: IterVar) -> None:
        """Write out the iterations of a loop."""
        self._set_kind("unroll", var, IterVar.Unrolled)

    def parallel(self, var: IterVar) -> None:
        """Divide the iterations of a loop among the threads of the CPU."""
        self._set_kind("parallel", var, IterVar.Parallelized)

    def tensorize(self, var: IterVar, tensor_intrin: Any) -> None:
        """Replace a loop and what is inside of it by a tensor intrinsic (te.decl_tensor_intrin)."""
        _check_loops(self, "tensorize")
        _position_of_loop(self, "tensorize", var)
        found = self.attributes(var)
        found.iter_type = IterVar.Tensorized
        found.tensor_intrin = tensor_intrin
        self.tensorized_at = place_of_caller()

    def _set_kind(self, primitive: str, axis: IterVar, kind: int) -> None:
        _check_loops(self, primitive)
        _position_of_loop(self, primitive, axis)
        if primitive != "unroll" and axis.iter_type == IterVar.CommReduce:
            raise refuse(
                primitive, self, f"{describe(axis)} adds to the same element in each iteration",
                axis, "rfactor makes partial results that are independent",
            )  # fmt: skip
        self.attributes(axis).iter_type = kind

    def pragma(self, var: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
        """Attach a pragma to a loop, such as "auto_unroll_max_step" with a number.

        "unroll", "vectorize" and "parallel" are the primitives of these names.
        """
        _position_of_loop(self, "pragma", var)
        if pragma_type in ("unroll", "vectorize", "parallel"):
            getattr(self, pragma_type)(var)
            return
        value = StringImm(pragma_value) if isinstance(pragma_value, str) else pragma_value
        value = value if value is None else convert(value)
        self.attributes(var).pragmas.append(Pragma(pragma_type, value, place_of_caller()))

    def prefetch(self, tensor: Any, var: IterVar, offset: Any) -> None:
        """Fetch what a tensor's elements will be ``offset`` iterations of a loop ahead."""
        _position_of_loop(self, "prefetch", var)
        self.attributes(var).prefetches.append(Prefetched(tensor, convert(offset)))

    # Memory

    def set_scope(self, scope: str) -> None:
        """Keep the result in a kind of memory: "global", "shared", "local", …"""
        check_scope("set_scope", self, scope)
        self.scope = scope

    def transform_layout(self, mapping_function: Callable[..., Any]) -> list[IterVar] | None:
        """Lay the result out in memory by a function of its indices, and loop over the new axes.

          s[B].transform_layout(lambda i, j: [i // 4, j, i % 4])      B: (16, 8) → (4, 8, 4)

        Returns the loops over the new axes (None for an input: it has none). Between them the
        function may give ``te.AXIS_SEPARATOR``: a border that flattening keeps.
        """
        if not isinstance(self.op, PlaceholderOp):
            _check_loops(self, "transform_layout")
        return transform_layout(self, mapping_function)

    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        """Lay out memory so that the stride of an axis is ``offset`` modulo ``factor``: rows that
        do not meet in one bank.
        """
        if position(self.op.axis, axis) is None:
            raise refuse(
                "storage_align", self, f"{describe(axis)} is not an axis of the tensor", axis,
                "give one of tensor.op.axis",
            )  # fmt: skip
        found = self.attributes(axis)
        found.dim_align_factor, found.dim_align_offset = int(factor), int(offset)

    def double_buffer(self) -> None:
        """Compute the next part while the current one is used, in a second copy of the memory."""
        _check_loops(self, "double_buffer")
        if self.is_output:
            raise refuse("double_buffer", self, "memory of an output cannot be doubled")
        self.has_double_buffer = True

    def rolling_buffer(self) -> None:
        """Keep rows that the next iteration needs again, instead of computing them twice."""
        _check_loops(self, "rolling_buffer")
        if self.is_output:
            raise refuse("rolling_buffer", self, "an output is kept as a whole")
        self.has_rolling_buffer = True

    def set_store_predicate(self, predicate: PrimExpr) -> None:
        """Store the result only where a condition holds, such as ``tx.var.equal(0)``."""
        self.store_predicate = convert(predicate)

    def env_threads(self, threads: Any) -> None:
        """Launch threads around the whole stage, such as the blocks of a scan."""
        if not isinstance(self.op, ScanOp):
            raise refuse(
                "env_threads", self, "only scans run in threads that are launched around them",
                None, "bind a loop of the stage",
            )  # fmt: skip
        given = [threads] if isinstance(threads, IterVar) else list(threads)
        for thread in given:
            if thread.iter_type != IterVar.ThreadIndex:
                raise refuse("env_threads", self, f"{describe(thread)} is not a thread", thread)
        self.leaf_iter_vars[:0] = given  # around the time
        self.all_iter_vars += given
        self.env_thread_axes += given

    # Place

    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Compute the stage inside of a loop of the stage that uses it: what that iteration
        needs.
        """
        _check_place(self, "compute_at")
        if not isinstance(parent, Stage):
            raise refuse("compute_at", self, f"a stage of the schedule is needed, got {parent!r}")
        for stage, role in ((self, "is computed as a whole"), (parent, "reads all it reads")):
            if isinstance(stage.op, HybridOp):
                raise refuse(
                    "compute_at", self, f"'{stage.name}' is a hybrid script, which {role}", None,
                    "compute the stage at the root: compute_root()",
                )  # fmt: skip
        if position(parent.leaf_iter_vars, scope) is None:
            raise refuse(
                "compute_at", parent, f"{describe(scope)} is not a loop of the stage", scope,
                f"computing '{self.name}' there needs one of them",
            )  # fmt: skip
        group = self.group
        if group is not None:
            outer = parent.group
            while outer is not None and outer is not group:
                outer = outer.group
            if outer is None:
                raise refuse("compute_at", self, f"stage '{parent.name}' is not in its group")
        above: Stage | None = parent
        while above is not None:
            if above is self:
                raise refuse(
                    "compute_at", self,
                    f"stage '{parent.name}' is itself computed inside of '{self.name}'", None,
                    "the stage that uses the other one is the outer one",
                )  # fmt: skip
            above = above.group_spec().attach_stage
        self.attach_type, self.attach_ivar, self.attach_stage = AttachType.SCOPE, scope, parent
        self.placed_at = place_of_caller()

    def compute_inline(self) -> None:
        """Write the expression of the stage wherever it is read, and compute nothing before."""
        _check_place(self, "compute_inline")
        if isinstance(self.op, PlaceholderOp):
            raise refuse("compute_inline", self, "an input of the program has no expression")
        if not isinstance(self.op, ComputeOp):
            kind = type(self.op).__name__
            raise refuse("compute_inline", self, f"its {kind} is not an expression of its indices")
        if self.op.reduce_axis:
            raise refuse(
                "compute_inline", self, "it is a reduction, which is no part of an expression",
                None, "compute it at a loop: compute_at",
            )  # fmt: skip
        if self.is_output:
            raise refuse("compute_inline", self, "its result is an output of the program")
        self.attach_type, self.attach_stage, self.attach_ivar = AttachType.INLINE, None, None
        self.placed_at = place_of_caller()

    def compute_root(self) -> None:
        """Compute the stage as a whole, before those that use it."""
        _check_place(self, "compute_root")
        self.attach_type, self.attach_stage, self.attach_ivar = AttachType.GROUP_ROOT, None, None
        self.placed_at = place_of_caller()

    def __repr__(self) -> str:
        return f"stage({self.name}, {self.op})"


def _fuse_two(stage: Stage, outer: IterVar, inner: IterVar) -> IterVar:
    first, second = _position_of_loop(stage, "fuse", outer), _position_of_loop(stage, "fuse", inner)
    if first == second + 1:
        outer, inner, first, second = inner, outer, second, first
    for axis in (outer, inner):
        if axis.iter_type not in _SPLITTABLE:
            raise refuse("fuse", stage, f"{describe(axis)} cannot be fused", axis)
    if second != first + 1:
        raise refuse(
            "fuse", stage, f"'{outer.var.name}' and '{inner.var.name}' do not follow each other",
            inner, "bring them together by reorder, then fuse",
        )  # fmt: skip
    kind = max(outer.iter_type, inner.iter_type)
    name = f"{outer.var.name}.{inner.var.name}.fused"
    wide = max((outer.var.dtype, inner.var.dtype), key=lambda dtype: dtype.bits)
    fused = IterVar(None, Var(name, wide), kind)
    stage.relate(Fuse(outer, inner, fused, place_of_caller()), first)
    return fused


def _check_place(stage: Stage, primitive: str) -> None:
    if stage.attach_type == AttachType.SCAN_UPDATE:
        raise refuse(primitive, stage, "the update of a scan is computed inside of the scan")


def _check_loops(stage: Stage, primitive: str) -> None:
    if stage.attach_type in (AttachType.INLINE, AttachType.INLINED_ALREADY):
        raise refuse(
            primitive, stage, "the stage is inlined: it has no loops of its own", None,
            "schedule its loops before, or leave out compute_inline",
        )  # fmt: skip
    if isinstance(stage.op, PlaceholderOp):
        raise refuse(
            primitive, stage, "an input of the program has no loops", None,
            "cache_read makes a copy that has",
        )  # fmt: skip


def _position_of_loop(stage: Stage, primitive: str, axis: Any) -> int:
    """Return the position of a loop among the leaves."""
    if not isinstance(axis, IterVar):
        raise refuse(primitive, stage, f"a loop of the stage is needed, got {axis!r}")
    found = position(stage.leaf_iter_vars, axis)
    if found is None:
        raise refuse(primitive, stage, f"{describe(axis)} is not a loop of the stage", axis)
    return found


def _number_of_iterations(stage: Stage, primitive: str, axis: IterVar, given: Any) -> PrimExpr:
    size = convert(given)
    if not isinstance(size, PrimExpr) or not size.dtype.is_integer:
        raise refuse(primitive, stage, f"a number of iterations is an integer, got {given!r}")
    if isinstance(size, IntImm):
        if size.value < 1:
            raise refuse(primitive, stage, f"{size.value} iterations are not possible", axis)
        return IntImm(axis.var.dtype, size.value)
    return size
