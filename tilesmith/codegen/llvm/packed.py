"""Defines rules of tvm-ffi's calling convention: runtime structures, packed calls, errors.

Layouts (64-bit platforms): `TVMFFIAny` is {i32 type index, i32 zero, i64 value}; a tensor object is
a header of 24 bytes followed by its `DLTensor`; `DLTensor` is {data, device {type, id}, ndim,
dtype {u8 code, u8 bits, u16 lanes}, shape, strides, byte offset}, 48 bytes.
"""

from __future__ import annotations

from tilesmith.codegen.facts import constant_value
from tilesmith.codegen.llvm.conversions import convert
from tilesmith.codegen.llvm.dtypes import element_bytes, register_type
from tilesmith.codegen.llvm.pointers_and_calls import text_argument
from tilesmith.codegen.llvm.rules import handles
from tilesmith.codegen.llvm.values import Values
from tilesmith.ir import Call, PrimExpr, StringImm
from tilesmith.ir.queries import is_call
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.struct_fields import StructField

ANY_BYTES = 16
TENSOR_BYTES = 48
NONE, INT, BOOL, FLOAT, OPAQUE, DLTENSOR, RAW_STR, TENSOR = 0, 1, 2, 3, 4, 7, 8, 70

_HANDLE = DataType("handle")
_INT32 = DataType("int32")
_INT64 = DataType("int64")

# Field → (bytes of the structure, offset, dtype in memory).
_FIELDS = {
    StructField.ARRAY_DATA: (TENSOR_BYTES, 0, _HANDLE),
    StructField.ARRAY_DEVICE_TYPE: (TENSOR_BYTES, 8, _INT32),
    StructField.ARRAY_DEVICE_ID: (TENSOR_BYTES, 12, _INT32),
    StructField.ARRAY_NDIM: (TENSOR_BYTES, 16, _INT32),
    StructField.ARRAY_TYPE_CODE: (TENSOR_BYTES, 20, DataType("uint8")),
    StructField.ARRAY_TYPE_BITS: (TENSOR_BYTES, 21, DataType("uint8")),
    StructField.ARRAY_TYPE_LANES: (TENSOR_BYTES, 22, DataType("uint16")),
    StructField.ARRAY_SHAPE: (TENSOR_BYTES, 24, _HANDLE),
    StructField.ARRAY_STRIDES: (TENSOR_BYTES, 32, _HANDLE),
    StructField.ARRAY_BYTE_OFFSET: (TENSOR_BYTES, 40, DataType("uint64")),
    StructField.ANY_TYPE_INDEX: (ANY_BYTES, 0, _INT32),
    StructField.ANY_ZERO_PADDING: (ANY_BYTES, 4, _INT32),
}
# The same where pointers have 32 bits; numbers of 64 bits are aligned to 8 bytes there.
_SMALL_TENSOR_BYTES = 40
_SMALL_OFFSETS = {
    StructField.ARRAY_DATA: 0,
    StructField.ARRAY_DEVICE_TYPE: 4,
    StructField.ARRAY_DEVICE_ID: 8,
    StructField.ARRAY_NDIM: 12,
    StructField.ARRAY_TYPE_CODE: 16,
    StructField.ARRAY_TYPE_BITS: 17,
    StructField.ARRAY_TYPE_LANES: 18,
    StructField.ARRAY_SHAPE: 20,
    StructField.ARRAY_STRIDES: 24,
    StructField.ARRAY_BYTE_OFFSET: 32,
}
_VALUES = (StructField.ANY_UNION_VALUE, StructField.VALUE_CONTENT)


def _place(emit: Values, call: Call, size: int, offset: int) -> str:
    """Return the address `offset` bytes into element `index` of an array of structures."""
    pointer, index = emit.value(call.args[0]), call.args[1]
    constant = constant_value(index)
    if constant is not None:
        total = constant * size + offset
        if total == 0:
            return pointer
        return emit.define(f"getelementptr i8, ptr {pointer}, i64 {total}")
    scaled = emit.define(f"mul i64 {emit.index64(index)}, {size}")
    element = emit.define(f"getelementptr i8, ptr {pointer}, i64 {scaled}")
    return emit.define(f"getelementptr i8, ptr {element}, i64 {offset}") if offset else element


def _layout(emit: Values, field: StructField) -> tuple[int, int, DataType]:
    """Return the bytes of the structure that has a field, the field's offset, its dtype in
    memory.
    """
    size, offset, stored = _FIELDS[field]
    if emit.machine.size_type == "i32" and field in _SMALL_OFFSETS:
        return _SMALL_TENSOR_BYTES, _SMALL_OFFSETS[field], stored
    return size, offset, stored


