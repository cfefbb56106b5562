"""Finds operators of a dataflow block that may write their result over an argument.

    z = R.add(x, y)        0    z is alive from 0 to 1
    w = R.exp(z)           1    z is not needed any more: w may take its memory
    R.output(w)

An argument can be overwritten if nothing that may share its memory is needed later, if it does not
come from outside of the block, and if the kernel reads an element only to write it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tilesmith.ir import Op
from tilesmith.relax.analysis.variables import used_vars
from tilesmith.relax.expr import (
    BindingBlock,
    Call,
    Constant,
    DataflowVar,
    MatchCast,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    known_struct_info,
)
from tilesmith.relax.relations import prove_equal_shapes
from tilesmith.relax.spec import Execution, Layout
from tilesmith.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo

__all__ = [
    "UNKNOWN", "InplaceOpportunity", "dataflow_alias_analysis", "dataflow_inplace_analysis",
    "dataflow_liveness_analysis",
]  # fmt: skip

UNKNOWN = -1
"""The memory of a value of which nothing is known: it may be any."""


@dataclass(frozen=True)
class InplaceOpportunity:
    """A binding of a block, and the arguments of its call that may be overwritten."""

    binding_idx: int
    arg_idxs: frozenset[int]


def dataflow_liveness_analysis(block: BindingBlock) -> dict[Var, tuple[int, int]]:
    """Return for each variable the bindings between which it is needed: where it is bound (-1 for
    variables from outside) and its last use; for what the block puts out, the number of bindings.
    """
    found: dict[Var, tuple[int, int]] = {}
    count = len(block.bindings)
    for number, binding in enumerate(block.bindings):
        for var in used_vars(binding.value):
            first, last = found.get(var, (-1, number))
            found[var] = (first, max(last, number))
        end = number if isinstance(binding.var, DataflowVar) else count
        found[binding.var] = (number, end)
    return found


@dataclass
class _Aliases:
    """The memory that values may use: numbers, and those of the fields of tuples by their number.

    A value whose number is new has memory of its own.
    """

    of: dict[Var, set[int]] = field(default_factory=dict)
    fields: dict[int, list[set[int]]] = field(default_factory=dict)
    count: int = 0

    def new(self, info: StructInfo) -> set[int]:
        """Return new memory for a value."""
        number = self.count
        self.count += 1
        if isinstance(info, TupleStructInfo):
            self.fields[number] = [self.new(one) for one in info.fields]
        return {number}

    def value(self, value: Any) -> set[int]:
        """Return the memory that a value may use."""
        if isinstance(value, Var):
            return self.of.get(value, {UNKNOWN})
        if isinstance(value, (Constant, ShapeExpr)):
            return self.new(known_struct_info(value))
        if isinstance(value, Tuple):
            parts = [self.value(one) for one in value.fields]
            number = self.count
            self.count += 1
            self.fields[number] = parts
            return {number}
        if isinstance(value, TupleGetItem):
            whole = self.value(value.tuple_value)
            known = all(number in self.fields for number in whole)
            if not known:
                return {UNKNOWN}
            return {one for number in whole for one in self.fields[number][value.index]}
        if isinstance(value, Call):
            return self.call(value)
        return {UNKNOWN}

    def call(self, call: Call) -> set[int]:
        """Return the memory of the result of a call."""
        spec = call.op.spec if isinstance(call.op, Op) else None
        if spec is None:
            return {UNKNOWN}  # a function may return its arguments
        if spec.view_of is not None or spec.is_identity:
            return self.value(call.args[spec.view_of or 0])
        kernel = (Execution.KERNEL, Execution.CALL_TIR, Execution.CALL_DPS_PACKED)
        if spec.execution not in kernel:
            return {UNKNOWN}
        places = call.attrs.get("inplace_indices") if call.attrs is not None else None
        if not places:
            return self.new(known_struct_info(call))
        given = call.args[1]
        arguments = given.fields if isinstance(given, Tuple) else ()
        infos = known_struct_info(call)
        results = infos.fields if isinstance(infos, TupleStructInfo) else (infos,)
        parts = [
            self.value(arguments[place]) if place >= 0 else self.new(info)
            for place, info in zip(places, results)
        ]
        if not isinstance(infos, TupleStructInfo):
            return parts[0]
        number = self.count
        self.count += 1
        self.fields[number] = parts
        return {number}

    def reached(self, memory: Iterable[int]) -> set[int]:
        """Return memory, and that of the fields of tuples in it."""
        found: set[int] = set()
        pending = list(memory)
        while pending:
            number = pending.pop()
            if number not in found:
                found.add(number)
                pending += [one for part in self.fields.get(number, ()) for one in part]
        return found


def _aliases(block: BindingBlock, inputs: Iterable[Var]) -> _Aliases:
    found = _Aliases()
    for var in inputs:
        found.of[var] = found.new(known_struct_info(var))
    for binding in block.bindings:
        found.of[binding.var] = found.value(binding.value)
    return found


def dataflow_alias_analysis(
    block: BindingBlock, inputs: Iterable[Var]
) -> tuple[dict[Var, set[int]], dict[int, list[set[int]]]]:
    """Return for each variable the numbers of the memory that it may use (-1: any), and for the
    number of each tuple those of its fields. ``inputs``, variables from outside, share nothing.
    """
    found = _aliases(block, inputs)
    return found.of, found.fields


def dataflow_inplace_analysis(
    block: BindingBlock, inputs: Iterable[Var], mod: Any = None
) -> tuple[list[InplaceOpportunity], list[InplaceOpportunity]]:
    """Return where arguments may be overwritten: those that are as large as the result at least,
    and among them those of exactly its shape and dtype.
    """
    inputs = list(inputs)
    aliases = _aliases(block, inputs)
    foreign = {one for var in inputs for one in aliases.reached(aliases.of[var])} | {UNKNOWN}
    last_use: dict[int, int] = {}
    for var, (_, last) in dataflow_liveness_analysis(block).items():
        for number in aliases.reached(aliases.of.get(var, {UNKNOWN})):
            last_use[number] = max(last_use.get(number, -1), last)
    by_size, exact = [], []
    for number, binding in enumerate(block.bindings):
        call: Any = binding.value
        if isinstance(binding, MatchCast) or not _is_elementwise(call):
            continue
        free = [
            place
            for place, arg in enumerate(call.args)
            if isinstance(arg, Var) and _is_free(aliases, arg, foreign, last_use, number)
        ]
        result = known_struct_info(call)
        infos = [known_struct_info(arg) for arg in call.args]
        large = frozenset([place for place in free if _is_as_large(infos[place], result)])
        same = frozenset([place for place in large if _is_same(infos[place], result)])
        by_size += [InplaceOpportunity(number, large)] if large else []
        exact += [InplaceOpportunity(number, same)] if same else []
    return by_size, exact


def _is_elementwise(value: Any) -> bool:
    """Return whether a kernel reads an element only for the same element of the result."""
    spec = value.op.spec if isinstance(value, Call) and isinstance(value.op, Op) else None
    if spec is None or spec.execution is not Execution.KERNEL or spec.is_identity:
        return False
    return spec.layout is Layout.ELEMENTWISE and isinstance(
        known_struct_info(value), TensorStructInfo
    )


def _is_free(
    aliases: _Aliases, var: Var, foreign: set[int], last_use: dict[int, int], number: int
) -> bool:
    memory = aliases.reached(aliases.of.get(var, {UNKNOWN}))
    return memory.isdisjoint(foreign) and all(last_use.get(one, -1) <= number for one in memory)


def _bytes(info: Any) -> int | None:
    shape = info.concrete_shape if isinstance(info, TensorStructInfo) else None
    return None if shape is None else math.prod(shape) * info.dtype.bits


def _is_as_large(info: Any, result: Any) -> bool:
    own, wanted = _bytes(info), _bytes(result)
    return _is_same(info, result) or (own is not None and wanted is not None and own >= wanted)


def _is_same(info: Any, result: Any) -> bool:
    if not isinstance(info, TensorStructInfo) or info.dtype != result.dtype:
        return False
    own, wanted = info.shape, result.shape
    if not isinstance(own, ShapeExpr) or not isinstance(wanted, ShapeExpr):
        return False
    return prove_equal_shapes(own, wanted)
