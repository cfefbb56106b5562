"""Groups the values of a graph that one kernel can compute: the rule that both doors share.

A value joins its immediate post-dominator (the first value that all its uses lead to) if everything
on the way can fuse. So only the last value of a group is visible outside. The work is linear in
the size of the graph, up to the logarithm of its depth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tilesmith.relax.analysis.op_pattern import FusionKind

__all__ = [
    "FusionNode", "find_dominators", "group", "members_of_groups", "merge", "widen_where_read",
]  # fmt: skip

_SMALL = (FusionKind.ELEMWISE, FusionKind.BROADCAST)
_MAPS = (*_SMALL, FusionKind.INJECTIVE)


class FusionNode:
    """A value in a graph: its fusion kind, its users, its group. ``value`` is the graph's own."""

    __slots__ = (
        "depth", "dominator", "escapes", "group_kind", "index", "jump", "jump_way", "kind",
        "parent", "size", "users", "value", "way",
    )  # fmt: skip

    def __init__(self, index: int, value: Any, kind: FusionKind, escapes: bool = False) -> None:
        self.index = index
        self.value = value
        self.kind = kind
        self.users: list[tuple[FusionNode, FusionKind]] = []
        self.escapes = escapes
        self.dominator: FusionNode | None = None
        self.way = FusionKind.OPAQUE  # the strictest edge on all paths to the dominator
        self.depth = 0  # in the tree of dominators
        self.jump: FusionNode = self  # some dominator further up: paths are climbed in leaps
        self.jump_way = FusionKind.ELEMWISE
        self.parent: FusionNode | None = None  # of the group
        self.group_kind = kind
        self.size = 1

    def root(self) -> FusionNode:
        """Return the node that represents the group."""
        root = self
        while root.parent is not None:
            root = root.parent
        node = self
        while node.parent is not None:  # the next time it is nearer
            node.parent, node = root, node.parent
        return root


def _below(node: FusionNode, dominator: FusionNode) -> None:
    """Note the dominator of a node."""
    node.dominator = dominator
    node.depth = dominator.depth + 1
    over = dominator.jump
    if dominator.depth - over.depth == over.depth - over.jump.depth:
        node.jump = over.jump
        node.jump_way = max(node.way, dominator.jump_way, over.jump_way)
    else:
        node.jump, node.jump_way = dominator, node.way


def _meet(a: FusionNode, b: FusionNode) -> tuple[FusionNode | None, FusionKind]:
    """Return the first value that two lead to, with the strictest edge on the way."""
    way = FusionKind.ELEMWISE
    if a.depth < b.depth:
        a, b = b, a
    while a.depth > b.depth:
        leaps = a.jump.depth >= b.depth
        way = max(way, a.jump_way if leaps else a.way)
        a = a.jump if leaps else _above(a)
    while a is not b:
        if a.depth == 0:
            return None, way
        if a.jump is not b.jump:
            way = max(way, a.jump_way, b.jump_way)
            a, b = a.jump, b.jump
        else:
            way = max(way, a.way, b.way)
            a, b = _above(a), _above(b)
    return a, way


def _above(node: FusionNode) -> FusionNode:
    return node if node.dominator is None else node.dominator


def find_dominators(nodes: Iterable[FusionNode]) -> None:
    """Find the immediate post-dominator of each node; ``nodes`` come users first. A value that
    escapes has none.
    """
    for node in nodes:
        if node.escapes or not node.users:
            continue
        dominator: FusionNode | None = node.users[0][0]
        way = FusionKind.ELEMWISE
        for user, edge in node.users:
            way = max(way, edge)
            if dominator is not None:
                dominator, strictest = _meet(dominator, user)
                way = max(way, strictest)
        node.way = way
        if dominator is not None:
            _below(node, dominator)


def group(
    nodes: list[FusionNode], max_depth: int, refused: Callable[[FusionNode], None]
) -> list[list[FusionNode]]:
    """Group nodes, which come in the order of the computation; return the groups. ``refused`` is
    told about nodes that would fuse if a group might hold more than ``max_depth`` of them.
    """
    find_dominators(reversed(nodes))
    for phase in (0, 1):
        for node in nodes:
            _try(node, phase, max_depth, refused)
    return members_of_groups(nodes)


