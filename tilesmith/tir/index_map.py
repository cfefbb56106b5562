"""Index maps: how the elements of a buffer are laid out in another shape.

    pack = IndexMap.from_func(lambda n, c, h, w: (n, c // 8, h, w, c % 8))
    pack.map_shape((1, 20, 7, 7))              # (1, 3, 7, 7, 8): four channels of padding
    inverse, padding = pack.non_surjective_inverse((1, 20, 7, 7))

The inverse is found by splitting each new index into digits of the old ones (mixed radix); sums
that are divided as a whole are left to the iterator analysis of ``arith``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import (
    Cast,
    Dispatcher,
    IntImm,
    Node,
    PrimExpr,
    Range,
    Var,
    child,
    const,
    convert,
    defines,
    is_const,
    structural_equal,
)  # fmt: skip
from tilesmith.ir import data as data_field
from tilesmith.ir.expr import Call
from tilesmith.ir.operators import any_of, cast, floordiv, floormod, moved
from tilesmith.ir.queries import variables
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnsupportedError
from tilesmith.tir.functor import substitute
from tilesmith.tir.index_map_digits import UNKNOWN_SIZE, HighestDigit, NotPlainError, Pieces
from tilesmith.tir.index_map_symbolic import EvenDigits
from tilesmith.tir.index_map_values import NumpyValue

__all__ = ["IndexMap"]


class _AxisSeparator:
    """Marks a border between groups of axes that flattening keeps apart."""

    def __repr__(self) -> str:
        return "IndexMap.AXIS_SEPARATOR"


def _simplified(values: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Return expressions simplified; a permutation of dimensions needs no analyzer."""
    if all(isinstance(value, (Var, IntImm)) for value in values):
        return list(values)
    analyzer = Analyzer()
    return [analyzer.simplify(value) for value in values]


