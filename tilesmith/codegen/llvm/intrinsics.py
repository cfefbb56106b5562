"""Defines rules of the operators of scalar calls: mathematics, bits, choices, hints, vectors."""

from __future__ import annotations

from tilesmith.codegen.facts import constant_value, may_fault
from tilesmith.codegen.llvm import dtypes
from tilesmith.codegen.llvm.arithmetic import any_lane, arithmetic, note_wrapping
from tilesmith.codegen.llvm.c_library import LIBM_FUNCTIONS, LLVM_FUNCTIONS, PURE_FUNCTION
from tilesmith.codegen.llvm.conversions import convert
from tilesmith.codegen.llvm.dtypes import memory_type, register_type
from tilesmith.codegen.llvm.messages import raise_parts
from tilesmith.codegen.llvm.operations import (
    FLOAT32,
    float_operation,
    from_memory,
    intrinsic,
    to_memory,
)
from tilesmith.codegen.llvm.rules import handles
from tilesmith.codegen.llvm.values import Values
from tilesmith.ir import Call, IntImm, PrimExpr
from tilesmith.runtime.dtype import DataType

_INT32 = DataType("int32")
_INT64 = DataType("int64")

# -- mathematics


@handles(*LLVM_FUNCTIONS)
def _llvm_function(emit: Values, call: Call) -> str:
    values = [emit.value(arg) for arg in call.args]
    return intrinsic(emit.out, LLVM_FUNCTIONS[call.op.name[4:]], values, call.dtype)


@handles(*LIBM_FUNCTIONS)
def _libm_function(emit: Values, call: Call) -> str:
    return _libm(emit, call.op.name[4:], [emit.value(arg) for arg in call.args], call.dtype)


def _libm(emit: Values, name: str, values: list[str], dtype: DataType) -> str:
    """Call a function of the C library on each lane; narrow floats go through float32."""
    if dtype.bits < 32:
        wide = FLOAT32.with_lanes(dtype.lanes)
        widened = [convert(emit.out, value, dtype, wide) for value in values]
        return convert(emit.out, _libm(emit, name, widened, wide), wide, dtype)
    element = register_type(dtype.element)
    function = name + ("f" if dtype.bits == 32 else "")
    target = emit.text.declare(function, element, [element] * len(values), PURE_FUNCTION)
    lanes = []
    for number in range(dtype.lanes):
        arguments = [f"{element} {emit.out.lane(value, dtype, number)}" for value in values]
        lanes.append(emit.define(f"call {element} {target}({', '.join(arguments)})"))
    return emit.out.from_lanes(lanes, dtype)


@handles("fma")
def _fma(emit: Values, call: Call) -> str:
    values = [emit.value(arg) for arg in call.args]
    if call.dtype.is_float:
        return intrinsic(emit.out, "fma", values, call.dtype)
    product = arithmetic(emit, "mul", "fmul", values[0], values[1], call.dtype)
    return arithmetic(emit, "add", "fadd", product, values[2], call.dtype)


@handles("fmod")
def _fmod(emit: Values, call: Call) -> str:
    return float_operation(emit.out, "frem", [emit.value(arg) for arg in call.args], call.dtype)


@handles("pow")
def _pow(emit: Values, call: Call) -> str:
    values, dtype = [emit.value(arg) for arg in call.args], call.dtype
    if dtype.is_float:
        return intrinsic(emit.out, "pow", values, dtype)
    function = emit.text.integer_power(dtype.element)
    element = register_type(dtype.element)
    lanes = []
    for number in range(dtype.lanes):
        base, exponent = [emit.out.lane(value, dtype, number) for value in values]
        arguments = f"{element} {base}, {element} {exponent}"
        lanes.append(emit.define(f"call {element} {function}({arguments})"))
    return emit.out.from_lanes(lanes, dtype)


@handles("ldexp")
def _ldexp(emit: Values, call: Call) -> str:
    value, exponent = call.args
    dtype, wide = call.dtype, call.dtype
    integer = _INT32.with_lanes(dtype.lanes)
    power = convert(emit.out, emit.value(exponent), exponent.dtype, integer)
    first = emit.value(value)
    if not emit.machine.computes_directly(dtype):
        wide = FLOAT32.with_lanes(dtype.lanes)
        first = convert(emit.out, first, dtype, wide)
    kind = register_type(wide)
    result = emit.define(
        f"call {kind} @llvm.ldexp({kind} {first}, {register_type(integer)} {power})"
    )
    return convert(emit.out, result, wide, dtype)


