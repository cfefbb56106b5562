"""Defines rules of packed calls and of tensors on the stack."""

from __future__ import annotations

from tilesmith.codegen.c.dialect import c_type
from tilesmith.codegen.c.rules import handles
from tilesmith.codegen.c.values import Values
from tilesmith.codegen.c_family.expressions import text_argument
from tilesmith.codegen.c_family.pieces import ATOM, UNARY, Piece
from tilesmith.ir import Call, IntImm, PrimExpr, StringImm
from tilesmith.ir.queries import is_call
from tilesmith.runtime.dtype import DataType

_NONE_OR_POINTER = "({value} == NULL ? 0 : 4)"
_STACK_TYPES = {"shape": "int64_t", "array": "TsTensor", "tvm_ffi_any": "TsAny",
                "arg_value": "TsAny", "arg_tcode": "int32_t"}  # fmt: skip


@handles("tvm_call_packed", "tvm_call_cpacked", "tvm_call_trace_packed")
def _call_packed(emit: Values, call: Call) -> Piece:
    name = text_argument(emit, call.args[0])
    emit.exits.needs_status(f"calls the packed function '{name}'")
    arguments = call.args[1:]
    args, result = emit.out.fresh("args"), emit.out.fresh("result")
    emit.out.write(f"TsAny {args}[{max(1, len(arguments))}], {result};")
    has_tensor = False
    for number, arg in enumerate(arguments):
        has_tensor |= _store_argument(emit, f"{args}[{number}]", arg)
    is_direct = call.op.name == "tir.tvm_call_cpacked"
    _invoke(emit, name, args, str(len(arguments)), f"&{result}", is_direct, has_tensor)
    if call.op.name == "tir.tvm_call_trace_packed":
        emit.out.write(f"(void)any_as_int(&{result});")
        return emit.piece(arguments[-1])
    return _result(emit, f"&{result}", call.dtype)


def _store_argument(emit: Values, place: str, arg: PrimExpr) -> bool:
    """Write one argument; return whether it is a tensor."""
    dtype = arg.dtype
    if dtype.lanes > 1:
        raise emit.out.unsupported(
            f"a vector ('{dtype}') cannot be an argument of a packed function"
        )
    is_tensor = is_call(arg, "tir.tvm_stack_make_array")
    value, index, kind = emit.widened(arg), "1", "i"
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
    emit.out.write(f"{place}.v.{kind} = {value};")
    emit.out.write(f"{place}.type_index = {index};")
    emit.out.write(f"{place}.zero = 0;")
    return is_tensor


def _invoke(
    emit: Values, name: str, args: str, count: str, result: str, is_direct: bool, has_tensor: bool
) -> None:
    if is_direct:
        symbol = name if name.startswith("__") else "__tvm_ffi_" + name
        emit.file.declare_packed(symbol)
        emit.out.write(f"memset({result}, 0, sizeof(TsAny));")
        emit.exits.check_status(f"{symbol}(NULL, {args}, {count}, {result})")
        return
    made = emit.file.packed_call(name)
    if has_tensor:
        emit.file.uses_tensors = True
        made = made.replace("call_packed(", "call_packed_with_tensors(", 1)
    emit.exits.check_status(f"{made}{args}, {count}, {result})")


def _result(emit: Values, place: str, dtype: DataType) -> Piece:
    if dtype.is_float:
        kind = "double" if dtype.bits == 64 else "float"
        return emit.shortened(f"({kind})any_as_float({place})", dtype)
    if dtype.is_handle:
        return f"({place})->v.p", ATOM
    if dtype.is_void:
        return f"any_as_int({place})", ATOM
    return f"({c_type(dtype)})any_as_int({place})", UNARY


