"""What the functions that change models share: the table of them, and choices from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

__all__ = [
    "HUGE", "LEVELS", "MUTATIONS", "Mutation", "NotApplicable", "Pick", "graphs", "mutation",
    "node_lists", "nodes",
]  # fmt: skip

Item = TypeVar("Item")
Mutation = Callable[["Pick", Any], Any]

LEVELS = ("node", "attribute", "byte")
HUGE = (2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**63), -(2**31), 10**6)

MUTATIONS: dict[str, tuple[str, Mutation]] = {}
"""Level and function by name. Those of the levels "node" and "attribute" change a ModelProto, those
of the level "byte" take the bytes of a file and give others."""


class NotApplicable(Exception):
    """There is nothing in this model that a mutation could change."""


class Pick(random.Random):
    """Choices that depend on a seed only."""

    def one(self, items: Sequence[Item]) -> Item:
        """Return one of the items; raises NotApplicable if there is none."""
        if not items:
            raise NotApplicable
        return items[self.randrange(len(items))]

    def node(self, model: Any, suits: Callable[[Any], bool] = lambda node: True) -> Any:
        """Return a node of the model, of its subgraphs or functions."""
        return self.one([node for node in nodes(model) if suits(node)])

    def integer(self) -> int:
        """Return a number that is small, at a limit, or out of any range."""
        if self.random() < 0.6:
            return self.randint(-3, 9)
        return self.one(HUGE)


def mutation(level: str) -> Callable[[Mutation], Mutation]:
    """Register the decorated function under its name."""

    def register(function: Mutation) -> Mutation:
        MUTATIONS[function.__name__] = (level, function)
        return function

    return register


def _inner_graphs(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def graphs(model: Any) -> list[Any]:
    """Return the graph of a model with all of its subgraphs."""
    found, waiting = [], [model.graph]
    while waiting:
        graph = waiting.pop()
        found.append(graph)
        waiting += [inner for node in graph.node for inner in _inner_graphs(node)]
    return found


def node_lists(model: Any) -> list[Any]:
    """Return the lists of nodes of all graphs and functions."""
    return [graph.node for graph in graphs(model)] + [each.node for each in model.functions]


def nodes(model: Any) -> list[Any]:
    """Return the nodes of all graphs and functions."""
    return [node for listed in node_lists(model) for node in listed]
