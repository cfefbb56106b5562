"""VerifyKernelMemory: refuses memory on the chip that several kernels use, or that the host
allocates.

    C = T.alloc_buffer((4,), scope="local")
    for tx in T.thread_binding(4, "threadIdx.x"):     one kernel
        C[tx] = A[tx]
    for tx in T.thread_binding(4, "threadIdx.x"):     another one, which finds other registers
        B[tx] = C[tx]

Each outermost loop over threads becomes a kernel. Registers and shared memory belong to one launch
of one kernel: what it leaves there is lost. ``T.allocate`` stands where it is written, so memory on
the chip that it allocates outside of a launch would be the host's.
"""

from __future__ import annotations

from tilesmith.ir import Node, Var
from tilesmith.ir.calling_convention import CallingConv
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import nodes
from tilesmith.ir.visitor import Visitor
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.interpreter.cooperation import launched_thread
from tilesmith.tir.interpreter.threads import sharing_level
from tilesmith.tir.stmt import Allocate, AttrStmt, Block, BufferStore, For, Stmt

__all__ = ["verify_kernel_memory"]


class _KernelMemory(Visitor):
    """Notes in which kernel each piece of memory on the chip is used first."""

    def __init__(self, func: PrimFunc) -> None:
        self.kernel: For | AttrStmt | None = None  # around the present statement
        self.first: dict[Var, For | AttrStmt | None] = {}  # by pointer
        self.viewed: dict[Var, Var] = {}  # pointer of a view: that of its buffer
        self.of_host: dict[Var, Allocate] = {}  # by pointer: allocations outside of kernels
        self.visit(func.body)

    def visit_For(self, loop: For) -> None:
        self.enter(loop)

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        self.enter(node)

    def enter(self, stmt: For | AttrStmt) -> None:
        if self.kernel is not None or not _is_kernel(stmt):
            self.visit_children(stmt)
            return
        self.kernel = stmt
        self.visit_children(stmt)
        self.kernel = None

    def visit_Block(self, block: Block) -> None:
        for view in block.match_buffers:
            self.viewed[view.buffer.data] = view.source.buffer.data
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)

    def visit_Allocate(self, node: Allocate) -> None:
        if self.kernel is None:
            self.of_host[node.buffer_var] = node
        self.visit(node.body)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.use(node.buffer.data)
        self.visit_children(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.use(node.buffer.data)
        self.visit_children(node)

    def visit_Var(self, node: Var) -> None:
        if node.dtype.is_handle:
            self.use(node)

    def use(self, pointer: Var) -> None:
        while pointer in self.viewed:
            pointer = self.viewed[pointer]
        scope = pointer.storage_scope
        if not sharing_level(scope):
            return
        if self.kernel is not None and pointer in self.of_host:
            raise UnsupportedError(
                f"'{pointer.name}' is memory in scope '{scope}', which belongs to threads, but it "
                "is allocated outside of the kernel",
                span=self.of_host[pointer].span,
                notes=("write T.allocate after T.launch_thread, or use T.alloc_buffer",),
            )
        known = self.first.setdefault(pointer, self.kernel)
        if known is self.kernel:
            return
        other = "another kernel" if known is not None and self.kernel is not None else "the host"
        kernel = self.kernel or known
        assert kernel is not None
        raise UnsupportedError(
            f"'{pointer.name}' is memory in scope '{scope}', which is lost when its kernel ends, "
            f"but {other} uses it too",
            span=kernel.span,
            notes=(
                "compute_at or reverse_compute_at its writers and readers under one loop over "
                "threads, or keep it in global memory: sch.set_scope(block, index, 'global')",
            ),
        )


def _is_kernel(stmt: For | AttrStmt) -> bool:
    """Return whether a statement starts threads of a device; virtual threads alone do not."""
    if launched_thread(stmt) is None:
        return False
    found: list[Node] = [*nodes(stmt, For), *nodes(stmt, AttrStmt)]
    threads = [launched_thread(one) for one in found if isinstance(one, Stmt)]
    return any(one is not None and not one.thread_tag.startswith("vthread") for one in threads)


@compiler_pass("tir.VerifyKernelMemory")
def verify_kernel_memory(func: PrimFunc) -> PrimFunc:
    """Raises UnsupportedError where several kernels, or a kernel and the host, use one buffer on
    the chip.

    Returns ``func`` as it is.
    """
    if int(func.attrs.get("calling_conv", 0)) != CallingConv.DEVICE_KERNEL_LAUNCH:
        _KernelMemory(func)
    return func
