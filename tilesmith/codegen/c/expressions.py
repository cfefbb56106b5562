"""Defines rules of texts, variables, bindings and vectors in C."""

from __future__ import annotations

from tilesmith.codegen.c.dialect import c_type
from tilesmith.codegen.c.rules import handles_node
from tilesmith.codegen.c.values import Values
from tilesmith.codegen.c_family.dialect import c_string
from tilesmith.codegen.c_family.pieces import ATOM, PRODUCT, SUM, UNARY, Piece
from tilesmith.ir import Broadcast, IntImm, Let, Ramp, Shuffle, SizeVar, StringImm, Var

# -- leaves


@handles_node(StringImm)
def _stringimm(emit: Values, expr: StringImm) -> Piece:
    return f"(void*){c_string(expr.value)}", UNARY


@handles_node(Var, SizeVar)
def _var(emit: Values, var: Var) -> Piece:
    name = emit.names.get(var)
    if name is None:
        raise emit.out.unsupported(f"variable '{var.name}' is not defined here")
    return (f"{name}[{emit.lane}]" if var in emit.arrays else name), ATOM


@handles_node(Let)
def _let(emit: Values, let: Let) -> Piece:
    emit.define(let.var, emit.text(let.value))
    emit.learn(let.var, let.value)
    return emit.piece(let.body)


# -- vectors, one lane at a time


@handles_node(Ramp)
def _ramp(emit: Values, ramp: Ramp) -> Piece:
    step = f"{emit.lane} * {emit.text(ramp.stride, PRODUCT)}"
    if isinstance(ramp.stride, IntImm) and ramp.stride.value == 1:
        step = str(emit.lane)
    if isinstance(ramp.base, IntImm) and ramp.base.value == 0:
        written: Piece = (step, PRODUCT if "*" in step else ATOM)
    else:
        written = (f"{emit.text(ramp.base, SUM)} + {step}", SUM)
    return emit.narrowed(written, ramp.dtype.element)


@handles_node(Broadcast)
def _broadcast(emit: Values, expr: Broadcast) -> Piece:
    return emit.piece(expr.value) if not emit.is_shared(expr.value) else (
        emit.text(expr.value, ATOM), ATOM
    )  # fmt: skip


@handles_node(Shuffle)
def _shuffle(emit: Values, shuffle: Shuffle) -> Piece:
    total = sum(vector.dtype.lanes for vector in shuffle.vectors)
    kind = c_type(shuffle.dtype)
    outer, emit.lane = emit.lane, None
    elements = emit.out.fresh("elements")
    emit.out.write(f"{kind} {elements}[{total}];")
    start = 0
    for vector in shuffle.vectors:
        for lane in range(vector.dtype.lanes):
            emit.out.write(f"{elements}[{start + lane}] = {emit.at_lane(vector, str(lane))};")
        start += vector.dtype.lanes
    emit.lane = outer
    if len(shuffle.indices) == 1:
        return f"{elements}[{emit.text(shuffle.indices[0])}]", ATOM
    picked = ", ".join([emit.text(index) for index in shuffle.indices])
    table = emit.out.fresh("picked")
    emit.out.write(f"const int {table}[{len(shuffle.indices)}] = {{{picked}}};")
    return f"{elements}[{table}[{emit.lane}]]", ATOM