def _field(emit: Values, call: Call) -> StructField:
    number = constant_value(call.args[2])
    try:
        return StructField(-1 if number is None else number)
    except ValueError:
        raise emit.out.unsupported(f"no runtime structure has a field number {number}") from None


@handles("tvm_struct_get")
def _struct_get(emit: Values, call: Call) -> str:
    field = _field(emit, call)
    if field is StructField.ARRAY_ADDRESS:
        is_small = emit.machine.size_type == "i32"
        return _place(emit, call, _SMALL_TENSOR_BYTES if is_small else TENSOR_BYTES, 0)
    if field in _VALUES:
        place = _place(emit, call, ANY_BYTES, 8)
        stored = _value_dtype(call.dtype)
    else:
        size, offset, stored = _layout(emit, field)
        place = _place(emit, call, size, offset)
    kind = register_type(stored)
    loaded = emit.define(f"load {kind}, ptr {place}, align {_alignment(emit, stored)}")
    return convert(emit.out, loaded, stored, call.dtype)


@handles("tvm_struct_set")
def _struct_set(emit: Values, call: Call) -> str:
    field, value = _field(emit, call), call.args[3]
    if field in _VALUES:
        place = _place(emit, call, ANY_BYTES, 8)
        stored = _value_dtype(value.dtype)
    else:
        size, offset, stored = _layout(emit, field)
        place = _place(emit, call, size, offset)
    converted = convert(emit.out, emit.value(value), value.dtype, stored)
    if stored.is_handle and field in _VALUES and emit.machine.size_type == "i32":
        emit.write(
            f"store i64 0, ptr {place}, align 8"
        )  # the half that a 32-bit pointer does not fill
    alignment = _alignment(emit, stored)
    emit.write(f"store {register_type(stored)} {converted}, ptr {place}, align {alignment}")
    emit.forget()
    return "0"


def _alignment(emit: Values, stored: DataType) -> int:
    return 4 if stored.is_handle and emit.machine.size_type == "i32" else element_bytes(stored)


def _value_dtype(dtype: DataType) -> DataType:
    """Return the dtype of the value of a TVMFFIAny for a dtype: 64 bits of integer, float or
    pointer.
    """
    if dtype.is_float:
        return DataType("float64")
    return _HANDLE if dtype.is_handle else _INT64


# -- packed calls


@handles("tvm_call_packed", "tvm_call_cpacked", "tvm_call_trace_packed")
def _call_packed(emit: Values, call: Call) -> str:
    """Write a call with tagged arguments; an error ends the function with its code."""
    name = text_argument(emit, call.args[0])
    emit.exits.needs_status(f"calls the packed function '{name}'")
    arguments = list(call.args[1:])
    space = emit.out.stack_space(max(1, len(arguments)) * ANY_BYTES, 16)
    result = emit.out.stack_space(ANY_BYTES, 16)
    owned = []
    for number, arg in enumerate(arguments):
        place = emit.define(f"getelementptr i8, ptr {space}, i64 {number * ANY_BYTES}")
        if _store_argument(emit, place, arg):
            owned.append(place)
    emit.write(f"store {{ i64, i64 }} zeroinitializer, ptr {result}, align 16")
    if call.op.name == "tir.tvm_call_cpacked":
        symbol = name if name.startswith("__") else "__tvm_ffi_" + name
        target = emit.text.declare(symbol, "i32", ["ptr", "ptr", "i32", "ptr"])
        words = f"ptr null, ptr {space}, i32 {len(arguments)}, ptr {result}"
        status = emit.define(f"call i32 {target}({words})")
    else:
        slot, text = emit.text.packed_function(name)
        helper = emit.text.helper("__tilesmith_call_packed")
        words = f"ptr {slot}, ptr {text}, ptr {space}, i32 {len(arguments)}, ptr {result}"
        status = emit.define(f"call i32 {helper}({words})")
    emit.forget()
    for place in owned:
        emit.write(f"call void {emit.text.helper('__tilesmith_any_release')}(ptr {place})")
    emit.exits.check_status(status)
    if call.op.name == "tir.tvm_call_trace_packed":
        emit.write(f"call void {emit.text.helper('__tilesmith_any_release')}(ptr {result})")
        return emit.value(arguments[-1])
    return take_result(emit, result, call.dtype, name)


