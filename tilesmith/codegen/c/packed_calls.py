"""Packed calls, tensors on the stack and what belongs to them, as C99 text."""

from __future__ import annotations

from typing import Any

from tilesmith.codegen.c.expressions import ATOM, UNARY, Piece
from tilesmith.codegen.c.helpers import c_type
from tilesmith.codegen.c.intrinsics import handles, text_argument
from tilesmith.ir import Call, IntImm, PrimExpr, StringImm
from tilesmith.ir.queries import is_call
from tilesmith.runtime.dtype import DataType

_NONE_OR_POINTER = "({value} == NULL ? 0 : 4)"
_STACK_TYPES = {"shape": "int64_t", "array": "TsTensor", "tvm_ffi_any": "TsAny",
                "arg_value": "TsAny", "arg_tcode": "int32_t"}  # fmt: skip


@handles("tvm_call_packed", "tvm_call_cpacked", "tvm_call_trace_packed")
def _call_packed(write: Any, call: Call) -> Piece:
    name = text_argument(write, call.args[0])
    write.needs_status(f"calls the packed function '{name}'")
    arguments = call.args[1:]
    args, result = write.fresh("args"), write.fresh("result")
    write.write(f"TsAny {args}[{max(1, len(arguments))}], {result};")
    has_tensor = False
    for number, arg in enumerate(arguments):
        has_tensor |= _store_argument(write, f"{args}[{number}]", arg)
    is_direct = call.op.name == "tir.tvm_call_cpacked"
    _invoke(write, name, args, str(len(arguments)), f"&{result}", is_direct, has_tensor)
    if call.op.name == "tir.tvm_call_trace_packed":
        write.write(f"(void)any_as_int(&{result});")
        return write.visit(arguments[-1])
    return _result(write, f"&{result}", call.dtype)


def _store_argument(write: Any, place: str, arg: PrimExpr) -> bool:
    """Write one argument; whether it is a tensor."""
    dtype = arg.dtype
    if dtype.lanes > 1:
        raise write.unsupported(f"a vector ('{dtype}') cannot be an argument of a packed function")
    is_tensor = is_call(arg, "tir.tvm_stack_make_array")
    value, index, kind = write.widened(arg), "1", "i"
    if is_tensor:
        index, kind = "7", "p"
    elif isinstance(arg, StringImm):
        index, kind = "8", "p"
    elif dtype.is_handle:
        kind = "p"
        index = _NONE_OR_POINTER.format(value=f"{place}.v.p")
    elif dtype.is_float:
        index, kind = "3", "f"
    elif dtype.is_bool:
        index = "2"
    write.write(f"{place}.v.{kind} = {value};")
    write.write(f"{place}.type_index = {index};")
    write.write(f"{place}.zero = 0;")
    return is_tensor


def _invoke(
    write: Any, name: str, args: str, count: str, result: str, is_direct: bool, has_tensor: bool
) -> None:
    if is_direct:
        symbol = name if name.startswith("__") else "__tvm_ffi_" + name
        write.module.declare_packed(symbol)
        write.write(f"memset({result}, 0, sizeof(TsAny));")
        write.check_status(f"{symbol}(NULL, {args}, {count}, {result})")
        return
    made = write.module.packed_call(name)
    if has_tensor:
        write.module.uses_tensors = True
        made = made.replace("call_packed(", "call_packed_with_tensors(", 1)
    write.check_status(f"{made}{args}, {count}, {result})")


def _result(write: Any, place: str, dtype: DataType) -> Piece:
    if dtype.is_float:
        kind = "double" if dtype.bits == 64 else "float"
        return write.shortened(f"({kind})any_as_float({place})", dtype)
    if dtype.is_handle:
        return f"({place})->v.p", ATOM
    if dtype.is_void:
        return f"any_as_int({place})", ATOM
    return f"({c_type(dtype)})any_as_int({place})", UNARY


@handles("tvm_call_packed_lowered", "tvm_call_cpacked_lowered", "tvm_call_trace_packed_lowered")
def _call_lowered(write: Any, call: Call) -> Piece:
    name = text_argument(write, call.args[0])
    write.needs_status(f"calls the packed function '{name}'")
    write.module.uses_packed = True
    stack = write.fresh("stack")
    write.write(f"TsAny* {stack} = (TsAny*){write.text(call.args[1], UNARY)};")
    begin, end = write.text(call.args[2], 14), write.text(call.args[3], 14)
    is_direct = call.op.name == "tir.tvm_call_cpacked_lowered"
    _invoke(write, name, f"{stack} + {begin}", f"{end} - {begin}", f"{stack} + {end}", is_direct,
            has_tensor=True)  # fmt: skip
    if call.op.name == "tir.tvm_call_trace_packed_lowered":
        write.write(f"(void)any_as_int({stack} + {end});")
        return _result(write, f"{stack} + {end} - 1", call.dtype)
    return _result(write, f"{stack} + {end}", call.dtype)


