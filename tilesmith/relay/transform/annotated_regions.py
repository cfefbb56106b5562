"""AnnotatedRegionSet: the regions of a program that annotations bound, to be asked about.

regions = AnnotatedRegionSet(function, begin, end)      # Op.get("annotation.compiler_begin"), …
regions.get_region(call).target                         # the compiler that takes the call
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilesmith.ir import Op
from tilesmith.relay.transform.annotate_target import BEGIN, END
from tilesmith.relay.transform.compiler_regions import Region, regions_of

__all__ = ["AnnotatedRegion", "AnnotatedRegionSet"]


class AnnotatedRegion:
    """A region: its compiler, the annotations where values enter and leave it, all its nodes."""

    def __init__(self, number: int, region: Region) -> None:
        self.id = number
        self.target = region.compiler
        self.args = tuple(region.begins)
        self.rets = tuple(region.ends)
        self.nodes = (*region.begins, *region.nodes, *region.ends)


class AnnotatedRegionSet:
    """The regions of an expression between calls of two operators, as numbered from 0.

    Annotations that share nodes bound one region; neighbours stay apart (MergeCompilerRegions joins
    them). Raises DiagnosticError for a region that another one enters without an annotation.
    """

    def __init__(
        self, expr: Any, region_begin_op: Op | str = BEGIN, region_end_op: Op | str = END
    ) -> None:
        begin, end = [
            op.name if isinstance(op, Op) else op for op in (region_begin_op, region_end_op)
        ]
        self._expr = expr  # while it is kept, the identities of its nodes are theirs alone
        home = regions_of(expr, begin, end)
        distinct = {id(region): region for region in home.values()}
        made = {
            key: AnnotatedRegion(number, region)
            for number, (key, region) in enumerate(distinct.items())
        }
        self._regions = tuple(made.values())
        self._home = {node: made[id(region)] for node, region in home.items()}

    def __len__(self) -> int:
        return len(self._regions)

    def __iter__(self) -> Iterator[AnnotatedRegion]:
        return iter(self._regions)

    def get_region(self, expr: Any) -> AnnotatedRegion | None:
        """Return the region that a node lies in, or that an annotation bounds; None if there is
        none. Constants belong to no region: each has its own.
        """
        return self._home.get(id(expr))
