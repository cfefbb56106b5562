"""tvm-ffi's calling convention in generated code: runtime structures, packed calls, errors.

Layouts (64-bit platforms): `TVMFFIAny` is {i32 type index, i32 zero, i64 value}; a tensor object is
a header of 24 bytes followed by its `DLTensor`; `DLTensor` is {data, device {type, id}, ndim,
dtype {u8 code, u8 bits, u16 lanes}, shape, strides, byte offset}, 48 bytes.
"""

from __future__ import annotations

from typing import Any

from tilesmith.codegen.llvm.dtypes import element_bytes, register_type
from tilesmith.codegen.llvm.expressions import constant_value
from tilesmith.codegen.llvm.intrinsics import handles
from tilesmith.codegen.llvm.pointers_and_calls import text_argument
from tilesmith.ir import Call, PrimExpr, StringImm
from tilesmith.ir.queries import is_call
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.struct_fields import OTHER_TYPE, TYPE_MARK, TYPE_NAMES, StructField

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


def _place(emit: Any, call: Call, size: int, offset: int) -> str:
    """The address `offset` bytes into element `index` of an array of structures."""
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


def _layout(emit: Any, field: StructField) -> tuple[int, int, DataType]:
    """Bytes of the structure that has a field, the field's offset, its dtype in memory."""
    size, offset, stored = _FIELDS[field]
    if emit.module.size_type == "i32" and field in _SMALL_OFFSETS:
        return _SMALL_TENSOR_BYTES, _SMALL_OFFSETS[field], stored
    return size, offset, stored


def _field(emit: Any, call: Call) -> StructField:
    number = constant_value(call.args[2])
    try:
        return StructField(number)
    except ValueError:
        raise emit.unsupported(f"no runtime structure has a field number {number}") from None


@handles("tvm_struct_get")
def _struct_get(emit: Any, call: Call) -> str:
    field = _field(emit, call)
    if field is StructField.ARRAY_ADDRESS:
        is_small = emit.module.size_type == "i32"
        return _place(emit, call, _SMALL_TENSOR_BYTES if is_small else TENSOR_BYTES, 0)
    if field in _VALUES:
        place = _place(emit, call, ANY_BYTES, 8)
        stored = _value_dtype(call.dtype)
    else:
        size, offset, stored = _layout(emit, field)
        place = _place(emit, call, size, offset)
    kind = register_type(stored)
    loaded = emit.define(f"load {kind}, ptr {place}, align {_alignment(emit, stored)}")
    return emit.convert(loaded, stored, call.dtype)


@handles("tvm_struct_set")
def _struct_set(emit: Any, call: Call) -> str:
    field, value = _field(emit, call), call.args[3]
    if field in _VALUES:
        place = _place(emit, call, ANY_BYTES, 8)
        stored = _value_dtype(value.dtype)
    else:
        size, offset, stored = _layout(emit, field)
        place = _place(emit, call, size, offset)
    converted = emit.convert(emit.value(value), value.dtype, stored)
    if stored.is_handle and field in _VALUES and emit.module.size_type == "i32":
        emit.write(f"store i64 0, ptr {place}, align 8")  # the half that no pointer fills
    alignment = _alignment(emit, stored)
    emit.write(f"store {register_type(stored)} {converted}, ptr {place}, align {alignment}")
    emit.forget()
    return "0"


def _alignment(emit: Any, stored: DataType) -> int:
    return 4 if stored.is_handle and emit.module.size_type == "i32" else element_bytes(stored)


def _value_dtype(dtype: DataType) -> DataType:
    """What the value of a TVMFFIAny is for a dtype: 64 bits of integer, float or pointer."""
    if dtype.is_float:
        return DataType("float64")
    return _HANDLE if dtype.is_handle else _INT64


# -- packed calls