@handles("tvm_stack_alloca")
def _stack_alloca(write: Any, call: Call) -> Piece:
    kind, count = text_argument(write, call.args[0]), call.args[1]
    if kind not in _STACK_TYPES or not isinstance(count, IntImm):
        raise write.unsupported(f"tvm_stack_alloca of {count!r} '{kind}'")
    write.module.uses_ffi = True
    name = write.fresh("stack")
    write.write(f"{_STACK_TYPES[kind]} {name}[{max(1, count.value)}];")
    return f"(void*){name}", UNARY


@handles("tvm_stack_make_shape")
def _make_shape(write: Any, call: Call) -> Piece:
    sizes = ", ".join([f"(int64_t){write.text(arg, UNARY)}" for arg in call.args]) or "0"
    name = write.fresh("shape")
    write.write(f"int64_t {name}[{max(1, len(call.args))}] = {{{sizes}}};")
    return f"(void*){name}", UNARY


@handles("tvm_stack_make_array")
def _make_array(write: Any, call: Call) -> Piece:
    write.module.uses_ffi = True
    data, shape, strides, ndim, element, offset = call.args
    dtype = element.dtype
    bits = 8 if dtype.is_bool else dtype.bits
    steps = "NULL" if isinstance(strides, IntImm) else write.text(strides)
    fields = ", ".join([
        write.text(data), "{1, 0}", f"(int32_t){write.text(ndim, UNARY)}",
        f"{{{dtype.type_code}, {bits}, {dtype.lanes}}}", f"(int64_t*){write.text(shape, UNARY)}",
        f"(int64_t*){steps}", f"(uint64_t){write.text(offset, UNARY)} * {dtype.nbytes}",
    ])  # fmt: skip
    name = write.fresh("tensor")
    write.write(f"TsTensor {name} = {{{fields}}};")
    return f"(void*)&{name}", UNARY


@handles("TVMBackendAllocWorkspace")
def _alloc_workspace(write: Any, call: Call) -> Piece:
    return f"malloc((size_t){write.text(call.args[2], UNARY)})", ATOM


@handles("TVMBackendFreeWorkspace")
def _free_workspace(write: Any, call: Call) -> Piece:
    write.write(f"free({write.text(call.args[2])});")
    return "0", ATOM


@handles("lookup_param")
def _lookup_param(write: Any, call: Call) -> Piece:
    name = text_argument(write, call.args[0])
    write.module.declare_data(name)
    return f"(void*){name}", UNARY


@handles("tvm_static_handle")
def _static_handle(write: Any, call: Call) -> Piece:
    return f"(void*)&{write.module.static_pointer()}", UNARY


@handles("tvm_check_return")
def _check_return(write: Any, call: Call) -> Piece:
    expected, unexpected, nested = call.args
    write.needs_status("checks the result of a call")
    name = write.fresh("returned")
    write.write(f"const {c_type(nested.dtype)} {name} = {write.text(nested)};")
    write.leave_if(f"{name} != {write.text(expected, 10)}", write.text(unexpected))
    return name, ATOM


@handles("tvm_throw_last_error")
def _throw_last_error(write: Any, call: Call) -> Piece:
    write.needs_status("throws an error")
    write.leave_if("1", "-1")
    return "NULL", ATOM


WITH_TENSORS = """
typedef struct { TsTensor tensor; void* context; void (*deleter)(void*); } TsManaged;
extern int TVMFFITensorFromDLPack(void* managed, int32_t alignment, int32_t contiguous, void** out);
/* A counted tensor over the memory of one on the stack: a callee may keep it. */
static int own_tensor(const TsTensor* tensor, TsAny* any) {
  const int32_t rank = tensor->ndim;
  TsManaged* made = (TsManaged*)malloc(sizeof(TsManaged) + (size_t)rank * 2 * sizeof(int64_t));
  int64_t stride = 1;
  if (made == NULL) return -1;
  made->tensor = *tensor;
  made->context = NULL;
  made->deleter = free;
  made->tensor.shape = (int64_t*)(made + 1);
  made->tensor.strides = made->tensor.shape + rank;
  for (int32_t axis = rank - 1; axis >= 0; --axis) {
    made->tensor.shape[axis] = tensor->shape[axis];
    made->tensor.strides[axis] = tensor->strides ? tensor->strides[axis] : stride;
    stride *= tensor->shape[axis];
  }
  any->type_index = 70;
  any->zero = 0;
  return TVMFFITensorFromDLPack(made, 0, 0, &any->v.p);
}
static int call_packed_with_tensors(
    void** slot, const char* name, TsAny* args, int32_t count, TsAny* result) {
  TsAny own[count > 0 ? count : 1];
  int32_t made = 0;
  int status = 0;
  for (; made < count; ++made) {
    own[made] = args[made];
    if (args[made].type_index != 7) continue;
    status = own_tensor((const TsTensor*)args[made].v.p, &own[made]);
    if (status != 0) break;
  }
  if (status == 0) status = call_packed(slot, name, own, count, result);
  while (made-- > 0) {
    if (args[made].type_index == 7) TVMFFIObjectDecRef(own[made].v.p);
  }
  return status;
}
"""
