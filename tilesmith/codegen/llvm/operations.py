"""Writes operations on operands whose dtype decides the instruction: floats, comparisons, bytes.

float16 and bfloat16 are computed in float32 and rounded after each operation, unless the CPU has
float16 arithmetic.
"""

from __future__ import annotations

from tilesmith.codegen.llvm.builder import Builder
from tilesmith.codegen.llvm.conversions import convert
from tilesmith.codegen.llvm.dtypes import memory_type, register_type
from tilesmith.runtime.dtype import DataType

__all__ = [
    "FLOAT32", "bool_type", "compare", "float_operation", "from_memory", "intrinsic", "to_memory",
]  # fmt: skip

FLOAT32 = DataType("float32")

# Comparisons: of floats, of signed and of unsigned numbers.
_COMPARE = {
    "EQ": ("oeq", "eq", "eq"),
    "NE": ("une", "ne", "ne"),
    "LT": ("olt", "slt", "ult"),
    "LE": ("ole", "sle", "ule"),
    "GT": ("ogt", "sgt", "ugt"),
    "GE": ("oge", "sge", "uge"),
}


def bool_type(dtype: DataType) -> str:
    """Return LLVM's type of a condition on each lane of a dtype."""
    return "i1" if dtype.lanes == 1 else f"<{dtype.lanes} x i1>"


def float_operation(out: Builder, operation: str, values: list[str], dtype: DataType) -> str:
    """Write an instruction on floats (`fadd contract`); narrow ones are computed in float32."""
    if out.machine.computes_directly(dtype):
        return out.define(f"{operation} {register_type(dtype)} {', '.join(values)}")
    wide = FLOAT32.with_lanes(dtype.lanes)
    widened = [convert(out, value, dtype, wide) for value in values]
    result = out.define(f"{operation} {register_type(wide)} {', '.join(widened)}")
    return convert(out, result, wide, dtype)


def intrinsic(out: Builder, name: str, values: list[str], dtype: DataType) -> str:
    """Call an LLVM intrinsic on floats whose operands and result have one type."""
    if not out.machine.computes_directly(dtype):
        wide = FLOAT32.with_lanes(dtype.lanes)
        widened = [convert(out, value, dtype, wide) for value in values]
        return convert(out, intrinsic(out, name, widened, wide), wide, dtype)
    kind = register_type(dtype)
    arguments = ", ".join([f"{kind} {value}" for value in values])
    return out.define(f"call {kind} @llvm.{name}({arguments})")


def compare(out: Builder, name: str, a: str, b: str, dtype: DataType) -> str:
    """Write a comparison by its class name (`"LT"`) of two operands of type `dtype`."""
    floating, signed, unsigned = _COMPARE[name]
    if dtype.is_float and not out.machine.computes_directly(dtype):
        wide = FLOAT32.with_lanes(dtype.lanes)
        a, b, dtype = convert(out, a, dtype, wide), convert(out, b, dtype, wide), wide
    kind = register_type(dtype)
    if dtype.is_float:
        return out.define(f"fcmp {floating} {kind} {a}, {b}")
    return out.define(f"icmp {signed if dtype.is_int else unsigned} {kind} {a}, {b}")


def from_memory(out: Builder, value: str, dtype: DataType) -> str:
    """Convert a loaded value to a register value: bytes become booleans."""
    if not dtype.is_bool:
        return value
    zero = "0" if dtype.lanes == 1 else "zeroinitializer"
    return out.define(f"icmp ne {memory_type(dtype)} {value}, {zero}")


def to_memory(out: Builder, value: str, dtype: DataType) -> str:
    """Convert a value to its form in memory."""
    if not dtype.is_bool:
        return value
    return out.define(f"zext {register_type(dtype)} {value} to {memory_type(dtype)}")