class IndexMap(Node, key="tir.IndexMap"):
    """A mapping from indices to indices; ``inverse_index_map`` overrides the computed inverse.

    ``axis_separators``: positions among the final indices between which flattening keeps axes
    apart.
    """

    AXIS_SEPARATOR = _AxisSeparator()

    initial_indices: tuple[Var, ...] = defines(scope="final_indices")
    final_indices: tuple[PrimExpr, ...] = child()
    inverse_index_map: IndexMap | None = child(default=None)
    axis_separators: tuple[int, ...] = data_field(default=())

    def __init__(
        self,
        initial_indices: Any,
        final_indices: Any,
        inverse_index_map: IndexMap | None = None,
        axis_separators: Sequence[int] = (),
    ) -> None:
        self.initial_indices = tuple(
            [index.var if hasattr(index, "var") else index for index in initial_indices]
        )
        self.final_indices = tuple([convert(index) for index in final_indices])
        self.inverse_index_map = inverse_index_map
        self.axis_separators = tuple(axis_separators)

    @staticmethod
    def from_func(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Any = None,
        *,
        index_dtype: str = "int64",
    ) -> IndexMap:
        """Return the map that a Python function of the indices describes.

        ``ndim`` is needed where the function takes ``*indices``. Raises TypeMismatchError where
        it returns ``AXIS_SEPARATOR``; ``from_func_with_separators`` takes that.
        """
        made, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            raise TypeMismatchError(
                "this index map has axis separators", notes=("use from_func_with_separators",)
            )
        return made

    @staticmethod
    def from_func_with_separators(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Any = None,
        *,
        index_dtype: str = "int64",
    ) -> tuple[IndexMap, list[int]]:
        """Return the map of a Python function, and the positions of its axis separators."""
        indices, arguments, named = _arguments(mapping_function, ndim, index_dtype)
        result = mapping_function(*arguments, **named)
        if not isinstance(result, (list, tuple)):
            result = (result,)
        final: list[PrimExpr] = []
        separators: list[int] = []
        for value in result:
            if isinstance(value, _AxisSeparator):
                separators.append(len(final))
                continue
            value = convert(value)
            if not isinstance(value, PrimExpr):
                raise TypeMismatchError(f"an index map gives expressions, got {value!r}")
            final.append(cast(index_dtype, value) if isinstance(value, IntImm) else value)
        if inverse_index_map is not None and not isinstance(inverse_index_map, IndexMap):
            inverse_index_map = IndexMap.from_func(
                inverse_index_map, len(final), index_dtype=index_dtype
            )
        return IndexMap(indices, final, inverse_index_map), separators

    # Symbols.

    def symbols(self) -> list[Var]:
        """Return the variables that are not indices."""
        own = set(self.initial_indices)
        found = [v for v in variables(self.final_indices) if v not in own]
        inverse: IndexMap | None = self.inverse_index_map
        return found if inverse is None else list(dict.fromkeys([*found, *inverse.symbols()]))

    def with_symbols(self, values: Mapping[Var, PrimExpr]) -> IndexMap:
        """Return the map with other expressions for some symbols."""
        if not values:
            return self
        inverse: IndexMap | None = self.inverse_index_map
        return self.with_fields(
            final_indices=substitute(self.final_indices, values),
            inverse_index_map=None if inverse is None else inverse.with_symbols(values),
        )

    # Applying.

    def map_indices(self, indices: Sequence[Any]) -> list[PrimExpr]:
        """Return the new indices of an element."""
        self._check_rank(indices, "indices")
        mapping = dict(zip(self.initial_indices, [convert(index) for index in indices]))
        return _simplified(self._retyped(mapping))

    def _retyped(self, mapping: Mapping[Var, PrimExpr]) -> list[PrimExpr]:
        """Return the final indices over other indices, in the dtype of these; constants adapt."""
        given = [index.dtype for index in mapping.values() if not isinstance(index, IntImm)]
        own = [variable.dtype for variable in mapping]
        target = max(given or own, key=lambda dtype: dtype.bits, default=None)
        if all(dtype is target for dtype in own):
            values = {variable: cast(target, index) for variable, index in mapping.items()}
            return list(substitute(self.final_indices, values))
        renamed = {variable: Var(variable.name, target) for variable in mapping}
        values = {renamed[variable]: cast(target, index) for variable, index in mapping.items()}
        retyped = [_Retype(renamed, target).visit(index) for index in self.final_indices]
        return [substitute(index, values) for index in retyped]

    def map_shape(self, shape: Sequence[Any]) -> list[PrimExpr]:
        """Return the shape that holds all elements of an array of ``shape``.

        A digit ``i % 8`` takes 8 places, also where ``i`` has fewer values: the rest is padding.
        """
        self._check_rank(shape, "sizes")
        sizes = [convert(size) for size in shape]
        dtype = max((size.dtype for size in sizes), key=lambda d: d.bits, default=None)
        plain = self._plain_extents(sizes)
        if plain is not None:
            return [const(extent, dtype or "int64") for extent in plain]
        even = self._even_digits(sizes)
        if even is not None:
            return [even.extent(number, dtype) for number in range(len(self.final_indices))]
        retyped = {v: Var(v.name, dtype or v.dtype) for v in self.initial_indices}
        final = [_Retype(retyped, dtype).visit(index) for index in self.final_indices]
        analyzer = Analyzer()
        domains = {}
        for variable, size in zip(self.initial_indices, sizes):
            domain = Range.from_min_extent(const(0, dtype), cast(dtype, size))
            domains[retyped[variable]] = domain
            analyzer.bind(retyped[variable], domain)
        extents: list[PrimExpr] = []
        for index, own in zip(final, self.final_indices):
            places = self._places_of_digits(own, sizes, dtype)
            if places is not None:
                extents.append(analyzer.simplify(places))
                continue
            interval = analyzer.int_set(index, domains)
            if not (interval.has_lower_bound() and interval.has_upper_bound()):
                raise UnsupportedError(
                    f"the shape that the index map {self.describe()} gives cannot be found",
                    notes=("symbolic sizes are supported in sums, products and divisions only",),
                )
            extents.append(analyzer.simplify(moved(interval.max_value - interval.min_value, 1)))
        return extents

    def _places_of_digits(
        self, index: PrimExpr, sizes: list[PrimExpr], dtype: Any
    ) -> PrimExpr | None:
        """Return the extent of an index made of digits, where some sizes are not constant."""
        plain = [s.value if isinstance(s, IntImm) else UNKNOWN_SIZE for s in sizes]
        try:
            pieces = Pieces(dict(zip(self.initial_indices, plain))).visit(index)
        except NotPlainError:
            return None
        highest: PrimExpr = const(pieces.offset, dtype)
        for piece in pieces.pieces:
            if piece.scale < 0:
                return None
            if piece.lower * piece.extent < UNKNOWN_SIZE:
                highest = highest + piece.scale * (piece.extent - 1)
                continue
            place = next(k for k, v in enumerate(self.initial_indices) if v is piece.variable)
            count = floordiv(cast(dtype, sizes[place]) + (piece.lower - 1), piece.lower)
            highest = highest + (count - 1) * piece.scale
        return highest + 1

    def _plain_extents(self, sizes: list[PrimExpr]) -> list[int] | None:
        """Return the extents where all sizes are constants."""
        if not all(isinstance(size, IntImm) for size in sizes):
            return None
        plain = [size.value for size in sizes]  # type: ignore[attr-defined]
        known = dict(zip(self.initial_indices, plain))
        extents = []
        for index in self.final_indices:
            try:
                pieces = Pieces(known).visit(index)
            except NotPlainError:
                extents.append(self._greatest(index, plain) + 1)
                continue
            highest = sum([max(0, p.scale * (p.extent - 1)) for p in pieces.pieces])
            extents.append(pieces.offset + highest + 1)
        return extents

    def _greatest(self, index: PrimExpr, sizes: list[int]) -> int:
        """Return the largest value of an index, found by evaluating all."""
        import numpy

        grids = numpy.ogrid[tuple([slice(size) for size in sizes])]
        return int(numpy.max(NumpyValue(dict(zip(self.initial_indices, grids))).visit(index)))

    def map_ndarray(self, arr_src: Any) -> Any:
        """Return a numpy array or runtime tensor in the new layout; padding is zero."""
        import numpy

        source = numpy.asarray(arr_src)
        self._check_rank(source.shape, "dimensions")
        shape = [int(size) for size in self.map_shape(source.shape)]  # type: ignore[call-overload]
        grids = numpy.ogrid[tuple([slice(size) for size in source.shape])]
        values = dict(zip(self.initial_indices, grids))
        flat: Any = numpy.zeros((1,) * source.ndim, numpy.int64)
        for index, size in zip(self.final_indices, shape):
            flat = flat * size + NumpyValue(values).visit(index)
        result = numpy.zeros(math.prod(shape), source.dtype)
        result[numpy.broadcast_to(flat, source.shape)] = source
        result = result.reshape(shape)
        if isinstance(arr_src, numpy.ndarray):
            return result
        from tilesmith.runtime.ndarray import array

        return array(result)

    def is_equivalent_to(self, other_map: IndexMap) -> bool:
        """Return whether both maps give equal results for all indices."""
        if len(self.initial_indices) != len(other_map.initial_indices):
            return False
        if len(self.final_indices) != len(other_map.final_indices):
            return False
        renamed = dict(zip(other_map.initial_indices, self.initial_indices))
        others = other_map._retyped(renamed) if renamed else list(other_map.final_indices)
        analyzer = Analyzer()
        return all(
            structural_equal(a, b) or (a.dtype is b.dtype and analyzer.can_prove_equal(a, b))
            for a, b in zip(self.final_indices, others)
        )

    # Inverting.

    def inverse(self, shape: Sequence[Any]) -> IndexMap:
        """Return the inverse map for an array of ``shape``; the map must be surjective.

        Raises ShapeError where there is padding or two elements have the same new index.
        """
        given: IndexMap | None = self.inverse_index_map
        if given is not None:
            return given
        inverse, padding = self.non_surjective_inverse(shape)
        if not is_const(padding, 0):
            raise ShapeError(
                f"the index map {self.describe()} leaves places of the new shape unused",
                notes=(
                    "use non_surjective_inverse, which also returns the condition of the padding",
                ),
            )
        return inverse

    def non_surjective_inverse(self, shape: Sequence[Any]) -> tuple[IndexMap, PrimExpr]:
        """Return the inverse map, and a condition over the new indices that holds in the padding.

        Raises ShapeError where two elements have the same new index or an index is not used.
        """
        self._check_rank(shape, "sizes")
        sizes = [convert(getattr(size, "extent", size)) for size in shape]
        dtype = self.initial_indices[0].dtype if self.initial_indices else None
        outputs = [
            Var(f"axis{number}", index.dtype) for number, index in enumerate(self.final_indices)
        ]
        tops: list[HighestDigit | None] = [None] * len(sizes)
        even = None if self.inverse_index_map is not None else self._even_digits(sizes)
        if even is not None:
            try:
                return IndexMap(outputs, _simplified(even.inverse(outputs))), const(False, "bool")
            except NotPlainError:
                pass  # with gaps; the other ways say where
        if self.inverse_index_map is not None:
            given = self.inverse_index_map
            values = list(
                substitute(given.final_indices, dict(zip(given.initial_indices, outputs)))
            )
        else:
            values, tops = self._values(sizes, outputs)
        analyzer = Analyzer()
        for output, extent in zip(outputs, self.map_shape(sizes)):
            zero = const(0, output.dtype)
            analyzer.bind(output, Range.from_min_extent(zero, cast(output.dtype, extent)))
        conditions = []
        for value, size, top in zip(values, sizes, tops):
            size = cast(dtype, size)
            if not analyzer.can_prove(value >= 0):
                conditions.append(analyzer.simplify(value < 0))
            if not analyzer.can_prove(value < size):
                beyond = value >= size if top is None else top.beyond(size)
                conditions.append(analyzer.simplify(beyond))
        padding = any_of(*conditions)
        return IndexMap(outputs, values), padding

    def _values(
        self, sizes: list[PrimExpr], outputs: list[Var]
    ) -> tuple[list[PrimExpr], list[HighestDigit | None]]:
        """Return the old indices in terms of the new ones, and how each is divided into two
        digits."""
        found = self._digits(sizes, outputs)
        if found is None:
            found = self._affine(sizes, outputs), [None] * len(sizes)
        return _simplified(found[0]), found[1]

    def _even_digits(self, sizes: list[PrimExpr]) -> EvenDigits | None:
        """Return the digits of a map with symbols that divide each other evenly, else None."""
        if all(isinstance(size, IntImm) for size in sizes):
            return None
        try:
            return EvenDigits(self.initial_indices, sizes, self.final_indices)
        except NotPlainError:
            return None

    def _digits(
        self, given_sizes: list[PrimExpr], outputs: list[Var]
    ) -> tuple[list[PrimExpr], list[HighestDigit | None]] | None:
        """Return the inverse where each new index is made of digits of old indices; None if it is
        not.

        A size that is not constant counts as larger than all others: its highest digit has to be
        the highest of its index.
        """
        sizes = [s.value if isinstance(s, IntImm) else UNKNOWN_SIZE for s in given_sizes]
        digits: dict[Var, list[tuple[int, int, PrimExpr]]] = {v: [] for v in self.initial_indices}
        for index, output in zip(self.final_indices, outputs):
            try:
                pieces = Pieces(dict(zip(self.initial_indices, sizes))).visit(index)
            except NotPlainError:
                return None
            rest: PrimExpr = output if pieces.offset == 0 else output - pieces.offset
            below = 1
            ordered = sorted(pieces.pieces, key=lambda piece: piece.scale)
            for number, piece in enumerate(ordered):
                if piece.scale != below and piece.extent == 1:
                    continue  # its only value is 0
                is_last = number + 1 == len(ordered)
                is_open = piece.lower * piece.extent >= UNKNOWN_SIZE
                if piece.scale != below or (is_open and not is_last):
                    return None
                value = floordiv(rest, const(below, output.dtype))
                below *= piece.extent
                if not is_last:
                    value = floormod(value, const(piece.extent, output.dtype))
                digits[piece.variable].append((piece.lower, piece.extent, value))
        values: list[PrimExpr] = []
        tops: list[HighestDigit | None] = []
        for variable, size in zip(self.initial_indices, sizes):
            value = const(0, variable.dtype)
            covered = 1
            tops.append(None)
            ordered_digits = sorted(digits[variable], key=lambda item: item[0])
            for lower, extent, digit in ordered_digits:
                if lower > covered:
                    break
                if lower < covered:
                    return None
                if lower > 1 and covered * extent >= size:
                    last = cast(variable.dtype, digit)
                    tops[-1] = HighestDigit(last, value, lower, len(ordered_digits) == 2)
                value = value + cast(variable.dtype, digit) * lower
                covered = lower * extent
            if covered < size:
                raise ShapeError(
                    f"the index map {self.describe()} loses a part of '{variable.name}' "
                    f"(of {size}): elements share places"
                )
            if covered > max(size, 1) + (tops[-1].divisor if tops[-1] else 0):
                tops[-1] = None
            values.append(value)
        return values, tops

    def _affine(self, sizes: list[PrimExpr], outputs: list[Var]) -> list[PrimExpr]:
        """Return the inverse by iterator analysis."""
        from tilesmith.arith import find_iter_map, inverse_affine_iter_map

        domains = {
            variable: Range.from_min_extent(const(0, variable.dtype), cast(variable.dtype, size))
            for variable, size in zip(self.initial_indices, sizes)
        }
        # some places of the new shape may stay unused, so the map need not reach all of them
        found = find_iter_map(list(self.final_indices), domains, check_level="nocheck")
        if found.indices:
            inverse = inverse_affine_iter_map(found.indices, outputs)
            values = [inverse.get(v, const(0, v.dtype)) for v in self.initial_indices]
            if self._is_undone_by(values, outputs, domains):
                return values
        raise UnsupportedError(
            f"the inverse of the index map {self.describe()} cannot be found",
            notes=("give it: IndexMap.from_func(..., inverse_index_map=lambda ...)",),
        )

    def _is_undone_by(
        self, values: list[PrimExpr], outputs: list[Var], domains: dict[Var, Range]
    ) -> bool:
        """Return whether ``values`` of the new indices are the old ones, for all elements."""
        analyzer = Analyzer()
        for variable, domain in domains.items():
            analyzer.bind(variable, domain)
        back = substitute(values, dict(zip(outputs, self.final_indices)))
        return all(
            analyzer.can_prove_equal(value, variable)
            for value, variable in zip(back, self.initial_indices)
        )

    def _check_rank(self, values: Sequence[Any], what: str) -> None:
        if len(values) != len(self.initial_indices):
            raise ShapeError(
                f"the index map {self.describe()} takes {len(self.initial_indices)} {what}, "
                f"got {len(values)}"
            )

    def describe(self) -> str:
        """Return the map as Python: ``lambda i, j: (j, i)``."""
        names = ", ".join([index.name for index in self.initial_indices])
        final = [str(index).splitlines()[-1] for index in self.final_indices]
        for number, position in enumerate(self.axis_separators):
            final.insert(position + number, repr(IndexMap.AXIS_SEPARATOR))
        return f"lambda {names}: ({', '.join(final)})"


