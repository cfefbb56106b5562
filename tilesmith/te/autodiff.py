"""Reverse-mode differentiation of tensor expressions: ``te.gradient``.

    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k))
  te.gradient(C, [A], head=G)
    A_grad = te.compute((n, l), lambda i, k: te.sum(G[i, j] * B[k, j], axis=j))

From the output to the inputs, each tensor gets its adjoint: a sum over the places where it is read,
of the reader's adjoint times the derivative there (``derivatives``), over as few iterators as the
indices allow (``adjoint_terms``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tilesmith.ir import PrimExpr, Range, Var, const, structural_equal
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnsupportedError
from tilesmith.support.recursion import deep_recursion
from tilesmith.te.adjoint_terms import Equation, Term, solved
from tilesmith.te.derivatives import Partial, partials
from tilesmith.te.operation import compute, reduce_axis
from tilesmith.te.reduction_derivatives import Part, general_derivatives, parts_of_reduction
from tilesmith.te.tensor import ComputeOp, Operation, Tensor
from tilesmith.tir.expr import IterVar, Reduce
from tilesmith.tir.functor import substitute
from tilesmith.tir.op import all as all_of
from tilesmith.tir.op import if_then_else
from tilesmith.tir.op import sum as sum_of

__all__ = ["gradient"]


def gradient(output: Tensor, inputs: Any, head: Tensor | None = None) -> list[Tensor]:
    """Return the derivatives of a tensor by some of the tensors that it is computed from.

    ``head`` is the adjoint of the output: its shape ends with that of the output, and what stands
    before it begins the shape of each result, followed by that of the input. Without it the results
    are Jacobians: of the output's shape followed by the input's.

    Where several elements are the largest (smallest) of a reduction, the first one gets the
    derivative. Raises UnsupportedError where the way to an input leads through an operation whose
    derivative is not known.
    """
    wanted = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    for tensor in [output, *wanted, *([] if head is None else [head])]:
        if not isinstance(tensor, Tensor):
            raise TypeMismatchError(f"te.gradient takes tensors, got {tensor!r}")
        if not tensor.dtype.is_float:
            raise TypeMismatchError(
                f"te.gradient: tensor '{tensor.name}' is {tensor.dtype}, which has no derivative",
                notes=("cast it to a float before the computation",),
            )
    if head is not None:
        _check_head(output, head)
    with deep_recursion():
        return _Gradient(output, wanted, head).results()


def _check_head(output: Tensor, head: Tensor) -> None:
    leading = head.ndim - output.ndim
    if leading < 0 or not structural_equal(list(head.shape[leading:]), list(output.shape)):
        raise ShapeError(
            f"te.gradient: the shape of head '{head.name}' is {_shown(head.shape)}, which does not "
            f"end with that of the output '{output.name}', {_shown(output.shape)}"
        )


def _shown(shape: Sequence[PrimExpr]) -> str:
    return "(" + ", ".join([str(size) for size in shape]) + ")"


class _Place(NamedTuple):
    """Indices of an element of an adjoint: those before the tensor's own, and these; ranges."""

    prefix: tuple[Var, ...]
    indices: tuple[Var, ...]
    ranges: dict[Var, Range]


