"""Lists the products ``wgmma`` of four warps in the PTX ISA (sm_90a), as functions.

B, and A unless it lies in registers, are named by descriptors: 64 bits with the start address and
two distances in units of 16 bytes (bits 0, 16 and 32 on) and the width of rows (bits 62 on).
"""

from __future__ import annotations

from tilesmith.codegen.gpu.device_functions import (
    SHARED_ADDRESS,
    DeviceFunction,
    Registers,
    ptx_function,
)
from tilesmith.codegen.gpu.mma_functions import PTX_KINDS, MmaError
from tilesmith.tir.warpgroup_products import OperandLayout, product_sizes

__all__ = [
    "COMMIT", "DESCRIPTOR", "DESCRIPTOR_MODES", "FENCE", "FENCE_PROXY", "wait_function",
    "wgmma_function",
]  # fmt: skip

ARCHITECTURE = 90
_RESULTS = {"f32": ("f", 1), "f16": ("r", 2), "s32": ("r", 1)}  # register, results in each

# by the type of A: the steps, the types of B and of the results
_PRODUCTS: dict[str, tuple[int, tuple[str, ...], tuple[str, ...]]] = {
    "f16": (16, ("f16",), ("f16", "f32")),
    "bf16": (16, ("bf16",), ("f32",)),
    "tf32": (8, ("tf32",), ("f32",)),
    "e4m3": (32, ("e4m3", "e5m2"), ("f16", "f32")),
    "e5m2": (32, ("e4m3", "e5m2"), ("f16", "f32")),
    "s8": (32, ("s8", "u8"), ("s32",)),
    "u8": (32, ("s8", "u8"), ("s32",)),
}
_COLUMNS = tuple(range(8, 257, 8))
_COLUMNS_OF_BYTES = (8, 16, 24, *range(32, 257, 16))

DESCRIPTOR_MODES = {16: 0, 128: 1, 64: 2, 32: 3}
"""How a descriptor says the bytes of a row."""

DESCRIPTOR = DeviceFunction(
    "matrix_descriptor",
    """\
static __device__ __forceinline__ unsigned long long matrix_descriptor(
    const void* start, unsigned leading, unsigned stride, unsigned mode) {
  return (unsigned long long)((shared_address(start) & 0x3ffff) >> 4) |
         (unsigned long long)(leading >> 4) << 16 | (unsigned long long)(stride >> 4) << 32 |
         (unsigned long long)mode << 62;
}
""",
    ARCHITECTURE,
    (SHARED_ADDRESS,),
)

FENCE = ptx_function(
    "wgmma_fence", (), "wgmma.fence.sync.aligned;", architecture=ARCHITECTURE, memory=True
)
COMMIT = ptx_function(
    "wgmma_commit", (), "wgmma.commit_group.sync.aligned;", architecture=ARCHITECTURE, memory=True
)
FENCE_PROXY = ptx_function(
    "fence_proxy_async", (), "fence.proxy.async.shared::cta;", architecture=90, memory=True
)


def wait_function(pending: int) -> DeviceFunction:
    """Return the wait until at most so many groups of products are pending. Raises MmaError."""
    if pending not in range(8):
        raise MmaError(f"wgmma.wait_group leaves 0 to 7 groups pending, not {pending}")
    return ptx_function(
        f"wgmma_wait_{pending}", (), f"wgmma.wait_group.sync.aligned {pending};",
        architecture=ARCHITECTURE, memory=True,
    )  # fmt: skip


def _checked(
    shape: str, kinds: tuple[str, str, str], layouts: tuple[OperandLayout, OperandLayout]
) -> tuple[int, str, str, str]:
    """Return the columns and the types in PTX, if there is such a product. Raises MmaError."""
    found = [PTX_KINDS.get(kind) for kind in kinds]
    a, b, c = [kind.ptx if kind is not None else "" for kind in found]
    try:
        columns, steps = product_sizes(shape)
    except ValueError as error:
        raise MmaError(str(error)) from None
    if a not in _PRODUCTS:
        raise MmaError(f"wgmma does not multiply {kinds[0]}; it does {', '.join(_PRODUCTS)}")
    depth, others, results = _PRODUCTS[a]
    if steps != depth or b not in others or c not in results:
        raise MmaError(
            f"wgmma on {kinds[0]} has {depth} steps, takes {' or '.join(others)} as B and gives "
            f"{' or '.join(results)}; not '{shape}' on {', '.join(kinds)}"
        )
    allowed = _COLUMNS_OF_BYTES if c == "s32" else _COLUMNS
    if columns not in allowed:
        raise MmaError(f"wgmma on {kinds[0]} has no {columns} columns: {_listed(allowed)}")
    if depth != 16 and "mn" in [layout.major for layout in layouts]:
        raise MmaError(f"wgmma on {kinds[0]} reads rows along k only, not along m or n")
    if layouts[1].major == "registers":
        raise MmaError("wgmma takes A from registers, and B from shared memory only")
    return columns, a, b, c


def _listed(columns: tuple[int, ...]) -> str:
    return ", ".join([str(one) for one in columns])


def wgmma_function(
    shape: str, kinds: tuple[str, str, str], layouts: tuple[OperandLayout, OperandLayout]
) -> DeviceFunction:
    """Return ``c = a * b`` or ``c += a * b`` of four warps; ``kinds`` are those of A, B and the
    results. Raises MmaError.
    """
    columns, a, b, c = _checked(shape, kinds, layouts)
    register, packed = _RESULTS[c]
    held = Registers("c", register, columns // 2 // packed)
    in_registers = layouts[0].major == "registers"
    registers = Registers("a", "r", 4)
    inputs = registers.operands() if in_registers else ['"l"(a)']
    after = held.size + len(inputs)
    first = registers.numbered(held.size) if in_registers else f"%{held.size}"
    scales = "" if c == "s32" else ", 1, 1"
    if a in ("f16", "bf16"):
        turned = [int(layout.major == "mn") for layout in layouts]
        scales += f", {turned[1]}" if in_registers else f", {turned[0]}, {turned[1]}"
    instruction = (
        f"{{ .reg .pred p; setp.ne.b32 p, %{after + 1}, 0; "
        f"wgmma.mma_async.sync.aligned.{shape}.{c}.{a}.{b} {held.numbered(0)}, {first}, "
        f"%{after}, p{scales}; }}"
    )
    side = "registers" if in_registers else "unsigned long long a"
    name = f"wgmma_{shape}_{c}_{a}_{b}_{layouts[0].major}_{layouts[1].major}"
    return ptx_function(
        name,
        (held, registers if side == "registers" else side, "unsigned long long b", "int adds"),
        instruction,
        held.operands("+"),
        [*inputs, '"l"(b)', '"r"(adds)'],
        architecture=ARCHITECTURE,
        memory=True,
    )
