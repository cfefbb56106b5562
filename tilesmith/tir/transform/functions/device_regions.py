"""AnnotateDeviceRegions, SplitHostDevice, LowerDeviceKernelLaunch: outline device code and launch
it.

    AnnotateDeviceRegions    T.attr(T.target("cuda"), "target", 0) around each kernel
    SplitHostDevice          each such region becomes a function that the host calls
    LowerDeviceKernelLaunch  the call becomes a packed call with the sizes of the grid behind it

A kernel is the code inside an outermost ``thread_extent`` (or ``device_scope``) attribute. These
passes run in this order, after ThreadSync and LowerThreadAllreduce (which look at host and device
code as one) and before MergeSharedMemoryAllocations, LowerWarpMemory and LowerIntrin (which look at
kernels by themselves). MakePackedAPI runs between the last two of the three.
"""

from __future__ import annotations

import re
from typing import Any

from tilesmith.ir import Call, GlobalVar, IRModule, PrimExpr, StringImm, Var, Visitor, const
from tilesmith.ir.calling_convention import CallingConv
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import nodes
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.tir.analysis import undefined_vars
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import renew_defs, substitute
from tilesmith.tir.interpreter.threads import sharing_level
from tilesmith.tir.queries import buffers
from tilesmith.tir.stmt import Allocate, AttrStmt, DeclBuffer, Evaluate, LetStmt, Stmt

__all__ = [
    "DEVICE_KEYS", "annotate_device_regions", "decorate_device_scope",
    "lower_device_kernel_launch", "split_host_device", "without_host",
]  # fmt: skip

DYNAMIC_SHARED_MEMORY = "tir.use_dyn_shared_memory"
KEPT_ATTRS = ("tir.cluster_dims", "tir.cooperative_launch")
"""Attributes of a function that its kernels keep: how they are launched."""

DEVICE_KEYS = ("thread_extent", "device_scope", "pipeline_exec_scope", "virtual_thread")


# Marking.


class _Annotator(Rewriter):
    def __init__(self, target: Target) -> None:
        self.target = target

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "target":
            return node
        if node.attr_key in DEVICE_KEYS:
            return AttrStmt(self.target, "target", const(0, "int32"), node)
        body = self.visit(node.body)
        return node if body is node.body else node.with_fields(body=body)


def without_host(target: Target) -> Target:
    """Return the target of code that runs on the device."""
    return Target({key: value for key, value in target.export().items() if key != "host"})


@compiler_pass("tir.AnnotateDeviceRegions")
def annotate_device_regions(func: PrimFunc) -> PrimFunc:
    """Marks the regions that run on the device.

    Returns ``func`` with its kernels marked with the device's target, if it has one and a host.
    """
    target = func.attrs.get("target")
    if target is None:
        return func
    target = Target(target)
    if target.host is None or func.attrs.get("calling_conv") == CallingConv.DEVICE_KERNEL_LAUNCH:
        return func
    return func.with_body(_Annotator(without_host(target)).visit(func.body))


@compiler_pass("tir.DecorateDeviceScope")
def decorate_device_scope(func: PrimFunc) -> PrimFunc:
    """Marks the whole body of a function as device code."""
    return func.with_body(AttrStmt(const(0, "int32"), "device_scope", 0, func.body))


# Splitting.


class _Splitter(Rewriter):
    """Outlines the marked regions of one function."""

    def __init__(self, mod: IRModule, func: PrimFunc, name: str) -> None:
        self.mod, self.func, self.name = mod, func, name
        self.count = 0

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "target" and isinstance(node.node, Target):
            return Evaluate(self.extract(node))
        body = self.visit(node.body)
        return node if body is node.body else node.with_fields(body=body)

    def extract(self, region: AttrStmt) -> PrimExpr:
        """Return a call of a new function with the region as its body."""
        params = sorted(undefined_vars(region.body), key=_scalars_last)
        body = region.body
        for param in params:
            _refuse_memory_of_threads(param, self.func.span)
        declared = {declaration.buffer for declaration in nodes(body, DeclBuffer)}
        outside = set(params)
        for buffer in reversed(buffers(body)):
            if buffer not in declared and buffer.data in outside:  # else it is allocated inside
                body = DeclBuffer(buffer, body)
        attrs = {
            "target": region.node,
            "tir.noalias": bool(self.func.attrs.get("tir.noalias", True)),
            "tir.is_global_func": True,
        }
        attrs.update({key: self.func.attrs[key] for key in KEPT_ATTRS if key in self.func.attrs})
        device = renew_defs(PrimFunc(params, body, None, None, attrs, self.func.span))
        variable = GlobalVar(self.fresh_name())
        self.mod[variable] = device
        return Call("void", variable, tuple(params))

    def fresh_name(self) -> str:
        base = re.sub(r"\W", "_", self.name, flags=re.ASCII)  # a name in all languages of devices
        while True:
            name = f"{base}_kernel" + (f"_{self.count}" if self.count else "")
            self.count += 1
            if name not in self.mod:
                return name


def _refuse_memory_of_threads(param: Var, span: Any) -> None:
    """Raise UnsupportedError for memory on the chip that a kernel would be given. After
    VerifyKernelMemory has looked, parallel loops have become kernels, too.
    """
    scope = param.storage_scope if param.dtype.is_handle else "global"
    if sharing_level(scope):
        raise UnsupportedError(
            f"'{param.name}' is memory in scope '{scope}', which is lost when its kernel ends, but "
            "it is allocated outside of the kernel",
            span=span,
            notes=("keep it in global memory, or bind all that use it to the same threads",),
        )


