"""LegalizePackedCalls: passes tensors instead of bare pointers to packed functions.

    T.call_packed("f", A.data)                  T.call_packed("f", T.tvm_stack_make_array(
                                                    A.data, T.tvm_stack_make_shape(4, 6), ...))

An argument that is the pointer of a buffer known here (of a parameter, an allocation or a
declaration) becomes a tensor over that buffer. Other pointers are passed as they are.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, PrimExpr, Rewriter, Var, const
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import called_name
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Block, DeclBuffer, Stmt

__all__ = ["PACKED_CALLS", "legalize_packed_calls", "tensor_argument"]

PACKED_CALLS = ("tir.tvm_call_packed", "tir.tvm_call_cpacked", "tir.tvm_call_trace_packed")


def tensor_argument(buffer: Buffer, pointer: Var) -> PrimExpr:
    """Return a buffer as a tensor argument of a packed function."""

    def shape(parts: tuple[PrimExpr, ...]) -> PrimExpr:
        wide = tuple([ops.cast("int64", part) for part in parts])
        return Call("handle", "tir.tvm_stack_make_shape", wide)

    strides = shape(buffer.strides) if buffer.strides else const(0, "int32")
    arguments = (pointer, shape(buffer.shape), strides, const(len(buffer.shape), "int32"),
                 const(0, buffer.dtype), ops.cast("int64", buffer.elem_offset))  # fmt: skip
    return Call("handle", "tir.tvm_stack_make_array", arguments)


class _Legalizer(Rewriter):
    def __init__(self, func: PrimFunc) -> None:
        self.buffers: dict[Var, Buffer] = {buffer.data: buffer for buffer in func.buffers}

    def visit_DeclBuffer(self, declaration: DeclBuffer) -> Stmt:
        self.buffers.setdefault(declaration.buffer.data, declaration.buffer)
        return self.children(declaration)

    def visit_Block(self, block: Block) -> Block:
        for buffer in block.alloc_buffers:
            self.buffers.setdefault(buffer.data, buffer)
        return self.children(block)

    def visit_Call(self, call: Call) -> PrimExpr:
        call = self.children(call)
        if called_name(call) not in PACKED_CALLS:
            return call
        arguments: list[Any] = [
            tensor_argument(self.buffers[arg], arg)
            if isinstance(arg, Var) and arg in self.buffers
            else arg
            for arg in call.args
        ]
        if all(a is b for a, b in zip(arguments, call.args)):
            return call
        return Call(call.dtype, call.op, tuple(arguments))


@compiler_pass("tir.LegalizePackedCalls")
def legalize_packed_calls(func: PrimFunc) -> PrimFunc:
    """Passes tensors to packed functions instead of pointers.

    Returns ``func`` that gives tensors to packed functions where it gave pointers of its buffers.
    """
    return func.with_body(_Legalizer(func).visit(func.body))