@handles("rsqrt")
def _rsqrt(emit: Values, call: Call) -> str:
    dtype = call.dtype
    root = intrinsic(emit.out, "sqrt", [emit.value(call.args[0])], dtype)
    one = emit.out.broadcast(dtypes.float_constant(1.0, dtype.element), dtype)
    return float_operation(emit.out, f"fdiv{emit.machine.float_flags}", [one, root], dtype)


@handles("sigmoid")
def _sigmoid(emit: Values, call: Call) -> str:
    source, dtype = emit.value(call.args[0]), call.dtype
    wide = dtype if emit.machine.computes_directly(dtype) else FLOAT32.with_lanes(dtype.lanes)
    kind, flags = register_type(wide), emit.machine.float_flags
    one = emit.out.broadcast(dtypes.float_constant(1.0, wide.element), wide)
    negative = emit.define(f"fneg {kind} {convert(emit.out, source, dtype, wide)}")
    grown = emit.define(f"fadd{flags} {kind} {one}, {intrinsic(emit.out, 'exp', [negative], wide)}")
    return convert(emit.out, emit.define(f"fdiv{flags} {kind} {one}, {grown}"), wide, dtype)


@handles("isnan")
def _isnan(emit: Values, call: Call) -> str:
    value, dtype = _widened(emit, call.args[0])
    return emit.define(f"fcmp uno {register_type(dtype)} {value}, {value}")


@handles("isinf", "isfinite")
def _isinf(emit: Values, call: Call) -> str:
    value, dtype = _widened(emit, call.args[0])
    kind = register_type(dtype)
    infinity = emit.out.broadcast(dtypes.float_constant(float("inf"), dtype.element), dtype)
    magnitude = emit.define(f"call {kind} @llvm.fabs({kind} {value})")
    relation = "oeq" if call.op.name == "tir.isinf" else "olt"
    return emit.define(f"fcmp {relation} {kind} {magnitude}, {infinity}")


def _widened(emit: Values, arg: PrimExpr) -> tuple[str, DataType]:
    """Convert a float operand to a type that LLVM computes with."""
    if emit.machine.computes_directly(arg.dtype):
        return emit.value(arg), arg.dtype
    wide = FLOAT32.with_lanes(arg.dtype.lanes)
    return convert(emit.out, emit.value(arg), arg.dtype, wide), wide


# -- bits


@handles("bitwise_and", "bitwise_or", "bitwise_xor")
def _bitwise(emit: Values, call: Call) -> str:
    name = call.op.name.rpartition("_")[2]
    a, b = call.args
    if name == "and" and isinstance(b, IntImm):
        note_wrapping(emit, a)
    return emit.define(f"{name} {register_type(call.dtype)} {emit.value(a)}, {emit.value(b)}")


@handles("bitwise_not")
def _bitwise_not(emit: Values, call: Call) -> str:
    ones = emit.out.broadcast("true" if call.dtype.is_bool else "-1", call.dtype)
    return emit.define(f"xor {register_type(call.dtype)} {emit.value(call.args[0])}, {ones}")


@handles("shift_left", "shift_right")
def _shift(emit: Values, call: Call) -> str:
    if call.op.name == "tir.shift_left":
        name = "shl"
    else:
        name = "ashr" if call.dtype.is_int else "lshr"
    value, amount = emit.value(call.args[0]), emit.value(call.args[1])
    if call.args[1].dtype is not call.dtype:
        amount = convert(emit.out, amount, call.args[1].dtype, call.dtype)
    return emit.define(f"{name} {register_type(call.dtype)} {value}, {amount}")


@handles("popcount")
def _popcount(emit: Values, call: Call) -> str:
    source = call.args[0].dtype
    kind = register_type(source)
    counted = emit.define(f"call {kind} @llvm.ctpop({kind} {emit.value(call.args[0])})")
    return _resized(emit, counted, source, call.dtype)


@handles("clz")
def _clz(emit: Values, call: Call) -> str:
    source = call.args[0].dtype
    kind = register_type(source)
    counted = emit.define(f"call {kind} @llvm.ctlz({kind} {emit.value(call.args[0])}, i1 false)")
    return _resized(emit, counted, source, call.dtype)


