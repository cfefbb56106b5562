"""Collects the parts of a module's text beside its functions: constants, declarations, helpers,
types.

Each is written once, in the order of first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.codegen.llvm import dtypes
from tilesmith.codegen.llvm.dtypes import escape, register_type, symbol
from tilesmith.codegen.llvm.helpers import HELPER_CALLS, HELPERS, POWER
from tilesmith.codegen.llvm.metadata import Metadata
from tilesmith.runtime.dtype import DataType

__all__ = ["ModuleText"]


class ModuleText:
    """Collects the parts of one module's text. ``size_type`` is the integer of a pointer's width.

    ``imported`` are LLVM texts or files with them that the code imports, ``imported_c`` those of C;
    ``needs_threads`` says that parallel loops are launched. ``constants`` are the arrays that
    functions refer to by number.
    """

    def __init__(self, size_type: str, constants: Sequence[Any] = ()) -> None:
        self.size_type = size_type
        self.constants = constants
        self.metadata = Metadata()
        self.types: list[str] = []
        self.globals: list[str] = []
        self.functions: list[str] = []
        self.declared: dict[str, str] = {}
        self.helpers: dict[str, str] = {}
        self.imported: list[str] = []
        self.imported_c: list[str] = []
        self.needs_threads = False
        self._texts: dict[str, str] = {}
        self._slots: dict[str, tuple[str, str]] = {}
        self._constants: dict[int, tuple[str, Any]] = {}

    # -- declarations

    def declare(self, name: str, result: str, kinds: Sequence[str], attributes: str = "") -> str:
        """Declare a foreign function; return `@name`."""
        if name not in self.declared:
            words = f" {attributes}" if attributes else ""
            self.declared[name] = f"declare {result} {symbol(name)}({', '.join(kinds)}){words}"
        return symbol(name)

    def declare_line(self, line: str) -> None:
        name = line[line.index("@") + 1 : line.index("(")]
        self.declared.setdefault(name, line)

    def helper(self, name: str) -> str:
        """Add a function of `helpers`; return `@name`."""
        if name not in self.helpers:
            text = HELPERS[name]
            body = []
            for line in text.strip().split("\n"):
                if line.startswith("declare"):
                    self.declare_line(line)
                else:
                    body.append(line)
            self.helpers[name] = "\n".join(body)
            for other in HELPER_CALLS.get(name, ()):
                self.helper(other)
        return "@" + name

    def external_data(self, name: str) -> str:
        """Declare data that another object file defines."""
        line = f"{symbol(name)} = external global i8"
        if line not in self.globals:
            self.globals.append(line)
        return symbol(name)

    def mark(self, name: str, data: bytes = b"\1") -> None:
        """Define a symbol that marks a property of the code for the runtime."""
        line = f'{symbol(name)} = weak constant [{len(data)} x i8] c"{escape(data)}"'
        if line not in self.globals:
            self.globals.append(line)

    def static_pointer(self) -> str:
        """Define a pointer that lives as long as the library, null at first."""
        name = f"@static.{len(self.globals)}"
        self.globals.append(f"{name} = internal global ptr null, align 8")
        return name

    def packed_function(self, name: str) -> tuple[str, str]:
        """Define where a registered function is cached, and its name as a TVMFFIByteArray."""
        if name not in self._slots:
            slot = self.static_pointer()
            text = self.constant_text(name)
            key = f"@name.{len(self.globals)}"
            size = len(name.encode())
            self.globals.append(
                f"{key} = private constant {{ ptr, {self.size_type} }} "
                f"{{ ptr {text}, {self.size_type} {size} }}, align 8"
            )
            self._slots[name] = (slot, key)
        return self._slots[name]

    # -- constants

    def constant_text(self, text: str) -> str:
        """Define a C string."""
        if text not in self._texts:
            data = text.encode() + b"\0"
            name = f"@text.{len(self._texts)}"
            self._texts[text] = name
            self.globals.append(
                f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{escape(data)}"'
            )
        return self._texts[text]

    def zero_bytes(self, size: int) -> str:
        """Define zeros that are read instead of memory that must not be accessed."""
        line = "@zeros = private unnamed_addr constant [64 x i8] zeroinitializer, align 64"
        if line not in self.globals:
            self.globals.append(line)
        return "@zeros"

    def constant_data(self, source: Any, data: bytes, alignment: int) -> str:
        """Define bytes in memory, written once for each ``source`` (the object that they are made
        from).
        """
        name = f"@constant.{len(self._constants)}"
        self.globals.append(
            f"{name} = private unnamed_addr constant [{len(data)} x i8] "
            f"{dtypes.bytes_constant(data)}, align {alignment}"
        )
        self._constants[id(source)] = (name, source)  # keeps the source alive: its id is the key
        return name

    def known_data(self, source: Any) -> str | None:
        """Return the memory that `constant_data` has defined for a source."""
        known = self._constants.get(id(source))
        return None if known is None else known[0]

    def shared_memory(self, size: int, alignment: int) -> str:
        """Define memory that the threads of a block share, as a generic pointer; 0 bytes: the size
        is given when the kernel is launched.
        """
        name = f"@shared_{len(self.globals)}"  # PTX takes no dots in names that it does not own
        linkage = "internal" if size else "external"
        value = " undef" if size else ""
        self.globals.append(
            f"{name} = {linkage} addrspace(3) global [{size} x i8]{value}, align {alignment}"
        )
        return f"addrspacecast (ptr addrspace(3) {name} to ptr)"

    def integer_power(self, dtype: DataType) -> str:
        """Define a function for `a ** b` of integers; negative exponents return the rounded
        quotient.
        """
        name, kind = f"__tilesmith_power_{dtype}", register_type(dtype)
        if name not in self.helpers:
            negative = "slt" if dtype.is_int else "ult"
            self.helpers[name] = POWER.format(name=name, kind=kind, negative=negative)
        return "@" + name
