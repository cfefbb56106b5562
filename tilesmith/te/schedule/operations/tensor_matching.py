"""Compares the computation inside of tensorized loops with that of a tensor intrinsic.

C[x, yo * 16 + i] = sum(A[x, k] * B[yo * 16 + i, k])     over i in 0..16, k in 0..64
c[i]              = sum(a[k] * b[i, k])                  a is A[x, 0:64], b is B[yo * 16:+16, 0:64]

The iterators of the intrinsic stand for the last ones of the operation, counted from the first of
what the loops run over. A tensor of the intrinsic stands for a part of the tensor that is read in
its place, if the indices of both differ by what does not depend on the iterators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import (
    EQ,
    NE,
    Add,
    And,
    BinaryOp,
    Call,
    Cast,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Range,
    Select,
    Var,
    const,
    structural_equal,
)
from tilesmith.ir.operators import cast, is_const
from tilesmith.ir.queries import any_node, mentions
from tilesmith.te.tensor import ComputeOp, Tensor
from tilesmith.te.tensor_intrin import TensorIntrin
from tilesmith.tir.expr import IterVar, ProducerLoad, Reduce
from tilesmith.tir.functor import substitute

__all__ = ["Mismatch", "Part", "match_intrinsic", "shown_side"]

Part = tuple[Tensor, list[Range]]
"""A tensor and the region of it that a buffer of an intrinsic stands for."""

_COMMUTATIVE = (Add, Mul, Min, Max, And, Or, EQ, NE)


class Mismatch(Exception):
    """Why an intrinsic does not compute what the loops compute."""


def match_intrinsic(
    op: ComputeOp, regions: Mapping[IterVar, Range], intrin: TensorIntrin
) -> list[Part]:
    """Return the parts of the tensors that the inputs of an intrinsic stand for; raise Mismatch if
    it computes something else. ``regions``: what the axes of the operation run over.
    """
    wanted: Any = intrin.op
    values: dict[Var, PrimExpr] = {}
    matcher = _Matcher()
    for axes, theirs, what in (
        (op.axis, wanted.axis, "axes"),
        (op.reduce_axis, wanted.reduce_axis, "reduction axes"),
    ):
        values.update(_aligned(axes, theirs, regions, what, matcher))
    if len(op.body) != len(wanted.body):
        raise Mismatch(f"it has {len(wanted.body)} results, the operation has {len(op.body)}")
    pairs = _pairs_of_values(op.body, wanted.body)
    for ours, theirs in pairs:
        if not matcher.match_either(substitute(ours, values), theirs):
            raise Mismatch("it computes something else")
    return [matcher.part(tensor) for tensor in intrin.inputs]


def _aligned(
    axes: Sequence[IterVar],
    theirs: Sequence[IterVar],
    regions: Mapping[IterVar, Range],
    what: str,
    matcher: _Matcher,
) -> dict[Var, PrimExpr]:
    """Return the values of the operation's iterators in terms of the intrinsic's."""
    extra = len(axes) - len(theirs)
    if extra < 0:
        raise Mismatch(f"it has {len(theirs)} {what}, the operation has {len(axes)}")
    values: dict[Var, PrimExpr] = {}
    for axis in axes[:extra]:
        if not is_const(regions[axis].extent, 1):
            raise Mismatch(
                f"the loops run over {regions[axis].extent} values of '{axis.var.name}', for which "
                "it has no axis"
            )
        values[axis.var] = regions[axis].min
    for axis, their in zip(axes[extra:], theirs):
        region, domain = regions[axis], their.domain
        if not matcher.analyzer.can_prove_equal(region.extent, domain.extent):
            raise Mismatch(
                f"the loops run over {region.extent} values of '{axis.var.name}', the intrinsic "
                f"over {domain.extent} values of '{their.var.name}'"
            )
        matcher.add(their)
        counted = their.var if is_const(domain.min, 0) else their.var - domain.min
        values[axis.var] = region.min + cast(axis.var.dtype, counted)
    return values


def _pairs_of_values(
    ours: Sequence[PrimExpr], theirs: Sequence[PrimExpr]
) -> list[tuple[PrimExpr, PrimExpr]]:
    first, other = ours[0], theirs[0]
    if not isinstance(first, Reduce) and not isinstance(other, Reduce):
        return list(zip(ours, theirs))
    if not isinstance(first, Reduce) or not isinstance(other, Reduce):
        raise Mismatch("one of both is a reduction, the other is not")
    if not structural_equal(first.combiner, other.combiner):
        raise Mismatch("its reduction combines values in another way")
    if first.init or other.init:
        raise Mismatch("a reduction with an init of its own is not supported")
    return [(first.condition, other.condition), *zip(first.source, other.source)]


class _Matcher:
    """Finds out which parts of tensors the tensors of an intrinsic stand for."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.variables: set[Var] = set()
        self.parts: dict[Tensor, tuple[Tensor, list[PrimExpr]]] = {}

    def add(self, axis: IterVar) -> None:
        """Make an iterator of the intrinsic known."""
        self.variables.add(axis.var)
        self.analyzer.bind(axis.var, axis.domain)

    def match_either(self, ours: PrimExpr, theirs: PrimExpr) -> bool:
        """Compare two expressions as they are, then in their simplest form."""
        return self.match(ours, theirs) or self.match(
            self.analyzer.simplify(ours), self.analyzer.simplify(theirs)
        )

    def match(self, ours: PrimExpr, theirs: PrimExpr) -> bool:
        """Compare two expressions; what was found is kept only if they are the same."""
        known = dict(self.parts)
        if self._match(ours, theirs):
            return True
        self.parts = known
        return False

    def _match(self, ours: PrimExpr, theirs: PrimExpr) -> bool:
        if ours.dtype is not theirs.dtype:
            return False
        if isinstance(theirs, ProducerLoad):
            return isinstance(ours, ProducerLoad) and self._load(ours, theirs)
        if not any_node([ours, theirs], lambda one: isinstance(one, ProducerLoad)):
            if structural_equal(ours, theirs):
                return True
            is_integer = ours.dtype.is_integer or ours.dtype.is_bool
            return is_integer and self.analyzer.can_prove_equal(ours, theirs)
        if type(ours) is not type(theirs):
            return False
        if isinstance(ours, Call):
            if ours.op is not theirs.op or len(ours.args) != len(theirs.args):  # type: ignore[attr-defined]
                return False
            return self._all(ours.args, theirs.args)  # type: ignore[attr-defined]
        if isinstance(ours, BinaryOp):
            a, b = (ours.a, ours.b), (theirs.a, theirs.b)  # type: ignore[attr-defined]
            if self._all(a, b):
                return True
            return isinstance(ours, _COMMUTATIVE) and self._all(a, b[::-1])
        parts = _PARTS.get(type(ours))
        if parts is None:
            return False
        return self._all(
            [getattr(ours, name) for name in parts], [getattr(theirs, name) for name in parts]
        )

    def _all(self, ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
        known = dict(self.parts)
        if all(self.match(a, b) for a, b in zip(ours, theirs)):
            return True
        self.parts = known
        return False

    def _load(self, ours: ProducerLoad, theirs: ProducerLoad) -> bool:
        tensor: Any = ours.producer
        extra = len(ours.indices) - len(theirs.indices)
        if extra < 0:
            return False
        offsets = list(ours.indices[:extra])
        for index, inner in zip(ours.indices[extra:], theirs.indices):
            offsets.append(self.analyzer.simplify(index - cast(index.dtype, inner)))
        if mentions(offsets, self.variables):
            return False
        known = self.parts.get(theirs.producer)  # type: ignore[call-overload]
        if known is None:
            self.parts[theirs.producer] = (tensor, offsets)  # type: ignore[index]
            return True
        return known[0] is tensor and all(
            self.analyzer.can_prove_equal(a, b) for a, b in zip(known[1], offsets)
        )

    def part(self, theirs: Tensor) -> Part:
        """Return the part that a tensor of the intrinsic stands for."""
        tensor, offsets = self.parts[theirs]
        extra = len(offsets) - theirs.ndim
        sizes = [const(1, offsets[0].dtype)] * extra if extra else []
        sizes = [*sizes, *theirs.shape]
        return tensor, [
            Range.from_min_extent(low, cast(low.dtype, size)) for low, size in zip(offsets, sizes)
        ]


_PARTS = {
    Cast: ("value",),
    Not: ("a",),
    Select: ("condition", "true_value", "false_value"),
}


def shown_side(op: ComputeOp, regions: Mapping[IterVar, Range]) -> str:
    """Return the text of a computation over some ranges, for errors."""
    names = ", ".join([axis.var.name for axis in op.axis])
    values = [value.source[0] if isinstance(value, Reduce) else value for value in op.body]
    made = [
        f"{op.output(k).name}[{names}] = {_reduced(op.body[k], str(value))}"
        for k, value in enumerate(values)
    ]
    ranges = [
        f"{axis.var.name} in {regions[axis].min}..+{regions[axis].extent}"
        for axis in (*op.axis, *op.reduce_axis)
    ]
    return f"{'; '.join(made)}, {', '.join(ranges)}"


def _reduced(body: PrimExpr, value: str) -> str:
    if not isinstance(body, Reduce):
        return value
    axes = ", ".join([axis.var.name for axis in body.axis])
    return f"reduce({value}, axis=[{axes}])"
