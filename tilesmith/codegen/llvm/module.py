"""A module as LLVM text: functions, constants, declarations, metadata, and what they need.

`emit_text(module, target)` is the door. Functions with the attribute `global_symbol` are visible
under that name; the others are internal. Names of the C library's functions get a suffix
(`.kernel`), because LLVM takes what is called `exp` or `free` for the library's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.codegen.facts import FailureFinder
from tilesmith.codegen.llvm import dtypes, packed, packed_lowered, threads  # noqa: F401 - the tables
from tilesmith.codegen.llvm.debug_info import ModuleDebug
from tilesmith.codegen.llvm.dtypes import escape, register_type, symbol
from tilesmith.codegen.llvm.functions import FunctionEmitter, returned_dtype
from tilesmith.codegen.llvm.intrinsics import C_LIBRARY
from tilesmith.codegen.llvm.statements import ALIGNMENT, is_on_stack
from tilesmith.ir import IRModule
from tilesmith.ir.transform import PassContext
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed, pack
from tilesmith.support.errors import CodegenError
from tilesmith.support.recursion import deep_recursion
from tilesmith.target import Target
from tilesmith.target.features import architecture, llvm_machine, target_features
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import AllocateConst

_FAST_MATH = {
    "fast-math": "fast",
    "fast-math-nnan": "nnan",
    "fast-math-ninf": "ninf",
    "fast-math-nsz": "nsz",
    "fast-math-arcp": "arcp",
    "fast-math-contract": "contract",
    "fast-math-reassoc": "reassoc",
}
_SMALL_POINTERS = ("arm", "thumb", "i386", "i486", "i586", "i686", "riscv32", "wasm32", "mips")
PACKED_PREFIX = "__tvm_ffi_"


def emit_text(module: IRModule, target: Target, thread_runtime: bool = True) -> str:
    """The module's PrimFuncs as LLVM text for a target.

    Without `thread_runtime` the functions that launch parallel loops are only declared: a library
    needs `thread_runtime_text` once, however many object files it has.
    Raises CodegenError for what LLVM code cannot do, with the function and what to do about it.
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
    """What every library with parallel loops holds once: see `threads`."""
    emitter = ModuleEmitter(IRModule({}), target)
    emitter.needs_threads = True
    return emitter.text()


def wants_debug_information() -> bool:
    """Whether one of the options `tir.enable_debug` and `tir.debug_script` is on."""
    context = PassContext.current()
    return bool(
        context.get_config("tir.enable_debug", False)
        or context.get_config("tir.debug_script", False)
    )


def kernel_symbol(name: str) -> str:
    """The symbol of a function of a module: its name, unless the C library has one like it."""
    return name + ".kernel" if name in C_LIBRARY else name


