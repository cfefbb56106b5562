"""Defines rules of operators that make pointers, move memory, or call foreign functions."""

from __future__ import annotations

from dataclasses import replace

from tilesmith.codegen.facts import constant_value
from tilesmith.codegen.llvm import dtypes, packed_elements
from tilesmith.codegen.llvm.c_library import C_LIBRARY, PURE_FUNCTION
from tilesmith.codegen.llvm.dtypes import extension, memory_type, register_type
from tilesmith.codegen.llvm.heap import allocate, release
from tilesmith.codegen.llvm.memory import address, flat_index
from tilesmith.codegen.llvm.rules import handles
from tilesmith.codegen.llvm.streaming import SME_INTRINSICS
from tilesmith.codegen.llvm.values import Values
from tilesmith.ir import Call, IntImm, PrimExpr, StringImm
from tilesmith.runtime import amx
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed
from tilesmith.runtime.requirements import INTRINSIC_FEATURES
from tilesmith.tir.expr import BufferLoad

# -- memory


@handles("address_of")
def _address_of(emit: Values, call: Call) -> str:
    load = call.args[0]
    if not isinstance(load, BufferLoad):
        raise emit.out.unsupported("address_of takes an element of a buffer")
    index = flat_index(emit, load)
    if index is not None and index.dtype.lanes > 1:
        index = index.base  # type: ignore[attr-defined]
    if is_packed(load.buffer.dtype):
        element = "0" if index is None else emit.index64(index)
        return packed_elements.byte_place(emit, load.buffer, element, load.buffer.dtype)
    return address(emit, load.buffer, index, safe=False)[0]


@handles("handle_add_byte_offset")
def _add_bytes(emit: Values, call: Call) -> str:
    pointer, offset = emit.value(call.args[0]), emit.index64(call.args[1])
    return emit.define(f"getelementptr i8, ptr {pointer}, i64 {offset}")


@handles("tvm_access_ptr")
def _access_pointer(emit: Values, call: Call) -> str:
    annotation, data, offset = call.args[:3]
    pointer, moved = emit.value(data), emit.index64(offset)
    if moved == "0":
        return pointer
    unit = annotation.dtype
    if unit.lanes > 1:
        moved = emit.define(f"mul i64 {moved}, {unit.lanes}")
    if is_packed(unit):
        moved = emit.define(f"sdiv i64 {moved}, {8 // unit.bits}")
    return emit.define(f"getelementptr {memory_type(unit.element)}, ptr {pointer}, i64 {moved}")


@handles("isnullptr")
def _is_null(emit: Values, call: Call) -> str:
    return emit.define(f"icmp eq ptr {emit.value(call.args[0])}, null")


@handles("mem_copy")
def _mem_copy(emit: Values, call: Call) -> str:
    target, source = emit.value(call.args[0]), emit.value(call.args[1])
    size = emit.index64(call.args[2])
    emit.write(f"call void @llvm.memmove(ptr {target}, ptr {source}, i64 {size}, i1 false)")
    emit.forget()
    return "0"


@handles("dma_copy")
def _dma_copy(emit: Values, call: Call) -> str:
    """Write `dma_copy(queue, target, source, bytes, ...)`: on a CPU the copy is synchronous."""
    target, source = emit.value(call.args[1]), emit.value(call.args[2])
    size = emit.index64(call.args[3])
    emit.write(f"call void @llvm.memmove(ptr {target}, ptr {source}, i64 {size}, i1 false)")
    return "0"


@handles("dma_wait", "dma_start_group", "dma_end_group")
def _dma_done(emit: Values, call: Call) -> str:
    return "0"


@handles("TVMBackendAllocWorkspace")
def _alloc_workspace(emit: Values, call: Call) -> str:
    return allocate(emit.out, emit.text, emit.index64(call.args[2]))


@handles("TVMBackendFreeWorkspace")
def _free_workspace(emit: Values, call: Call) -> str:
    release(emit.out, emit.text, emit.value(call.args[2]))
    return "0"


@handles("lookup_param")
def _lookup_param(emit: Values, call: Call) -> str:
    return emit.text.external_data(text_argument(emit, call.args[0]))


@handles("tvm_static_handle")
def _static_handle(emit: Values, call: Call) -> str:
    return emit.text.static_pointer()


@handles("atomic_add")
def _atomic_add(emit: Values, call: Call) -> str:
    pointer, value = call.args
    operation = "fadd" if value.dtype.is_float else "add"
    emit.forget()
    return emit.define(
        f"atomicrmw {operation} ptr {emit.value(pointer)}, {emit.typed(value)} monotonic"
    )


# -- calls of foreign functions


def text_argument(emit: Values, arg: PrimExpr) -> str:
    """Return a name given as an argument of a call."""
    if not isinstance(arg, StringImm):
        raise emit.out.unsupported(f"a name must be a text, got {arg!r}")
    return arg.value


