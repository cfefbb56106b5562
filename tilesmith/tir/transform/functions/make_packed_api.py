"""MakePackedAPI: adds wrappers with the calling convention of tvm-ffi to public functions.

    @T.prim_func                                @T.prim_func                      (kernel)
    def add(a: T.handle, b: T.handle):          def add(A: T.handle("float32"), B: ...):
        A = T.match_buffer(a, (n,))                 ...
        ...
                                                @T.prim_func                      (wrapper)
                                                def __tvm_ffi_add(self, args, num_args, result):
                                                    assert num_args == 2, "..."
                                                    ... checks, symbolic sizes, pointers ...
                                                    add(A, B, n)
                                                    return 0

The wrapper checks once per call what the kernel relies on: number and types of the arguments, and
of tensors the dtype, rank, sizes (a symbolic size is bound by the first tensor that has it),
strides, alignment where one was declared, and device. Each message names the function and the
parameter, and says what was expected and what came.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tilesmith.ir import (
    Call,
    GlobalVar,
    IntImm,
    IRModule,
    PointerType,
    PrimExpr,
    PrimType,
    Select,
    StringImm,
    Var,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.intrinsics import ret, tvm_struct_get, tvm_struct_set
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import calls, variables
from tilesmith.runtime.devices import type_name
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import (
    AssertStmt,
    AttrStmt,
    DeclBuffer,
    Evaluate,
    IfThenElse,
    LetStmt,
    Stmt,
    stmt_seq,
)
from tilesmith.tir.struct_fields import DEVICE_NAMES, DTYPE_NAMES, TYPE_MARK, StructField
from tilesmith.tir.transform.functions.kernel import (
    declared_alignment,
    kernel_function,
    kernel_parameters,
)

__all__ = [
    "PACKED_PREFIX",
    "PackedWrapperMaker",
    "make_packed_api",
    "make_unpacked_api",
    "packed_wrapper",
]

PACKED_PREFIX = "__tvm_ffi_"
C_PACKED_FUNC = 1  # of the calling conventions, as an attribute

# Type indices of tvm-ffi's values.
NONE, INT, BOOL, FLOAT, OPAQUE, DLTENSOR, TENSOR = 0, 1, 2, 3, 4, 7, 70
HOST = 1
ANY_DEVICE = "tir.any_device"
"""The attribute of functions that read only the sizes of tensors, which may be on any device."""
_SHARED_MEMORY = {2: (13,)}  # kernels of CUDA reach managed memory
OBJECT_HEADER_BYTES = 24  # what stands before the DLTensor in a tensor object

_KINDS = {"int": "an integer", "uint": "an integer", "bool": "a boolean", "float": "a number",
          "bfloat": "a number", "handle": "a pointer"}  # fmt: skip


def points_to_elements(param: Var) -> bool:
    """Return whether a parameter without a buffer is a pointer to elements, not to void."""
    pointed = getattr(param.type_annotation, "element_type", None)
    return isinstance(pointed, PrimType) and not (pointed.dtype.is_void or pointed.dtype.is_handle)


class _Wrapper:
    """Builds the body of one wrapper, outermost statements first."""

    def __init__(self, func: PrimFunc, name: str, device_type: int) -> None:
        self.func = func
        self.name = name
        self.device_type = device_type
        self.device_id: Var | None = None
        self.first = ""  # the argument that has told the number of the device
        self.frames: list[Callable[[Stmt], Stmt]] = []
        self.bound: set[Var] = set()
        self.renamed: dict[Var, PrimExpr] = {}
        self.later: list[tuple[PrimExpr, PrimExpr, Callable[[], PrimExpr]]] = []
        self.args = Var("args", PointerType(PrimType("handle")))

    # -- pieces

    def let(self, var: Var, value: PrimExpr) -> Var:
        """Bind a variable in all later statements."""
        self.frames.append(lambda body: LetStmt(var, value, body))
        self.bound.add(var)
        return var

    def check(self, condition: PrimExpr, message: PrimExpr) -> None:
        """Assert a condition before all later statements."""
        if not (isinstance(condition, IntImm) and condition.value):
            self.frames.append(lambda body: AssertStmt(condition, message, body))

    def check_if(self, when: PrimExpr, conditions: list[tuple[PrimExpr, PrimExpr]]) -> None:
        """Assert conditions, evaluated only where ``when`` holds."""
        inner: Stmt = Evaluate(const(0, "int32"))
        for condition, message in reversed(conditions):
            inner = AssertStmt(condition, message, inner)
        if conditions:
            self.frames.append(lambda body: stmt_seq(IfThenElse(when, inner), body))

    def message(self, kind: str, *parts: Any) -> PrimExpr:
        """Return the text of an error; integers are formatted when it is raised."""
        pieces = [f"{kind}: {self.name}: ", *parts]
        joined: list[PrimExpr] = []
        text = ""
        for piece in pieces:
            if isinstance(piece, PrimExpr) and not isinstance(piece, IntImm):
                joined += [StringImm(text), piece] if text else [piece]
                text = ""
            else:
                text += str(piece.value if isinstance(piece, IntImm) else piece)
        if not joined:
            return StringImm(text)
        return Call("handle", "tir.tvm_tuple", (*joined, *([StringImm(text)] if text else [])))

    def field(self, handle: PrimExpr, index: int, field: StructField, dtype: str) -> PrimExpr:
        return tvm_struct_get(handle, index, int(field), dtype)

    def array(self, hint: str, pointer: PrimExpr, length: int) -> Buffer:
        """Return an array of int64 behind a pointer."""
        var = self.let(Var(hint, PointerType(PrimType("int64"))), pointer)
        buffer = decl_buffer((length,), "int64", hint, data=var)
        self.frames.append(lambda body: DeclBuffer(buffer, body))
        return buffer

    # -- arguments

    def arguments(self, count: PrimExpr) -> list[PrimExpr]:
        """Check and unpack all arguments; returns the arguments of the kernel."""
        params = self.func.params
        expected = f"expected {len(params)} argument{'' if len(params) == 1 else 's'}, got "
        self.check(
            ops.equal(count, len(params)),
            self.message("TypeMismatchError", expected, ops.cast("int64", count)),
        )
        tensors: list[tuple[int, Var, Buffer, Var]] = []
        for number, param in enumerate(params):
            buffer = self.func.buffer_map.get(param)
            kind = self.let(
                Var(f"{param.name}_type", "int32"),
                self.field(self.args, number, StructField.ANY_TYPE_INDEX, "int32"),
            )
            if buffer is None:
                self.scalar(number, param, kind)
            else:
                tensors.append((number, param, buffer, self.tensor(number, buffer, kind)))
        for number, _, buffer, tensor in tensors:
            self.tensor_fields(number, buffer, tensor)
        for declared, given, message in self.later:
            self.compare(declared, given, message)
        for number, _, buffer, tensor in tensors:
            self.data_pointer(number, buffer, tensor)
        return self.kernel_arguments()

    def kernel_arguments(self) -> list[PrimExpr]:
        found = []
        for var in kernel_parameters(self.func):
            if var not in self.bound and var not in self.renamed:
                raise UnsupportedError(
                    f"function '{self.name}' uses '{var.name}', but no argument provides its value",
                    span=self.func.span,
                    notes=(
                        "make it a parameter, or use it alone as a size of a parameter's buffer",
                    ),
                )
            found.append(self.renamed.get(var, var))
        return found

    def where(self, number: int, name: str) -> str:
        return f"argument {number + 1} ('{name}')"

    def scalar(self, number: int, param: Var, kind: Var) -> None:
        """Unpack a parameter that is a number or a pointer."""
        dtype = param.dtype

        def value(as_dtype: str) -> PrimExpr:
            return self.field(self.args, number, StructField.ANY_UNION_VALUE, as_dtype)

        allowed: tuple[int, ...]
        if dtype.is_handle:
            allowed = (NONE, INT, OPAQUE, DLTENSOR, TENSOR)
            pointer = value("handle")
            moved = Call("handle", "tir.handle_add_byte_offset", (pointer, OBJECT_HEADER_BYTES))
            unpacked: PrimExpr = Select(ops.equal(kind, TENSOR), moved, pointer)
            if points_to_elements(param):
                is_tensor = ops.any_of(ops.equal(kind, TENSOR), ops.equal(kind, DLTENSOR))
                arguments = (is_tensor, self.elements_of(unpacked), pointer)
                unpacked = Call("handle", "tir.if_then_else", arguments)
        elif dtype.is_float:
            allowed = (INT, BOOL, FLOAT)
            number_value = Select(
                ops.equal(kind, FLOAT), value("float64"), ops.cast("float64", value("int64"))
            )
            unpacked = ops.cast(dtype, number_value)
        else:
            allowed = (INT, BOOL)
            unpacked = ops.cast(dtype, value("int64"))
        message = self.message(
            "TypeMismatchError", f"{self.where(number, param.name)} must be {_KINDS[dtype.code]} "
            f"({dtype}), got {TYPE_MARK}", ops.cast("int64", kind),
        )  # fmt: skip
        self.check(ops.any_of(*[ops.equal(kind, index) for index in allowed]), message)
        self.let(param, unpacked)

    def elements_of(self, tensor: PrimExpr) -> PrimExpr:
        """Return the pointer to the first element of a DLTensor."""
        data = self.field(tensor, 0, StructField.ARRAY_DATA, "handle")
        offset = self.field(tensor, 0, StructField.ARRAY_BYTE_OFFSET, "int64")
        return Call("handle", "tir.handle_add_byte_offset", (data, offset))

    def tensor(self, number: int, buffer: Buffer, kind: Var) -> Var:
        """Return the DLTensor of an argument."""
        message = self.message(
            "TypeMismatchError",
            f"{self.where(number, buffer.name)} must be a tensor, got {TYPE_MARK}",
            ops.cast("int64", kind),
        )  # fmt: skip
        self.check(ops.logical_or(ops.equal(kind, TENSOR), ops.equal(kind, DLTENSOR)), message)
        value = self.field(self.args, number, StructField.ANY_UNION_VALUE, "handle")
        inside = Call("handle", "tir.handle_add_byte_offset", (value, OBJECT_HEADER_BYTES))
        handle = Var(f"{buffer.name}_tensor", "handle")
        return self.let(handle, Select(ops.equal(kind, TENSOR), inside, value))

    def tensor_fields(self, number: int, buffer: Buffer, tensor: Var) -> None:
        """Check rank, dtype, sizes, strides and device of a tensor."""
        where, rank = self.where(number, buffer.name), len(buffer.shape)

        def get(field: StructField, dtype: str) -> PrimExpr:
            return self.field(tensor, 0, field, dtype)

        ndim = get(StructField.ARRAY_NDIM, "int32")
        self.check(
            ops.equal(ndim, rank),
            self.message(
                "ShapeError",
                f"{where} must have {rank} dimension{'' if rank == 1 else 's'}, got ",
                ops.cast("int64", ndim),
            ),
        )
        self.dtype(where, buffer, get)
        if rank:
            shape = self.array(f"{buffer.name}_shape", get(StructField.ARRAY_SHAPE, "handle"), rank)
            for axis, size in enumerate(buffer.shape):
                given = BufferLoad(shape, (axis,))
                self.unify(size, given, partial(self.wrong_size, where, axis, size, given))
            self.strides(where, buffer, shape, get(StructField.ARRAY_STRIDES, "handle"))
        self.device(where, tensor, get)

    def device(self, where: str, tensor: Var, get: Callable[..., PrimExpr]) -> None:
        """Check the device of a tensor: its type and, besides the host, its number, which is that
        of the first tensor.
        """
        if self.func.attrs.get(ANY_DEVICE):
            return
        device = get(StructField.ARRAY_DEVICE_TYPE, "int32")
        name = type_name(self.device_type)
        if self.device_type == HOST:
            expected = "must be on the host (cpu)"
        else:
            expected = f"must be on {name} (tilesmith.nd.array(x, tilesmith.{name}(0)))"
        given = ops.cast("int64", device) + const(DEVICE_NAMES, "int64")
        allowed = (self.device_type, *_SHARED_MEMORY.get(self.device_type, ()))
        self.check(
            ops.any_of(*[ops.equal(device, number) for number in allowed]),
            self.message("TargetError", f"{where} {expected}, got {TYPE_MARK}", given),
        )
        if self.device_type == HOST:
            return
        number = get(StructField.ARRAY_DEVICE_ID, "int32")
        if self.device_id is None:
            self.device_id, self.first = self.let(Var("device_id", "int32"), number), where
            return
        message = self.message(
            "TargetError", f"{where} is on {name}(", ops.cast("int64", number),
            f"), and {self.first} on {name}(", ops.cast("int64", self.device_id),
            "): all must be on one device",
        )  # fmt: skip
        self.check(ops.equal(number, self.device_id), message)

    def dtype(self, where: str, buffer: Buffer, get: Callable[..., PrimExpr]) -> None:
        dtype = buffer.dtype
        code = get(StructField.ARRAY_TYPE_CODE, "uint8")
        bits = get(StructField.ARRAY_TYPE_BITS, "uint8")
        lanes = get(StructField.ARRAY_TYPE_LANES, "uint16")
        matches = _dtype_matches(dtype, code, bits, lanes)
        given = ops.cast("int64", code) * 256 + ops.cast("int64", bits)
        single = ops.equal(lanes, const(1, "uint16"))
        message = self.message(
            "TypeMismatchError", f"{where} must be of dtype {dtype}, got {TYPE_MARK}",
            Select(single, given, const(0, "int64")) + const(DTYPE_NAMES, "int64"),
        )  # fmt: skip
        self.check(matches, message)

    def wrong_size(self, where: str, axis: int, size: PrimExpr, given: PrimExpr) -> PrimExpr:
        what = f"{where} must have size "
        return self.message(
            "ShapeError", what, self.shown(size), f" along axis {axis}, got ", given
        )

    def wrong_stride(self, where: str, axis: int, stride: PrimExpr, given: PrimExpr) -> PrimExpr:
        what = f"{where} must have stride "
        return self.message(
            "ShapeError", what, self.shown(stride), f" along axis {axis}, got ", given
        )

    def shown(self, size: PrimExpr) -> PrimExpr | str:
        """Return a size for a message: its number, known once symbols are bound."""
        return size if isinstance(size, IntImm) else ops.cast("int64", size)

    def unify(self, declared: PrimExpr, given: PrimExpr, message: Callable[[], PrimExpr]) -> None:
        """Bind a variable that is not bound yet to the given value; assert that any other
        expression equals it."""
        if isinstance(declared, Var) and declared not in self.bound:
            self.let(declared, ops.cast(declared.dtype, given))
        elif isinstance(declared, (IntImm, Var)):
            self.compare(declared, given, message)
        else:
            self.later.append((declared, given, message))

    def compare(self, declared: PrimExpr, given: PrimExpr, message: Callable[[], PrimExpr]) -> None:
        unknown = {var for var in variables(declared) if var not in self.bound}
        if unknown:
            return  # nothing binds this symbol: the kernel cannot use it either
        self.check(ops.equal(ops.cast("int64", declared), given), message())

    def strides(self, where: str, buffer: Buffer, shape: Buffer, pointer: PrimExpr) -> None:
        """Check the strides: as declared, else compact. A missing array of strides means compact,
        and the stride of a dimension of one element does not matter."""
        rank = len(buffer.shape)
        strides = self.array(f"{buffer.name}_strides", pointer, rank)
        missing = Call("bool", "tir.isnullptr", (strides.data,))
        compact: list[PrimExpr] = [const(1, "int64")]
        for axis in range(rank - 1, 0, -1):
            compact.append(compact[-1] * BufferLoad(shape, (axis,)))
        compact.reverse()
        if not buffer.strides:
            conditions = []
            for axis, size in enumerate(buffer.shape):
                if isinstance(size, IntImm) and size.value == 1:
                    continue
                given = BufferLoad(strides, (axis,))
                fits = ops.equal(given, self.static(buffer, axis, compact[axis]))
                if not isinstance(size, IntImm):
                    fits = ops.logical_or(fits, BufferLoad(shape, (axis,)) <= 1)
                message = self.message(
                    "ShapeError", f"{where} must be compact (row-major), got stride ", given,
                    f" along axis {axis}",
                )  # fmt: skip
                conditions.append((fits, message))
            if any(isinstance(size, IntImm) and size.value == 0 for size in buffer.shape):
                return  # without elements all strides are right
            symbolic = [a for a, size in enumerate(buffer.shape) if not isinstance(size, IntImm)]
            present = [ops.logical_not(missing)]
            present += [BufferLoad(shape, (axis,)) > 0 for axis in symbolic]
            self.check_if(ops.all_of(*present), conditions)
            return
        for axis, declared in enumerate(buffer.strides):
            arguments = (missing, compact[axis], BufferLoad(strides, (axis,)))
            stride = Call("int64", "tir.if_then_else", arguments)
            self.unify(declared, stride, partial(self.wrong_stride, where, axis, declared, stride))

    def static(self, buffer: Buffer, axis: int, computed: PrimExpr) -> PrimExpr:
        """Return the compact stride of an axis, a constant where the sizes are."""
        stride = 1
        for size in buffer.shape[axis + 1 :]:
            if not isinstance(size, IntImm):
                return computed
            stride *= size.value
        return const(stride, "int64")

    def data_pointer(self, number: int, buffer: Buffer, tensor: Var) -> None:
        """Bind the pointer to the first element, and the offset where the buffer declares one."""
        where = self.where(number, buffer.name)
        data = self.field(tensor, 0, StructField.ARRAY_DATA, "handle")
        offset = self.field(tensor, 0, StructField.ARRAY_BYTE_OFFSET, "int64")
        declared = buffer.elem_offset
        if isinstance(declared, IntImm) and declared.value == 0:
            data = self.elements_of(tensor)
        else:
            size = max(1, buffer.dtype.nbytes)
            elements = ops.floordiv(offset, const(size, "int64"))
            message = self.message(
                "ShapeError", f"{where} has an offset that does not fit: ", offset
            )
            if isinstance(declared, Var) and declared not in self.bound:
                self.let(declared, ops.cast(declared.dtype, elements))
            else:
                self.check(ops.equal(ops.cast("int64", declared), elements), message)
            if buffer.offset_factor > 1:
                rest = ops.floormod(elements, const(buffer.offset_factor, "int64"))
                self.check(ops.equal(rest, 0), message)
        if buffer.data in self.bound:  # two parameters share one buffer
            return
        self.let(buffer.data, data)
        alignment = declared_alignment(buffer)
        if alignment:
            address = Call("uint64", "tir.reinterpret", (buffer.data,))
            rest = ops.truncmod(address, const(alignment, "uint64"))
            self.check(
                ops.equal(rest, const(0, "uint64")),
                self.message("ShapeError", f"{where} must be aligned to {alignment} bytes, got an "
                             "address with remainder ", ops.cast("int64", rest)),
            )  # fmt: skip

    def build(self, innermost: Stmt) -> Stmt:
        body = innermost
        for frame in reversed(self.frames):
            body = frame(body)
        return body


def _dtype_matches(dtype: DataType, code: PrimExpr, bits: PrimExpr, lanes: PrimExpr) -> PrimExpr:
    """Return a check that the three fields of a DLPack dtype equal ``dtype``; a boolean may be
    passed as a byte.
    """
    if dtype.is_bool:
        wanted = {(6, 8), (1, 1), (1, 8), (0, 8), (6, 1)}
    elif dtype.is_handle:
        wanted = {(3, 64), (1, 64), (0, 64)}
    else:
        wanted = {(dtype.type_code, dtype.bits)}
    same = ops.any_of(*[
        ops.logical_and(ops.equal(code, const(c, "uint8")), ops.equal(bits, const(b, "uint8")))
        for c, b in sorted(wanted)
    ])  # fmt: skip
    return ops.logical_and(same, ops.equal(lanes, const(dtype.lanes, "uint16")))


def packed_wrapper(func: PrimFunc, variable: GlobalVar, device_type: int = 1) -> PrimFunc:
    """Return the function ``__tvm_ffi_NAME`` that checks packed arguments and calls the kernel.

    ``variable`` names the kernel in the module.
    """
    name = str(func.attrs["global_symbol"])
    wrapper = _Wrapper(func, name, device_type)
    self_handle, count = Var("self_handle", "handle"), Var("num_args", "int32")
    result = Var("result", PointerType(PrimType("handle")))
    arguments = wrapper.arguments(count)
    call = Call(_returned_dtype(func), variable, tuple(arguments))
    innermost = stmt_seq(_returning(call, result), ret(const(0, "int32")))
    if device_type != HOST:
        number = const(0, "int32") if wrapper.device_id is None else wrapper.device_id
        innermost = AttrStmt(StringImm("default"), "device_id", number, innermost)
        kind = const(device_type, "int32")
        innermost = AttrStmt(StringImm("default"), "device_type", kind, innermost)
    attrs: dict[str, Any] = {
        "global_symbol": PACKED_PREFIX + name,
        "calling_conv": C_PACKED_FUNC,
        "tir.noalias": False,
    }
    for key in ("target", "tir.is_entry_func"):
        if key in func.attrs:
            attrs[key] = func.attrs[key]
    params = (self_handle, wrapper.args, count, result)
    return PrimFunc(params, wrapper.build(innermost), PrimType("int32"), None, attrs, func.span)


def _returned_dtype(func: PrimFunc) -> DataType:
    """Return the dtype that a function returns, void for none; where it is not declared, that of
    the value which the body returns.
    """
    if isinstance(func.ret_type, PrimType) and not func.ret_type.dtype.is_void:
        return func.ret_type.dtype
    if isinstance(func.ret_type, PointerType):
        return DataType("handle")
    values = [call.args[0].dtype for call in calls(func.body, "tir.ret") if call.args]
    return values[0] if values else DataType("void")


def _returning(call: Call, result: Var) -> Stmt:
    """Return a call of the kernel that stores its result, if it has one, in the caller's result."""
    dtype = call.dtype
    if dtype.is_void:
        return Evaluate(call)
    index, wide = INT, "int64"
    if dtype.is_float:
        index, wide = FLOAT, "float64"
    elif dtype.is_bool:
        index = BOOL
    elif dtype.is_handle:
        index, wide = OPAQUE, "handle"
    value = Var("returned", dtype)
    stored = value if wide == "handle" else ops.cast(wide, value)
    return LetStmt(value, call, stmt_seq(
        tvm_struct_set(result, 0, int(StructField.ANY_TYPE_INDEX), const(index, "int32")),
        tvm_struct_set(result, 0, int(StructField.ANY_ZERO_PADDING), const(0, "int32")),
        tvm_struct_set(result, 0, int(StructField.ANY_UNION_VALUE), stored),
    ))  # fmt: skip