def _scalars_last(var: Var) -> bool:
    return not var.dtype.is_handle


@compiler_pass("tir.SplitHostDevice")
def split_host_device(mod: IRModule) -> IRModule:
    """Outlines device code into functions of its own.

    Returns ``mod`` with a function for each region that is marked with a target.

    Functions in which nothing is marked are marked first, if they have a target with a host.
    """
    for variable, func in list(mod.functions.items()):
        if not isinstance(func, PrimFunc) or func.attrs.get("tir.is_global_func"):
            continue
        if not _has_regions(func.body):
            func = annotate_device_regions(func)
        name = str(func.attrs.get("global_symbol", variable.name_hint))
        body = _Splitter(mod, func, name).visit(func.body)
        if body is not func.body:
            mod[variable] = func.with_body(body)
    return mod


def _has_regions(stmt: Stmt) -> bool:
    return any(attribute.attr_key == "target" for attribute in nodes(stmt, AttrStmt))


# Launching.


class _LaunchFinder(Visitor):
    """Finds the thread axes of a kernel and its dynamic shared memory, each with its extents.

    The host computes them: values that the kernel has bound to variables are written out.
    """

    def __init__(self) -> None:
        self.extents: dict[str, PrimExpr] = {}
        self.dynamic: list[tuple[Allocate, list[PrimExpr]]] = []
        self.bound: dict[Var, PrimExpr] = {}

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.bound[node.var] = substitute(node.value, self.bound)
        self.visit(node.body)

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        if node.attr_key == "thread_extent" and isinstance(node.node, IterVar):
            extent = substitute(node.value, self.bound)
            self.extents.setdefault(node.node.thread_tag, extent)
        self.visit(node.body)

    def visit_Allocate(self, node: Allocate) -> None:
        if node.buffer_var.storage_scope == "shared.dyn":
            self.dynamic.append((node, [substitute(one, self.bound) for one in node.extents]))
        self.visit(node.body)


class _Kernel:
    """The launch parameters of a device function."""

    def __init__(self, func: PrimFunc, name: str) -> None:
        finder = _LaunchFinder()
        finder.visit(func.body)
        self.func, self.symbol = func, str(func.attrs.get("global_symbol", name))
        self.tags = list(finder.extents)
        self.values = list(finder.extents.values())
        if len(finder.dynamic) > 1:
            names = ", ".join([f"'{one.buffer_var.name}'" for one, _ in finder.dynamic])
            raise UnsupportedError(
                f"kernel '{name}' has several allocations of dynamic shared memory: {names}",
                notes=("run MergeSharedMemoryAllocations before",),
            )
        if finder.dynamic:
            ((memory, extents),) = finder.dynamic
            size: PrimExpr = const(memory.dtype.nbytes, "int32")
            for extent in extents:
                size = size * (extent if extent.dtype is size.dtype else extent.astype("int32"))
            self.tags.append(DYNAMIC_SHARED_MEMORY)
            self.values.append(size)

    def lowered(self) -> PrimFunc:
        return self.func.with_attr(
            {
                "global_symbol": self.symbol,
                "calling_conv": int(CallingConv.DEVICE_KERNEL_LAUNCH),
                "tir.kernel_launch_params": tuple(self.tags),
                "tir.is_global_func": True,
            }
        )

    def launch(self, args: tuple[Any, ...]) -> PrimExpr:
        """Return the packed call: the arguments, then the sizes of the grid."""
        mapping = dict(zip(self.func.params, args))
        sizes = [substitute(value, mapping) for value in self.values]
        arguments = (StringImm(self.symbol), *args, *sizes)
        return Call("int32", "tir.tvm_call_packed", arguments)


class _Launcher(Rewriter):
    def __init__(self, kernels: dict[GlobalVar, _Kernel], names: dict[str, _Kernel]) -> None:
        self.kernels, self.names = kernels, names

    def visit_Call(self, node: Call) -> PrimExpr:
        node = self.children(node)
        if not isinstance(node.op, GlobalVar):
            return node
        kernel = self.kernels.get(node.op) or self.names.get(node.op.name_hint)
        return node if kernel is None else kernel.launch(node.args)


@compiler_pass("tir.LowerDeviceKernelLaunch")
def lower_device_kernel_launch(mod: IRModule) -> IRModule:
    """Launches kernels by packed calls that pass the sizes of the grid.

    Returns ``mod`` whose host functions launch kernels through packed calls.
    """
    kernels: dict[GlobalVar, _Kernel] = {}
    for variable, func in list(mod.functions.items()):
        if isinstance(func, PrimFunc) and func.attrs.get("tir.is_global_func"):
            kernels[variable] = _Kernel(func, variable.name_hint)
            mod[variable] = kernels[variable].lowered()
    names = {variable.name_hint: kernel for variable, kernel in kernels.items()}
    for variable, func in list(mod.functions.items()):
        if isinstance(func, PrimFunc) and variable not in kernels:
            body = _Launcher(kernels, names).visit(func.body)
            if body is not func.body:
                mod[variable] = func.with_body(body)
    return mod
