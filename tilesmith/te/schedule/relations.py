"""Relations between the iterators of a stage: how loops arise from other loops.

split(i, factor=4)     Split(i → i.outer, i.inner)         i = i.outer * 4 + i.inner
fuse(i, j)             Fuse(i, j → i.j.fused)              i = i.j.fused // extent(j)
transform_layout(f)    Transform(i, j → f(i, j))           by an index map and its inverse
rfactor, cache_write   Rebase(i → i')                      i' starts at 0
fuse()                 Singleton(→ singleton)              one iteration, of a stage without loops
"""

from __future__ import annotations

from tilesmith.ir import Node, PrimExpr, data, note
from tilesmith.support.caller import CallerPlace
from tilesmith.tir.expr import IterVar
from tilesmith.tir.index_map import IndexMap

__all__ = ["Fuse", "IterVarRelation", "Rebase", "Singleton", "Split", "Transform"]


class IterVarRelation(Node, key="te.schedule.IterVarRelation"):
    """Base of the relations between iterators and those made of them."""

    @property
    def above(self) -> tuple[IterVar, ...]:
        """The iterators that the relation takes."""
        raise NotImplementedError

    @property
    def below(self) -> tuple[IterVar, ...]:
        """The iterators that the relation makes."""
        raise NotImplementedError


class Split(IterVarRelation, key="te.schedule.Split"):
    """``parent = outer * extent(inner) + inner``; one of ``factor`` (of inner) and ``nparts`` (of
    outer) is given. ``disable_predication``: the program promises that no guard is needed.
    """

    parent: IterVar = data()
    outer: IterVar = data()
    inner: IterVar = data()
    factor: PrimExpr | None = data(default=None)
    nparts: PrimExpr | None = data(default=None)
    disable_predication: bool = data(default=False)
    place: CallerPlace | None = note(default=None)

    @property
    def above(self) -> tuple[IterVar, ...]:
        return (self.parent,)

    @property
    def below(self) -> tuple[IterVar, ...]:
        return (self.outer, self.inner)


class Fuse(IterVarRelation, key="te.schedule.Fuse"):
    """``fused = outer * extent(inner) + inner``."""

    outer: IterVar = data()
    inner: IterVar = data()
    fused: IterVar = data()
    place: CallerPlace | None = note(default=None)

    @property
    def above(self) -> tuple[IterVar, ...]:
        return (self.outer, self.inner)

    @property
    def below(self) -> tuple[IterVar, ...]:
        return (self.fused,)


class Rebase(IterVarRelation, key="te.schedule.Rebase"):
    """``parent = rebased + min(parent)``: the same iterations, counted from 0."""

    parent: IterVar = data()
    rebased: IterVar = data()

    @property
    def above(self) -> tuple[IterVar, ...]:
        return (self.parent,)

    @property
    def below(self) -> tuple[IterVar, ...]:
        return (self.rebased,)


class Singleton(IterVarRelation, key="te.schedule.Singleton"):
    """``iter`` has one iteration: the loop of a stage that has none."""

    iter: IterVar = data()

    @property
    def above(self) -> tuple[IterVar, ...]:
        return ()

    @property
    def below(self) -> tuple[IterVar, ...]:
        return (self.iter,)


class Transform(IterVarRelation, key="te.schedule.Transform"):
    """Iterators of a tensor whose layout was changed, by an index map and its inverse."""

    original_variables: tuple[IterVar, ...] = data()
    transformed_variables: tuple[IterVar, ...] = data()
    forward_transformation: IndexMap = data()
    inverse_transformation: IndexMap = data()

    @property
    def above(self) -> tuple[IterVar, ...]:
        return self.original_variables

    @property
    def below(self) -> tuple[IterVar, ...]:
        return self.transformed_variables