def make_packed_api(mod: IRModule) -> IRModule:
    """Return ``mod`` with a wrapper beside each public PrimFunc, and kernels without buffer maps.

    A function is public if it has the attribute ``global_symbol``; functions that have the packed
    calling convention already (attribute ``calling_conv``) are left alone.
    """
    for variable, func in list(mod.functions.items()):
        if not isinstance(func, PrimFunc) or func.attrs.get("calling_conv") == C_PACKED_FUNC:
            continue
        symbol = func.attrs.get("global_symbol")
        if symbol is not None and not str(symbol).startswith(PACKED_PREFIX):
            target = func.attrs.get("target")
            device_type = target.get_target_device_type() if target is not None else 1
            mod[PACKED_PREFIX + str(symbol)] = packed_wrapper(func, variable, device_type)
        mod[variable] = kernel_function(func)
    return mod


@compiler_pass("tir.MakePackedAPI")
class PackedWrapperMaker:
    """Adds wrappers to public functions.

    All parameters are packed: ``num_unpacked_params`` is -1 or 0, other numbers raise
    UnsupportedError.
    """

    def __init__(self, num_unpacked_params: int = -1) -> None:
        if num_unpacked_params > 0:
            raise UnsupportedError(
                f"{num_unpacked_params} parameters cannot be passed beside the packed ones: "
                "tvm-ffi's calling convention packs them all",
                notes=("MakeUnpackedAPI makes functions of plain pointers and numbers",),
            )

    def transform(self, mod: IRModule) -> IRModule:
        """Adds the wrappers to a module."""
        return make_packed_api(mod)


@compiler_pass("tir.MakeUnpackedAPI")
def make_unpacked_api(func: PrimFunc) -> PrimFunc:
    """Turns all functions into kernels without wrappers, for callers in C."""
    return kernel_function(func)
