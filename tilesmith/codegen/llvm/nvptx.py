"""Generates kernels for NVIDIA GPUs through LLVM: PrimFuncs with bound threads → PTX text.

The functions are those that SplitHostDevice makes: plain parameters, `thread_extent` attributes,
memory in the scopes "shared", "local" and "warp". The module has the format "ptx", which CUDA's
driver compiles for its GPU when the first kernel is launched there.

Mathematics is what LLVM can do without NVIDIA's libdevice: arithmetic, roots, rounding, and the
functions that LowerIntrin turns into arithmetic.
"""

from __future__ import annotations

from tilesmith.codegen.facts import constant_value
from tilesmith.codegen.llvm.compile import compile_formats
from tilesmith.codegen.llvm.conversions import convert
from tilesmith.codegen.llvm.dtypes import register_type, symbol
from tilesmith.codegen.llvm.functions import FunctionEmitter
from tilesmith.codegen.llvm.machine import Machine
from tilesmith.codegen.llvm.module import ModuleEmitter
from tilesmith.codegen.llvm.rules import INTRINSICS, Processor
from tilesmith.codegen.llvm.statements import StatementEmitter
from tilesmith.codegen.llvm.values import Values
from tilesmith.codegen.pointer_uses import pointer_uses
from tilesmith.ir import Call, IRModule, StringImm
from tilesmith.ir.rules import OperatorRules
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.formats import Format
from tilesmith.target import Target
from tilesmith.target.back_end import Code
from tilesmith.tir import stmt as tir
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc

TRIPLE = "nvptx64-nvidia-cuda"
DEFAULT_CPU = "sm_70"
PTX_VERSION = "+ptx70"
"""The PTX version that CUDA 11.0 and later accept."""

_REGISTERS = {"threadIdx": "tid", "blockIdx": "ctaid", "blockDim": "ntid", "gridDim": "nctaid"}
_NO_LIBRARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "erf", "exp",
    "exp10", "exp2", "hypot", "log", "log10", "log1p", "log2", "nextafter", "pow", "sigmoid",
    "sin", "sinh", "tan", "tanh",
)  # fmt: skip
_SHUFFLES = {
    "tir.tvm_warp_shuffle": ("idx", 0x1F),
    "tir.tvm_warp_shuffle_up": ("up", 0),
    "tir.tvm_warp_shuffle_down": ("down", 0x1F),
}
_CALLS = OperatorRules(INTRINSICS)
"""The rules of calls of a CPU, some replaced by those below."""
NVPTX = Processor(
    "NVPTX",
    _CALLS,
    no_errors=(
        "which code of a GPU cannot report",
        "drop assertions with the option tir.disable_assert; allocate in the scopes shared, "
        "local or warp",
    ),
)


def llvm_target(target: Target) -> Target:
    """Return the LLVM target that a target of kind nvptx stands for."""
    cpu = target.mcpu or DEFAULT_CPU
    digits = "".join([letter for letter in cpu if letter.isdigit()])
    # LLVM writes the oldest PTX that knows the CPU, which lacks some instructions
    version = [PTX_VERSION] if digits and int(digits) < 90 else []
    return Target({
        "kind": "llvm", "mtriple": target.mtriple or TRIPLE, "mcpu": cpu, "mattr": version,
    })  # fmt: skip


def generate(module: IRModule, target: Target, opt_level: int | None = None) -> Code:
    """Return the code of kernels in the formats "ptx", "ll" (as written) and "ll.opt"."""
    machine = llvm_target(target)
    written = KernelModuleEmitter(module, machine).text()
    formats: dict[str, Format] = {
        "ptx": compile_formats(written, machine, ("asm",), opt_level)["asm"].decode(),
        "ll": written,
        "ll.opt": lambda: compile_formats(written, machine, ("ll",), opt_level)["ll"].decode(),
    }
    return Code(formats, advice="a CUDA runtime loads the PTX text: module.save('kernels.ptx')")


def describe() -> str:
    """Describe what the back end generates, for `tilesmith doctor`."""
    return "PTX through LLVM, launched on the CUDA devices below"


class KernelModuleEmitter(ModuleEmitter):
    """Writes a module whose functions are kernels, or functions of the device that kernels call."""

    processor = NVPTX

    def _machine(self, target: Target) -> Machine:
        machine = Machine(target)
        machine.converts_float16 = machine.has_float16 = True  # from sm_53 on
        machine.attributes = ""  # PTX names its processor itself
        return machine

    def _function_text(self, name: str, function: PrimFunc) -> str:
        kernel = self.symbols.symbol_of(name)
        if function.attrs.get("tir.is_device_function"):  # called by kernels
            returns = self.symbols.returns(name)
            return FunctionEmitter(
                self.context, name, kernel, returns, _refuse_parallel, KernelStatements
            ).write(function, "internal ")
        emitter = FunctionEmitter(
            self.context, name, kernel, "void", _refuse_parallel, KernelStatements
        )
        is_noalias = bool(function.attrs.get("tir.noalias", False))
        exchanged = pointer_uses(function).exchanged
        parameters = [
            emitter.parameter(var, is_noalias and var.dtype.is_handle and var not in exchanged)
            for var in function.params
        ]
        emitter.statements.statement(function.body)
        emitter.out.write("ret void")
        head = f"define ptx_kernel void {symbol(kernel)}({', '.join(parameters)}) nounwind"
        return emitter.finished(head)