@handles("tvm_call_packed_lowered", "tvm_call_cpacked_lowered", "tvm_call_trace_packed_lowered")
def _call_lowered(emit: Values, call: Call) -> Piece:
    name = text_argument(emit, call.args[0])
    emit.exits.needs_status(f"calls the packed function '{name}'")
    emit.file.uses_packed = True
    stack = emit.out.fresh("stack")
    emit.out.write(f"TsAny* {stack} = (TsAny*){emit.text(call.args[1], UNARY)};")
    begin, end = emit.text(call.args[2], 14), emit.text(call.args[3], 14)
    is_direct = call.op.name == "tir.tvm_call_cpacked_lowered"
    _invoke(emit, name, f"{stack} + {begin}", f"{end} - {begin}", f"{stack} + {end}", is_direct,
            has_tensor=True)  # fmt: skip
    if call.op.name == "tir.tvm_call_trace_packed_lowered":
        emit.out.write(f"(void)any_as_int({stack} + {end});")
        return _result(emit, f"{stack} + {end} - 1", call.dtype)
    return _result(emit, f"{stack} + {end}", call.dtype)


@handles("tvm_stack_alloca")
def _stack_alloca(emit: Values, call: Call) -> Piece:
    kind, count = text_argument(emit, call.args[0]), call.args[1]
    if kind not in _STACK_TYPES or not isinstance(count, IntImm):
        raise emit.out.unsupported(f"tvm_stack_alloca of {count!r} '{kind}'")
    emit.file.uses_ffi = True
    name = emit.out.fresh("stack")
    emit.out.write(f"{_STACK_TYPES[kind]} {name}[{max(1, count.value)}];")
    return f"(void*){name}", UNARY


@handles("tvm_stack_make_shape")
def _make_shape(emit: Values, call: Call) -> Piece:
    sizes = ", ".join([f"(int64_t){emit.text(arg, UNARY)}" for arg in call.args]) or "0"
    name = emit.out.fresh("shape")
    emit.out.write(f"int64_t {name}[{max(1, len(call.args))}] = {{{sizes}}};")
    return f"(void*){name}", UNARY


@handles("tvm_stack_make_array")
def _make_array(emit: Values, call: Call) -> Piece:
    emit.file.uses_ffi = True
    data, shape, strides, ndim, element, offset = call.args
    dtype = element.dtype
    bits = 8 if dtype.is_bool else dtype.bits
    steps = "NULL" if isinstance(strides, IntImm) else emit.text(strides)
    fields = ", ".join([
        emit.text(data), f"{{{', '.join(emit.device)}}}", f"(int32_t){emit.text(ndim, UNARY)}",
        f"{{{dtype.type_code}, {bits}, {dtype.lanes}}}", f"(int64_t*){emit.text(shape, UNARY)}",
        f"(int64_t*){steps}", f"(uint64_t){emit.text(offset, UNARY)} * {dtype.nbytes}",
    ])  # fmt: skip
    name = emit.out.fresh("tensor")
    emit.out.write(f"TsTensor {name} = {{{fields}}};")
    return f"(void*)&{name}", UNARY


@handles("TVMBackendAllocWorkspace")
def _alloc_workspace(emit: Values, call: Call) -> Piece:
    return f"malloc((size_t){emit.text(call.args[2], UNARY)})", ATOM


@handles("TVMBackendFreeWorkspace")
def _free_workspace(emit: Values, call: Call) -> Piece:
    emit.out.write(f"free({emit.text(call.args[2])});")
    return "0", ATOM


@handles("lookup_param")
def _lookup_param(emit: Values, call: Call) -> Piece:
    name = text_argument(emit, call.args[0])
    emit.file.declare_data(name)
    return f"(void*){name}", UNARY


@handles("tvm_static_handle")
def _static_handle(emit: Values, call: Call) -> Piece:
    return f"(void*)&{emit.file.static_pointer()}", UNARY


@handles("tvm_check_return")
def _check_return(emit: Values, call: Call) -> Piece:
    expected, unexpected, nested = call.args
    emit.exits.needs_status("checks the result of a call")
    name = emit.out.fresh("returned")
    emit.out.write(f"const {c_type(nested.dtype)} {name} = {emit.text(nested)};")
    emit.exits.leave_if(f"{name} != {emit.text(expected, 10)}", emit.text(unexpected))
    return name, ATOM


@handles("tvm_throw_last_error")
def _throw_last_error(emit: Values, call: Call) -> Piece:
    emit.exits.needs_status("throws an error")
    emit.exits.leave_if("1", "-1")
    return "NULL", ATOM
