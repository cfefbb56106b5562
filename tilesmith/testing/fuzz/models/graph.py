"""Draws graphs of operators: each step of a case adds one operator to what is there.

    graph = Graph(Pick(7), size=3)          # inputs, some of whose sizes have names
    graph.grow(Pick(8)), graph.grow(Pick(9))
    graph.model()                           # an ONNX model

A step takes values that fit it, so that every graph is valid; what its operators are is in
``graph_operators``. Values carry a bound of their elements, so that nothing overflows, and say
whether they are exact: rounding errors would turn into other results where an operator jumps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tilesmith.testing.fuzz.models.pick import NotApplicable, Pick

__all__ = ["GROWERS", "Graph", "Value", "grower"]

Size = int | str
"""A size, or the label of one that is known when the model runs: equal labels are equal sizes."""

_HIGHEST_BOUND = 1e4
_MOST_ELEMENTS = 1 << 14
_MOST_OUTPUTS = 3
_OPSET = 18

Grower = Callable[["Graph", Pick], None]

GROWERS: dict[str, Grower] = {}
"""Functions that add an operator, by name."""


def grower(function: Grower) -> Grower:
    """Register the decorated function under its name."""
    GROWERS[function.__name__] = function
    return function


@dataclass(frozen=True)
class Value:
    """A tensor of the graph: sizes, bound of the absolute values, and whether no rounding can make
    its elements differ between two correct programs.
    """

    name: str
    shape: tuple[Size, ...]
    bound: float = 4.0
    is_exact: bool = False
    dtype: int = TensorProto.FLOAT

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)


class Graph:
    """A graph that grows; ``size`` is what every size with a label is when the model runs."""

    def __init__(self, pick: Pick, size: int) -> None:
        self.size = size
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.values: list[Value] = []
        self._used: set[str] = set()
        self._count = 0
        symbolic = pick.random() < 0.5
        for number in range(pick.one([1, 1, 2])):
            rank = pick.choices([1, 2, 3, 4], [1, 4, 4, 4])[0]
            sizes: list[Size] = [pick.one([1, 2, 3, 4, 5, 7, 8]) for _ in range(rank)]
            if symbolic:
                sizes[0] = "N"
                if rank > 2 and pick.random() < 0.5:
                    sizes[-1 if rank == 4 else 1] = "M"
            self.values.append(Value(f"x{number}", tuple(sizes), is_exact=True))
        self.inputs = list(self.values)

    # What growers use

    def number(self, size: Size) -> int:
        """Return a size as it is when the model runs."""
        if isinstance(size, int):
            return size
        return int(_evaluated(size, self.size))

    def elements(self, shape: Sequence[Size]) -> int:
        """Return the number of elements of a shape when the model runs."""
        return int(numpy.prod([self.number(size) for size in shape], dtype="int64"))

    def value(self, pick: Pick, suits: Callable[[Value], bool] = lambda value: True) -> Value:
        """Return a value of floats that suits, later ones more often."""
        fitting = [one for one in self.values if one.dtype == TensorProto.FLOAT and suits(one)]
        if not fitting:
            raise NotApplicable
        return fitting[max(pick.randrange(len(fitting)), pick.randrange(len(fitting)))]

    def weight(self, pick: Pick, shape: Sequence[int], scale: float = 1.0) -> str:
        """Add random weights, bounded by ``scale``; return their name."""
        array = numpy.random.default_rng(pick.getrandbits(32)).uniform(-scale, scale, tuple(shape))
        return self.constant(array.astype("float32"))

    def constant(self, array: Any) -> str:
        """Add a constant array; return its name."""
        name = self._name("w")
        self.weights.append(numpy_helper.from_array(numpy.asarray(array), name))
        return name

    def integers(self, *numbers: int) -> str:
        """Add a vector of int64; return its name."""
        return self.constant(numpy.array(numbers, "int64"))

    def node(
        self, operator: str, inputs: Sequence[Value | str], results: int = 1, **attributes: Any
    ) -> list[str]:
        """Add a node; return the names of its results."""
        names = [one.name if isinstance(one, Value) else one for one in inputs]
        self._used.update(names)
        made = [self._name("v") for _ in range(results)]
        self.nodes.append(helper.make_node(operator, names, made, f"n{self._count}", **attributes))
        return made

    def add(
        self,
        name: str,
        shape: Sequence[Size],
        bound: float,
        is_exact: bool = False,
        dtype: int = TensorProto.FLOAT,
    ) -> Value:
        """Add a value; raise NotApplicable if it is too large. Values that may be large are brought
        back by tanh.
        """
        if self.elements(shape) > _MOST_ELEMENTS:
            raise NotApplicable
        made = Value(name, tuple(shape), bound, is_exact, dtype)
        if bound > _HIGHEST_BOUND:
            (name,) = self.node("Tanh", [made])
            made = Value(name, made.shape, 1.0)
        self.values.append(made)
        return made

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    # Growing

    def grow(self, pick: Pick) -> None:
        """Add an operator; a step that nothing fits leaves the graph as it is."""
        kept = len(self.nodes), len(self.weights), len(self.values), set(self._used), self._count
        try:
            GROWERS[pick.one(list(GROWERS))](self, pick)
        except NotApplicable:
            nodes, weights, values, self._used, self._count = kept
            del self.nodes[nodes:], self.weights[weights:], self.values[values:]

    def model(self) -> ModelProto:
        """Return the graph as a model; values that nothing uses are its results."""
        ends = [one for one in self.values if one.name not in self._used]
        made = [one for one in ends if one not in self.inputs] or self.values[-1:]
        nodes = list(self.nodes)
        outputs = []
        for number, one in enumerate(made[-_MOST_OUTPUTS:]):
            nodes.append(helper.make_node("Identity", [one.name], [f"y{number}"]))
            sizes = [size if size in ("N", "M") or isinstance(size, int) else None
                     for size in one.shape]  # fmt: skip
            outputs.append(helper.make_tensor_value_info(f"y{number}", one.dtype, sizes))
        inputs = [
            helper.make_tensor_value_info(one.name, one.dtype, list(one.shape))
            for one in self.inputs
        ]
        graph = helper.make_graph(nodes, "graph", inputs, outputs, self.weights)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8
        )


def _evaluated(label: str, size: int) -> int:
    """Return what a label stands for: "N", "M", or a product or sum of them in brackets."""
    if label in ("N", "M"):
        return size
    operator, _, rest = label[1:-1].partition(" ")
    parts = [int(one) if one.isdigit() else _evaluated(one, size) for one in _parts(rest)]
    if operator == "*":
        return int(numpy.prod(parts))
    if operator == "+":
        return sum(parts)
    whole, part = parts
    return whole // part


def _parts(text: str) -> list[str]:
    """Split the operands of a label at the commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def combined(operator: str, *sizes: Size) -> Size:
    """Return a sum ("+") or product ("*") of sizes, or the quotient ("/") of two."""
    if all(isinstance(size, int) for size in sizes):
        numbers = [int(size) for size in sizes]
        if operator == "*":
            return int(numpy.prod(numbers))
        return sum(numbers) if operator == "+" else numbers[0] // numbers[1]
    return f"({operator} {','.join([str(size) for size in sizes])})"