@handles("call_extern", "call_pure_extern")
def _call_extern(emit: Values, call: Call) -> str:
    name = text_argument(emit, call.args[0])
    if call.dtype.lanes > 1 and name in C_LIBRARY:
        return _library_call(emit, name, call)
    arguments = [emit.argument(arg) for arg in call.args[1:]]
    result = register_type(call.dtype)
    pure = call.op.name == "tir.call_pure_extern"
    kinds = [register_type(arg.dtype) for arg in call.args[1:]]
    attributes = "nounwind willreturn memory(read)" if pure else ""
    target = emit.text.declare(name, result, kinds, attributes)
    if not pure:
        emit.forget()
    text = f"call {result} {target}({', '.join(arguments)})"
    if call.dtype.is_void:
        emit.write(text)
        return "0"
    return emit.define(text)


_AMX_INTRINSICS = ("llvm.x86.ldtilecfg", "llvm.x86.tile", "llvm.x86.tdp")


def _library_call(emit: Values, name: str, call: Call) -> str:
    """Call a function of the C library for each lane of its vectors: it takes scalars."""
    element, values = register_type(call.dtype.element), [emit.value(arg) for arg in call.args[1:]]
    kinds = [register_type(arg.dtype.element) for arg in call.args[1:]]
    target = emit.text.declare(name, element, kinds, PURE_FUNCTION)
    lanes = []
    for number in range(call.dtype.lanes):
        arguments = [
            f"{kind} {extension(arg.dtype.element)}{emit.out.lane(value, arg.dtype, number)}"
            for kind, value, arg in zip(kinds, values, call.args[1:])
        ]
        lanes.append(emit.define(f"call {element} {target}({', '.join(arguments)})"))
    return emit.out.from_lanes(lanes, call.dtype)


@handles("call_llvm_intrin", "call_llvm_pure_intrin")
def _call_llvm(emit: Values, call: Call) -> str:
    name = call.args[0]
    if isinstance(name, IntImm):
        from tilesmith.target.codegen import llvm_get_intrinsic_name

        found = llvm_get_intrinsic_name(name.value)
        if not found:
            raise emit.out.unsupported(f"no LLVM intrinsic has the number {name.value}")
    else:
        found = text_argument(emit, name)
    _mark_needs(emit, found)
    arguments = [_llvm_argument(emit, arg) for arg in call.args[1:]]
    result = _llvm_type(call.dtype)
    if call.op.name == "tir.call_llvm_intrin":
        emit.forget()
    text = f"call {result} {dtypes.symbol(found)}({', '.join(arguments)})"
    if call.dtype.is_void:
        emit.write(text)
        return "0"
    made = emit.define(text)
    kept = register_type(call.dtype)
    return made if kept == result else emit.define(f"bitcast {result} {made} to {kept}")


def _mark_needs(emit: Values, intrinsic: str) -> None:
    """Let the code say what an instruction needs that LLVM never chooses by itself."""
    if intrinsic.startswith(SME_INTRINSICS) and "sme" not in emit.machine.features:
        raise emit.out.unsupported(
            f"it uses '{intrinsic}', an instruction of Arm's Scalable Matrix Extension, which the "
            "target does not have",
            "AArch64 has it with -mattr=+sme",
        )
    if intrinsic.startswith(_AMX_INTRINSICS):
        emit.text.mark(amx.SYMBOL)  # the runtime asks the system for permission to use tiles
    for prefix, feature in INTRINSIC_FEATURES.items():
        if intrinsic.startswith(prefix):
            needed = replace(emit.machine.requirements, features=(feature,))
            emit.text.mark(needed.symbol, needed.data)


def _llvm_type(dtype: DataType) -> str:
    """Return the type that LLVM's intrinsics have for a dtype."""
    if dtype.element == "bfloat16":
        return "bfloat" if dtype.lanes == 1 else f"<{dtype.lanes} x bfloat>"
    return register_type(dtype)


def _llvm_argument(emit: Values, arg: PrimExpr) -> str:
    wanted, kept = _llvm_type(arg.dtype), register_type(arg.dtype)
    value = emit.value(arg)
    if wanted != kept:
        value = emit.define(f"bitcast {kept} {value} to {wanted}")
    return f"{wanted} {value}"


# -- space on the stack


@handles("tvm_stack_alloca")
def _stack_alloca(emit: Values, call: Call) -> str:
    kind, count = text_argument(emit, call.args[0]), constant_value(call.args[1])
    size = {"shape": 8, "arg_value": 16, "arg_tcode": 4, "array": 48,
            "tvm_ffi_any": 16}.get(kind)  # fmt: skip
    if size is None or count is None:
        raise emit.out.unsupported(f"tvm_stack_alloca of {call.args[1]!r} '{kind}'")
    return emit.out.stack_space(max(1, size * count), 16)


@handles("tvm_stack_make_shape")
def _stack_make_shape(emit: Values, call: Call) -> str:
    space = emit.out.stack_space(max(8, 8 * len(call.args)), 8)
    for number, arg in enumerate(call.args):
        place = emit.define(f"getelementptr i8, ptr {space}, i64 {8 * number}")
        emit.write(f"store i64 {emit.index64(arg)}, ptr {place}, align 8")
    return space
