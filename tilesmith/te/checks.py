"""Refuses tensor expressions that cannot mean what their author wants, where they are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import (
    IntImm,
    PrimExpr,
    Range,
    StringImm,
    Var,
    const,
    convert,
    structural_equal,
)
from tilesmith.ir.queries import any_node, nodes
from tilesmith.support.errors import (
    OutOfBoundsError,
    ScheduleError,
    TypeMismatchError,
    UnsupportedError,
)
from tilesmith.te.tensor import ComputeOp, Operation, PlaceholderOp, ScanOp
from tilesmith.tir.analysis.out_of_bounds import Outside, find_reads_outside
from tilesmith.tir.analysis.variables import undefined_vars
from tilesmith.tir.expr import IterVar, ProducerLoad, Reduce
from tilesmith.tir.shared_values import bind_shared

__all__ = [
    "check_late_reads", "check_reads", "check_scan", "check_states", "check_variables",
    "element_values", "in_order_of_time", "update_operations",
]  # fmt: skip


def element_values(name: str, given: Any) -> tuple[PrimExpr, ...]:
    """Return what ``fcompute`` of a computation gave as expressions: one, or those of one
    reduction.
    """
    several = given if isinstance(given, (list, tuple)) else [given]
    if any(value is None for value in several):
        raise TypeMismatchError(
            f"fcompute of '{name}' returned None, the value of an element is needed",
            notes=("return it: lambda i: A[i] + 1.0",),
        )
    values = tuple([_element(name, value) for value in several])
    if len(values) == 1 or not isinstance(values[0], Reduce):
        values = tuple([bind_shared(value) for value in values])
    first = values[0]
    if isinstance(first, Reduce):
        if not all(isinstance(v, Reduce) and v.combiner is first.combiner for v in values):
            raise TypeMismatchError(
                f"the values of compute '{name}' are not those of one reduction",
                notes=("a computation of its own for each reduction is what te.compute takes",),
            )
        inside = (*first.source, first.condition, *first.init)
    else:
        inside = values
    if any_node(inside, lambda node: isinstance(node, Reduce)):
        raise TypeMismatchError(
            f"compute '{name}' has a reduction inside of a larger expression",
            notes=(
                "make the reduction a computation of its own: "
                "S = te.compute(..., lambda i: te.sum(A[i, k], axis=k)), then use S[i]",
            ),
        )
    return values


def _element(name: str, value: Any) -> PrimExpr:
    converted = convert(value)
    if not isinstance(converted, PrimExpr) or isinstance(converted, StringImm):
        raise TypeMismatchError(
            f"fcompute of '{name}' gave {value!r}, an expression is needed",
            notes=("return the value of an element: lambda i: A[i] + 1.0",),
        )
    return converted


def check_reads(
    name: str, values: Sequence[PrimExpr], axes: Sequence[IterVar]
) -> OutOfBoundsError | None:
    """Refuse a computation that is known to read a tensor beyond its shape.

    The update of a scan reads earlier rows, ``state[t - 1, i]``, and is computed from some row on.
    Whether a computation is one shows only later: for it the refusal is returned.
    """
    reached = [one for one in find_reads_outside(values, axes) if one.is_reached]
    if not reached:
        return None
    refusal = OutOfBoundsError(
        f"in compute '{name}' {reached[0].text}",
        notes=(
            *[access.text for access in reached[1:3]],
            "guard the read: te.if_then_else(condition, value, 0.0)",
        ),
    )
    back = _rows_back(values, axes)
    if back == 0 or _outside_from(values, axes, const(back, axes[0].var.dtype)):
        raise refusal
    return refusal


def _rows_back(values: Sequence[PrimExpr], axes: Sequence[IterVar]) -> int:
    """Return how many rows before its own a computation reads inputs at, if it does."""
    back = 0
    for load in nodes(values, ProducerLoad):
        if axes and load.indices and isinstance(getattr(load.producer, "op", None), PlaceholderOp):
            distance = Analyzer().simplify(axes[0].var - load.indices[0])
            if isinstance(distance, IntImm):
                back = max(back, distance.value)
    return back


def _outside_from(
    values: Sequence[PrimExpr], axes: Sequence[IterVar], first: PrimExpr
) -> list[Outside]:
    """Return the reads outside of tensors that are made if the first axis begins at a row."""
    end = axes[0].domain.min + axes[0].domain.extent
    later = axes[0].with_fields(dom=Range(first, end))
    found = find_reads_outside(values, [later, *axes[1:]])
    return [one for one in found if one.is_reached]


def update_operations(scan: ScanOp) -> list[Operation]:
    """Return the operations that compute a row of a scan from the rows before it."""
    borders = {tensor.op for tensor in (*scan.inputs, *scan.state_placeholder)}
    outside: set[Operation] = set()
    found: dict[Operation, bool] = {}  # whether it depends on the state
    states = {tensor.op for tensor in scan.state_placeholder}
    waiting = [tensor.op for tensor in scan.update]
    roots = set(waiting)
    while waiting:
        op = waiting[-1]
        inputs = [tensor.op for tensor in op.input_tensors if tensor.op not in borders]
        missing = [one for one in inputs if one not in found and one not in outside]
        outside.update(missing)
        if missing:
            waiting += missing
            continue
        waiting.pop()
        reads_state = any(tensor.op in states for tensor in op.input_tensors)
        found[op] = reads_state or op in roots or any(found.get(one) for one in inputs)
    return [op for op, depends in found.items() if depends]


def check_scan(scan: ScanOp) -> None:
    """Refuse a scan whose update reads rows that are not computed yet, or rows before the first."""
    first = scan.scan_axis.domain.min
    states = set(scan.state_placeholder)
    for op in update_operations(scan):
        if not isinstance(op, ComputeOp):
            continue
        if op.axis and not _same(op.axis[0].domain.extent, scan.state_placeholder[0].shape[0]):
            continue  # an axis other than the time
        if outside := op.axis and _outside_from(op.body, op.axis, first):
            raise OutOfBoundsError(
                f"in compute '{op.name}', from which scan '{scan.name}' is updated, "
                f"{outside[0].text}",
                op.place,
                (f"the first rows of the scan, which init gives, are {first} in number",),
            )
        for load in nodes(op.body, ProducerLoad):
            state: Any = load.producer
            if state not in states:
                continue
            if op.axis and Analyzer().can_prove(load.indices[0] >= op.axis[0].var):
                raise ScheduleError(
                    f"compute '{op.name}' reads row {load.indices[0]} of the state "
                    f"'{state.name}', which is not computed before row {op.axis[0].var}",
                    op.place,
                    (f"read an earlier row: {state.name}[{op.axis[0].var} - 1, ...]",),
                )


def check_states(operations: Iterable[Operation]) -> None:
    """Refuse operations that read what exists only while a scan is computed: its initial rows, its
    state, and what its update is computed from.
    """
    listed = list(operations)
    for scan in listed:
        if not isinstance(scan, ScanOp):
            continue
        own = {scan, *update_operations(scan)}
        parts = [op.output(k) for op in own if op is not scan for k in range(op.num_outputs)]
        inside = {
            **dict.fromkeys(parts, "update"),
            **dict.fromkeys(scan.init, "init"),
            **dict.fromkeys(scan.update, "update"),
            **dict.fromkeys(scan.state_placeholder, "state"),
        }
        for op in listed:
            for tensor in op.input_tensors:
                if tensor in inside and op not in own:
                    raise ScheduleError(
                        f"'{op.name}' reads '{tensor.name}', the {inside[tensor]} of scan "
                        f"'{scan.name}', which exists only as a part of the scan's result",
                        getattr(op, "place", None),
                        ("read the result of the scan",),
                    )


def in_order_of_time(op: Operation, scan: ScanOp) -> ComputeOp:
    """Return an operation of the update of a scan with the time in place of its first axis; refuse
    one that cannot be computed row by row.
    """
    advice = (
        "make a classic schedule: te.create_schedule finds what a row needs of each operation",
    )
    if not isinstance(op, ComputeOp):
        raise UnsupportedError(
            f"scan '{scan.name}' is updated by {type(op).__name__} '{op.name}', which cannot "
            "become part of a PrimFunc",
            notes=advice,
        )
    size = scan.state_placeholder[0].shape[0]
    is_timed = bool(op.axis) and _same(op.axis[0].domain.extent, size)
    members = {one.output(k) for one in update_operations(scan) for k in range(one.num_outputs)}
    if is_timed:
        time = op.axis[0].var
        inside = [load for load in nodes(op.body, ProducerLoad) if load.producer in members]
        is_timed = all(load.indices[0] is time for load in inside)
    if not is_timed:
        raise UnsupportedError(
            f"compute '{op.name}', from which scan '{scan.name}' is updated, does not go along "
            "with its time: its first axis, and the first index of what it reads of the update",
            op.place,
            advice,
        )
    axis = op.axis[0].with_fields(dom=scan.scan_axis.domain, iter_type=IterVar.Ordered)
    return ComputeOp(op.name, op.tag, op.attrs, (axis, *op.axis[1:]), op.body, op.place)


def _same(a: PrimExpr, b: PrimExpr) -> bool:
    return structural_equal(a, b) or Analyzer().can_prove_equal(a, b)


def check_late_reads(operations: Iterable[Operation]) -> None:
    """Refuse computations that read rows before the first one and are no updates of scans."""
    listed = list(operations)
    updates = {one for op in listed if isinstance(op, ScanOp) for one in update_operations(op)}
    for op in listed:
        if isinstance(op, ComputeOp) and op.read_refusal is not None and op not in updates:
            raise op.read_refusal


def check_variables(
    name: str,
    place: Any,
    values: Iterable[PrimExpr],
    iterators: Mapping[Var, Any],
    known: set[Var],
) -> None:
    """Refuse a computation that uses a variable which nothing defines."""
    for variable in undefined_vars(tuple(values), iterators):
        if variable not in known:
            raise TypeMismatchError(
                f"compute '{name}' uses '{variable.name}', which is neither one of its iterators "
                "nor a size or an argument of the function",
                place,
                (
                    "a reduction axis stands for its numbers only inside of its reduction: "
                    f"te.sum(A[i, {variable.name}], axis={variable.name})",
                    "a scalar that is passed in is an argument: te.create_prim_func([A, n, B])",
                ),
            )
