"""Sizes that the arguments of an operator share: what its kernel takes for granted.

An operator's record names them (`OpSpec.agreeing`). A call whose sizes are known to differ is
refused; sizes that are only known when the program runs are compared then, before the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilesmith.ir import IntImm, PrimExpr
from tilesmith.ir import operators as op
from tilesmith.relax.expr import Call
from tilesmith.relax.op.common import tensor, tensors
from tilesmith.relax.relations import size_text, sizes_of, surely_different
from tilesmith.relax.spec import Agreement
from tilesmith.support.errors import ShapeError

__all__ = [
    "attention_sizes", "checked", "concatenated_sizes", "einsum_sizes", "gathered_sizes",
    "gathered_tuples", "loss_sizes", "scattered_sizes", "scattered_tuples", "vectors_along",
]  # fmt: skip

Agreements = Iterator[Agreement]


def checked(
    infer: Callable[[Call], Any], agreeing: Callable[[Call], Agreements] | None
) -> Callable[[Call], Any]:
    """Return an inference that refuses calls whose sizes are known not to agree."""
    if agreeing is None:
        return infer

    def infer_and_check(call: Call) -> Any:
        found = infer(call)
        for what, given, wanted in agreeing(call):
            if surely_different(given, wanted):
                raise ShapeError(
                    f"{call.op.name}: {what} has size {size_text(given)}, needed is "
                    f"{size_text(wanted)}"
                )
        return found

    return infer_and_check


def _equal(what: str, given: Sequence[PrimExpr] | None, wanted: Any) -> Agreements:
    for axis, (a, b) in enumerate(zip(given or (), wanted or ())):
        yield f"axis {axis} of {what}", a, b


def _at_most(what: str, given: PrimExpr, limit: PrimExpr) -> Agreement:
    """Return the agreement that a size is not larger than another one."""
    if isinstance(given, IntImm) and isinstance(limit, IntImm):
        return what, given, limit if given.value > limit.value else given
    return what, op.maximum(given, limit), limit


def _attrs(call: Call) -> Any:
    return call.attrs


def _sizes(call: Call, index: int) -> Any:
    return sizes_of(tensor(call, index)) if index < len(call.args) else None


def concatenated_sizes(call: Call) -> Agreements:
    """Yield the sizes of joined tensors elsewhere than along the axis (`stack` has none such)."""
    first, *others = [sizes_of(info) for info in tensors(call, 0)]
    axis = None
    if call.op.spec.short_name == "concat" and first is not None:
        axis = (_attrs(call).axis or 0) % len(first)
    for number, sizes in enumerate(others):
        for agreement in _equal(f"tensor {number + 1}", sizes, first):
            if agreement[0] != f"axis {axis} of tensor {number + 1}":
                yield agreement


def vectors_along(axes: Callable[[Any], Sequence[int]]) -> Callable[[Call], Agreements]:
    """Return the agreements of parameters, from argument 1 on, with the data's sizes along
    ``axes(attrs)``; parameters of rank 0 agree with everything.
    """

    def agreeing(call: Call) -> Agreements:
        data = _sizes(call, 0)
        if data is None:
            return
        for index in range(1, len(call.args)):
            sizes = _sizes(call, index)
            if sizes:
                along = [data[axis] for axis in axes(_attrs(call))]
                yield from _equal(f"'{call.op.spec.arguments[index].name}'", sizes, along)

    return agreeing


def gathered_sizes(call: Call) -> Agreements:
    """Yield the sizes of `gather_elements`: indices are no larger than the data in other axes."""
    data, indices = _sizes(call, 0), _sizes(call, 1)
    if data is None or indices is None:
        return
    for axis, (given, limit) in enumerate(zip(indices, data)):
        if axis != _attrs(call).axis % len(data):
            yield _at_most(f"axis {axis} of 'indices'", given, limit)


def scattered_sizes(call: Call) -> Agreements:
    """Yield the sizes of `scatter_elements`: updates as indices, these as in `gather_elements`."""
    yield from gathered_sizes(call)
    yield from _equal("'updates'", _sizes(call, 2), _sizes(call, 1))


def gathered_tuples(call: Call) -> Agreements:
    """Yield the sizes of `gather_nd` along the batch dimensions."""
    batch = _attrs(call).batch_dims
    yield from _equal("'indices'", (_sizes(call, 1) or ())[:batch], (_sizes(call, 0) or ())[:batch])


def scattered_tuples(call: Call) -> Agreements:
    """Yield the sizes of the updates of `scatter_nd`."""
    data, indices = _sizes(call, 0), _sizes(call, 1)
    if data is not None and indices is not None and isinstance(indices[-1], IntImm):
        wanted = [*indices[:-1], *data[indices[-1].value :]]
        yield from _equal("'updates'", _sizes(call, 2), wanted)


def einsum_sizes(call: Call) -> Agreements:
    """Yield the sizes that one letter of an `einsum` stands for."""
    inputs = _attrs(call).subscripts.replace(" ", "").partition("->")[0]
    first: dict[str, PrimExpr] = {}
    for term, info in zip(inputs.split(","), tensors(call, 0)):
        for letter, size in zip(term, sizes_of(info) or ()):
            yield f"axis '{letter}'", size, first.setdefault(letter, size)


def attention_sizes(call: Call) -> Agreements:
    """Yield the batch sizes and the numbers of heads of `attention`."""
    query = _sizes(call, 0)
    for index in (1, 2):
        name, sizes = call.op.spec.arguments[index].name, _sizes(call, index)
        if query is not None and sizes is not None:
            yield f"the batch of '{name}'", sizes[0], query[0]
            yield f"'{name}', in heads,", sizes[2], query[2]


def loss_sizes(first: int) -> Callable[[Call], Agreements]:
    """Return the agreements of a negative log-likelihood whose predictions, targets and weights are
    the arguments from number ``first`` on.
    """

    def agreeing(call: Call) -> Agreements:
        predictions = _sizes(call, first)
        if predictions is None:
            return
        axis = 1 if len(predictions) > 1 else 0
        others = [*predictions[:axis], *predictions[axis + 1 :]]
        yield from _equal("'targets'", _sizes(call, first + 1), others)
        yield from _equal("'weights'", _sizes(call, first + 2), predictions[axis : axis + 1])

    return agreeing
