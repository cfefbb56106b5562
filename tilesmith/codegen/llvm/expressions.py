"""Defines rules of leaves, bindings, conversions, choices, and of calls by the operator's own rule.

A value is the text of an operand: a local name or a constant. Its LLVM type follows from the
expression's dtype.
"""

from __future__ import annotations

from tilesmith.codegen.llvm import dtypes
from tilesmith.codegen.llvm.conversions import convert
from tilesmith.codegen.llvm.dtypes import register_type
from tilesmith.codegen.llvm.rules import handles_node
from tilesmith.codegen.llvm.values import Values
from tilesmith.ir import (
    Call,
    CallEffectKind,
    Cast,
    FloatImm,
    GlobalVar,
    IntImm,
    Let,
    Node,
    Select,
    SizeVar,
    StringImm,
    Var,
)
from tilesmith.ir.intrinsics import effect_of
from tilesmith.ir.queries import is_call

_HARMLESS = (CallEffectKind.Pure, CallEffectKind.ExprAnnotation, CallEffectKind.ReadState)


@handles_node(Node)
def _unknown(emit: Values, node: Node) -> str:
    raise emit.out.unsupported(
        f"{type(node).__name__} has no translation into LLVM code",
        "lowering removes blocks and tensor expressions before code is generated",
    )


@handles_node(IntImm)
def _intimm(emit: Values, expr: IntImm) -> str:
    return dtypes.integer_constant(expr.value, expr.dtype)


@handles_node(FloatImm)
def _floatimm(emit: Values, expr: FloatImm) -> str:
    return dtypes.float_constant(expr.value, expr.dtype)


@handles_node(StringImm)
def _stringimm(emit: Values, expr: StringImm) -> str:
    return emit.text.constant_text(expr.value)


@handles_node(Var, SizeVar)
def _var(emit: Values, var: Var) -> str:
    try:
        return emit.variables[var]
    except KeyError:
        raise emit.out.unsupported(
            f"variable '{var.name}' is not defined here",
            "every variable must be a parameter or be bound by a loop or a let",
        ) from None


@handles_node(Let)
def _let(emit: Values, let: Let) -> str:
    emit.variables[let.var] = emit.value(let.value)
    if let.var.dtype.is_integer and emit.facts.is_non_negative(let.value):
        emit.facts.non_negative.add(let.var)
    return emit.value(let.body)


@handles_node(Cast)
def _cast(emit: Values, expr: Cast) -> str:
    if emit.is_index and expr.dtype.is_integer and expr.value.dtype.is_integer:
        if expr.dtype.bits > expr.value.dtype.bits:
            value = emit.value(expr.value)
            return emit.extended(value, expr.value, register_type(expr.dtype))
    if _is_rounding(expr) and emit.out.machine.architecture == "x86":
        # one instruction, where rounding and converting toward zero are two
        (operand,) = expr.value.args  # type: ignore[attr-defined]
        kind, whole = register_type(operand.dtype), register_type(expr.dtype)
        return emit.define(f"call {whole} @llvm.lrint({kind} {emit.value(operand)})")
    return convert(emit.out, emit.value(expr.value), expr.value.dtype, expr.dtype)


def _is_rounding(expr: Cast) -> bool:
    """Return whether a conversion to int32 takes a float32 rounded to nearest, halves to even."""
    value = expr.value
    is_nearest = is_call(value, "tir.nearbyint")
    return is_nearest and value.dtype.element == "float32" and expr.dtype.element == "int32"


@handles_node(Select)
def _select(emit: Values, expr: Select) -> str:
    condition = emit.typed(expr.condition)
    if expr.condition.dtype.lanes > 1 and expr.dtype.lanes == 1:
        raise emit.out.unsupported("Select with a vector condition chooses between scalars")
    true, false = emit.typed(expr.true_value), emit.typed(expr.false_value)
    return emit.define(f"select {condition}, {true}, {false}")


@handles_node(Call)
def _call(emit: Values, call: Call) -> str:
    if isinstance(call.op, GlobalVar):
        return _call_function(emit, call)
    processor = emit.processor
    rule = processor.calls.get(call.op.name)
    if rule is None:
        raise emit.out.unsupported(
            f"operator '{call.op.name}' has no translation for {processor.name}",
            *processor.call_advice,
        )
    result = rule(emit, call)
    if effect_of(call) not in _HARMLESS:
        emit.forget()
    return result


def _call_function(emit: Values, call: Call) -> str:
    """Call a function of the module: check a returned status, return a value."""
    name = call.op.name_hint
    arguments = [emit.argument(arg) for arg in call.args]
    kinds = [register_type(arg.dtype) for arg in call.args]
    returned = emit.symbols.returned_type(name, call.dtype)
    target = emit.symbols.callee(name, returned, kinds)
    emit.forget()
    if returned != "status":
        result = emit.define(f"call {returned} {target}({', '.join(arguments)})")
        return result if not call.dtype.is_void else "0"
    if not emit.symbols.outcomes.may_fail(name):
        emit.define(f"call i32 {target}({', '.join(arguments)})", "status")
        return "0"
    emit.exits.needs_status(f"calls '{name}', which can fail")
    emit.exits.check_status(emit.define(f"call i32 {target}({', '.join(arguments)})", "status"))
    return "0"
