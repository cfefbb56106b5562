"""Regions of external compilers: what lies between compiler_begin and compiler_end.

MergeCompilerRegions joins neighbours for one compiler where the joined region can still be one
function: no value may leave it and come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.relax.transform.convex_groups import ConvexGroups
from tilesmith.relay.dataflow_groups import is_grouped
from tilesmith.relay.expr import Constant
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.scopes import Scopes
from tilesmith.relay.transform.annotate_target import BEGIN, END, is_annotation
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of, parts, post_order, with_parts
from tilesmith.support.errors import DiagnosticError

__all__ = ["MergeCompilerRegions", "Region", "ordered", "regions_of"]


@dataclass(eq=False)
class Region:
    """A part of a program for one compiler: the nodes inside, and the annotations around them."""

    compiler: str
    nodes: list[Any] = field(default_factory=list)
    begins: list[Any] = field(default_factory=list)
    ends: list[Any] = field(default_factory=list)


def ordered(root: Any, below: Callable[[Any], Sequence[Any]]) -> Iterator[Any]:
    """Yield nodes once, after those that ``below`` gives for them.

    Raises DiagnosticError if they wait for each other.
    """
    done: set[int] = set()
    open_: set[int] = set()
    stack = [root]
    while stack:
        node = stack[-1]
        if id(node) in done:
            stack.pop()
            continue
        missing = [one for one in below(node) if id(one) not in done]
        if not missing:
            done.add(id(node))
            stack.pop()
            yield node
            continue
        if id(node) in open_ and [one for one in missing if id(one) in open_]:
            raise DiagnosticError(
                "a value leaves the region of an external compiler and comes back to it",
                notes=("MergeCompilerRegions makes regions that can be functions",),
            )
        open_.add(id(node))
        stack += reversed(missing)


def _nodes(expr: Any) -> list[Any]:
    return list(post_order(expr, lambda one: not is_grouped(one)))


def regions_of(function: Any, begin: str = BEGIN, end_name: str = END) -> dict[int, Region]:
    """Return the region of each node inside one, and of each annotation, by ``id``; ``begin`` and
    ``end_name`` are the operators of the annotations.
    """
    home: dict[int, Region] = {}
    order = _nodes(function)
    for end in [node for node in order if is_annotation(node, end_name)]:
        region = Region(str(getattr(end.attrs, "compiler", "default")))
        stack = [end.args[0]]
        region.ends.append(end)
        home[id(end)] = region
        while stack:
            node = stack.pop()
            known = home.get(id(node))
            if known is not None:
                region = known if known is region else _joined(known, region, home)
                continue
            if isinstance(node, Op) or _is_shared(node):
                continue
            if is_annotation(node, end_name):
                raise DiagnosticError(
                    f"the region of '{region.compiler}' uses a value of another region directly",
                    notes=(f"a region begins with {begin.removeprefix('annotation.')}",),
                )
            home[id(node)] = region
            if is_annotation(node, begin):
                region.begins.append(node)
            else:
                region.nodes.append(node)
                if not is_grouped(node):
                    stack.extend(reversed(parts(node)))
    return home


def _is_shared(node: Any) -> bool:
    """Return whether each region has a node of its own: constants, composite functions."""
    return isinstance(node, Constant) or is_grouped(node)


def _joined(first: Region, second: Region, home: dict[int, Region]) -> Region:
    if first.compiler != second.compiler:
        raise DiagnosticError(
            f"a value belongs to the regions of '{first.compiler}' and '{second.compiler}'"
        )
    if len(first.nodes) < len(second.nodes):
        first, second = second, first
    first.nodes += second.nodes
    first.begins += second.begins
    first.ends += second.ends
    for one in (*second.nodes, *second.begins, *second.ends):
        home[id(one)] = first
    return first


@relay_pass("MergeCompilerRegions")
def MergeCompilerRegions(mod: IRModule) -> IRModule:
    """Join regions of one compiler whose values flow into each other, as far as no value leaves the
    joined region and comes back.
    """
    for variable, function in functions_of(mod):
        if not is_grouped(function):
            mod[variable] = _merged(function)
    return infer_module(mod)


def _merged(function: Function) -> Function:
    home = regions_of(function)
    if not home:
        return function
    scopes = Scopes(function)
    groups = ConvexGroups()

    def below(node: Any) -> Sequence[Any]:
        region = home.get(id(node))
        if region is None:
            return () if is_grouped(node) else parts(node)
        return [begin.args[0] for begin in region.begins]

    def units(nodes: Sequence[Any]) -> list[int]:
        return [id(home.get(id(node), node)) for node in nodes]

    for node in ordered(function, below):
        region = home.get(id(node))
        if region is None:
            groups.add(id(node), None, units(below(node)))
        elif groups.of(id(region)) is None and region.compiler != "default":
            kind = (region.compiler, scopes.of[id(region.ends[0])])
            groups.add(id(region), kind, units(below(node)))
        elif region.compiler == "default":
            groups.add(id(region), None, units(below(node)))
    done: dict[int, Any] = {}
    for node in _nodes(function):
        done[id(node)] = _without_seam(node, home, groups, done)
    made: Function = done[id(function)]
    return made


def _without_seam(
    node: Any, home: dict[int, Region], groups: ConvexGroups, done: dict[int, Any]
) -> Any:
    """Return a node of the merged program: a begin right after an end of its group disappears."""
    if is_grouped(node):
        return node
    if is_annotation(node, BEGIN) and is_annotation(node.args[0], END):
        own, other = home.get(id(node)), home[id(node.args[0])]
        if own is not None and groups.of(id(own)) is not None:
            if groups.of(id(own)) == groups.of(id(other)):
                return done[id(node.args[0].args[0])]
    return with_parts(node, [done[id(part)] for part in parts(node)])