class ModuleEmitter:
    """Collects the parts of one module's text, each written once."""

    def __init__(self, module: IRModule, target: Target, debug: bool | None = None) -> None:
        """`debug`: write debug information; without a word as the options say."""
        self.target = target
        self.triple = llvm_machine(target).triple
        self.architecture = architecture(target)
        features = self.features = target_features(target)
        first = self.triple.partition("-")[0]
        self.size_type = "i32" if first.startswith(_SMALL_POINTERS) else "i64"
        self.is_windows = "windows" in self.triple or "mingw" in self.triple
        self.float_flags = self._float_flags()
        self.converts_float16 = self.architecture == "aarch64" or bool(
            features & {"f16c", "avx512f", "fp16", "zfhmin", "zfh"}
        )
        exact, quick = "bf16" in features, "avx512bf16" in features and "fast" in self.float_flags
        self.converts_bfloat16 = (exact and self.architecture == "aarch64") or quick
        self.has_float16 = bool(features & {"avx512fp16", "fullfp16", "zfh"})
        self.functions = self._functions(module)
        self.imported: list[str] = []  # LLVM texts, or files with them
        self.imported_c: list[str] = []
        self.needs_threads = False
        self._returned: dict[str, DataType | None] = {}
        with deep_recursion():
            self._failing = self._find_failing()
        self._types: list[str] = []
        self._globals: list[str] = []
        self._bodies: list[str] = []
        self._declared: dict[str, str] = {}
        self._helpers: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._slots: dict[str, tuple[str, str]] = {}
        self._metadata: dict[str, int] = {}
        self._metadata_lines: list[str] = []
        self._constants: dict[int, tuple[str, Any]] = {}
        self._attributes = module.attrs
        wanted = wants_debug_information() if debug is None else debug
        self.debug = ModuleDebug(self) if wanted else None

    def _float_flags(self) -> str:
        attributes = self.target.attrs
        flags = [word for name, word in _FAST_MATH.items() if attributes.get(name)]
        if "fast" in flags:
            return " fast"
        if "contract" not in flags and attributes.get("fast-math-contract") is not False:
            flags.append("contract")
        return "".join([" " + word for word in flags])

    @staticmethod
    def _functions(module: IRModule) -> dict[str, PrimFunc]:
        found = {}
        for variable, function in module.functions.items():
            if not isinstance(function, PrimFunc):
                raise CodegenError(
                    f"'{variable.name_hint}' is a {type(function).__name__}; LLVM code is made "
                    "from PrimFuncs",
                    notes=("compile graph functions with relax.build",),
                )
            if function.buffer_map:
                raise CodegenError(
                    f"function '{variable.name_hint}' still has buffers as parameters",
                    notes=("lower the module first (tilesmith.lower or tilesmith.build)",),
                )
            found[variable.name_hint] = function
        return found

    def _find_failing(self) -> set[str]:
        """Names of the functions that can fail, alone or through what they call."""
        callees: dict[str, set[str]] = {}
        failing = set()
        for name, function in self.functions.items():
            finder = FailureFinder(is_on_stack)
            finder.visit(function.body)
            callees[name] = finder.callees
            self._returned[name] = returned_dtype(function, finder)
            unknown = any(callee not in self.functions for callee in finder.callees)
            if finder.can_fail or unknown:
                failing.add(name)
        changed = True
        while changed:
            more = {name for name, called in callees.items() if called & failing} - failing
            failing |= more
            changed = bool(more)
        return failing

    # -- the whole text

    def text(self, thread_runtime: bool = True) -> str:
        """The module's text, with the functions that launch parallel loops if it has any."""
        with deep_recursion():
            for name, function in self.functions.items():
                self._bodies.append(self._function_text(name, function))
        declarations: tuple[str, ...] = ()
        runtime = ""
        if self.needs_threads and not thread_runtime:
            runtime = "@__tilesmith_parallel_launch = external global ptr"
        elif self.needs_threads:
            bound = self.target.num_cores or 0
            runtime, declarations = threads.runtime_text(self.triple, self.architecture, bound)
        for line in declarations:
            self._declare_line(line)
        defined = {self.symbol_of(name) for name in self.functions}
        parts = [
            f'target triple = "{self.triple}"',
            *self._types,
            *self._globals,
            *[line for name, line in self._declared.items() if name not in defined],
            "",
            *self._bodies,
            *self._helpers.values(),
            runtime,
            *(self.debug.footer() if self.debug is not None else ()),
            *self._metadata_lines,
            "",
        ]
        return "\n".join(parts)

    def _function_text(self, name: str, function: PrimFunc) -> str:
        dtype = self._returned[name]
        returns = "status" if dtype is None else register_type(dtype)
        emitter = FunctionEmitter(self, name, returns)
        emitter.symbol = self.symbol_of(name)
        return emitter.emit(function, self._linkage(function))

    def _linkage(self, function: PrimFunc) -> str:
        public = function.attrs.get("global_symbol")
        if public is None:
            return "internal "
        if self.is_windows:
            return "dllexport " if str(public).startswith(PACKED_PREFIX) else ""
        return "" if str(public).startswith(PACKED_PREFIX) else "protected "

    # -- functions of the module

    def symbol_of(self, name: str) -> str:
        """The symbol of a function: its public name where it has one."""
        function = self.functions.get(name)
        public = function.attrs.get("global_symbol") if function is not None else None
        return kernel_symbol(str(public or name))

    def returned_type(self, name: str, call_dtype: DataType) -> str:
        """What a function gives back: `"status"` or an LLVM type."""
        if name not in self.functions:
            return "status" if call_dtype.is_void else register_type(call_dtype)
        dtype = self._returned[name]
        return "status" if dtype is None else register_type(dtype)

    def function_symbol(self, name: str, returned: str, kinds: Sequence[str]) -> str:
        """`@name` of a function of this or another object file."""
        if name in self.functions:
            return symbol(self.symbol_of(name))
        return self.declare(kernel_symbol(name), "i32" if returned == "status" else returned, kinds)

    def may_fail(self, name: str) -> bool:
        """Whether a function may report an error; one of another object file may."""
        return name not in self.functions or name in self._failing

    def add_function(self, text: str) -> None:
        """Add a function's text."""
        self._bodies.append(text)

    def add_type(self, line: str) -> None:
        """Add the definition of a structure type."""
        self._types.append(line)

    # -- declarations

    def declare(self, name: str, result: str, kinds: Sequence[str], attributes: str = "") -> str:
        """Declare a foreign function; `@name`."""
        if name not in self._declared:
            words = f" {attributes}" if attributes else ""
            self._declared[name] = f"declare {result} {symbol(name)}({', '.join(kinds)}){words}"
        return symbol(name)

    def _declare_line(self, line: str) -> None:
        name = line[line.index("@") + 1 : line.index("(")]
        self._declared.setdefault(name, line)

    def helper(self, name: str) -> str:
        """A function of `packed` or `threads` that generated code calls; `@name`."""
        if name not in self._helpers:
            text = packed.HELPERS.get(name) or threads.ERROR_HELPERS[name]
            body = []
            for line in text.strip().split("\n"):
                if line.startswith("declare"):
                    self._declare_line(line)
                else:
                    body.append(line)
            self._helpers[name] = "\n".join(body)
            for other in packed.HELPER_CALLS.get(name, ()):
                self.helper(other)
        return "@" + name

    def external_data(self, name: str) -> str:
        """A datum that another object file defines."""
        line = f"{symbol(name)} = external global i8"
        if line not in self._globals:
            self._globals.append(line)
        return symbol(name)

    def mark(self, name: str) -> None:
        """Define a symbol that tells the runtime something about the code."""
        line = f"{symbol(name)} = weak constant i8 1"
        if line not in self._globals:
            self._globals.append(line)

    def static_pointer(self) -> str:
        """A place for a pointer that lives as long as the library, null at first."""
        name = f"@static.{len(self._globals)}"
        self._globals.append(f"{name} = internal global ptr null, align 8")
        return name

    def packed_function(self, name: str) -> tuple[str, str]:
        """Where a registered function is kept once found, and its name as a TVMFFIByteArray."""
        if name not in self._slots:
            slot = self.static_pointer()
            text = self.text_constant(name)
            key = f"@name.{len(self._globals)}"
            size = len(name.encode())
            self._globals.append(
                f"{key} = private constant {{ ptr, {self.size_type} }} "
                f"{{ ptr {text}, {self.size_type} {size} }}, align 8"
            )
            self._slots[name] = (slot, key)
        return self._slots[name]

    # -- constants

    def text_constant(self, text: str) -> str:
        """A C string."""
        if text not in self._texts:
            data = text.encode() + b"\0"
            name = f"@text.{len(self._texts)}"
            self._texts[text] = name
            self._globals.append(
                f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{escape(data)}"'
            )
        return self._texts[text]

    def zero_bytes(self, size: int) -> str:
        """Zeros that may be read in place of something that must not be."""
        line = "@zeros = private unnamed_addr constant [64 x i8] zeroinitializer, align 64"
        if line not in self._globals:
            self._globals.append(line)
        return "@zeros"

    def constant_array(self, stmt: AllocateConst, emit: Any) -> str:
        """The memory of an AllocateConst: aligned, written once per array."""
        given = stmt.data_or_idx
        if isinstance(given, int):
            pool = self._attributes.get("constants", ())
            if not 0 <= given < len(pool):
                raise emit.unsupported(f"constant {given} is not among the module's constants")
            given = pool[given]
        known = self._constants.get(id(given))
        if known is None:
            array = given.numpy() if hasattr(given, "numpy") else numpy.asarray(given)
            wanted = stmt.dtype.element.numpy()
            if array.dtype != wanted:
                raise emit.unsupported(f"constant of {array.dtype} where {stmt.dtype} is declared")
            element = stmt.dtype.element
            packed = pack(array, element) if is_packed(element) else array
            data = numpy.ascontiguousarray(packed).tobytes()
            name = f"@constant.{len(self._constants)}"
            self._globals.append(
                f"{name} = private unnamed_addr constant [{len(data)} x i8] "
                f"{dtypes.bytes_constant(data)}, align {ALIGNMENT}"
            )
            known = self._constants[id(given)] = (name, given)  # keeps the array: its id is the key
        return known[0]

    # -- memory and errors

    def allocate(self, emit: Any, size: str) -> str:
        """Aligned memory of `size` bytes (an i64 operand); null when there is none."""
        kind = self.size_type
        if size.isdigit():
            rounded = str((int(size) + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT or ALIGNMENT)
        else:
            more = emit.define(f"add i64 {size}, {2 * ALIGNMENT - 1}")
            rounded = emit.define(f"and i64 {more}, {-ALIGNMENT}")
            if kind == "i32":
                rounded = emit.define(f"trunc i64 {rounded} to i32")
        if self.is_windows:
            function = self.declare("_aligned_malloc", "noalias ptr", [kind, kind])
            return emit.define(f"call ptr {function}({kind} {rounded}, {kind} {ALIGNMENT})")
        function = self.declare("aligned_alloc", "noalias ptr", [kind, kind])
        return emit.define(f"call noalias ptr {function}({kind} {ALIGNMENT}, {kind} {rounded})")

    def release(self, emit: Any, pointer: str) -> None:
        """Give memory of `allocate` back."""
        function = self.declare("_aligned_free" if self.is_windows else "free", "void", ["ptr"])
        emit.write(f"call void {function}(ptr {pointer})")

    def set_error(self, emit: Any, kind: str, message: str) -> None:
        """Set an error in tvm-ffi."""
        function = self.declare("TVMFFIErrorSetRaisedFromCStr", "void", ["ptr", "ptr"], "cold")
        texts = f"ptr {self.text_constant(kind)}, ptr {self.text_constant(message)}"
        emit.write(f"call void {function}({texts})")

    # -- numbers

    def lengths_of_vectors(self) -> str:
        """An attribute of functions: how long the vectors of SVE may be, in units of 128 bits."""
        return " vscale_range(1,16)" if "sve" in self.features else ""

    def needs_scalable_vectors(self, emit: Any) -> None:
        """CodegenError unless the CPU has vectors of a length that code does not know."""
        if not self.features & {"sve", "sme", "v", "zve32x", "zve64x"}:
            raise emit.unsupported(
                "it uses scalable vectors (T.vscale), which the target does not have",
                "AArch64 has them with -mattr=+sve, RISC-V with -mattr=+v",
            )

    def computes_directly(self, dtype: DataType) -> bool:
        """Whether the CPU computes with values of a float dtype; else float32 is used."""
        return dtype.code == "float" and (dtype.bits >= 32 or self.has_float16)

    def integer_power(self, dtype: DataType) -> str:
        """A function for `a ** b` of integers; negative exponents give what division rounds to."""
        name, kind = f"__tilesmith_power_{dtype}", register_type(dtype)
        if name not in self._helpers:
            negative = "slt" if dtype.is_int else "ult"
            self._helpers[name] = _POWER.format(name=name, kind=kind, negative=negative)
        return "@" + name

    # -- metadata

    def likely_weights(self) -> str:
        """Branch weights that say: mostly true."""
        return self.metadata('!{!"branch_weights", i32 1048575, i32 1}')

    def metadata(self, content: str) -> str:
        """A metadata node, written once; its name."""
        number = self._metadata.get(content)
        if number is None:
            number = self._metadata[content] = len(self._metadata_lines)
            self._metadata_lines.append(f"!{number} = {content}")
        return f"!{number}"

    def distinct_metadata(self, content: str) -> str:
        """A metadata node of its own; its name."""
        number = len(self._metadata_lines)
        self._metadata_lines.append(f"!{number} = distinct {content}")
        return f"!{number}"

    def loop_metadata(self, advice: Sequence[str]) -> str:
        """Metadata of one loop; every loop has its own."""
        parts = [self.metadata("!{" + line + "}") for line in advice]
        number = len(self._metadata_lines)
        self._metadata_lines.append(f"!{number} = distinct !{{!{number}, {', '.join(parts)}}}")
        return f"!{number}"


_POWER = """
define internal {kind} @{name}({kind} %base, {kind} %exponent) {{
entry:
  %is_negative = icmp {negative} {kind} %exponent, 0
  br i1 %is_negative, label %fraction, label %next
fraction:
  %is_one = icmp eq {kind} %base, 1
  %is_minus = icmp eq {kind} %base, -1
  %last = and {kind} %exponent, 1
  %is_odd_power = icmp ne {kind} %last, 0
  %sign = select i1 %is_odd_power, {kind} -1, {kind} 1
  %of_minus = select i1 %is_minus, {kind} %sign, {kind} 0
  %result.f = select i1 %is_one, {kind} 1, {kind} %of_minus
  ret {kind} %result.f
next:
  %rest = phi {kind} [ %exponent, %entry ], [ %half, %more ]
  %square = phi {kind} [ %base, %entry ], [ %squared, %more ]
  %result = phi {kind} [ 1, %entry ], [ %grown, %more ]
  %is_done = icmp eq {kind} %rest, 0
  br i1 %is_done, label %done, label %more
more:
  %bit = and {kind} %rest, 1
  %is_odd = icmp ne {kind} %bit, 0
  %multiplied = mul {kind} %result, %square
  %grown = select i1 %is_odd, {kind} %multiplied, {kind} %result
  %squared = mul {kind} %square, %square
  %half = lshr {kind} %rest, 1
  br label %next
done:
  ret {kind} %result
}}
"""
