"""The symbolic sizes of a graph function while it is lowered: known early, defined, or checked.

    main(x: (n,))                      n: the inputs tell it before the function runs
s = R.tensor_to_shape(v)           size_0: known only when the function runs
R.match_cast(s, R.Shape([m]))      m is size_0 from here on
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.driver.graph_errors import unsupported
from tilesmith.driver.graph_signature import known_sizes
from tilesmith.driver.graph_steps import (
    Step,
    assertion,
    number_of_bytes,
    number_of_elements,
    read_sizes,
    write_sizes,
)
from tilesmith.driver.graph_values import ShapeValue, TensorValue, static_shape
from tilesmith.driver.memory_plan import Storage
from tilesmith.ir import IntImm, PrimExpr, Var, const
from tilesmith.ir.operators import cast, equal, greater_equal, less
from tilesmith.relax import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.free_variables import free_variables
from tilesmith.tir.functor import substitute

__all__ = ["SizeTable", "pairs_of_sizes", "sizes_of_vector", "vector_of_sizes"]

_MOST_ELEMENTS = 2.0**48
"""So many elements fit the addresses of no machine, and their bytes fit 64 bits."""


class SizeTable:
    """What is known of the sizes at the current place of a function."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        """Where checks are added; the caller sets it when it turns to another list."""
        self.analyzer = Analyzer()
        self.known: set[Var] = set()
        """The sizes that the inputs tell."""
        self._values: dict[Var, PrimExpr] = {}  # sizes of the graph → what they are here
        self._checked: dict[int, PrimExpr] = {}  # those that are not negative, by identity

    def learn_inputs(self, params: Sequence[Any]) -> None:
        """Remember the sizes that the parameters define."""
        self.known = known_sizes(params)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget at the end what was defined and checked inside."""
        outer = self._values, self._checked
        self._values, self._checked = dict(self._values), dict(self._checked)
        try:
            yield
        finally:
            self._values, self._checked = outer

    def resolve(self, sizes: Iterable[PrimExpr]) -> tuple[PrimExpr, ...]:
        """Return sizes of the graph in terms of those that the lowered function knows."""
        if not self._values:
            return tuple(sizes)
        return tuple([substitute(size, self._values) for size in sizes])

    def is_early(self, sizes: Iterable[PrimExpr]) -> bool:
        """Return whether sizes follow from the inputs' sizes."""
        return all(variable in self.known for variable in free_variables(list(sizes)))

    def has(self, size: PrimExpr) -> bool:
        """Return whether all variables of a size of the graph are defined."""
        found = free_variables([size])
        return all(variable in self.known or variable in self._values for variable in found)

    def define(self, given: Iterable[tuple[PrimExpr, PrimExpr, str]]) -> None:
        """Define the sizes that are new variables; compare the others when the program runs.

        ``given``: sizes of the graph, what they are here, and what has them.
        """
        pending = []
        for size, found, what in given:
            if isinstance(size, Var) and size not in self.known and size not in self._values:
                self._values[size] = found
            else:
                pending.append((size, found, what))
        for size, found, what in pending:
            (expected,) = self.resolve([size])
            if not self.analyzer.can_prove_equal(expected, found):
                wide, other = cast("int64", expected), cast("int64", found)
                message = (f"ShapeError: {what} expects size ", wide, ", it is ", other)
                self.steps.append(assertion(equal(wide, other), *message))

    def define_shape(self, sizes: Sequence[PrimExpr], given: Sequence[PrimExpr], what: str) -> None:
        """Do the same for the sizes of one value."""
        self.define([(size, found, what) for size, found in zip(sizes, given)])

    def check(self, shape: Sequence[PrimExpr], what: str) -> None:
        """Refuse sizes of a new tensor that are negative when the program runs, or whose product is
        no number of bytes.
        """
        for size in shape:
            if id(size) not in self._checked and not self.is_early([size]):
                self._checked[id(size)] = size
                wide = cast("int64", size)
                message = (f"ShapeError: {what} has an axis of size ", wide)
                self.steps.append(assertion(greater_equal(wide, const(0, "int64")), *message))
        if not self.is_early(shape):
            elements: PrimExpr = const(1.0, "float64")
            for size in shape:
                elements = elements * cast("float64", size)
            fits = less(elements, const(_MOST_ELEMENTS, "float64"))
            text = f"ShapeError: {what} would have more elements than there is memory for"
            self.steps.append(assertion(fits, text))

    def check_view(self, before: Sequence[PrimExpr], after: Sequence[PrimExpr], what: str) -> None:
        """Refuse a view whose number of elements differs when the program runs."""
        if self.is_early([*before, *after]):
            return
        self.check(after, f"the result of {what}")
        old, new = number_of_elements(before), number_of_elements(after)
        if not self.analyzer.can_prove_equal(old, new):
            message = (f"ShapeError: {what} gets ", old, " elements, but its result has ", new)
            self.steps.append(assertion(equal(old, new), *message))


def pairs_of_sizes(info: StructInfo, value: Any) -> list[tuple[PrimExpr, PrimExpr]]:
    """Return the sizes of a parameter, each with what it is in the value that is given for it."""
    if isinstance(info, TupleStructInfo):
        fields = zip(info.fields, value.fields)
        return [pair for one, field in fields for pair in pairs_of_sizes(one, field)]
    if isinstance(info, TensorStructInfo):
        return list(zip(static_shape(info) or (), value.shape))
    if isinstance(info, ShapeStructInfo):
        return list(zip(info.values or (), value.values))
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return [(info.value, value.value)]
    return []


def sizes_of_vector(function: str, call: Any, vector: TensorValue) -> tuple[Step, ShapeValue]:
    """Return new sizes, and the step that defines them by the elements of a vector that is computed
    when the program runs.
    """
    count = vector.shape[0] if vector.shape else const(1, "int64")
    if not isinstance(count, IntImm):
        what = f"a vector of {count} elements cannot be a shape"
        cure = "the number of dimensions has to be known when the model is compiled"
        raise unsupported(function, what, call, cure)
    sizes = [Var(f"size_{place}", "int64") for place in range(count.value)]
    return read_sizes(vector, sizes), ShapeValue(tuple(sizes))


def vector_of_sizes(sizes: ShapeValue) -> tuple[Step, TensorValue]:
    """Return a new vector, and the step that stores sizes in it."""
    int64 = DataType("int64")
    shape: tuple[PrimExpr, ...] = (const(len(sizes.values), "int64"),)
    vector = TensorValue(Storage.workspace(number_of_bytes(shape, int64)), shape, int64)
    return write_sizes(sizes, vector), vector