def members_of_groups(nodes: list[FusionNode]) -> list[list[FusionNode]]:
    """Return the groups that nodes, which come in the order of the computation, belong to."""
    found: dict[int, list[FusionNode]] = {}
    for node in nodes:
        found.setdefault(id(node.root()), []).append(node)
    return list(found.values())


def _allowed(node: FusionNode, phase: int) -> tuple[FusionKind, tuple[FusionKind, ...]] | None:
    """Return what may lie between a node and its dominator, and the kinds of groups that it may
    join in this phase; None if it joins none.
    """
    kind = node.root().group_kind
    if kind in (FusionKind.OPAQUE, FusionKind.COMM_REDUCE, FusionKind.TUPLE):
        return None
    if kind == FusionKind.OUT_ELEMWISE_FUSABLE:
        fits = phase == 0 and node.way == FusionKind.ELEMWISE
        return (FusionKind.BROADCAST, _SMALL) if fits else None
    if kind <= FusionKind.BROADCAST:
        fits = node.way <= FusionKind.COMM_REDUCE
        return (FusionKind.INJECTIVE, (*_MAPS, FusionKind.COMM_REDUCE)) if fits else None
    fits = phase == 1 and node.way <= FusionKind.INJECTIVE
    return (FusionKind.INJECTIVE, _MAPS) if fits else None


def _try(
    node: FusionNode, phase: int, max_depth: int, refused: Callable[[FusionNode], None]
) -> None:
    sink = node.dominator
    if sink is None or node.root() is sink.root():
        return
    allowed = _allowed(node, phase)
    if allowed is None or sink.root().group_kind not in allowed[1]:
        return
    if node.root() is not node and not _is_sink(node):
        return
    inner = _between(node, sink, max_depth)
    if any(other.root().group_kind > allowed[0] for other in inner):
        return
    members = {id(other.root()): other.root() for other in (node, *inner, sink)}
    if len(inner) > max_depth or sum([one.size for one in members.values()]) > max_depth:
        refused(node)
        return
    merge([node, *inner], sink)


def _is_sink(node: FusionNode) -> bool:
    """Return whether a node is the last of its group: the one whose uses are outside."""
    root = node.root()
    return all(user.root() is not root for user, _ in node.users)


def _between(node: FusionNode, sink: FusionNode, most: int) -> list[FusionNode]:
    """Return the nodes on the ways from a node to its dominator; no more than one above ``most``,
    which are too many for one group.
    """
    found: dict[int, FusionNode] = {}
    pending = [user for user, _ in node.users]
    while pending and len(found) <= most:
        current = pending.pop()
        if current is sink or current.index in found:
            continue
        found[current.index] = current
        pending += [user for user, _ in current.users]
    return [found[index] for index in sorted(found)]


def merge(nodes: list[FusionNode], sink: FusionNode) -> None:
    """Let the groups of nodes join that of a sink."""
    target = sink.root()
    for node in nodes:
        root = node.root()
        if root is not target:
            root.parent = target
            target.size += root.size
            target.group_kind = max(target.group_kind, root.group_kind)


def widen_where_read(
    groups: list[list[FusionNode]], widens: Callable[[FusionNode], bool], max_depth: int
) -> None:
    """Move conversions to more bits from the end of a group to the group that reads the result, so
    that fewer bytes pass between them. ``widens`` tells which nodes are such conversions.
    """
    place = {node.index: number for number, nodes in enumerate(groups) for node in nodes}
    for members in groups:
        while len(members) > 1 and not members[-1].escapes and widens(members[-1]):
            last, before = members[-1], members[-2]
            readers = {place[user.index] for user, _ in last.users}
            elementwise = all(
                edge == FusionKind.ELEMWISE and user.kind in _SMALL for user, edge in last.users
            )
            given = [one for one in members if any(user is last for user, _ in one.users)]
            if len(readers) != 1 or not elementwise or given != [before]:
                break
            (target,) = readers
            if len(groups[target]) >= max_depth:
                break
            members.pop()
            place[last.index] = target
            groups[target].insert(0, last)
            groups[target].sort(key=lambda node: node.index)
