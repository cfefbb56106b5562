"""Compiles what loads and stores share: the array of a buffer, the place in it, its lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from tilesmith.ir import PrimExpr
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.interpreter.frame import Frame
from tilesmith.tir.interpreter.values import CompileExpr, Environment, Evaluate, Place
from tilesmith.tir.interpreter.views import BufferViews
from tilesmith.tir.interpreter.watch import AccessObserver, Observe
from tilesmith.tir.stmt import BufferStore

__all__ = ["Accesses", "Lanes", "has_lanes"]

Lanes = Callable[[Environment], tuple[Place, Any, Any]]
"""Gives the outer indices of an access, the last indices of all lanes, and the mask of the lanes
that take part (None: all)."""


def has_lanes(node: BufferLoad | BufferStore) -> bool:
    """Return whether the last index of an access is a vector, or the access has a predicate."""
    vector = bool(node.indices) and node.indices[-1].dtype.lanes > 1
    return vector or node.predicate is not None


class Accesses:
    """Compiles the parts of an access; ``observer`` is notified of each one.

    The commonest loads and stores have the same written out in one closure, for speed.
    """

    def __init__(
        self,
        frame: Frame,
        views: BufferViews,
        compile_expr: CompileExpr,
        observer: AccessObserver | None = None,
    ) -> None:
        self.frame = frame
        self.views = views
        self.compile_expr = compile_expr
        self.observer = observer

    def slot(self, buffer: Buffer) -> tuple[int, Evaluate]:
        """Return the slot that holds the array of a buffer, and the closure that fills it."""
        return self.frame.slot(buffer), self.views.binder(buffer)

    def array(self, buffer: Buffer) -> Evaluate:
        """Return the closure of the array of a buffer."""
        slot, bind = self.slot(buffer)

        def array(env: Environment) -> Any:
            found = env[slot]
            return bind(env) if found is None else found

        return array

    def indices(self, indices: Sequence[PrimExpr]) -> list[Evaluate]:
        """Return the closures of indices."""
        return [self.compile_expr(index) for index in indices]

    def place(self, indices: Sequence[PrimExpr]) -> Callable[[Environment], Place]:
        """Return the closure of all indices together."""
        parts = self.indices(indices)
        return lambda env: tuple([part(env) for part in parts])

    def lanes(self, node: BufferLoad | BufferStore) -> Lanes:
        """Return the closure of the lanes of an access whose last index is a vector, or that has a
        predicate.
        """
        outer, last = self.place(node.indices[:-1]), self.compile_expr(node.indices[-1])
        predicate = None if node.predicate is None else self.compile_expr(node.predicate)

        def lanes(env: Environment) -> tuple[Place, Any, Any]:
            place, picked = outer(env), numpy.atleast_1d(last(env))
            return place, picked, None if predicate is None else numpy.atleast_1d(predicate(env))

        return lanes

    def observe(self, buffer: Buffer, writes: bool, span: Any) -> Observe | None:
        """Return what to call after accesses of a buffer; None if nobody wants to know."""
        return None if self.observer is None else self.observer.access(buffer, writes, span)
