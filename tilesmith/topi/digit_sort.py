"""Sorting rows of integers digit by digit: linear in the number of elements, and stable.

    keys    0x0302 0x0201 0x0301 0x0102
    by the last digit (of eight bits), then by the one before it:
            0x0201 0x0301 0x0302 0x0102
            0x0102 0x0201 0x0301 0x0302

For each digit, the elements are counted and then moved to the places that the counts say. Digits
that all elements of a row share are passed over. Short rows are sorted by insertion. No step
branches on the outcome of a comparison of two elements of a long row, so that random data cost no
more than sorted ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith import tir
from tilesmith.ir import IntImm, PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.ir_builder import BufferVar, IRBuilder
from tilesmith.topi.procedure import Row, local

__all__ = ["DigitSort", "sortable", "sortable_dtype"]

_DIGIT = 8
"""The bits of a digit."""
_SHORT = 32
"""The largest number of elements that are sorted by insertion."""

At = Callable[[PrimExpr], PrimExpr]


def sortable_dtype(dtype: DataType | str) -> DataType:
    """Return the dtype of `sortable` values."""
    dtype = DataType(dtype)
    if dtype.is_float:
        return DataType("int64" if dtype.bits == 64 else "int32")
    return DataType("int8") if dtype.is_bool else dtype


def sortable(value: PrimExpr) -> PrimExpr:
    """Return an integer that is ordered as the value is; NaN comes last, and 0 is -0."""
    kind = sortable_dtype(value.dtype)
    if not value.dtype.is_float:
        return op.cast(kind, value)
    wide = value if value.dtype.bits == 64 else op.cast("float32", value)
    top = const((1 << (kind.bits - 1)) - 1, kind)
    bits = tir.reinterpret(kind, wide)
    # The bits of negative numbers but the sign count downwards.
    ordered = op.bitwise_xor(bits, op.bitwise_and(bits >> (kind.bits - 1), top))
    is_zero = op.equal(wide, const(0.0, wide.dtype))
    return tir.Select(tir.isnan(wide), top, tir.Select(is_zero, const(0, kind), ordered))


class DigitSort:
    """Sorts rows of keys, each with the place that it comes from; equal keys keep their order.

    ``keys`` and ``places`` have two planes, between which the elements move. ``row`` says where in
    them: after its outer indices come the plane and the position.
    """

    def __init__(
        self, builder: IRBuilder, keys: BufferVar, places: BufferVar, row: Row, ascending: bool
    ) -> None:
        self._builder, self._keys, self._places = builder, keys, places
        self._row, self._ascending = row, ascending

    def sort(
        self, key_of: At, origin_of: At, size: PrimExpr, first: PrimExpr | None = None
    ) -> BufferVar:
        """Sort the keys of a row by ``key_of`` a position (see `sortable`), each with its
        ``origin_of``; return the number of the plane in which they are then.

        ``first``: only so many, at least one and at most ``size``, are needed.
        """
        builder = self._builder
        plane = local(builder, size.dtype, "plane", const(0, size.dtype))
        if isinstance(size, IntImm) and size.value <= _SHORT:
            self._insert_each(key_of, origin_of, size)
        elif isinstance(size, IntImm):
            self._by_digits(key_of, origin_of, size, first, plane)
        else:
            with builder.if_scope(size <= const(_SHORT, size.dtype)):
                self._insert_each(key_of, origin_of, size)
            with builder.else_scope():
                self._by_digits(key_of, origin_of, size, first, plane)
        return plane

    def place(self, plane: Any, position: Any) -> PrimExpr:
        """Return where the key at a position of a plane comes from."""
        return self._places[[*self._row.outer, plane, position]]

    def _key(self, plane: Any, position: Any) -> PrimExpr:
        return self._keys[[*self._row.outer, plane, position]]

    def _put(self, plane: Any, position: Any, key: PrimExpr, origin: PrimExpr) -> None:
        self._keys[[*self._row.outer, plane, position]] = key
        self._places[[*self._row.outer, plane, position]] = op.cast(self._places.dtype, origin)

    def _directed(self, key: PrimExpr) -> PrimExpr:
        """Return a key that ascends where the rows are to."""
        return key if self._ascending else tir.bitwise_not(key)

    def _insert_each(self, key_of: At, origin_of: At, size: PrimExpr) -> None:
        """Sort a short row by insertion; it stays in the first plane."""
        builder, zero = self._builder, const(0, size.dtype)
        with builder.for_range(zero, size, "k") as k:
            key = builder.let("key", self._directed(key_of(k)))
            origin = builder.let("origin", origin_of(k))
            hole = local(builder, size.dtype, "hole", k)
            left = op.maximum(hole[0] - 1, zero)
            with builder.while_loop(tir.And(hole[0] > zero, key < self._key(zero, left))):
                before = hole[0] - 1
                self._put(zero, hole[0], self._key(zero, before), self.place(zero, before))
                hole[0] = before
            self._put(zero, hole[0], key, origin)

    def _by_digits(
        self, key_of: At, origin_of: At, size: PrimExpr, first: PrimExpr | None, plane: BufferVar
    ) -> None:
        """Sort a row of at least one element by all digits, the last one first."""
        builder, digits = self._builder, self._keys.dtype.bits // _DIGIT
        with builder.for_range(const(0, size.dtype), size, "k") as k:
            self._put(const(0, size.dtype), k, self._directed(key_of(k)), origin_of(k))
        counts = builder.allocate(size.dtype, 1 << _DIGIT, "counts", scope="local")
        if first is not None:
            size = self._keep_first(first, counts, size, plane)
        with builder.for_range(0, digits, "number") as number:
            digit = self._digit(number)
            source = builder.let("source", plane[0])
            self._count(source, digit, counts, size)
            shared = counts[digit(self._key(source, const(0, size.dtype)))]
            with builder.if_scope(op.not_equal(shared, size)):
                self._move(source, digit, counts, size)
                plane[0] = 1 - source

    def _keep_first(
        self, first: PrimExpr, counts: BufferVar, size: PrimExpr, plane: BufferVar
    ) -> PrimExpr:
        """Move the elements that may be among the ``first`` ones, by their first digit, to the
        other plane; return how many they are.
        """
        builder, dtype = self._builder, size.dtype
        zero, one = const(0, dtype), const(1, dtype)
        digit = self._digit(const(self._keys.dtype.bits // _DIGIT - 1, "int32"))
        self._count(zero, digit, counts, size)
        last = local(builder, "int32", "last", const(0, "int32"))
        kept = local(builder, dtype, "kept", counts[0])
        with builder.while_loop(kept[0] < first):
            last[0] = last[0] + 1
            kept[0] = kept[0] + counts[last[0]]
        target = local(builder, dtype, "target", zero)
        with builder.for_range(zero, size, "k") as k:
            # Every element is stored, the next one over it unless this one counts: no branch.
            key = builder.let("key", self._key(zero, k))
            self._put(one, target[0], key, self.place(zero, k))
            target[0] = target[0] + op.cast(dtype, digit(key) <= last[0])
        plane[0] = one
        return builder.let("number", kept[0])

    def _digit(self, number: PrimExpr) -> At:
        """Return the function that gives a digit of a key; ``number`` 0 is the last one."""
        builder, dtype = self._builder, self._keys.dtype
        shift = builder.let("shift", op.cast(dtype, number * _DIGIT))
        # The first bit of a negative number is 1, and it comes before the others.
        sign = const(1 << (_DIGIT - 1) if dtype.is_int else 0, "int32")
        is_first = op.equal(number, dtype.bits // _DIGIT - 1)
        flip = builder.let("flip", tir.Select(is_first, sign, const(0, "int32")))

        def digit(key: PrimExpr) -> PrimExpr:
            low = op.bitwise_and(op.cast("int32", key >> shift), (1 << _DIGIT) - 1)
            return op.bitwise_xor(low, flip)

        return digit

    def _count(self, source: PrimExpr, digit: At, counts: BufferVar, size: PrimExpr) -> None:
        """Count how many keys of a plane have each digit."""
        builder = self._builder
        with builder.for_range(0, 1 << _DIGIT, "value") as value:
            counts[value] = const(0, size.dtype)
        with builder.for_range(const(0, size.dtype), size, "k") as k:
            own = builder.let("own", digit(self._key(source, k)))
            counts[own] = counts[own] + 1

    def _move(self, source: PrimExpr, digit: At, counts: BufferVar, size: PrimExpr) -> None:
        """Move the elements of a plane to the other one, in the order of their digits."""
        builder = self._builder
        total = local(builder, size.dtype, "total", const(0, size.dtype))
        with builder.for_range(0, 1 << _DIGIT, "value") as value:
            number = builder.let("number", counts[value])
            counts[value] = total[0]
            total[0] = total[0] + number
        with builder.for_range(const(0, size.dtype), size, "k") as k:
            key = builder.let("key", self._key(source, k))
            own = builder.let("own", digit(key))
            target = builder.let("target", counts[own])
            counts[own] = target + 1
            self._put(1 - source, target, key, self.place(source, k))