class KernelStatements(StatementEmitter):
    """Writes the statements of a kernel, with thread indices and shared memory."""

    def visit_AttrStmt(self, stmt: tir.AttrStmt) -> None:
        if stmt.attr_key != "thread_extent":
            super().visit_AttrStmt(stmt)
            return
        assert isinstance(stmt.node, IterVar)
        emit, var, tag = self.emit, stmt.node.var, stmt.node.thread_tag
        if var not in emit.variables:
            emit.variables[var] = _thread_index(emit, tag, stmt, var.dtype)
            emit.facts.non_negative.add(var)
        self.statement(stmt.body)

    def visit_Allocate(self, stmt: tir.Allocate) -> None:
        scope = stmt.buffer_var.storage_scope
        if not scope.startswith("shared"):
            super().visit_Allocate(stmt)
            return
        size = 1
        for extent in stmt.extents:
            size *= constant_value(extent) or 0
        if size == 0 and scope != "shared.dyn":
            raise self.out.unsupported(
                f"'{stmt.buffer_var.name}' in scope '{scope}' has a size that is not constant",
                "use the scope shared.dyn",
            )
        bytes_ = 0 if scope == "shared.dyn" else size * stmt.dtype.nbytes
        self.emit.pointers.alignment[stmt.buffer_var] = 16
        self.emit.variables[stmt.buffer_var] = self.emit.text.shared_memory(bytes_, 16)
        self.statement(stmt.body)


def _refuse_parallel(statements: StatementEmitter, loop: tir.For) -> None:
    raise statements.out.unsupported(
        f"loop '{loop.loop_var.name}' is parallel", "bind it to threads (sch.bind)"
    )


def _thread_index(emit: Values, tag: str, stmt: tir.AttrStmt, dtype: DataType) -> str:
    word, _, axis = tag.partition(".")
    if word not in _REGISTERS or axis not in ("x", "y", "z"):
        raise emit.out.unsupported(f"threads of the kind '{tag}' do not exist on this GPU")
    if constant_value(stmt.value) == 1:
        return "0"
    register = f"@llvm.nvvm.read.ptx.sreg.{_REGISTERS[word]}.{axis}"
    found = emit.define(f"call i32 {register}()", "thread")
    return convert(emit.out, found, DataType("int32"), dtype)


@_CALLS.handles(*_NO_LIBRARY)
def _refuse_library(emit: Values, call: Call) -> str:
    raise emit.out.unsupported(
        f"'{call.op.name}' of {call.dtype} needs a mathematics library, which LLVM lacks",
        "for float32, LowerIntrin replaces most functions; else build for 'cuda'",
    )


@_CALLS.handles("tvm_warp_activemask")
def _active_mask(emit: Values, call: Call) -> str:
    return emit.define("call i32 @llvm.nvvm.activemask()")


@_CALLS.handles("tvm_storage_sync")
def _barrier(emit: Values, call: Call) -> str:
    scope = call.args[0].value if isinstance(call.args[0], StringImm) else ""
    if scope == "warp":
        emit.write("call void @llvm.nvvm.bar.warp.sync(i32 -1)")
    elif scope.startswith("shared"):
        emit.write("call void @llvm.nvvm.barrier0()")
    else:
        advice = ("build for 'cuda', whose runtime library has one",) if scope == "global" else ()
        raise emit.out.unsupported(f"a barrier for the scope '{scope}'", *advice)
    emit.forget()
    return "0"


@_CALLS.handles("tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down")
def _shuffle(emit: Values, call: Call) -> str:
    kind, clamp = _SHUFFLES[call.op.name]
    mask, value, lane, width, warp = call.args
    sizes = constant_value(width), constant_value(warp)
    if None in sizes or value.dtype.bits * value.dtype.lanes != 32:
        raise emit.out.unsupported("a shuffle moves 32 bits in a warp of constant width")
    bound = ((sizes[1] - sizes[0]) << 8) | clamp  # type: ignore[operator]
    is_float = value.dtype.element == "float32"
    suffix, moved = ("f32", "float") if is_float else ("i32", "i32")
    held = register_type(value.dtype)
    given = emit.value(value)
    if held != moved:
        given = emit.define(f"bitcast {held} {given} to {moved}")
    found = emit.define(
        f"call {moved} @llvm.nvvm.shfl.sync.{kind}.{suffix}(i32 {emit.value(mask)}, "
        f"{moved} {given}, i32 {emit.value(lane)}, i32 {bound})"
    )
    return found if held == moved else emit.define(f"bitcast {moved} {found} to {held}")


__all__ = ["KernelModuleEmitter", "describe", "generate", "llvm_target"]