@handles("tvm_call_packed", "tvm_call_cpacked", "tvm_call_trace_packed")
def _call_packed(emit: Any, call: Call) -> str:
    """A call with tagged arguments; an error ends the function with its code."""
    name = text_argument(emit, call.args[0])
    emit.needs_status(f"calls the packed function '{name}'")
    arguments = list(call.args[1:])
    space = emit.stack_space(max(1, len(arguments)) * ANY_BYTES, 16)
    result = emit.stack_space(ANY_BYTES, 16)
    owned = []
    for number, arg in enumerate(arguments):
        place = emit.define(f"getelementptr i8, ptr {space}, i64 {number * ANY_BYTES}")
        if _store_argument(emit, place, arg):
            owned.append(place)
    emit.write(f"store {{ i64, i64 }} zeroinitializer, ptr {result}, align 16")
    if call.op.name == "tir.tvm_call_cpacked":
        symbol = name if name.startswith("__") else "__tvm_ffi_" + name
        target = emit.module.declare(symbol, "i32", ["ptr", "ptr", "i32", "ptr"])
        words = f"ptr null, ptr {space}, i32 {len(arguments)}, ptr {result}"
        status = emit.define(f"call i32 {target}({words})")
    else:
        slot, text = emit.module.packed_function(name)
        helper = emit.module.helper("__tilesmith_call_packed")
        words = f"ptr {slot}, ptr {text}, ptr {space}, i32 {len(arguments)}, ptr {result}"
        status = emit.define(f"call i32 {helper}({words})")
    emit.forget()
    for place in owned:
        emit.write(f"call void {emit.module.helper('__tilesmith_any_release')}(ptr {place})")
    emit.check_status(status)
    if call.op.name == "tir.tvm_call_trace_packed":
        emit.write(f"call void {emit.module.helper('__tilesmith_any_release')}(ptr {result})")
        return emit.value(arguments[-1])
    return take_result(emit, result, call.dtype, name)


def _store_argument(emit: Any, place: str, arg: PrimExpr) -> bool:
    """Write one argument as TVMFFIAny; whether it holds an object that has to be released."""
    dtype = arg.dtype
    if is_call(arg, "tir.tvm_stack_make_array"):
        helper = emit.module.helper("__tilesmith_make_tensor")
        tensor = emit.value(arg)
        emit.check_status(emit.define(f"call i32 {helper}(ptr {tensor}, ptr {place})"))
        return True
    if dtype.lanes > 1:
        raise emit.unsupported(f"a vector ('{dtype}') cannot be an argument of a packed function")
    value = emit.value(arg)
    if isinstance(arg, StringImm):
        index = RAW_STR
    elif dtype.is_handle:
        index = OPAQUE
    elif dtype.is_float:
        index, value = FLOAT, emit.convert(value, dtype, DataType("float64"))
    else:
        index = BOOL if dtype.is_bool else INT
        value = emit.convert(value, dtype, _INT64)
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


def take_result(emit: Any, result: str, dtype: DataType, name: str) -> str:
    """The result of a packed call as a value of `dtype`; objects are released."""
    if dtype.is_void or dtype == "int32":
        # the usual dtype of calls whose result nobody looks at: anything may come back
        found = emit.define(f"call i64 {emit.module.helper('__tilesmith_any_int')}(ptr {result})")
        return "0" if dtype.is_void else emit.define(f"trunc i64 {found} to i32")
    if dtype.is_float:
        helper = emit.module.helper("__tilesmith_any_float")
        found = emit.define(f"call double {helper}(ptr {result})")
        return emit.convert(found, DataType("float64"), dtype)
    if dtype.is_handle:
        content = emit.define(f"getelementptr i8, ptr {result}, i64 8")
        return emit.define(f"load ptr, ptr {content}, align 8")
    found = emit.define(f"call i64 {emit.module.helper('__tilesmith_any_int')}(ptr {result})")
    return emit.convert(found, _INT64, dtype)


@handles("tvm_stack_make_array")
def _stack_make_array(emit: Any, call: Call) -> str:
    """A DLTensor on the stack, on the CPU or the device of the attributes around it."""
    if emit.module.size_type == "i32":
        raise emit.unsupported("tensors cannot be passed to packed functions on 32-bit platforms")
    data, shape, strides, ndim, element, offset = call.args
    space = emit.stack_space(TENSOR_BYTES, 16)
    dtype = element.dtype
    code = (dtype.type_code & 0xFF) | (_bits(dtype) << 8) | (dtype.lanes << 16)
    device_type, device_id = emit.device
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
def _check_return(emit: Any, call: Call) -> str:
    expected, unexpected, nested = call.args
    emit.needs_status("checks the result of a call")
    value = emit.value(nested)
    is_right = emit.define(f"icmp eq {register_type(nested.dtype)} {value}, {emit.value(expected)}")
    emit.leave_unless(is_right, lambda: str(constant_value(unexpected)))
    return value


