"""Writes a module as LLVM text: its functions by name, and the parts that they need.

`emit_text(module, target)` is the entry point. Functions with the attribute `global_symbol` are
visible under that name; the others are internal. Names of the C library's functions get a suffix
(`.kernel`), because LLVM takes what is called `exp` or `free` for the library's.
"""

from __future__ import annotations

from tilesmith.codegen.llvm import (  # noqa: F401 - these enter their rules into the tables
    arithmetic,
    expressions,
    intrinsics,
    memory,
    packed,
    packed_lowered,
    pointers_and_calls,
    threads,
    vectors,
)
from tilesmith.codegen.llvm.debug_info import ModuleDebug
from tilesmith.codegen.llvm.functions import ATTRIBUTES, FunctionEmitter, ModuleContext
from tilesmith.codegen.llvm.machine import Machine
from tilesmith.codegen.llvm.module_text import ModuleText
from tilesmith.codegen.llvm.parallel import ParallelLoops
from tilesmith.codegen.llvm.rules import INTRINSICS, Processor
from tilesmith.codegen.llvm.streaming import uses_streaming_mode
from tilesmith.codegen.llvm.symbols import Symbols, kernel_symbol
from tilesmith.codegen.lowered import lowered_functions
from tilesmith.ir import IRModule
from tilesmith.ir.transform import PassContext
from tilesmith.support.errors import CodegenError
from tilesmith.support.recursion import deep_recursion
from tilesmith.target import Target
from tilesmith.tir.function import PrimFunc

__all__ = [
    "PACKED_PREFIX", "ModuleEmitter", "emit_text", "kernel_symbol", "thread_runtime_text",
    "wants_debug_information",
]  # fmt: skip

PACKED_PREFIX = "__tvm_ffi_"
CPU = Processor(
    "a CPU",
    INTRINSICS,
    ("is it one of another target, or should a pass have replaced it?",),
)


def emit_text(module: IRModule, target: Target, thread_runtime: bool = True) -> str:
    """Return the module's PrimFuncs as LLVM text for a target.

    Without `thread_runtime` the functions that launch parallel loops are only declared: a library
    needs `thread_runtime_text` once, however many object files it has. Raises CodegenError for code
    that LLVM cannot express, with the function and what to do about it.
    """
    emitter = ModuleEmitter(module, target)
    text = emitter.text(thread_runtime)
    if emitter.imported or emitter.imported_c:
        raise CodegenError(
            "a function imports code (import_llvm, import_c), which a text alone cannot hold",
            notes=("build it by tilesmith.build",),
        )
    return text


def thread_runtime_text(target: Target) -> str:
    """Return the text that every library with parallel loops holds once: see `threads`."""
    emitter = ModuleEmitter(IRModule({}), target)
    emitter.parts.needs_threads = True
    return emitter.text()


def wants_debug_information() -> bool:
    """True if one of the options `tir.enable_debug` and `tir.debug_script` is on."""
    context = PassContext.current()
    return bool(
        context.get_config("tir.enable_debug", False)
        or context.get_config("tir.debug_script", False)
    )


class ModuleEmitter:
    """Writes one module: its functions, with the ``parts`` of the text that they need."""

    processor = CPU

    def __init__(self, module: IRModule, target: Target, debug: bool | None = None) -> None:
        """`debug`: write debug information; by default as the options say."""
        self.target = target
        self.functions = lowered_functions(module, "LLVM")
        self.machine = self._machine(target)
        if "sme" in self.machine.features and uses_streaming_mode(self.functions.values()):
            self.machine.uses_streaming_mode = True
        self.parts = ModuleText(self.machine.size_type, module.attrs.get("constants", ()))
        self.symbols = Symbols(self.functions, self.parts)
        wanted = wants_debug_information() if debug is None else debug
        self.debug = ModuleDebug(self.parts.metadata) if wanted else None
        self.context = ModuleContext(
            self.machine, self.parts, self.symbols, self.processor, self.debug
        )

    @property
    def needs_threads(self) -> bool:
        """True if the written text launches parallel loops."""
        return self.parts.needs_threads

    @property
    def imported(self) -> list[str]:
        """LLVM texts, or files with them, that the functions import."""
        return self.parts.imported

    @property
    def imported_c(self) -> list[str]:
        """C texts, or files with them, that the functions import."""
        return self.parts.imported_c

    def _machine(self, target: Target) -> Machine:
        return Machine(target)

    def text(self, thread_runtime: bool = True) -> str:
        """Return the module's text, with the functions that launch parallel loops if it has any."""
        parts = self.parts
        with deep_recursion():
            for name, function in sorted(self.functions.items()):  # in whatever order they came
                parts.functions.append(self._function_text(name, function))
        self._mark_requirements()
        declarations: tuple[str, ...] = ()
        runtime = ""
        if parts.needs_threads and not thread_runtime:
            runtime = "@__tilesmith_parallel_launch = external global ptr"
        elif parts.needs_threads:
            bound = self.target.num_cores or 0
            machine = self.machine
            for name in ("__tilesmith_parallel_barrier", "__tilesmith_launch_serial"):
                parts.declared.pop(name, None)  # the runtime defines it
            runtime, declarations = threads.runtime_text(
                machine.triple, machine.architecture, bound
            )
        for line in declarations:
            parts.declare_line(line)
        attributes = self.machine.attributes
        defined = {self.symbols.symbol_of(name) for name in self.functions}
        lines = [
            f'target triple = "{self.machine.triple}"',
            *parts.types,
            *parts.globals,
            *[line for name, line in parts.declared.items() if name not in defined],
            "",
            *parts.functions,
            *parts.helpers.values(),
            runtime,
            *([f"attributes {ATTRIBUTES} = {{ {attributes} }}"] if attributes else ()),
            *(self.debug.footer() if self.debug is not None else ()),
            *parts.metadata.lines,
            "",
        ]
        return "\n".join(lines)

    def _mark_requirements(self) -> None:
        """Let code that the runtime calls say what it needs of a CPU."""
        publics = [str(f.attrs.get("global_symbol", "")) for f in self.functions.values()]
        needed = self.machine.requirements
        if needed.features and any(name.startswith(PACKED_PREFIX) for name in publics):
            self.parts.mark(needed.symbol, needed.data)

    def _function_text(self, name: str, function: PrimFunc) -> str:
        symbol, returns = self.symbols.symbol_of(name), self.symbols.returns(name)
        divide = ParallelLoops(self.context).divide
        emitter = FunctionEmitter(self.context, name, symbol, returns, divide)
        return emitter.write(function, self._linkage(function))

    def _linkage(self, function: PrimFunc) -> str:
        public = function.attrs.get("global_symbol")
        if public is None:
            return "internal "
        if self.machine.is_windows:
            return "dllexport " if str(public).startswith(PACKED_PREFIX) else ""
        return "" if str(public).startswith(PACKED_PREFIX) else "protected "
