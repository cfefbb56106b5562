"""Checks the kernels of a function against the limits of a device.

Constraints are limits by name:

    max_threads_per_block, max_thread_x, max_thread_y, max_thread_z, max_vthread, max_kernels
    max_shared_memory_per_block, max_local_memory_per_block   bytes
    max_static_shared_memory_per_block                        bytes outside of scope "shared.dyn"
    max_vector_bytes                                          bytes of one access

``verify_gpu_code`` answers, ``gpu_code_violations`` says what is exceeded and by how much, and
``gpu_violations`` also where and what to do; ``target.gpu_machine.gpu_limits`` has the limits of a
target. ``tilesmith.inspect.gpu_report`` shows the same texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilesmith.ir import IntImm, Visitor
from tilesmith.support.errors import ConfigError
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.expr import BufferLoad, IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BufferStore,
    For,
    ForKind,
)

__all__ = [
    "GPU_CONSTRAINTS", "GPUViolation", "gpu_code_violations", "gpu_violations", "verify_gpu_code",
]  # fmt: skip

GPU_CONSTRAINTS = (
    "max_threads_per_block", "max_thread_x", "max_thread_y", "max_thread_z", "max_vthread",
    "max_kernels", "max_shared_memory_per_block", "max_static_shared_memory_per_block",
    "max_local_memory_per_block", "max_vector_bytes",
)  # fmt: skip


_ADVICE = {
    "max_threads_per_block": "split the loops that are bound to threadIdx by smaller factors",
    "max_thread_x": "split the loop that is bound to threadIdx.x",
    "max_thread_y": "split the loop that is bound to threadIdx.y",
    "max_thread_z": "split the loop that is bound to threadIdx.z, or bind it to another axis",
    "max_vthread": "split the loop of virtual threads",
    "max_kernels": "fuse the loops of the kernels, or make several functions",
    "max_shared_memory_per_block": "make the tiles in shared memory smaller, or keep fewer stages "
    "of a pipeline in flight",
    "max_static_shared_memory_per_block": "use the scope 'shared.dyn', which is allocated at the "
    "launch and may be larger",
    "max_local_memory_per_block": "make the tiles in registers smaller, or use more threads",
    "max_vector_bytes": "vectorize a shorter loop: 16 bytes are one access of a GPU",
}


@dataclass(frozen=True)
class GPUViolation:
    """A limit that a kernel exceeds: its name ("" for what has no limit), the text, what to do, and
    the launch or loop where that is."""

    limit: str
    text: str
    advice: str
    span: Any = None


class _Checker(Visitor):
    """Measures kernel by kernel and compares with the limits."""

    def __init__(self, limits: Mapping[str, int], needs_constant_threads: bool) -> None:
        self.limits = limits
        self.found: list[GPUViolation] = []
        self.place: Any = None  # of the present kernel
        self.thread_place: Any = None  # of its innermost launch of threads
        self.kernels = 0
        self.depth = 0
        self.needs_constant_threads = needs_constant_threads
        self.reset()

    def reset(self) -> None:
        self.threads: dict[str, int] = {}
        self.vthreads = 1
        self.shared = self.static = self.local = 0
        self.described: list[str] = []  # static shared memory: names and bytes

    def exceed(self, name: str, value: int, what: str, place: Any = None) -> None:
        limit = self.limits.get(name)
        if limit is not None and value > limit:
            where = f"kernel {self.kernels}: " if self.kernels else ""
            text = f"{where}{what} {value}, {name} is {limit}"
            self.found.append(GPUViolation(name, text, _ADVICE[name], place or self.place))

    def refuse(self, text: str, advice: str, place: Any) -> None:
        """Record something that no device allows."""
        text = f"kernel {self.kernels}: {text}"
        self.found.append(GPUViolation("", text, advice, place or self.place))

    # Launches.

    def launch(self, thread: IterVar, extent: Any, node: Any) -> None:
        outermost = self.depth == 0
        if outermost:
            self.kernels += 1
            self.place = self.thread_place = node.span
            self.reset()
        tag = thread.thread_tag
        if not isinstance(extent, IntImm):
            if not tag.startswith("blockIdx") and self.needs_constant_threads:
                self.refuse(
                    f"the extent of {tag} is not constant",
                    "split the loop by a constant factor",
                    node.span,
                )
            size = 1
        else:
            size = extent.value
        if tag.startswith("threadIdx"):
            known = self.threads.setdefault(tag, size)
            if known != size:
                self.refuse(
                    f"{tag} is launched with {known} threads and with {size}",
                    "split both loops by the same factor",
                    node.span,
                )
            self.thread_place = node.span or self.thread_place
        self.depth += 1
        if tag.startswith(("vthread", "cthread")):
            self.vthreads *= size
            self.exceed("max_vthread", size, f"{tag} has the extent")
            self.visit_children(node)
            self.vthreads //= max(size, 1)
        else:
            self.visit_children(node)
        self.depth -= 1
        if outermost:
            self.finish()

    def finish(self) -> None:
        """Check the totals of a kernel."""
        total, place = 1, self.thread_place
        for tag, size in self.threads.items():
            total *= size
            self.exceed(f"max_thread_{tag[-1]}", size, f"{tag} has the extent", place)
        self.exceed("max_threads_per_block", total, "threads of a block:", place)
        self.exceed("max_shared_memory_per_block", self.shared, "bytes of shared memory:")
        self.exceed(
            "max_static_shared_memory_per_block",
            self.static,
            f"bytes of static shared memory ({', '.join(self.described)}):",
        )
        self.exceed("max_local_memory_per_block", self.local, "bytes of local memory:")

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        if node.attr_key in ("thread_extent", "virtual_thread") and isinstance(node.node, IterVar):
            self.launch(node.node, node.value, node)
        else:
            self.visit(node.body)

    def visit_For(self, node: For) -> None:
        if node.kind is ForKind.THREAD_BINDING and node.thread_binding is not None:
            self.launch(node.thread_binding, node.extent, node)
            return
        if node.kind is ForKind.VECTORIZED and isinstance(node.extent, IntImm):
            widest = _Widest()
            widest.visit(node.body)
            self.exceed(
                "max_vector_bytes", widest.nbytes * node.extent.value, "bytes of a vector access:"
            )
        self.visit_children(node)

    # Memory.

    def allocate(self, name: str, scope: str, nbytes: int, sizes: Any) -> None:
        for size in sizes:
            if not isinstance(size, IntImm):
                return  # known at the launch only
            nbytes *= size.value
        if scope.startswith("shared"):
            nbytes *= self.vthreads if self.depth else 1
            self.shared += nbytes
            if scope != "shared.dyn":
                self.static += nbytes
                self.described.append(f"{name} {nbytes}")
        elif scope.startswith("local") and self.depth:
            self.local += nbytes * self.vthreads

    def visit_Allocate(self, node: Allocate) -> None:
        scope = node.buffer_var.storage_scope or "global"
        self.exceed("max_vector_bytes", _lanes_bytes(node.dtype), "bytes of a vector access:")
        self.allocate(node.buffer_var.name, scope, node.dtype.nbytes, node.extents)
        self.visit(node.body)

    def visit_Block(self, node: Block) -> None:
        for buffer in node.alloc_buffers:
            self.allocate(buffer.name, buffer.scope(), buffer.dtype.nbytes, buffer.shape)
        if node.init is not None:
            self.visit(node.init)
        self.visit(node.body)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.exceed("max_vector_bytes", _lanes_bytes(node.dtype), "bytes of a vector access:")
        self.visit_children(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        dtype = node.value.dtype
        self.exceed("max_vector_bytes", _lanes_bytes(dtype), "bytes of a vector access:")
        self.visit_children(node)


def _lanes_bytes(dtype: Any) -> int:
    return dtype.nbytes if dtype.lanes > 1 else 0


class _Widest(Visitor):
    """Finds the largest element that is accessed."""

    def __init__(self) -> None:
        self.nbytes = 0

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.nbytes = max(self.nbytes, node.dtype.nbytes)
        self.visit_children(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.nbytes = max(self.nbytes, node.value.dtype.nbytes)
        self.visit_children(node)


def gpu_code_violations(func: PrimFunc, constraints: Mapping[str, Any]) -> list[str]:
    """Return the limits that the kernels of a function exceed, one text for each; empty if they
    fit.

    Raises ConfigError for an unknown constraint.
    """
    return [one.text for one in gpu_violations(func, constraints)]


def gpu_violations(
    func: PrimFunc, constraints: Mapping[str, Any], needs_constant_threads: bool = True
) -> list[GPUViolation]:
    """Return the limits that the kernels of a function exceed, with places and advice;
    ``needs_constant_threads``: the number of threads must not be one of the launch.

    Raises ConfigError for an unknown constraint.
    """
    limits: dict[str, int] = {}
    for name, value in constraints.items():
        if name not in GPU_CONSTRAINTS:
            raise ConfigError(
                f"'{name}' is not a limit of a GPU",
                notes=(f"limits: {', '.join(GPU_CONSTRAINTS)}",),
            )
        limits[name] = int(getattr(value, "value", value))
    checker = _Checker(limits, needs_constant_threads)
    with deep_recursion():
        checker.visit(func.body)
    kernels, checker.kernels = checker.kernels, 0
    checker.exceed("max_kernels", kernels, "kernels:")
    return list({one.text: one for one in checker.found}.values())


def verify_gpu_code(func: PrimFunc, constraints: Mapping[str, Any]) -> bool:
    """Return whether the kernels of a function keep within the limits of a device."""
    return not gpu_code_violations(func, constraints)
