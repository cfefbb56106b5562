"""LowerTVMBuiltin: passes the arguments of packed calls through memory on the stack.

    T.call_packed("f", n, A)            stack = T.tvm_stack_alloca("tvm_ffi_any", 3)
                                        T.tvm_struct_set(stack, 0, 13, 1)      # an integer
                                        T.tvm_struct_set(stack, 0, 15, T.Cast("int64", n))
                                        ...
                                        T.call_packed_lowered("f", stack, 0, 2)

The words of an argument are those of tvm-ffi's ``TVMFFIAny``; the result takes the place behind
the arguments. Shapes and tensors that are made on the stack become plain stores. Each body that a
thread runs by itself (the function, a parallel loop) has stacks of its own, as large as its
largest call needs. Allocations of a function whose target is another device than the host's, or
that stand under the attributes ``device_id`` and ``device_type``, ask the runtime for a workspace
when they are larger than a stack takes.

Our CPU back ends take packed calls and allocations as they are: they do the same while generating
code. The pass is for those who look at, or transform, the lowered calls.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import (
    Call,
    IntImm,
    PointerType,
    PrimExpr,
    PrimType,
    Rewriter,
    StringImm,
    Var,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.intrinsics import tvm_struct_get, tvm_struct_set
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import called_name, is_call
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer, decl_buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    LetStmt,
    Stmt,
    stmt_seq,
)
from tilesmith.tir.struct_fields import StructField

__all__ = ["lower_tvm_builtin"]

_LOWERED = {
    "tir.tvm_call_packed": "tir.tvm_call_packed_lowered",
    "tir.tvm_call_cpacked": "tir.tvm_call_cpacked_lowered",
    "tir.tvm_call_trace_packed": "tir.tvm_call_trace_packed_lowered",
}
NONE, INTEGER, BOOLEAN, FLOAT, POINTER, TENSOR, TEXT = 0, 1, 2, 3, 4, 7, 8
LARGEST_ON_STACK = 1024
"""Bytes; larger allocations of devices come from the runtime."""


class _Stacks:
    """The stacks of one body, and the most slots that a call in it needs."""

    def __init__(self) -> None:
        self.values = Var("stack_ffi_any", PointerType(PrimType("handle")))
        self.arrays = Var("stack_array", PointerType(PrimType("handle")))
        self.shape_pointer = Var("stack_shape", PointerType(PrimType("int64")))
        self.shapes: Buffer | None = None
        self.most = {"values": 0, "arrays": 0, "shapes": 0}
        self.used = {"values": 0, "arrays": 0, "shapes": 0}

    def take(self, kind: str, count: int) -> int:
        """Return the first of ``count`` new slots."""
        start = self.used[kind]
        self.used[kind] += count
        self.most[kind] = max(self.most[kind], self.used[kind])
        return start

    def shape_buffer(self) -> Buffer:
        """Return the buffer for the numbers of all shapes; its size is known at the end."""
        if self.shapes is None:
            self.shapes = decl_buffer((1,), "int64", "stack_shape", data=self.shape_pointer)
        return self.shapes


class _BuiltinLowerer(Rewriter):
    def __init__(self, device_type: int) -> None:
        self.stacks = _Stacks()
        self.before: list[Stmt] = []  # what has to run before the present statement
        self.device_type: PrimExpr = const(device_type, "int32")
        self.device_id: PrimExpr = const(0, "int32")

    # -- bodies

    def body(self, stmt: Stmt) -> Stmt:
        """Return a body with stacks of its own."""
        outer, self.stacks = self.stacks, _Stacks()
        new = self.statement(stmt)
        stacks, self.stacks = self.stacks, outer
        most = stacks.most
        if most["shapes"]:
            buffer = stacks.shape_buffer()
            sized = buffer.with_fields(shape=(const(most["shapes"], "int32"),))
            new = substitute(new, {}, buffers={buffer: sized})
            new = DeclBuffer(sized, new)
            new = LetStmt(stacks.shape_pointer, _alloca("shape", most["shapes"]), new)
        if most["arrays"]:
            new = LetStmt(stacks.arrays, _alloca("array", most["arrays"]), new)
        if most["values"]:
            new = LetStmt(stacks.values, _alloca("tvm_ffi_any", most["values"]), new)
        return new

    def statement(self, stmt: Stmt) -> Stmt:
        """Return a statement after the stores that its expressions need."""
        outer, self.before = self.before, []
        used = dict(self.stacks.used)
        new = super().visit(stmt)
        before, self.before = self.before, outer
        self.stacks.used = used
        return stmt_seq(*before, new) if before else new

    def visit(self, node: Any) -> Any:
        return self.statement(node) if isinstance(node, Stmt) else super().visit(node)

    def visit_For(self, loop: For) -> Stmt:
        low, extent = self.visit(loop.min), self.visit(loop.extent)
        parallel = loop.kind is ForKind.PARALLEL
        body = self.body(loop.body) if parallel else self.visit(loop.body)
        if body is loop.body and low is loop.min and extent is loop.extent:
            return loop
        return loop.with_fields(min=low, extent=extent, body=body)

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        if attribute.attr_key not in ("device_id", "device_type"):
            return self.children(attribute)
        outer = self.device_type, self.device_id
        if attribute.attr_key == "device_id":
            self.device_id = attribute.value
        else:
            self.device_type = attribute.value
        body = self.visit(attribute.body)
        self.device_type, self.device_id = outer
        return body

    # -- allocations

    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        new = self.children(allocation)
        if ops.is_const(self.device_type, 1):
            return new  # memory of the host: back ends choose between stack and heap
        size: PrimExpr = const(allocation.dtype.nbytes, "int64")
        for extent in new.extents:
            size = size * ops.cast("int64", extent)
        if isinstance(size, IntImm) and size.value <= LARGEST_ON_STACK:
            return new
        dtype = allocation.dtype.element
        arguments = (self.device_type, self.device_id, ops.cast("uint64", size),
                     const(dtype.type_code, "int32"), const(dtype.bits, "int32"))  # fmt: skip
        memory = Call("handle", "tir.TVMBackendAllocWorkspace", arguments)
        release = (self.device_type, self.device_id, allocation.buffer_var)
        free = Call("int32", "tir.TVMBackendFreeWorkspace", release)
        body = stmt_seq(new.body, Evaluate(free))
        return LetStmt(allocation.buffer_var, memory, body, allocation.span)

    # -- calls

    def visit_Call(self, call: Call) -> PrimExpr:
        name = called_name(call)
        if name in _LOWERED:
            return self.packed(call, _LOWERED[name])
        if name == "tir.tvm_stack_make_shape":
            return self.shape(call)
        if name == "tir.tvm_stack_make_array":
            return self.array(call)
        if name == "tir.if_then_else" and _has_packed_call(call):
            raise UnsupportedError(
                "a packed call inside of if_then_else cannot be lowered: its arguments would be "
                "stored whether it is wanted or not",
                notes=("write an if statement",),
            )
        return self.children(call)

    def packed(self, call: Call, lowered: str) -> PrimExpr:
        arguments = [self.visit(argument) for argument in call.args]
        name, values = arguments[0], arguments[1:]
        begin = self.stacks.take("values", len(values) + 1)
        stack = self.stacks.values
        for number, value in enumerate(values):
            self.store(stack, begin + number, value)
        end = begin + len(values)
        return Call(call.dtype, lowered, (name, stack, const(begin, "int32"), const(end, "int32")))

    def store(self, stack: Var, place: int, value: PrimExpr) -> None:
        """Store one argument as type index, padding and value."""
        dtype = value.dtype
        if dtype.lanes > 1:
            raise UnsupportedError(f"a vector ({dtype}) cannot be an argument of a packed function")
        if isinstance(value, StringImm):
            index = TEXT
        elif isinstance(value, Call) and _is_array(value):
            index = TENSOR
        elif dtype.is_handle:
            index = POINTER
        elif dtype.is_float:
            index, value = FLOAT, ops.cast("float64", value)
        else:
            index = BOOLEAN if dtype.is_bool else INTEGER
            value = ops.cast("int64", value)
        for field, content in (
            (StructField.ANY_TYPE_INDEX, const(index, "int32")),
            (StructField.ANY_ZERO_PADDING, const(0, "int32")),
            (StructField.ANY_UNION_VALUE, value),
        ):
            self.before.append(Evaluate(tvm_struct_set(stack, place, int(field), content)))

    def shape(self, call: Call) -> PrimExpr:
        sizes = [self.visit(size) for size in call.args]
        start = self.stacks.take("shapes", max(1, len(sizes)))
        buffer = self.stacks.shape_buffer()
        for number, size in enumerate(sizes):
            place = const(start + number, "int32")
            self.before.append(BufferStore(buffer, ops.cast("int64", size), (place,)))
        place = buffer[const(start, "int32")]
        return Call("handle", "tir.address_of", (place,))

    def array(self, call: Call) -> PrimExpr:
        data, shape, strides, ndim, element, offset = [self.visit(part) for part in call.args]
        place = self.stacks.take("arrays", 1)
        stack, dtype = self.stacks.arrays, element.dtype
        bytes_of_element = const(dtype.nbytes, "uint64")
        null = Call("handle", "tir.reinterpret", (const(0, "uint64"),))
        fields = (
            (StructField.ARRAY_DATA, data),
            (StructField.ARRAY_SHAPE, shape),
            (StructField.ARRAY_STRIDES, strides if strides.dtype.is_handle else null),
            (StructField.ARRAY_NDIM, ops.cast("int32", ndim)),
            (StructField.ARRAY_TYPE_CODE, const(dtype.type_code, "uint8")),
            (StructField.ARRAY_TYPE_BITS, const(8 if dtype.is_bool else dtype.bits, "uint8")),
            (StructField.ARRAY_TYPE_LANES, const(dtype.lanes, "uint16")),
            (StructField.ARRAY_BYTE_OFFSET, ops.cast("uint64", offset) * bytes_of_element),
            (StructField.ARRAY_DEVICE_ID, self.device_id),
            (StructField.ARRAY_DEVICE_TYPE, self.device_type),
        )
        for field, value in fields:
            self.before.append(Evaluate(tvm_struct_set(stack, place, int(field), value)))
        return tvm_struct_get(stack, place, int(StructField.ARRAY_ADDRESS), "handle")


def _alloca(kind: str, count: int) -> PrimExpr:
    arguments = (StringImm(kind), const(count, "int32"))
    return Call("handle", "tir.tvm_stack_alloca", arguments)


def _is_array(value: Call) -> bool:
    """Return whether a call makes the address of a tensor on the stack."""
    if not is_call(value, "tir.tvm_struct_get"):
        return False
    return ops.is_const(value.args[2], int(StructField.ARRAY_ADDRESS))


def _has_packed_call(expr: Any) -> bool:
    if called_name(expr) in _LOWERED:
        return True
    for child in expr.children():
        if isinstance(child, PrimExpr) and _has_packed_call(child):
            return True
    return False


@compiler_pass("tir.LowerTVMBuiltin")
def lower_tvm_builtin(func: PrimFunc) -> PrimFunc:
    """Lowers packed calls to stores of their arguments on the stack and a call.

    Returns ``func`` with the stacks of its packed calls written out.
    """
    target = func.attrs.get("target")
    device_type = 1 if target is None else target.get_target_device_type()
    return func.with_body(_BuiltinLowerer(device_type).body(func.body))
