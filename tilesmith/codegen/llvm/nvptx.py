"""Kernels for NVIDIA GPUs through LLVM: PrimFuncs with bound threads → PTX text.

The functions are those that SplitHostDevice makes: plain parameters, `thread_extent` attributes,
memory in the scopes "shared", "local" and "warp". The module has the format "ptx"; it can be saved,
not run here: loading it is the work of the CUDA runtime.

Mathematics is what LLVM can do without NVIDIA's libdevice: arithmetic, roots, rounding, and the
functions that LowerIntrin turns into arithmetic.
"""

from __future__ import annotations

from tilesmith.codegen.llvm import intrinsics
from tilesmith.codegen.llvm.compile import compile_formats
from tilesmith.codegen.llvm.dtypes import register_type, symbol
from tilesmith.codegen.llvm.expressions import constant_value
from tilesmith.codegen.llvm.functions import FunctionEmitter
from tilesmith.codegen.llvm.module import ModuleEmitter
from tilesmith.ir import Call, IRModule, StringImm
from tilesmith.ir.queries import called_name
from tilesmith.runtime.dtype import DataType
from tilesmith.target import Target
from tilesmith.target.back_end import Code
from tilesmith.tir import stmt as tir
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc

TRIPLE = "nvptx64-nvidia-cuda"
DEFAULT_CPU = "sm_70"
PTX_VERSION = "+ptx70"
"""What CUDA 11.0 and later take."""

_REGISTERS = {"threadIdx": "tid", "blockIdx": "ctaid", "blockDim": "ntid", "gridDim": "nctaid"}
_NO_LIBRARY = frozenset(
    f"tir.{name}"
    for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "erf", "exp",
        "exp10", "exp2", "hypot", "log", "log10", "log1p", "log2", "nextafter", "pow", "sigmoid",
        "sin", "sinh", "tan", "tanh",
    )
)  # fmt: skip
_SHUFFLES = {
    "tir.tvm_warp_shuffle": ("idx", 0x1F),
    "tir.tvm_warp_shuffle_up": ("up", 0),
    "tir.tvm_warp_shuffle_down": ("down", 0x1F),
}


def llvm_target(target: Target) -> Target:
    """The LLVM target that a target of kind nvptx stands for."""
    cpu = target.mcpu or DEFAULT_CPU
    digits = "".join([letter for letter in cpu if letter.isdigit()])
    # LLVM writes the oldest PTX that knows the CPU, which lacks some instructions
    version = [PTX_VERSION] if digits and int(digits) < 90 else []
    return Target({
        "kind": "llvm", "mtriple": target.mtriple or TRIPLE, "mcpu": cpu, "mattr": version,
    })  # fmt: skip


def generate(module: IRModule, target: Target, opt_level: int | None = None) -> Code:
    """The code of kernels; its forms are "ptx", "ll" (as written) and "ll.opt"."""
    machine = llvm_target(target)
    written = KernelModuleEmitter(module, machine).text()
    formats = {
        "ptx": compile_formats(written, machine, ("asm",), opt_level)["asm"].decode(),
        "ll": written,
        "ll.opt": lambda: compile_formats(written, machine, ("ll",), opt_level)["ll"].decode(),
    }
    return Code(formats, advice="a CUDA runtime loads the PTX text: module.save('kernels.ptx')")


class KernelModuleEmitter(ModuleEmitter):
    """A module whose functions are kernels."""

    def __init__(self, module: IRModule, target: Target, debug: bool | None = None) -> None:
        super().__init__(module, target, debug)
        self.converts_float16 = self.has_float16 = True  # from sm_53 on

    def _function_text(self, name: str, function: PrimFunc) -> str:
        emitter = KernelEmitter(self, name, "void")
        emitter.symbol = self.symbol_of(name)
        return emitter.emit(function, "")

    def shared_memory(self, size: int, alignment: int) -> str:
        """Memory that the threads of a block share, as a generic pointer; 0 bytes: the size is
        given when the kernel is launched."""
        name = f"@shared.{len(self._globals)}"
        linkage = "internal" if size else "external"
        value = " undef" if size else ""
        self._globals.append(
            f"{name} = {linkage} addrspace(3) global [{size} x i8]{value}, align {alignment}"
        )
        return f"addrspacecast (ptr addrspace(3) {name} to ptr)"


