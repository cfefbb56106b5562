"""Defines rules of vectors: ramps, broadcasts, lanes picked from vectors."""

from __future__ import annotations

from tilesmith.codegen.llvm import dtypes
from tilesmith.codegen.llvm.dtypes import register_type
from tilesmith.codegen.llvm.rules import handles_node
from tilesmith.codegen.llvm.values import Values
from tilesmith.ir import Broadcast, FloatImm, IntImm, Ramp, Shuffle
from tilesmith.runtime.dtype import DataType


@handles_node(Ramp)
def _ramp(emit: Values, ramp: Ramp) -> str:
    dtype, lanes = ramp.dtype, ramp.lanes
    if dtype.is_scalable:
        return _scalable_ramp(emit, ramp)
    if isinstance(ramp.stride, IntImm):
        element = register_type(dtype.element)
        steps = [dtypes.integer_constant(lane * ramp.stride.value, dtype.element)
                 for lane in range(lanes)]  # fmt: skip
        offsets = "<" + ", ".join([f"{element} {step}" for step in steps]) + ">"
        if isinstance(ramp.base, IntImm) and ramp.base.value == 0:
            return offsets
    else:
        counting = _ramp(emit, Ramp(IntImm(dtype.element, 0), 1, lanes))
        stride = emit.out.broadcast(emit.value(ramp.stride), dtype)
        offsets = emit.define(
            f"mul{emit.no_wrap(dtype)} {register_type(dtype)} {stride}, {counting}"
        )
    base = emit.out.broadcast(emit.value(ramp.base), dtype)
    return emit.define(f"add{emit.no_wrap(dtype)} {register_type(dtype)} {base}, {offsets}")


def _scalable_ramp(emit: Values, ramp: Ramp) -> str:
    dtype, kind = ramp.dtype, register_type(ramp.dtype)
    emit.out.require_scalable_vectors()
    steps = emit.define(f"call {kind} @llvm.stepvector()")
    if not (isinstance(ramp.stride, IntImm) and ramp.stride.value == 1):
        stride = emit.out.broadcast(emit.value(ramp.stride), dtype)
        steps = emit.define(f"mul{emit.no_wrap(dtype)} {kind} {steps}, {stride}")
    base = emit.out.broadcast(emit.value(ramp.base), dtype)
    return emit.define(f"add{emit.no_wrap(dtype)} {kind} {base}, {steps}")


@handles_node(Broadcast)
def _broadcast(emit: Values, expr: Broadcast) -> str:
    if isinstance(expr.value, (IntImm, FloatImm)):
        return dtypes.splat(emit.value(expr.value), expr.dtype)
    return emit.out.broadcast(emit.value(expr.value), expr.dtype)


@handles_node(Shuffle)
def _shuffle(emit: Values, shuffle: Shuffle) -> str:
    sources = [(emit.value(vector), vector.dtype) for vector in shuffle.vectors]
    if not all(isinstance(index, IntImm) for index in shuffle.indices):
        return _dynamic_shuffle(emit, shuffle, sources)
    picked = [index.value for index in shuffle.indices]  # type: ignore[attr-defined]
    total = sum([dtype.lanes for _, dtype in sources])
    if any(not 0 <= number < total for number in picked):
        raise emit.out.unsupported(f"Shuffle picks elements {picked} out of {total}")
    same = all(dtype is sources[0][1] for _, dtype in sources)
    if len(sources) <= 2 and same and sources[0][1].lanes > 1 and len(picked) > 1:
        vector = register_type(sources[0][1])
        other = sources[1][0] if len(sources) == 2 else "poison"
        return emit.out.shuffle(vector, sources[0][0], other, picked)
    places = [(value, dtype, lane) for value, dtype in sources for lane in range(dtype.lanes)]
    return emit.out.from_lanes([emit.out.lane(*places[number]) for number in picked], shuffle.dtype)


def _dynamic_shuffle(emit: Values, shuffle: Shuffle, sources: list[tuple[str, DataType]]) -> str:
    if len(sources) == 1:
        joined, dtype = sources[0]
    else:
        dtype = shuffle.dtype.with_lanes(sum([source.lanes for _, source in sources]))
        parts = [
            emit.out.lane(value, source, lane)
            for value, source in sources
            for lane in range(source.lanes)
        ]
        joined = emit.out.from_lanes(parts, dtype)
    lanes = [
        emit.define(f"extractelement {register_type(dtype)} {joined}, {emit.typed(index)}")
        for index in shuffle.indices
    ]
    return emit.out.from_lanes(lanes, shuffle.dtype)