def _arguments(
    function: Callable[..., Any], ndim: int | None, index_dtype: str
) -> tuple[list[Var], list[Var], dict[str, Var]]:
    """Return variables for the parameters of a mapping function."""
    positional: list[Var] = []
    named: dict[str, Var] = {}
    indices: list[Var] = []
    variadic = None
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            raise TypeMismatchError("the function of an index map cannot take **named arguments")
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            variadic = (len(indices), name)
            continue
        variable = Var(name, index_dtype)
        indices.append(variable)
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            named[name] = variable
        else:
            positional.append(variable)
    if variadic is not None:
        if ndim is None:
            raise TypeMismatchError("an index map of *indices needs ndim")
        place, name = variadic
        extra = [Var(f"{name}_{number}", index_dtype) for number in range(ndim - len(indices))]
        indices[place:place] = extra
        positional += extra
    if ndim is not None and len(indices) != ndim:
        raise ShapeError(f"the index map takes {len(indices)} indices, the buffer has {ndim}")
    return indices, positional, named


class _Retype(Dispatcher[PrimExpr]):
    """Rewrites an index expression over other variables, in another dtype."""

    def __init__(self, variables: dict[Var, Var], dtype: Any) -> None:
        self.variables = variables
        self.dtype = dtype

    def visit_Var(self, node: Var) -> PrimExpr:
        return self.variables.get(node, node)

    def visit_IntImm(self, node: IntImm) -> PrimExpr:
        return node if node.dtype.is_bool else const(node.value, self.dtype)

    def visit_Cast(self, node: Cast) -> PrimExpr:
        return self.visit(node.value)

    def visit_default(self, node: Any) -> PrimExpr:
        if isinstance(node, Call):
            return Call(self.dtype, node.op, tuple([self.visit(arg) for arg in node.args]))
        same: PrimExpr = node.map_children(self.visit)
        return same
