"""Defines rules of texts, variables, bindings and vectors in dialects for devices."""

from __future__ import annotations

from tilesmith.codegen.c_family.dialect import c_string
from tilesmith.codegen.c_family.pieces import ATOM, PRODUCT, SUM, Piece
from tilesmith.codegen.facts import constant_value, may_fault
from tilesmith.codegen.gpu.rules import handles_node
from tilesmith.codegen.gpu.values import Values
from tilesmith.ir import Broadcast, IntImm, Let, PrimExpr, Ramp, Shuffle, SizeVar, StringImm, Var

# -- leaves


@handles_node(StringImm)
def _stringimm(emit: Values, expr: StringImm) -> Piece:
    return c_string(expr.value), ATOM


@handles_node(Var, SizeVar)
def _var(emit: Values, var: Var) -> Piece:
    name = emit.names.get(var)
    if name is None:
        raise emit.out.unsupported(f"variable '{var.name}' is not defined here")
    if var.dtype.lanes > 1:
        return emit.part(name, var.dtype, _lane(emit, var)), ATOM
    return name, ATOM


def _lane(emit: Values, expr: PrimExpr) -> int:
    if emit.lane is None:
        raise emit.out.unsupported(
            f"a vector ({expr.dtype}) stands where a scalar is needed: {expr}"
        )
    return emit.lane


@handles_node(Let)
def _let(emit: Values, let: Let) -> Piece:
    if let.var.dtype.lanes > 1:
        if let.var not in emit.names:
            emit.names[let.var] = emit.define_vector(let.var.name, let.value)
        return emit.piece(let.body)
    if let.var in emit.names:  # another lane has defined it
        return emit.piece(let.body)
    outer, emit.lane = emit.lane, None
    emit.define(let.var, emit.text(let.value))
    emit.lane = outer
    emit.learn(let.var, let.value)
    return emit.piece(let.body)


# -- vectors, one lane at a time


@handles_node(Ramp)
def _ramp(emit: Values, ramp: Ramp) -> Piece:
    lane = _lane(emit, ramp)
    stride = constant_value(ramp.stride)
    if stride is not None:
        step = str(lane * stride)
        if isinstance(ramp.base, IntImm):
            return emit.piece(IntImm(ramp.dtype.element, ramp.base.value + lane * stride))
    else:
        step = f"{lane} * {emit.scalar(ramp.stride, PRODUCT)}" if lane else "0"
    base = emit.scalar(ramp.base, SUM, "place")
    if step == "0":
        return base, SUM
    written = f"{base} - {step[1:]}" if step.startswith("-") else f"{base} + {step}"
    return emit.narrowed((written, SUM), ramp.dtype.element)


@handles_node(Broadcast)
def _broadcast(emit: Values, expr: Broadcast) -> Piece:
    if emit.guarded and may_fault(expr.value):
        outer, emit.lane = emit.lane, None
        written = emit.piece(expr.value)
        emit.lane = outer
        return written
    return emit.scalar(expr.value, ATOM, "value"), ATOM


@handles_node(Shuffle)
def _shuffle(emit: Values, shuffle: Shuffle) -> Piece:
    lane = 0 if shuffle.dtype.lanes == 1 else _lane(emit, shuffle)
    index = shuffle.indices[lane]
    if isinstance(index, IntImm):
        place = index.value
        for vector in shuffle.vectors:
            if place < vector.dtype.lanes:
                return emit.at_lane(vector, place, ATOM), ATOM
            place -= vector.dtype.lanes
        raise emit.out.unsupported(f"a shuffle takes lane {index.value}, which does not exist")
    elements = emit.out.fresh("elements")
    parts = [
        emit.at_lane(vector, number)
        for vector in shuffle.vectors
        for number in range(vector.dtype.lanes)
    ]
    listed = emit.listed(parts)
    emit.out.write(f"{emit.type(shuffle.dtype)} {elements}[{len(parts)}] = {{{listed}}};")
    outer, emit.lane = emit.lane, None
    picked = emit.text(index)
    emit.lane = outer
    return f"{elements}[{picked}]", ATOM
