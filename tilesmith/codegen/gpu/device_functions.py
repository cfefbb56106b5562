"""Builds small functions of CUDA C around PTX instructions that the language has no words for.

    void ldmatrix_x4(void* d_, const void* s) {
      unsigned* d = (unsigned*)d_;
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(shared_address(s)));
    }

A file holds each of them once, where a kernel of it calls it. The compiler inlines them, so that
arrays of registers stay registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["SHARED_ADDRESS", "DeviceFunction", "Registers", "ptx_function"]

WIDTH = 98


class DeviceFunction(NamedTuple):
    """A function of the device: its name and text, the least architecture that runs it (80 for
    sm_80), and the functions that it calls.
    """

    name: str
    text: str
    architecture: int = 0
    calls: tuple[DeviceFunction, ...] = ()


class Registers(NamedTuple):
    """Consecutive registers of an instruction, held in the array ``name``: so many of one kind.

    ``kind``: "r" (32 bits), "f" (float), "d" (double), "h" (16 bits) or "l" (64 bits).
    """

    name: str
    kind: str
    size: int

    @property
    def c_type(self) -> str:
        """The C type of one of them."""
        return C_TYPES[self.kind]

    def operands(self, mode: str = "") -> list[str]:
        """Return them as operands of an assembly text."""
        return [f'"{mode}{self.kind}"({self.name}[{i}])' for i in range(self.size)]

    def numbered(self, first: int) -> str:
        """Return them as the instruction names them, the first one by a number."""
        return "{" + ", ".join([f"%{first + i}" for i in range(self.size)]) + "}"


C_TYPES = {
    "r": "unsigned", "f": "float", "d": "double", "h": "unsigned short", "l": "unsigned long long",
}  # fmt: skip

SHARED_ADDRESS = DeviceFunction(
    "shared_address",
    """\
static __device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}
""",
)


def ptx_function(
    name: str,
    parameters: Sequence[Registers | str],
    instruction: str,
    outputs: Sequence[str] = (),
    inputs: Sequence[str] = (),
    *,
    architecture: int = 0,
    memory: bool = False,
    before: str = "",
    calls: tuple[DeviceFunction, ...] = (),
) -> DeviceFunction:
    """Return a function that consists of one assembly text.

    ``parameters``: declarations, or arrays of registers, which callers may hold as any type.
    ``memory``: it reads or writes memory that its operands do not name. ``before``: a statement.
    """
    declared, lines = [], [before] if before else []
    written = set(outputs)
    for parameter in parameters:
        if isinstance(parameter, str):
            declared.append(parameter)
            continue
        is_written = not written.isdisjoint([*parameter.operands("+"), *parameter.operands("=")])
        const = "" if is_written else "const "
        declared.append(f"{const}void* {parameter.name}_")
        kind = f"{const}{parameter.c_type}*"
        lines.append(f"{kind} {parameter.name} = ({kind}){parameter.name}_;")
    lines += _assembly(instruction, outputs, inputs, memory)
    head = f"static __device__ __forceinline__ void {name}({', '.join(declared)}) {{"
    text = "\n  ".join([head, *lines]) + "\n}\n"
    return DeviceFunction(name, text, architecture, calls)


def _assembly(
    instruction: str, outputs: Sequence[str], inputs: Sequence[str], memory: bool
) -> list[str]:
    parts = [": " + ", ".join(outputs), ": " + ", ".join(inputs), ': "memory"' if memory else ""]
    while parts and parts[-1] in ("", ": "):
        parts.pop()
    parts = [part.strip() for part in parts]
    first = f'asm volatile("{instruction}"'
    line = " ".join([first, *parts]) + ");"
    if len(line) <= WIDTH:
        return [line]
    parts[-1] += ");"
    return [first, *["             " + part for part in parts]]