def _resized(emit: Values, value: str, source: DataType, target: DataType) -> str:
    """Convert a small count to another integer type."""
    if source.bits == target.bits:
        return value
    unsigned = DataType.make("uint", source.bits, source.lanes)
    return convert(emit.out, value, unsigned, target)


@handles("reinterpret")
def _reinterpret(emit: Values, call: Call) -> str:
    source, target = call.args[0].dtype, call.dtype
    if target.is_handle and constant_value(call.args[0]) == 0:
        return "null"
    value = emit.value(call.args[0])
    from_type, to_type = register_type(source), register_type(target)
    if from_type == to_type:
        return value
    if source.is_handle or target.is_handle:
        return convert(emit.out, value, source, target)
    if source.bits * source.lanes != target.bits * target.lanes:
        if not (source.is_bool or target.is_bool):
            raise emit.out.unsupported(f"reinterpret from {source} to {target}: sizes differ")
    if source.is_bool:
        value, from_type = to_memory(emit.out, value, source), memory_type(source)
    if target.is_bool:
        raw = value
        if from_type != memory_type(target):
            raw = emit.define(f"bitcast {from_type} {value} to {memory_type(target)}")
        return from_memory(emit.out, raw, target)
    if from_type == to_type:
        return value
    return emit.define(f"bitcast {from_type} {value} to {to_type}")


@handles("large_uint_imm")
def _large_uint(emit: Values, call: Call) -> str:
    low, high = [arg.value for arg in call.args]  # type: ignore[attr-defined]
    return dtypes.integer_constant((high << 32) | low, call.dtype.element)


@handles("q_multiply_shift")
def _q_multiply_shift(emit: Values, call: Call) -> str:
    x, y, q, s = call.args
    wide = _INT64.with_lanes(call.dtype.lanes)
    kind = register_type(wide)
    shift = emit.define(f"add {kind} {_as_wide(emit, q, wide)}, {_as_wide(emit, s, wide)}")
    return _scaled(emit, _as_wide(emit, x, wide), y, shift, call.dtype)


@handles("q_multiply_shift_per_axis")
def _q_multiply_shift_per_axis(emit: Values, call: Call) -> str:
    x, y, left, right, q, is_left, is_right = call.args
    wide = _INT64.with_lanes(call.dtype.lanes)
    kind = register_type(wide)
    value, shift = _as_wide(emit, x, wide), _as_wide(emit, q, wide)
    moved = _when(emit, is_left, _as_wide(emit, left, wide), wide)
    value = emit.define(f"shl {kind} {value}, {moved}")
    more = _when(emit, is_right, _as_wide(emit, right, wide), wide)
    return _scaled(emit, value, y, emit.define(f"add {kind} {shift}, {more}"), call.dtype)


def _when(emit: Values, condition: PrimExpr, value: str, wide: DataType) -> str:
    """Return `value` (an int64) where a condition, which may be an integer, holds; else zero."""
    flags = DataType("bool").with_lanes(condition.dtype.lanes)
    chosen = convert(emit.out, emit.value(condition), condition.dtype, flags)
    kind, zero = register_type(wide), emit.out.broadcast("0", wide)
    return emit.define(f"select {register_type(flags)} {chosen}, {kind} {value}, {kind} {zero}")


def _as_wide(emit: Values, expr: PrimExpr, wide: DataType) -> str:
    """Convert an integer operand to int64, in all lanes."""
    value = emit.value(expr)
    if expr.dtype.lanes != wide.lanes:
        value = emit.out.broadcast(value, expr.dtype.with_lanes(wide.lanes))
    return convert(emit.out, value, expr.dtype.with_lanes(wide.lanes), wide)