def _store_argument(emit: Values, place: str, arg: PrimExpr) -> bool:
    """Write one argument as TVMFFIAny; return whether it holds an object that has to be
    released.
    """
    dtype = arg.dtype
    if is_call(arg, "tir.tvm_stack_make_array"):
        helper = emit.text.helper("__tilesmith_make_tensor")
        tensor = emit.value(arg)
        emit.exits.check_status(emit.define(f"call i32 {helper}(ptr {tensor}, ptr {place})"))
        return True
    if dtype.lanes > 1:
        raise emit.out.unsupported(
            f"a vector ('{dtype}') cannot be an argument of a packed function"
        )
    value = emit.value(arg)
    if isinstance(arg, StringImm):
        index = RAW_STR
    elif dtype.is_handle:
        index = OPAQUE
    elif dtype.is_float:
        index, value = FLOAT, convert(emit.out, value, dtype, DataType("float64"))
    else:
        index = BOOL if dtype.is_bool else INT
        value = convert(emit.out, value, dtype, _INT64)
    kind = {FLOAT: "double", OPAQUE: "ptr", RAW_STR: "ptr"}.get(index, "i64")
    emit.write(f"store i32 {index}, ptr {place}, align 16")
    padding = emit.define(f"getelementptr i8, ptr {place}, i64 4")
    emit.write(f"store i32 0, ptr {padding}, align 4")
    content = emit.define(f"getelementptr i8, ptr {place}, i64 8")
    emit.write(f"store {kind} {value}, ptr {content}, align 8")
    if index == OPAQUE:  # a null pointer is tvm-ffi's None
        is_null = emit.define(f"icmp eq ptr {value}, null")
        kept = emit.define(f"select i1 {is_null}, i32 {NONE}, i32 {OPAQUE}")
        emit.write(f"store i32 {kept}, ptr {place}, align 16")
    return False


def take_result(emit: Values, result: str, dtype: DataType, name: str) -> str:
    """Return the result of a packed call as a value of `dtype`; objects are released."""
    if dtype.is_void or dtype == "int32":
        # the usual dtype of calls whose result is not used: any type may be returned
        found = emit.define(f"call i64 {emit.text.helper('__tilesmith_any_int')}(ptr {result})")
        return "0" if dtype.is_void else emit.define(f"trunc i64 {found} to i32")
    if dtype.is_float:
        helper = emit.text.helper("__tilesmith_any_float")
        found = emit.define(f"call double {helper}(ptr {result})")
        return convert(emit.out, found, DataType("float64"), dtype)
    if dtype.is_handle:
        content = emit.define(f"getelementptr i8, ptr {result}, i64 8")
        return emit.define(f"load ptr, ptr {content}, align 8")
    found = emit.define(f"call i64 {emit.text.helper('__tilesmith_any_int')}(ptr {result})")
    return convert(emit.out, found, _INT64, dtype)


@handles("tvm_stack_make_array")
def _stack_make_array(emit: Values, call: Call) -> str:
    """Make a DLTensor on the stack, on the CPU or the device of the enclosing attributes."""
    if emit.machine.size_type == "i32":
        raise emit.out.unsupported(
            "tensors cannot be passed to packed functions on 32-bit platforms"
        )
    data, shape, strides, ndim, element, offset = call.args
    space = emit.out.stack_space(TENSOR_BYTES, 16)
    dtype = element.dtype
    code = (dtype.type_code & 0xFF) | (_bits(dtype) << 8) | (dtype.lanes << 16)
    device_type, device_id = emit.scope.device
    strides_value = "null" if constant_value(strides) == 0 else emit.value(strides)
    offset_value = emit.index64(offset)
    size = element_bytes(dtype) * dtype.lanes
    bytes_value = (
        str(int(offset_value) * size)
        if constant_value(offset) is not None
        else emit.define(f"mul i64 {offset_value}, {size}")
    )
    fields = (
        (0, f"ptr {emit.value(data)}"),
        (8, f"i32 {device_type}"),
        (12, f"i32 {device_id}"),
        (16, f"i32 {emit.value(ndim)}"),
        (20, f"i32 {code}"),
        (24, f"ptr {emit.value(shape)}"),
        (32, f"ptr {strides_value}"),
        (40, f"i64 {bytes_value}"),
    )
    for place, content in fields:
        address = emit.define(f"getelementptr i8, ptr {space}, i64 {place}")
        emit.write(f"store {content}, ptr {address}, align 4")
    return space


def _bits(dtype: DataType) -> int:
    return 8 if dtype.is_bool else dtype.bits


@handles("tvm_check_return")
def _check_return(emit: Values, call: Call) -> str:
    expected, unexpected, nested = call.args
    emit.exits.needs_status("checks the result of a call")
    value = emit.value(nested)
    is_right = emit.define(f"icmp eq {register_type(nested.dtype)} {value}, {emit.value(expected)}")
    emit.exits.leave_unless(is_right, lambda: str(constant_value(unexpected)))
    return value


@handles("tvm_throw_last_error")
def _throw_last_error(emit: Values, call: Call) -> str:
    emit.exits.needs_status("throws an error")
    emit.exits.leave_unless("false", lambda: "-1")
    return "null"