class KernelEmitter(FunctionEmitter):
    """Writes one kernel."""

    module: KernelModuleEmitter

    def emit(self, function: PrimFunc, linkage: str) -> str:
        """The text of a kernel, or of a function of the device that is called by one."""
        is_noalias = bool(function.attrs.get("tir.noalias", False))
        parameters = [
            self.parameter(var, is_noalias and var.dtype.is_handle) for var in function.params
        ]
        self.statement(function.body)
        self.write("ret void")
        head = f"define ptx_kernel void {symbol(self.symbol)}({', '.join(parameters)}) nounwind"
        return self.finished(head)

    def needs_status(self, what: str) -> None:
        raise self.unsupported(
            f"it {what}, which code of a GPU cannot report",
            "drop assertions with the option tir.disable_assert; allocate in the scopes shared, "
            "local or warp",
        )

    def parallel(self, loop: tir.For) -> None:
        raise self.unsupported(
            f"loop '{loop.loop_var.name}' is parallel", "bind it to threads (sch.bind)"
        )

    def visit_AttrStmt(self, stmt: tir.AttrStmt) -> str:
        if stmt.attr_key != "thread_extent":
            return super().visit_AttrStmt(stmt)
        assert isinstance(stmt.node, IterVar)
        var, tag = stmt.node.var, stmt.node.thread_tag
        if var not in self.variables:
            self.variables[var] = self._thread_index(tag, stmt, var.dtype)
            self.facts.non_negative.add(var)
        self.statement(stmt.body)
        return ""

    def _thread_index(self, tag: str, stmt: tir.AttrStmt, dtype: DataType) -> str:
        word, _, axis = tag.partition(".")
        if word not in _REGISTERS or axis not in ("x", "y", "z"):
            raise self.unsupported(f"threads of the kind '{tag}' do not exist on this GPU")
        if constant_value(stmt.value) == 1:
            return "0"
        register = f"@llvm.nvvm.read.ptx.sreg.{_REGISTERS[word]}.{axis}"
        found = self.define(f"call i32 {register}()", "thread")
        return self.convert(found, DataType("int32"), dtype)

    def visit_Allocate(self, stmt: tir.Allocate) -> str:
        scope = stmt.buffer_var.storage_scope
        if not scope.startswith("shared"):
            return super().visit_Allocate(stmt)
        size = 1
        for extent in stmt.extents:
            size *= constant_value(extent) or 0
        if size == 0 and scope != "shared.dyn":
            raise self.unsupported(
                f"'{stmt.buffer_var.name}' in scope '{scope}' has a size that is not constant",
                "use the scope shared.dyn",
            )
        bytes_ = 0 if scope == "shared.dyn" else size * stmt.dtype.nbytes
        self.pointer_alignment[stmt.buffer_var] = 16
        self.variables[stmt.buffer_var] = self.module.shared_memory(bytes_, 16)
        self.statement(stmt.body)
        return ""

    def visit_Call(self, call: Call) -> str:
        name = called_name(call)
        if name == "tir.tvm_storage_sync":
            return self._barrier(call)
        if name in _SHUFFLES:
            return self._shuffle(call, *_SHUFFLES[name])
        if name == "tir.tvm_warp_activemask":
            return self.define("call i32 @llvm.nvvm.activemask()")
        if name in _NO_LIBRARY:
            raise self.unsupported(
                f"'{name}' of {call.dtype} needs a library of mathematics, which LLVM has not",
                "for float32, LowerIntrin replaces most functions; else build for 'cuda'",
            )
        if name in intrinsics.INTRINSICS or not name:
            return super().visit_Call(call)
        raise self.unsupported(f"operator '{name}' has no translation for NVPTX")

    def _barrier(self, call: Call) -> str:
        scope = call.args[0].value if isinstance(call.args[0], StringImm) else ""
        if scope == "warp":
            self.write("call void @llvm.nvvm.bar.warp.sync(i32 -1)")
        elif scope.startswith("shared"):
            self.write("call void @llvm.nvvm.barrier0()")
        else:
            raise self.unsupported(f"a barrier for the scope '{scope}'")
        self.forget()
        return "0"

    def _shuffle(self, call: Call, kind: str, clamp: int) -> str:
        mask, value, lane, width, warp = call.args
        sizes = constant_value(width), constant_value(warp)
        if None in sizes or value.dtype.bits * value.dtype.lanes != 32:
            raise self.unsupported("a shuffle moves 32 bits in a warp of constant width")
        bound = ((sizes[1] - sizes[0]) << 8) | clamp  # type: ignore[operator]
        is_float = value.dtype.element == "float32"
        suffix, moved = ("f32", "float") if is_float else ("i32", "i32")
        held = register_type(value.dtype)
        given = self.value(value)
        if held != moved:
            given = self.define(f"bitcast {held} {given} to {moved}")
        found = self.define(
            f"call {moved} @llvm.nvvm.shfl.sync.{kind}.{suffix}(i32 {self.value(mask)}, "
            f"{moved} {given}, i32 {self.value(lane)}, i32 {bound})"
        )
        return found if held == moved else self.define(f"bitcast {moved} {found} to {held}")


__all__ = ["KernelModuleEmitter", "generate", "llvm_target"]