def _scaled(emit: Values, value: str, factor: PrimExpr, shift: str, dtype: DataType) -> str:
    """Compute `value * factor * 2 ** -shift`, rounded to nearest, halves up; operands are int64."""
    wide = _INT64.with_lanes(dtype.lanes)
    kind, one, zero = (
        register_type(wide),
        emit.out.broadcast("1", wide),
        emit.out.broadcast("0", wide),
    )
    right = emit.define(f"call {kind} @llvm.smax({kind} {shift}, {kind} {zero})")
    left = emit.define(f"sub {kind} {right}, {shift}")
    product = emit.define(f"mul {kind} {value}, {_as_wide(emit, factor, wide)}")
    unit = emit.define(f"shl {kind} {one}, {right}")
    half = emit.define(f"lshr {kind} {unit}, {one}")
    rounded = emit.define(f"ashr {kind} {emit.define(f'add {kind} {product}, {half}')}, {right}")
    return convert(emit.out, emit.define(f"shl {kind} {rounded}, {left}"), wide, dtype)


@handles("dp4a")
def _dp4a(emit: Values, call: Call) -> str:
    first, second, total = call.args
    names = []
    for arg in (first, second):
        source = arg.dtype
        value = emit.value(arg)
        if source.lanes == 1:
            source = DataType("uint8x4" if source.is_uint else "int8x4")
            value = emit.define(f"bitcast i32 {value} to <4 x i8>")
        names.append(convert(emit.out, value, source, DataType("int32x4")))
    product = emit.define(f"mul <4 x i32> {names[0]}, {names[1]}")
    added = emit.define(f"call i32 @llvm.vector.reduce.add.v4i32(<4 x i32> {product})")
    return emit.define(f"add i32 {added}, {emit.value(total)}")


# -- choice and hints


@handles("if_then_else")
def _if_then_else(emit: Values, call: Call) -> str:
    condition, true, false = call.args
    if condition.dtype.lanes > 1:
        return _masked_choice(emit, call)
    if not may_fault(true) and not may_fault(false):
        chosen = emit.value(condition)
        return emit.define(f"select i1 {chosen}, {emit.typed(true)}, {emit.typed(false)}")
    labels = [emit.out.label("then"), emit.out.label("else"), emit.out.label("chosen")]
    emit.write(f"br i1 {emit.value(condition)}, label %{labels[0]}, label %{labels[1]}")
    arms = []
    for label, arm in zip(labels, (true, false)):
        emit.out.begin_block(label)
        with emit.memo.branch():
            value = emit.value(arm)
        arms.append(f"[ {value}, %{emit.out.block} ]")
        emit.write(f"br label %{labels[2]}")
    emit.out.begin_block(labels[2])
    if call.dtype.is_void:
        return ""
    return emit.define(f"phi {register_type(call.dtype)} {', '.join(arms)}")


def _masked_choice(emit: Values, call: Call) -> str:
    """Choose by lane: loads of an arm access memory only in the lanes that choose it."""
    condition, true, false = call.args
    lanes = condition.dtype.lanes
    chosen = emit.value(condition)
    kind = f"<{lanes} x i1>"
    outer = emit.scope.mask
    values = []
    for arm, is_true in ((true, True), (false, False)):
        mask = chosen
        if not may_fault(arm):
            values.append(emit.typed(arm))
            continue
        if not is_true:
            mask = emit.define(f"xor {kind} {chosen}, splat (i1 true)")
        if outer is not None and outer[1] == lanes:
            mask = emit.define(f"and {kind} {mask}, {outer[0]}")
        emit.scope.mask = (mask, lanes)
        with emit.memo.branch():
            values.append(emit.typed(arm))
        emit.scope.mask = outer
    return emit.define(f"select {kind} {chosen}, {values[0]}, {values[1]}")


@handles("checked")
def _checked(emit: Values, call: Call) -> str:
    """Return a value that is used only if a condition holds (in all active lanes).

    Code that cannot report errors uses 0 instead, which neither traps nor leaves a buffer.
    """
    value, condition, *message = call.args
    lanes, mask = condition.dtype.lanes, emit.scope.mask
    holds = emit.value(condition)
    if not emit.exits.can_report():
        typed = f"{register_type(call.dtype)} {emit.out.broadcast('0', call.dtype)}"
        kind = register_type(condition.dtype)
        return emit.define(f"select {kind} {holds}, {emit.typed(value)}, {typed}")
    kind = f"<{lanes} x i1>" if lanes > 1 else "i1"
    if mask is not None:
        active = mask[0] if mask[1] == lanes else any_lane(emit)
        if mask[1] != lanes and lanes > 1:
            raise emit.out.unsupported("a check of other lanes than those of the mask")
        inactive = emit.define(f"xor {kind} {active}, {'splat (i1 true)' if lanes > 1 else 'true'}")
        holds = emit.define(f"or {kind} {holds}, {inactive}")
    good = holds
    if lanes > 1:
        good = emit.define(f"call i1 @llvm.vector.reduce.and.v{lanes}i1({kind} {holds})")

    def fail() -> str:
        lane = "0"
        if lanes > 1:
            bits = emit.define(f"bitcast {kind} {holds} to i{lanes}")
            failed = emit.define(f"xor i{lanes} {bits}, -1")
            first = emit.define(f"call i{lanes} @llvm.cttz.i{lanes}(i{lanes} {failed}, i1 false)")
            change = "zext" if lanes < 64 else "trunc" if lanes > 64 else "bitcast"
            lane = emit.define(f"{change} i{lanes} {first} to i64")
        return raise_parts(emit, message, lane)

    emit.exits.leave_unless(good, fail)
    return emit.value(value)


