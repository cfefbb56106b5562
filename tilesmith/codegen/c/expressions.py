"""Defines rules of leaves, bindings, vectors, and of calls by the operator's own rule."""

from __future__ import annotations

from tilesmith.codegen.c.helpers import c_string, c_type, constant
from tilesmith.codegen.c.rules import (
    ATOM,
    INTRINSICS,
    PRODUCT,
    SUM,
    UNARY,
    Piece,
    handles_node,
)
from tilesmith.codegen.c.values import Values
from tilesmith.ir import (
    Broadcast,
    Call,
    FloatImm,
    GlobalVar,
    IntImm,
    Let,
    Node,
    Ramp,
    Shuffle,
    SizeVar,
    StringImm,
    Var,
)  # fmt: skip

# -- leaves


@handles_node(Node)
def _unknown(emit: Values, node: Node) -> Piece:
    raise emit.out.unsupported(
        f"{type(node).__name__} has no translation into C",
        "lowering removes blocks and tensor expressions before code is generated",
    )


@handles_node(IntImm)
def _intimm(emit: Values, expr: IntImm) -> Piece:
    return constant(expr.value, expr.dtype), ATOM if expr.value >= 0 else UNARY


@handles_node(FloatImm)
def _floatimm(emit: Values, expr: FloatImm) -> Piece:
    return constant(expr.value, expr.dtype), ATOM if expr.value >= 0 else UNARY


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
    if emit.facts.is_non_negative(let.value):
        emit.facts.non_negative.add(let.var)
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


# -- calls


@handles_node(Call)
def _call(emit: Values, call: Call) -> Piece:
    if isinstance(call.op, GlobalVar):
        return _call_function(emit, call)
    rule = INTRINSICS.get(call.op.name)
    if rule is None:
        raise emit.out.unsupported(f"operator '{call.op.name}' has no translation into C")
    return rule(emit, call)


def _call_function(emit: Values, call: Call) -> Piece:
    name = call.op.name_hint
    arguments = ", ".join([emit.text(arg) for arg in call.args])
    symbol, returned = emit.symbols.callee(name, call)
    written = f"{symbol}({arguments})"
    if returned != "status":
        return written, ATOM
    if emit.symbols.outcomes.may_fail(name):
        emit.exits.needs_status(f"calls '{name}', which can fail")
        before = []
        if emit.operator:
            emit.file.uses_ffi = emit.file.names_operators = True
            words = c_string(f"\n  in {emit.operator}")
            before = [f"ts_name_operator({words});"]
        emit.exits.check_status(written, *before)
        return "0", ATOM
    return written, ATOM