@handles("tvm_throw_last_error")
def _throw_last_error(emit: Any, call: Call) -> str:
    emit.needs_status("throws an error")
    emit.leave_unless("false", lambda: "-1")
    return "null"


NUMBER_MARK = "\x01"
"""Stands in the text of an error for a number that `__tilesmith_raise` puts in its place. For the
type index of a value, shown by name, `TYPE_MARK` stands there."""


def message_text(parts: list[PrimExpr]) -> str:
    """The text of a message with marks in place of the numbers."""
    text = ""
    for part in parts:
        if isinstance(part, StringImm):
            text += part.value
        elif not text.endswith(TYPE_MARK):
            text += NUMBER_MARK
    return text


def _type_name_text() -> str:
    """The function from a type index to the name of the type."""
    name = "__tilesmith_type_name"
    texts, cases, blocks = [], [], []
    for number, (index, word) in enumerate([*TYPE_NAMES.items(), (-1, OTHER_TYPE)]):
        constant = f"@{name}.{number}"
        texts.append(
            f'{constant} = private unnamed_addr constant [{len(word) + 1} x i8] c"{word}\\00"'
        )
        label = f"is.{number}" if index >= 0 else "other"
        blocks.append(f"{label}:\n  ret ptr {constant}")
        if index >= 0:
            cases.append(f"    i64 {index}, label %{label}")
    head = f"define internal ptr @{name}(i64 %index) noinline cold {{"
    switch = "\n".join(["  switch i64 %index, label %other [", *cases, "  ]"])
    return "\n".join(["", *texts, head, switch, *blocks, "}", ""])


