"""Lets functions of the host call the launchers of kernels, on the device of their arguments.

    T.call_packed("f_kernel", A, n, n, 16)        (LowerDeviceKernelLaunch)
    T.call_cpacked("__tilesmith_launch_…_f_kernel", A, n, n, 16, device_id)

Every function that launches, or calls one that launches, gets the number of the device as a further
parameter, which wrappers of the packed calling convention take from their tensors: so functions may
run on several devices from several threads at once. Buffers in global memory that live between
kernels are taken from the device's workspace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilesmith.ir import Call, GlobalVar, IRModule, PrimExpr, StringImm, Var, const
from tilesmith.ir import operators as ops
from tilesmith.ir.queries import called_name, calls, variables
from tilesmith.ir.visitor import Rewriter
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Allocate, AttrStmt, Evaluate, LetStmt, Stmt, stmt_seq

if TYPE_CHECKING:
    from tilesmith.codegen.gpu.launchers import Launchers

__all__ = ["call_launchers"]

_PLACES = ("device_id", "device_type")


def call_launchers(
    functions: dict[GlobalVar, PrimFunc], device_type: int, launchers: Launchers | None
) -> IRModule:
    """Return functions of the host whose packed calls of kernels are calls of their launchers, and
    which give other packed functions tensors of the device.
    """
    kernels = {kernel.name for kernel in launchers.kernels} if launchers is not None else set()
    launching = _launching(functions, kernels)
    numbers = {name: Var("device_id", "int32") for name in launching}
    rewritten: dict[GlobalVar, Any] = {}
    for variable, function in functions.items():
        number = numbers.get(variable.name_hint)
        default: PrimExpr = const(0, "int32") if number is None else number
        rewriter = _Rewriter(launchers, kernels, launching, default, device_type)
        changed = function.with_body(rewriter.visit(function.body))
        if number is not None:
            kind = const(device_type, "int32")
            body = AttrStmt(StringImm("default"), "device_id", number, changed.body)
            body = AttrStmt(StringImm("default"), "device_type", kind, body)
            changed = changed.with_fields(params=(*function.params, number), body=body)
        rewritten[variable] = changed
    return IRModule(rewritten)


def _launching(functions: dict[GlobalVar, PrimFunc], kernels: set[str]) -> set[str]:
    """Return the functions, wrappers left out, that work with the device, themselves or through
    others.
    """
    plain = {v.name_hint: f for v, f in functions.items() if f.attrs.get("calling_conv") != 1}
    found = {name for name, function in plain.items() if _launches(function, kernels)}
    while True:
        more = {name for name, f in plain.items() if name not in found and _calls_any(f, found)}
        if not more:
            return found
        found |= more


def _launches(function: PrimFunc, kernels: set[str]) -> bool:
    return any(
        called_name(call) == "tir.tvm_stack_make_array" or _kernel_of(call) in kernels
        for call in calls(function.body)
    )


def _kernel_of(call: Call) -> str | None:
    if called_name(call) != "tir.tvm_call_packed" or not isinstance(call.args[0], StringImm):
        return None
    return call.args[0].value


def _calls_any(function: PrimFunc, names: set[str]) -> bool:
    return any(
        isinstance(call.op, GlobalVar) and call.op.name_hint in names
        for call in calls(function.body)
    )


class _Rewriter(Rewriter):
    """Passes the number of the device on; takes memory between kernels from the device."""

    def __init__(
        self,
        launchers: Launchers | None,
        kernels: set[str],
        launching: set[str],
        device_id: PrimExpr,
        device_type: int,
    ) -> None:
        self.launchers, self.kernels, self.launching = launchers, kernels, launching
        self.device_id, self.device_type = device_id, device_type

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key not in _PLACES:
            return self.children(node)
        outer = self.device_id
        if node.attr_key == "device_id":
            self.device_id = node.value
        body = self.visit(node.body)
        self.device_id = outer
        return body

    def visit_Call(self, node: Call) -> PrimExpr:
        node = self.children(node)
        if isinstance(node.op, GlobalVar) and node.op.name_hint in self.launching:
            return Call(node.dtype, node.op, (*node.args, self.device_id))
        name = _kernel_of(node)
        if self.launchers is None or name is None or name not in self.kernels:
            return node
        symbol = StringImm(self.launchers.symbol(name))
        return Call("int32", "tir.tvm_call_cpacked", (symbol, *node.args[1:], self.device_id))

    def visit_Allocate(self, node: Allocate) -> Stmt:
        if not self._is_on_device(node):
            return self.children(node)
        size: PrimExpr = const(node.dtype.nbytes, "int64")
        for extent in node.extents:
            size = size * ops.cast("int64", extent)
        name = StringImm("tilesmith.runtime.device_workspace")
        arguments = (name, const(self.device_type, "int32"), self.device_id, size)
        memory = Call("handle", "tir.tvm_call_packed", arguments)
        release = (StringImm("tilesmith.runtime.free_device_workspace"), node.buffer_var)
        free = Call("int32", "tir.tvm_call_packed", release)
        body = stmt_seq(self.visit(node.body), Evaluate(free))
        return LetStmt(node.buffer_var, memory, body, node.span)

    def _is_on_device(self, node: Allocate) -> bool:
        """True if kernels, or functions that get tensors of the device, get a buffer's memory: then
        no code of the host may touch it.
        """
        if node.buffer_var.storage_scope not in ("", "global"):
            return False
        for call in calls(node.body):
            is_launch = _kernel_of(call) in self.kernels
            is_call = isinstance(call.op, GlobalVar) and call.op.name_hint in self.launching
            is_tensor = called_name(call) == "tir.tvm_stack_make_array"
            if is_launch or is_call or is_tensor:
                for argument in call.args:
                    if any(var is node.buffer_var for var in variables(argument)):
                        return True
        return False
