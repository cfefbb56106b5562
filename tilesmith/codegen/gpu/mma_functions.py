"""Lists the products ``mma``, ``mma.sp`` and the loads ``ldmatrix`` of the PTX ISA, as functions.

Operands are arrays of registers of one thread. An operand of ``rows`` by ``columns`` elements lies
in the registers of 32 threads, so each holds ``rows * columns / 32`` elements: packed into 32 bits,
except for results in float32 and matrices of float64.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tilesmith.codegen.gpu.device_functions import (
    SHARED_ADDRESS,
    DeviceFunction,
    Registers,
    ptx_function,
)

__all__ = [
    "PTX_KINDS", "ROUND_TO_TF32", "MmaError", "ldmatrix_function", "mma_function",
    "mma_sp_function",
]  # fmt: skip


class Kind(NamedTuple):
    """A type of elements: its name in PTX and its bits."""

    ptx: str
    bits: int


PTX_KINDS: dict[str, Kind] = {
    "fp16": Kind("f16", 16), "float16": Kind("f16", 16), "f16": Kind("f16", 16),
    "bf16": Kind("bf16", 16), "bfloat16": Kind("bf16", 16),
    "tf32": Kind("tf32", 32),
    "fp32": Kind("f32", 32), "float32": Kind("f32", 32), "f32": Kind("f32", 32),
    "fp64": Kind("f64", 64), "float64": Kind("f64", 64), "f64": Kind("f64", 64),
    "e4m3": Kind("e4m3", 8), "e4m3_float8": Kind("e4m3", 8),
    "e5m2": Kind("e5m2", 8), "e5m2_float8": Kind("e5m2", 8),
    "s8": Kind("s8", 8), "int8": Kind("s8", 8), "u8": Kind("u8", 8), "uint8": Kind("u8", 8),
    "s4": Kind("s4", 4), "int4": Kind("s4", 4), "u4": Kind("u4", 4), "uint4": Kind("u4", 4),
    "b1": Kind("b1", 1), "int1": Kind("b1", 1), "uint1": Kind("b1", 1),
    "s32": Kind("s32", 32), "int32": Kind("s32", 32),
}  # fmt: skip
"""What programs call the types of elements."""

_INTEGERS = ("s8", "u8", "s4", "u4")

# by the type of A: the shape and the least architecture
_SHAPES: dict[str, dict[str, int]] = {
    "f16": {"m8n8k4": 70, "m16n8k8": 75, "m16n8k16": 80},
    "bf16": {"m16n8k8": 80, "m16n8k16": 80},
    "tf32": {"m16n8k4": 80, "m16n8k8": 80},
    "f64": {"m8n8k4": 80, "m16n8k4": 90, "m16n8k8": 90, "m16n8k16": 90},
    "e4m3": {"m16n8k16": 89, "m16n8k32": 89},
    "e5m2": {"m16n8k16": 89, "m16n8k32": 89},
    "s8": {"m8n8k16": 75, "m16n8k16": 80, "m16n8k32": 80},
    "u8": {"m8n8k16": 75, "m16n8k16": 80, "m16n8k32": 80},
    "s4": {"m8n8k32": 75, "m16n8k32": 80, "m16n8k64": 80},
    "u4": {"m8n8k32": 75, "m16n8k32": 80, "m16n8k64": 80},
    "b1": {"m8n8k128": 75, "m16n8k128": 80, "m16n8k256": 80},
}
_SPARSE_SHAPES: dict[str, dict[str, int]] = {
    "f16": {"m16n8k16": 80, "m16n8k32": 80},
    "bf16": {"m16n8k16": 80, "m16n8k32": 80},
    "tf32": {"m16n8k8": 80, "m16n8k16": 80},
    "e4m3": {"m16n8k64": 89}, "e5m2": {"m16n8k64": 89},
    "s8": {"m16n8k32": 80, "m16n8k64": 80}, "u8": {"m16n8k32": 80, "m16n8k64": 80},
    "s4": {"m16n8k64": 80, "m16n8k128": 80}, "u4": {"m16n8k64": 80, "m16n8k128": 80},
}  # fmt: skip
# by the type of A: the types of B and of the results
_PARTNERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "f16": (("f16",), ("f16", "f32")),
    "bf16": (("bf16",), ("f32",)),
    "tf32": (("tf32",), ("f32",)),
    "f64": (("f64",), ("f64",)),
    "e4m3": (("e4m3", "e5m2"), ("f16", "f32")),
    "e5m2": (("e4m3", "e5m2"), ("f16", "f32")),
    "s8": (("s8", "u8"), ("s32",)), "u8": (("s8", "u8"), ("s32",)),
    "s4": (("s4", "u4"), ("s32",)), "u4": (("s4", "u4"), ("s32",)),
    "b1": (("b1",), ("s32",)),
}  # fmt: skip
_RESULT_REGISTERS = {"f32": "f", "f64": "d", "s32": "r", "f16": "r"}


_ROUND_TO_TF32 = """\
static __device__ __forceinline__ float round_to_tf32(float x) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
}
"""
ROUND_TO_TF32 = DeviceFunction("round_to_tf32", _ROUND_TO_TF32, 80)
"""The rounding of a float to what tensor cores multiply as tf32; these only cut bits off."""


class MmaError(ValueError):
    """There is no such instruction; the text says what there is."""


class _Product(NamedTuple):
    m: int
    n: int
    k: int
    a: Kind
    b: Kind
    c: Kind
    architecture: int


def _product(
    shapes: dict[str, dict[str, int]], shape: str, kinds: tuple[str, str, str], name: str
) -> _Product:
    """Return an instruction, if the PTX ISA has it."""
    sizes = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape)
    a, b, c = [PTX_KINDS.get(kind) for kind in kinds]
    if sizes is None or a is None or b is None or c is None or a.ptx not in shapes:
        raise MmaError(f"{name} of shape '{shape}' on {', '.join(kinds)} is not known")
    if shape not in shapes[a.ptx]:
        known = ", ".join(shapes[a.ptx])
        raise MmaError(f"{name} on {kinds[0]} has no shape '{shape}'; its shapes are {known}")
    others, results = _PARTNERS[a.ptx]
    if b.ptx not in others or c.ptx not in results:
        raise MmaError(
            f"{name} of {kinds[0]} and {kinds[1]} does not give {kinds[2]}: with {kinds[0]} go "
            f"{' and '.join(others)}, which give {' or '.join(results)}"
        )
    m, n, k = [int(size) for size in sizes.groups()]
    return _Product(m, n, k, a, b, c, shapes[a.ptx][shape])


def _held(name: str, kind: Kind, elements: int, register: str = "r") -> Registers:
    """Return the registers of one thread for so many elements of a matrix."""
    mine = elements // 32
    if kind.bits == 64:
        return Registers(name, "d", mine)
    return Registers(name, register, mine * kind.bits // 32)


def _layouts(layouts: tuple[str, str], any_layout: bool, name: str) -> tuple[str, str]:
    short = {"row": "row", "col": "col", "row_major": "row", "col_major": "col"}
    known = tuple([short.get(layout, layout) for layout in layouts])
    if known != ("row", "col") and not (any_layout and set(known) <= {"row", "col"}):
        raise MmaError(
            f"{name} multiplies A in 'row' by B in 'col', not {layouts[0]}, {layouts[1]}"
        )
    return known[0], known[1]


def mma_function(
    shape: str,
    layouts: tuple[str, str],
    kinds: tuple[str, str, str],
    saturate: bool = False,
    operator: str = "",
) -> DeviceFunction:
    """Return ``c += a * b`` of registers; ``kinds`` are those of A, B and the results.

    ``operator``: "xor" or "and", how bits are multiplied. Raises ``MmaError``.
    """
    product = _product(_SHAPES, shape, kinds, "mma")
    m, n, k, a, b, c, architecture = product
    in_quads = shape == "m8n8k4" and a.ptx == "f16"
    layouts = _layouts(layouts, in_quads, f"mma {shape}")
    tail, words = _options(a, saturate, operator)
    if operator == "and":
        architecture = max(architecture, 80)
    # In m8n8k4 of float16, eight threads hold the operands of each of four products.
    factor = 4 if in_quads else 1
    held_a, held_b = _held("a", a, m * k * factor), _held("b", b, k * n * factor)
    held_c = _held("c", c, m * n * factor, _RESULT_REGISTERS[c.ptx])
    order = f"{held_c.numbered(0)}, {held_a.numbered(held_c.size)}, " + (
        f"{held_b.numbered(held_c.size + held_a.size)}, {held_c.numbered(0)}"
    )
    kinds_text = f"{c.ptx}.{a.ptx}.{b.ptx}.{c.ptx}{tail[1]}"
    head = f"mma.sync.aligned.{shape}.{'.'.join(layouts)}{tail[0]}"
    instruction = f"{head}.{kinds_text} {order};"
    name = f"mma_{shape}_{'_'.join(layouts)}_{c.ptx}_{a.ptx}_{b.ptx}{words}"
    return ptx_function(
        name,
        (held_c, held_a, held_b),
        instruction,
        held_c.operands("+"),
        [*held_a.operands(), *held_b.operands()],
        architecture=architecture,
    )


def _options(a: Kind, saturate: bool, operator: str) -> tuple[tuple[str, str], str]:
    """Return the words of options before and after the types, and in the function's name."""
    if (a.ptx == "b1") != bool(operator):
        what = "needs the operator 'xor' or 'and'" if a.ptx == "b1" else "has no operator"
        raise MmaError(f"mma on {a.ptx} {what}")
    if operator not in ("", "xor", "and"):
        raise MmaError(f"mma multiplies bits by 'xor' or 'and', not '{operator}'")
    if saturate and a.ptx not in _INTEGERS:
        raise MmaError(f"mma on {a.ptx} cannot saturate; it can on bytes and int4")
    before = ".satfinite" if saturate else ""
    after = f".{operator}.popc" if operator else ""
    return (before, after), "_saturated" * saturate + f"_{operator}" * bool(operator)


