"""What a stage says about one of its loops: its kind, its thread, pragmas, prefetches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tilesmith.support.caller import CallerPlace
from tilesmith.tir.expr import IterVar

__all__ = ["LoopAttributes", "Pragma", "Prefetched"]


_KINDS = {
    IterVar.Unrolled: "unroll",
    IterVar.Vectorized: "vectorize",
    IterVar.Parallelized: "parallel",
    IterVar.Tensorized: "tensorize",
}


@dataclass(frozen=True)
class Pragma:
    """A pragma on a loop, and where the user's program wrote it."""

    key: str
    value: Any
    place: CallerPlace | None = None


@dataclass(frozen=True)
class Prefetched:
    """A tensor whose elements for the iteration ``offset`` ahead are fetched."""

    tensor: Any
    offset: Any


@dataclass
class LoopAttributes:
    """Attributes of a loop, or of an axis of the stage's tensor (``dim_align_*``)."""

    iter_type: int = IterVar.DataPar
    bind_thread: IterVar | None = None
    bound_at: CallerPlace | None = None
    tensor_intrin: Any = None
    dim_align_factor: int = 0
    dim_align_offset: int = 0
    pragmas: list[Pragma] = field(default_factory=list)
    prefetches: list[Prefetched] = field(default_factory=list)

    def copy(self) -> LoopAttributes:
        """Return attributes that can change on their own."""
        return replace(self, pragmas=list(self.pragmas), prefetches=list(self.prefetches))

    def marks(self, axis: IterVar) -> list[str]:
        """Return what is said of a loop that only holds while it is a loop."""
        kind = _KINDS.get(self.iter_type) if self.iter_type != axis.iter_type else None
        found = [kind] if kind else []
        if self.bind_thread is not None:
            found.append("bind")
        return [*found, *self.pragma_keys, *["prefetch" for _ in self.prefetches]]

    @property
    def pragma_keys(self) -> list[str]:
        """The names of the pragmas."""
        return [pragma.key for pragma in self.pragmas]

    @property
    def pragma_values(self) -> list[Any]:
        """The values of the pragmas, in the order of their names."""
        return [pragma.value for pragma in self.pragmas]

    @property
    def prefetch_data(self) -> list[Any]:
        """The tensors that are prefetched."""
        return [one.tensor for one in self.prefetches]

    @property
    def prefetch_offset(self) -> list[Any]:
        """How many iterations ahead, for each of the tensors."""
        return [one.offset for one in self.prefetches]