HELPERS: dict[str, str] = {
    "__tilesmith_raise": """
declare void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)
define internal void @__tilesmith_raise(
    ptr %kind, ptr %text, ptr %values, i64 %size) noinline cold {
  %message = alloca i8, i64 %size, align 16
  %digits = alloca [24 x i8], align 8
  br label %next
next:
  %source = phi ptr [ %text, %0 ], [ %source.next, %copied ], [ %source.next, %written ]
  %target = phi ptr [ %message, %0 ], [ %target.next, %copied ], [ %to, %written ]
  %value = phi ptr [ %values, %0 ], [ %value, %copied ], [ %value.next, %written ]
  %character = load i8, ptr %source, align 1
  %source.next = getelementptr i8, ptr %source, i64 1
  %is_number = icmp ule i8 %character, 2
  %is_end = icmp eq i8 %character, 0
  %is_plain = xor i1 %is_number, true
  %is_copied = or i1 %is_plain, %is_end
  br i1 %is_copied, label %plain, label %number
plain:
  store i8 %character, ptr %target, align 1
  %target.next = getelementptr i8, ptr %target, i64 1
  br i1 %is_end, label %done, label %copied
copied:
  br label %next
number:
  %amount = load i64, ptr %value, align 8
  %value.next = getelementptr i8, ptr %value, i64 8
  %is_type = icmp eq i8 %character, 2
  br i1 %is_type, label %type, label %amount.text
type:
  %name = call ptr @__tilesmith_type_name(i64 %amount)
  br label %written.text
amount.text:
  %decimal = call ptr @__tilesmith_decimal(i64 %amount, ptr %digits)
  br label %written.text
written.text:
  %shown = phi ptr [ %name, %type ], [ %decimal, %amount.text ]
  br label %digit
digit:
  %from = phi ptr [ %shown, %written.text ], [ %from.next, %more ]
  %to = phi ptr [ %target, %written.text ], [ %to.next, %more ]
  %figure = load i8, ptr %from, align 1
  %is_last = icmp eq i8 %figure, 0
  br i1 %is_last, label %written, label %more
more:
  store i8 %figure, ptr %to, align 1
  %from.next = getelementptr i8, ptr %from, i64 1
  %to.next = getelementptr i8, ptr %to, i64 1
  br label %digit
written:
  br label %next
done:
  call void @TVMFFIErrorSetRaisedFromCStr(ptr %kind, ptr %message)
  ret void
}
""",
    "__tilesmith_type_name": _type_name_text(),
    "__tilesmith_decimal": """
define internal ptr @__tilesmith_decimal(i64 %value, ptr %space) noinline cold {
  %end = getelementptr i8, ptr %space, i64 23
  store i8 0, ptr %end, align 1
  %is_negative = icmp slt i64 %value, 0
  %opposite = sub i64 0, %value
  %magnitude = select i1 %is_negative, i64 %opposite, i64 %value
  br label %next
next:
  %rest = phi i64 [ %magnitude, %0 ], [ %quotient, %next ]
  %place = phi ptr [ %end, %0 ], [ %here, %next ]
  %here = getelementptr i8, ptr %place, i64 -1
  %quotient = udiv i64 %rest, 10
  %product = mul i64 %quotient, 10
  %digit = sub i64 %rest, %product
  %small = trunc i64 %digit to i8
  %character = add i8 %small, 48
  store i8 %character, ptr %here, align 1
  %has_more = icmp ne i64 %quotient, 0
  br i1 %has_more, label %next, label %finish
finish:
  %before = getelementptr i8, ptr %here, i64 -1
  br i1 %is_negative, label %sign, label %done
sign:
  store i8 45, ptr %before, align 1
  br label %done
done:
  %start = phi ptr [ %here, %finish ], [ %before, %sign ]
  ret ptr %start
}
""",
    "__tilesmith_call_packed": """
declare i32 @TVMFFIFunctionGetGlobal(ptr, ptr)
declare i32 @TVMFFIFunctionCall(ptr, ptr, i32, ptr)
declare void @TVMFFIErrorSetRaisedFromCStrParts(ptr, ptr, i32)
@__tilesmith_unknown_kind = private unnamed_addr constant [21 x i8] c"UnknownFunctionError\\00"
@__tilesmith_unknown_text = private unnamed_addr constant [62 x i8]
  c"generated code calls a function that nobody has registered: '\\00"
@__tilesmith_unknown_end = private unnamed_addr constant [2 x i8] c"'\\00"
define internal i32 @__tilesmith_call_packed(
    ptr %slot, ptr %name, ptr %args, i32 %count, ptr %result) noinline {
  %known = load atomic ptr, ptr %slot acquire, align 8
  %is_known = icmp ne ptr %known, null
  br i1 %is_known, label %call, label %find
find:
  %found_place = alloca ptr, align 8
  store ptr null, ptr %found_place, align 8
  %status = call i32 @TVMFFIFunctionGetGlobal(ptr %name, ptr %found_place)
  %is_right = icmp eq i32 %status, 0
  br i1 %is_right, label %look, label %fail
fail:
  ret i32 %status
look:
  %found = load ptr, ptr %found_place, align 8
  %exists = icmp ne ptr %found, null
  br i1 %exists, label %keep, label %unknown
keep:
  store atomic ptr %found, ptr %slot release, align 8
  br label %call
unknown:
  %parts = alloca [3 x ptr], align 8
  %text = load ptr, ptr %name, align 8
  store ptr @__tilesmith_unknown_text, ptr %parts, align 8
  %second = getelementptr ptr, ptr %parts, i64 1
  store ptr %text, ptr %second, align 8
  %third = getelementptr ptr, ptr %parts, i64 2
  store ptr @__tilesmith_unknown_end, ptr %third, align 8
  call void @TVMFFIErrorSetRaisedFromCStrParts(ptr @__tilesmith_unknown_kind, ptr %parts, i32 3)
  ret i32 -1
call:
  %function = phi ptr [ %known, %0 ], [ %found, %keep ]
  %returned = call i32 @TVMFFIFunctionCall(ptr %function, ptr %args, i32 %count, ptr %result)
  ret i32 %returned
}
""",
    "__tilesmith_any_release": """
declare i32 @TVMFFIObjectDecRef(ptr)
define internal void @__tilesmith_any_release(ptr %any) noinline {
  %index = load i32, ptr %any, align 8
  %is_object = icmp sge i32 %index, 64
  br i1 %is_object, label %drop, label %done
drop:
  %place = getelementptr i8, ptr %any, i64 8
  %object = load ptr, ptr %place, align 8
  %ignored = call i32 @TVMFFIObjectDecRef(ptr %object)
  br label %done
done:
  ret void
}
""",
    "__tilesmith_any_int": """
define internal i64 @__tilesmith_any_int(ptr %any) noinline {
  %index = load i32, ptr %any, align 8
  %place = getelementptr i8, ptr %any, i64 8
  %value = load i64, ptr %place, align 8
  switch i32 %index, label %other [ i32 1, label %plain
                                    i32 2, label %plain
                                    i32 3, label %float ]
plain:
  ret i64 %value
float:
  %number = bitcast i64 %value to double
  %whole = call i64 @llvm.fptosi.sat.i64.f64(double %number)
  ret i64 %whole
other:
  call void @__tilesmith_any_release(ptr %any)
  ret i64 0
}
""",
    "__tilesmith_any_float": """
define internal double @__tilesmith_any_float(ptr %any) noinline {
  %index = load i32, ptr %any, align 8
  %is_float = icmp eq i32 %index, 3
  br i1 %is_float, label %float, label %other
float:
  %place = getelementptr i8, ptr %any, i64 8
  %value = load double, ptr %place, align 8
  ret double %value
other:
  %whole = call i64 @__tilesmith_any_int(ptr %any)
  %number = sitofp i64 %whole to double
  ret double %number
}
""",
    "__tilesmith_make_tensor": """
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @TVMFFITensorFromDLPack(ptr, i32, i32, ptr)
define internal i32 @__tilesmith_make_tensor(ptr %tensor, ptr %any) noinline {
  %ndim_place = getelementptr i8, ptr %tensor, i64 16
  %ndim = load i32, ptr %ndim_place, align 4
  %dims = sext i32 %ndim to i64
  %row = mul i64 %dims, 8
  %rows = mul i64 %dims, 16
  %size = add i64 %rows, 64
  %managed = call ptr @malloc(i64 %size)
  %has_memory = icmp ne ptr %managed, null
  br i1 %has_memory, label %fill, label %fail
fail:
  ret i32 -1
fill:
  call void @llvm.memcpy.p0.p0.i64(ptr %managed, ptr %tensor, i64 48, i1 false)
  %context = getelementptr i8, ptr %managed, i64 48
  store ptr null, ptr %context, align 8
  %deleter = getelementptr i8, ptr %managed, i64 56
  ; not a function of this library: a callee may keep the tensor longer than the code is loaded
  store ptr @free, ptr %deleter, align 8
  %shape = getelementptr i8, ptr %managed, i64 64
  %given_place = getelementptr i8, ptr %tensor, i64 24
  %given = load ptr, ptr %given_place, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr %shape, ptr %given, i64 %row, i1 false)
  %shape_place = getelementptr i8, ptr %managed, i64 24
  store ptr %shape, ptr %shape_place, align 8
  %strides = getelementptr i8, ptr %shape, i64 %row
  %strides_place = getelementptr i8, ptr %managed, i64 32
  store ptr %strides, ptr %strides_place, align 8
  %given_strides_place = getelementptr i8, ptr %tensor, i64 32
  %given_strides = load ptr, ptr %given_strides_place, align 8
  %has_strides = icmp ne ptr %given_strides, null
  br i1 %has_strides, label %copy, label %compute
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %strides, ptr %given_strides, i64 %row, i1 false)
  br label %make
compute:
  %start = sub i64 %dims, 1
  br label %next
next:
  %axis = phi i64 [ %start, %compute ], [ %lower, %one ]
  %stride = phi i64 [ 1, %compute ], [ %grown, %one ]
  %inside = icmp sge i64 %axis, 0
  br i1 %inside, label %one, label %make
one:
  %here = getelementptr i64, ptr %strides, i64 %axis
  store i64 %stride, ptr %here, align 8
  %extent_place = getelementptr i64, ptr %shape, i64 %axis
  %extent = load i64, ptr %extent_place, align 8
  %grown = mul i64 %stride, %extent
  %lower = sub i64 %axis, 1
  br label %next
make:
  %object_place = getelementptr i8, ptr %any, i64 8
  store i64 70, ptr %any, align 8
  %status = call i32 @TVMFFITensorFromDLPack(ptr %managed, i32 0, i32 0, ptr %object_place)
  ret i32 %status
}
""",
}
"""Functions of generated code, by name; those that one calls are added with it."""

HELPER_CALLS = {
    "__tilesmith_raise": ("__tilesmith_decimal", "__tilesmith_type_name"),
    "__tilesmith_any_int": ("__tilesmith_any_release",),
    "__tilesmith_any_float": ("__tilesmith_any_int",),
}
"""Which helpers call which."""