class _Gradient:
    """Computes adjoints from the output backwards."""

    def __init__(self, output: Tensor, wanted: list[Tensor], head: Tensor | None) -> None:
        self.output, self.wanted, self.head = output, wanted, head
        count = 0 if head is None else head.ndim - output.ndim
        self.prefix_shape = output.shape if head is None else head.shape[:count]
        self.adjoints: dict[Tensor, Tensor] = {}
        self.parts: dict[Tensor, list[tuple[Tensor, Part]]] = {}  # by what is read: its readers
        self.order = _dependent(output.op, wanted)
        self.active = {
            *wanted,
            *[op.output(k) for op in self.order for k in range(op.num_outputs)],
        }

    def results(self) -> list[Tensor]:
        """Return the adjoints of the inputs."""
        for op in reversed(self.order):
            for k in range(op.num_outputs):
                self._close(op.output(k))
            self._derive(op)
        for tensor in self.wanted:
            self._close(tensor)
        return [self._result(tensor) for tensor in self.wanted]

    def _result(self, tensor: Tensor) -> Tensor:
        if tensor in self.adjoints:
            return self.adjoints[tensor]
        # the output itself, or nothing that the output depends on
        return self._compute(tensor, lambda place: self._own(tensor, place))

    def _own(self, tensor: Tensor, place: _Place) -> PrimExpr:
        zero = const(0.0, tensor.dtype)
        if tensor is not self.output or self.head is not None:
            return zero
        same = [a.equal(b) for a, b in zip(place.prefix, place.indices)]
        one = const(1.0, tensor.dtype)
        return if_then_else(all_of(*same), one, zero) if same else one

    def _has_adjoint(self, tensor: Tensor) -> bool:
        return tensor in self.adjoints or tensor is self.output

    def _close(self, tensor: Tensor) -> None:
        """Make the adjoint of a tensor, of which all readers are known now."""
        if tensor in self.adjoints:
            return
        parts = self.parts.get(tensor, [])
        if tensor is self.output:
            if self.head is not None and not parts:
                self.adjoints[tensor] = self.head
            return
        if not parts:
            return
        place = self._place(tensor)
        terms = [self._term(reader, part, place) for reader, part in parts]
        found = [term for term in terms if term is not None]
        if found:
            self.adjoints[tensor] = self._sum(tensor, place, found)

    def _derive(self, op: Operation) -> None:
        """Note for each tensor that an operation reads what it adds to the tensor's adjoint."""
        outputs = [op.output(k) for k in range(op.num_outputs)]
        reached = [one for one in outputs if self._has_adjoint(one)]
        if not reached or op not in self.order or not op.input_tensors:
            return
        if not isinstance(op, ComputeOp):
            raise UnsupportedError(
                f"te.gradient: the derivative of {type(op).__name__} '{op.name}' is not known",
                notes=("compute the gradient of this part by a te.compute of your own",),
            )
        first = op.body[0]
        if isinstance(first, Reduce):
            found = parts_of_reduction(op, self.active)
            if found is None:
                self._derive_generally(op, reached)
                return
            for part in found:
                self._note(outputs[0], part)
            return
        for output in reached:
            body = op.body[output.value_index]
            for partial in partials(body, self.active):
                self._note(output, Part(partial, op.axis, ()))

    def _note(self, reader: Tensor, part: Part) -> None:
        read: Any = part.partial.load.producer
        self.parts.setdefault(read, []).append((reader, part))

    def _derive_generally(self, op: ComputeOp, reached: list[Tensor]) -> None:
        for tensor in op.input_tensors:
            if tensor in self.active:
                for output, derivative in general_derivatives(op, tensor, reached):
                    axes = [*op.axis, *[_iterator(size) for size in tensor.shape]]
                    variables = [axis.var for axis in axes]
                    load: Any = tensor(*variables[len(op.axis) :])
                    partial = Partial(load, (), derivative(*variables))
                    self._note(output, Part(partial, tuple(axes), ()))

    def _term(self, reader: Tensor, part: Part, place: _Place) -> Term | None:
        """Return what a read adds to the adjoint at a place."""
        fresh = {axis.var: Var(axis.var.name, axis.var.dtype) for axis in (*part.axes, *part.more)}
        axes = {fresh[axis.var]: axis.domain for axis in (*part.axes, *part.more)}
        own = [fresh[axis.var] for axis in part.axes[: reader.ndim]]
        load, conditions, value = part.partial
        equations = [
            Equation(wanted, substitute(index, fresh))
            for wanted, index in zip(place.indices, load.indices)
        ]
        value = substitute(value, fresh)
        if reader in self.adjoints:
            value = self.adjoints[reader](*place.prefix, *own) * value
        else:  # the output without a head: its adjoint is 1 where the indices are the same
            equations = [*[Equation(p, o) for p, o in zip(place.prefix, own)], *equations]
        return solved(
            Term(axes, tuple([substitute(one, fresh) for one in conditions]), value),
            equations,
            place.ranges,
        )

    def _place(self, tensor: Tensor) -> _Place:
        shape = [*self.prefix_shape, *tensor.shape]
        indices = tuple([Var(f"i{k}", size.dtype) for k, size in enumerate(shape)])
        ranges = {var: Range(const(0, var.dtype), size) for var, size in zip(indices, shape)}
        count = len(self.prefix_shape)
        return _Place(indices[:count], indices[count:], ranges)

    def _sum(self, tensor: Tensor, place: _Place, terms: list[Term]) -> Tensor:
        """Return the sum of terms: a computation for each one that has iterators, and one for
        all others.
        """
        zero = const(0.0, tensor.dtype)
        simple: list[PrimExpr] = []
        for term in terms:
            value, where = term.value, all_of(*term.conditions) if term.conditions else None
            if not term.axes:
                simple.append(value if where is None else if_then_else(where, value, zero))
                continue
            axes = [reduce_axis(rng, var.name) for var, rng in term.axes.items()]
            renamed = {var: axis.var for var, axis in zip(term.axes, axes)}
            value = substitute(value, renamed)
            where = None if where is None else substitute(where, renamed)
            total = self._compute(
                tensor, self._at(place, sum_of(value, axis=axes, where=where)), place
            )
            simple.append(total(*place.prefix, *place.indices))
        if len(simple) == 1 and terms[0].axes:
            return total
        value = simple[0]
        for one in simple[1:]:
            value = value + one
        return self._compute(tensor, self._at(place, value), place)

    def _at(self, place: _Place, value: PrimExpr) -> Callable[[_Place], PrimExpr]:
        """Return a function that gives a value at another place."""
        names = [*place.prefix, *place.indices]

        def moved(other: _Place) -> PrimExpr:
            return substitute(value, dict(zip(names, [*other.prefix, *other.indices])))

        return moved

    def _compute(
        self, tensor: Tensor, value: Callable[[_Place], PrimExpr], place: _Place | None = None
    ) -> Tensor:
        count = len(self.prefix_shape)

        def element(*indices: Var) -> PrimExpr:
            return value(_Place(indices[:count], indices[count:], {}))

        shape = [*self.prefix_shape, *tensor.shape]
        made: Tensor = compute(shape, element, f"{tensor.op.name}_grad")
        return made


def _iterator(size: PrimExpr) -> IterVar:
    return IterVar(Range(const(0, size.dtype), size), Var("x", size.dtype), IterVar.DataPar)


def _dependent(root: Operation, wanted: Sequence[Tensor]) -> list[Operation]:
    """Return the operations on the ways from a result to some tensors, each after those that it
    reads.
    """
    order: dict[Operation, bool] = {}
    waiting = [root]
    entered: set[Operation] = set()
    while waiting:
        op = waiting[-1]
        if op in order:
            waiting.pop()
        elif op in entered:
            waiting.pop()
            order[op] = any(tensor in wanted or order[tensor.op] for tensor in op.input_tensors)
        else:
            entered.add(op)
            waiting += [tensor.op for tensor in op.input_tensors if tensor.op not in entered]
    return [op for op, leads in order.items() if leads]