def _threads_with_metadata(a: Kind, k: int) -> int:
    """Return how many of four neighbouring threads give metadata of two rows of A: 32 bits each,
    of which four belong to a group of 8 (int4), 2 (tf32) or 4 (others) elements before half of
    them, or all but one of two, are left out.
    """
    group = {4: 8, 32: 2}.get(a.bits, 4)
    return 2 * 4 * (k // group) // 32


def mma_sp_function(
    shape: str,
    layouts: tuple[str, str],
    kinds: tuple[str, str, str],
    selector: int,
    saturate: bool = False,
) -> DeviceFunction:
    """Return ``c += a * b`` where A keeps half of its elements, and ``metadata`` says which.

    ``selector``: which threads give the metadata. Raises ``MmaError``.
    """
    m, n, k, a, b, c, architecture = _product(_SPARSE_SHAPES, shape, kinds, "mma.sp")
    if a.bits == 8 and c.ptx == "f16":
        raise MmaError(f"mma.sp on {kinds[0]} adds up in fp32, not in {kinds[2]}")
    layouts = _layouts(layouts, False, f"mma.sp {shape}")
    tail, words = _options(a, saturate, "")
    selectors = 4 // _threads_with_metadata(a, k)
    if selector not in range(selectors):
        known = ", ".join([str(one) for one in range(selectors)])
        raise MmaError(f"the selector of mma.sp {shape} on {kinds[0]} is {known}, not {selector}")
    held_a, held_b = _held("a", a, m * k // 2), _held("b", b, k * n)
    held_c = _held("c", c, m * n, _RESULT_REGISTERS[c.ptx])
    after_a = held_c.size + held_a.size
    order = (
        f"{held_c.numbered(0)}, {held_a.numbered(held_c.size)}, {held_b.numbered(after_a)}, "
        f"{held_c.numbered(0)}, %{after_a + held_b.size}, {selector:#x}"
    )
    instruction = (
        f"mma.sp.sync.aligned.{shape}.row.col{tail[0]}.{c.ptx}.{a.ptx}.{b.ptx}.{c.ptx} {order};"
    )
    return ptx_function(
        f"mma_sp_{shape}_{c.ptx}_{a.ptx}_{b.ptx}_{selector}{words}",
        (held_c, held_a, held_b, "unsigned metadata"),
        instruction,
        held_c.operands("+"),
        [*held_a.operands(), *held_b.operands(), '"r"(metadata)'],
        architecture=architecture,
    )


def ldmatrix_function(count: int, transposed: bool) -> DeviceFunction:
    """Return the load of 1, 2 or 4 matrices of 8 rows of 16 bytes from shared memory."""
    if count not in (1, 2, 4):
        raise MmaError(f"ldmatrix loads 1, 2 or 4 matrices, not {count}")
    held = Registers("d", "r", count)
    word = ".trans" if transposed else ""
    return ptx_function(
        f"ldmatrix_x{count}{'_trans' * transposed}",
        (held, "const void* s"),
        f"ldmatrix.sync.aligned.m8n8.x{count}{word}.shared.b16 {held.numbered(0)}, [%{count}];",
        held.operands("="),
        ['"r"(shared_address(s))'],
        architecture=75,
        memory=True,
        calls=(SHARED_ADDRESS,),
    )
