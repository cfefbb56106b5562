"""Writes the instructions of one function, line by line.

A value is the text of an operand: a local name or a constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilesmith.codegen.llvm.dtypes import register_type, splat
from tilesmith.codegen.llvm.machine import Machine
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import CodegenError

__all__ = ["Builder"]


class Builder:
    """The text of a function's body. ``name`` is the function's, for messages.

    ``block`` is the label of the block that is being written, ``allocas`` are instructions of the
    entry block, ``tail`` blocks that are rarely reached.
    """

    def __init__(self, name: str, machine: Machine) -> None:
        self.name = name
        self.machine = machine
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.tail: list[str] = []
        self.block = "entry"
        self._count = 0

    # -- names and lines

    def number(self) -> int:
        """Return a number that makes a name unique in the function."""
        self._count += 1
        return self._count

    def label(self, hint: str) -> str:
        """Return a new label."""
        return f"{hint}.{self.number()}"

    def define(self, instruction: str, hint: str = "v") -> str:
        """Write an instruction; return the name of its result."""
        self._count += 1
        name = f"%{hint}.{self._count}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def write(self, instruction: str) -> None:
        """Write an instruction without result."""
        self.lines.append("  " + instruction)

    def begin_block(self, label: str) -> None:
        """Write a label; the lines that follow belong to this block."""
        self.lines.append(label + ":")
        self.block = label

    @contextmanager
    def rare_block(self, label: str) -> Iterator[list[str]]:
        """Begin a block that is placed at the end of the function; yield its lines."""
        outer, self.lines = self.lines, []
        self.begin_block(label)
        yield self.lines
        self.tail += self.lines
        self.lines = outer

    def unsupported(self, what: str, *notes: str) -> CodegenError:
        """Return the error for code that this back end cannot translate."""
        return CodegenError(f"function '{self.name}': {what}", notes=notes)

    # -- memory in the function's frame

    def stack_array(self, name: str, kind: str, alignment: int) -> str:
        """Reserve memory of an LLVM type in the function's frame; ``name`` has no number."""
        full = f"%{name}.{self.number()}"
        self.allocas.append(f"  {full} = alloca {kind}, align {alignment}")
        return full

    def stack_space(self, size: int, alignment: int) -> str:
        """Reserve bytes in the function's frame."""
        return self.stack_array("stack", f"[{size} x i8]", alignment)

    # -- vectors

    def broadcast(self, value: str, dtype: DataType) -> str:
        """Broadcast a scalar to all lanes of the vector type `dtype`."""
        if dtype.lanes == 1:
            return value
        if value[0] != "%":
            return splat(value, dtype)
        vector, element = register_type(dtype), register_type(dtype.element)
        first = self.define(f"insertelement {vector} poison, {element} {value}, i64 0")
        zeros = f"<{dtype.lanes} x i32> zeroinitializer"
        return self.define(f"shufflevector {vector} {first}, {vector} poison, {zeros}")

    def lane(self, vector: str, dtype: DataType, number: int) -> str:
        """Extract one lane of a vector value of type `dtype`."""
        if dtype.lanes == 1:
            return vector
        self._require_fixed_lanes(dtype)
        return self.define(f"extractelement {register_type(dtype)} {vector}, i64 {number}")

    def from_lanes(self, lanes: list[str], dtype: DataType) -> str:
        """Build the vector of type `dtype` from scalar operands."""
        if dtype.lanes == 1:
            return lanes[0]
        self._require_fixed_lanes(dtype)
        vector, element = register_type(dtype), register_type(dtype.element)
        made = "poison"
        for number, lane in enumerate(lanes):
            made = self.define(f"insertelement {vector} {made}, {element} {lane}, i64 {number}")
        return made

    def _require_fixed_lanes(self, dtype: DataType) -> None:
        """Raise CodegenError if the number of lanes is not known, so that lanes cannot be taken one
        by one.
        """
        if dtype.is_scalable:
            raise self.unsupported(
                f"an operation on a scalable vector ({dtype}) goes lane by lane",
                "use arithmetic, comparisons, loads and stores; or vectors of a fixed length",
            )

    def require_scalable_vectors(self) -> None:
        """Raise CodegenError unless the CPU has vectors whose length is not known at compile
        time.
        """
        if not self.machine.has_scalable_vectors:
            raise self.unsupported(
                "it uses scalable vectors (T.vscale), which the target does not have",
                "AArch64 has them with -mattr=+sve, RISC-V with -mattr=+v",
            )

    def shuffle(self, vector: str, first: str, second: str, picked: list[int]) -> str:
        """Write a `shufflevector` of two vectors of LLVM type `vector`."""
        if vector.startswith("<vscale"):
            raise self.unsupported("lanes of a scalable vector cannot be picked by number")
        numbers = ", ".join([f"i32 {number}" for number in picked])
        mask = f"<{len(picked)} x i32> <{numbers}>"
        return self.define(f"shufflevector {vector} {first}, {vector} {second}, {mask}")