@handles("likely", "tvm_thread_invariant")
def _hint(emit: Values, call: Call) -> str:
    return emit.value(call.args[0])


@handles("assume")
def _assume(emit: Values, call: Call) -> str:
    emit.write(f"call void @llvm.assume(i1 {emit.value(call.args[0])})")
    return "true"


@handles("undef")
def _undef(emit: Values, call: Call) -> str:
    return "undef"


@handles("type_annotation")
def _type_annotation(emit: Values, call: Call) -> str:
    return "zeroinitializer"


@handles("prefetch")
def _prefetch(emit: Values, call: Call) -> str:
    pointer = emit.value(call.args[0])
    numbers = [constant_value(arg) for arg in call.args[1:]]
    if None in numbers:
        raise emit.out.unsupported("the hints of prefetch must be constants")
    write, locality, cache = [*numbers, 0, 3, 1][:3] if len(numbers) < 3 else numbers[:3]
    emit.write(f"call void @llvm.prefetch(ptr {pointer}, i32 {write}, i32 {locality}, i32 {cache})")
    return "0"


@handles("parallel_tasks")
def _parallel_tasks(emit: Values, call: Call) -> str:
    return emit.scope.tasks


@handles("parallel_barrier")
def _parallel_barrier(emit: Values, call: Call) -> str:
    if not emit.scope.barrier:
        return "0"  # one task runs alone
    function = emit.text.declare("__tilesmith_parallel_barrier", "i1", ["ptr", "ptr", "i32"])
    passed = emit.define(f"call i1 {function}({emit.scope.barrier})")
    if emit.exits.can_report():
        # Another task has ended with an error, which is kept: this one ends as well.
        emit.exits.leave_unless(passed, lambda: "-1")
    emit.forget()
    return "0"


@handles("tvm_storage_sync")
def _storage_sync(emit: Values, call: Call) -> str:
    return "0"  # one thread runs the iterations of a task: there is no other thread to wait for


# -- vectors


@handles("vectorlow", "vectorhigh")
def _vector_half(emit: Values, call: Call) -> str:
    source = call.args[0].dtype
    half = source.lanes // 2
    start = half if call.op.name == "tir.vectorhigh" else 0
    picked = list(range(start, start + half))
    return emit.out.shuffle(register_type(source), emit.value(call.args[0]), "poison", picked)


@handles("vectorcombine")
def _vector_combine(emit: Values, call: Call) -> str:
    first, second = call.args
    picked = list(range(call.dtype.lanes))
    kind = register_type(first.dtype)
    return emit.out.shuffle(kind, emit.value(first), emit.value(second), picked)


@handles("vscale")
def _vscale(emit: Values, call: Call) -> str:
    emit.out.require_scalable_vectors()
    kind = register_type(call.dtype)
    return emit.define(f"call {kind} @llvm.vscale.{kind}()")


@handles("get_active_lane_mask")
def _active_lanes(emit: Values, call: Call) -> str:
    base, limit = [emit.typed(arg) for arg in call.args]
    dtype, number = call.dtype, register_type(call.args[0].dtype)
    kind = f"{'nxv' if dtype.is_scalable else 'v'}{int(dtype.lanes)}i1"
    intrinsic = f"@llvm.get.active.lane.mask.{kind}.{number}"
    return emit.define(f"call {register_type(dtype)} {intrinsic}({base}, {limit})")
