"""Lists the instructions of matrix fragments (``wmma``) of the PTX ISA, as functions.

A fragment is an array of registers of each thread, whose order only these instructions know. The
header ``mma.h``, which has a class for it, does not come with NVRTC; the instructions need none.
"""

from __future__ import annotations

from typing import NamedTuple

from tilesmith.codegen.gpu.device_functions import (
    SHARED_ADDRESS,
    DeviceFunction,
    Registers,
    ptx_function,
)
from tilesmith.codegen.gpu.mma_functions import PTX_KINDS, ROUND_TO_TF32, Kind, MmaError

__all__ = ["Fragment", "fill_function", "fragment_kind", "move_function", "product_function"]

_TILES = ("m16n16k16", "m32n8k16", "m8n32k16")
# by the type of A and B: shapes and the least architecture, the types of results, any layouts
_SHAPES: dict[str, tuple[dict[str, int], tuple[str, ...], bool]] = {
    "f16": (dict.fromkeys(_TILES, 70), ("f16", "f32"), True),
    "bf16": (dict.fromkeys(_TILES, 80), ("f32",), True),
    "tf32": ({"m16n16k8": 80}, ("f32",), True),
    "f64": ({"m8n8k4": 80}, ("f64",), True),
    "s8": (dict.fromkeys(_TILES, 72), ("s32",), True),
    "u8": (dict.fromkeys(_TILES, 72), ("s32",), True),
    "s4": ({"m8n8k32": 75}, ("s32",), False),
    "u4": ({"m8n8k32": 75}, ("s32",), False),
    "b1": ({"m8n8k128": 75}, ("s32",), False),
}
_ROLES = {"matrix_a": "a", "matrix_b": "b", "accumulator": "c"}
_SPACES = {
    "shared": (".shared", '"r"(shared_address(p))', (SHARED_ADDRESS,)),
    "global": (".global", '"l"(__cvta_generic_to_global(p))', ()),
}


class Fragment(NamedTuple):
    """A fragment: its role ("matrix_a", "matrix_b" or "accumulator"), shape ("m16n16k16"), the
    kind of its elements, and its layout in memory ("row" or "col"; of accumulators "").
    """

    role: str
    shape: str
    kind: Kind
    layout: str = ""

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The sizes m, n and k."""
        m, _, rest = self.shape[1:].partition("n")
        n, _, k = rest.partition("k")
        return int(m), int(n), int(k)

    @property
    def elements(self) -> int:
        """The number of elements of the whole matrix."""
        m, n, k = self.sizes
        return {"matrix_a": m * k, "matrix_b": k * n, "accumulator": m * n}[self.role]

    def registers(self, name: str) -> Registers:
        """Return the registers in which a thread holds its part."""
        mine = self.elements // 32
        if self.kind.ptx == "f64":
            return Registers(name, "d", mine)
        if self.kind.ptx == "f32":
            return Registers(name, "f", mine)
        if self.kind.ptx == "f16" and self.role != "accumulator":
            return Registers(name, "r", 8)  # each element twice
        return Registers(name, "r", mine * self.kind.bits // 32)

    def check(self) -> int:
        """Return the least architecture that has it; raises ``MmaError`` if there is none."""
        kind = self.kind.ptx
        if self.role == "accumulator":
            known: dict[str, int] = {}
            for shapes, results, _ in _SHAPES.values():
                for shape, level in shapes.items() if kind in results else ():
                    known[shape] = min(level, known.get(shape, level))
        else:
            known = _SHAPES.get(kind, ({}, (), False))[0]
        if self.shape not in known:
            what = f"its shapes are {', '.join(known)}" if known else "it has no fragments at all"
            raise MmaError(f"there is no {self.role} of {kind} of shape {self.shape}: {what}")
        return known[self.shape]


def fragment_kind(dtype: str, role: str) -> Kind:
    """Return the kind of elements of fragments of a dtype: float32 as an operand means tf32."""
    if dtype not in PTX_KINDS:
        raise MmaError(f"fragments of {dtype} do not exist")
    kind = PTX_KINDS[dtype]
    return PTX_KINDS["tf32"] if kind.ptx == "f32" and role != "accumulator" else kind


def move_function(fragment: Fragment, stores: bool, space: str) -> DeviceFunction:
    """Return the load or the store of a fragment; ``space``: "shared" or "global".

    The layout of an accumulator is that of the memory here.
    """
    level = fragment.check()
    role, held = _ROLES[fragment.role], fragment.registers("f")
    if stores and role != "c":
        raise MmaError(f"only an accumulator can be stored, not a {fragment.role}")
    suffix, address, calls = _SPACES[space]
    word = "d" if stores else role
    name = (
        f"wmma_{'store' if stores else 'load'}_{word}_{fragment.shape}_{fragment.layout}_"
        f"{fragment.kind.ptx}_{space}"
    )
    head = (
        f"wmma.{'store' if stores else 'load'}.{word}.sync.aligned.{fragment.layout}."
        f"{fragment.shape}{suffix}.{fragment.kind.ptx}"
    )
    if stores:
        instruction = f"{head} [%0], {held.numbered(2)}, %1;"
        return ptx_function(
            name, (held, "void* p", "unsigned stride"), instruction,
            (), [address, '"r"(stride)', *held.operands()],
            architecture=level, memory=True, calls=calls,
        )  # fmt: skip
    instruction = f"{head} {held.numbered(0)}, [%{held.size}], %{held.size + 1};"
    made = ptx_function(
        name, (held, "const void* p", "unsigned stride"), instruction,
        held.operands("="), [address, '"r"(stride)'],
        architecture=level, memory=True, calls=calls,
    )  # fmt: skip
    return _rounding(made, held) if fragment.kind.ptx == "tf32" else made


def _rounding(load: DeviceFunction, held: Registers) -> DeviceFunction:
    """Return a load whose registers are rounded to tf32, since products only cut bits off."""
    one = f"{held.name}[i]"
    lines = (
        f"#pragma unroll\n  for (int i = 0; i < {held.size}; ++i)\n"
        f"    {one} = __float_as_uint(round_to_tf32(__uint_as_float({one})));\n}}\n"
    )
    text = load.text.rstrip()
    assert text.endswith("}")
    return load._replace(text=text[:-1] + lines, calls=(*load.calls, ROUND_TO_TF32))


def product_function(
    a: Fragment, b: Fragment, c: Fragment, d: Fragment, operator: str = ""
) -> DeviceFunction:
    """Return ``d = a * b + c`` of fragments."""
    kind = a.kind.ptx
    level = max([one.check() for one in (a, b, c, d)])
    _, results, any_layout = _SHAPES[kind]
    if b.kind.ptx != kind or c.kind.ptx not in results or d.kind.ptx not in results:
        raise MmaError(
            f"wmma of {kind} and {b.kind.ptx} with {c.kind.ptx} does not exist: {kind} multiplies "
            f"{kind} and adds up in {' or '.join(results)}"
        )
    if len({one.shape for one in (a, b, c, d)}) > 1:
        raise MmaError(f"fragments of different shapes are multiplied: {a.shape} and {b.shape}")
    if not any_layout and (a.layout, b.layout) != ("row", "col"):
        raise MmaError(
            f"wmma of {kind} needs A in row_major and B in col_major, not {a.layout}_major and "
            f"{b.layout}_major"
        )
    if kind == "f16":
        kinds = f"{d.kind.ptx}.{c.kind.ptx}"
    else:
        kinds = f"{d.kind.ptx}.{kind}.{kind}.{c.kind.ptx}"
    tail = f".{operator}.popc" if operator else ""
    rounding = ".rn" if kind == "f64" else ""
    parts = [one.registers(name) for one, name in ((d, "d"), (a, "a"), (b, "b"), (c, "c"))]
    numbers, first = [], 0
    for part in parts:
        numbers.append(part.numbered(first))
        first += part.size
    instruction = (
        f"wmma.mma{tail}.sync.aligned.{a.layout}.{b.layout}.{a.shape}{rounding}.{kinds} "
        f"{', '.join(numbers)};"
    )
    return ptx_function(
        f"wmma_mma_{a.shape}_{a.layout}_{b.layout}_{d.kind.ptx}_{kind}_{c.kind.ptx}"
        + f"_{operator}" * bool(operator),
        parts,
        instruction,
        parts[0].operands("="),
        [operand for part in parts[1:] for operand in part.operands()],
        architecture=level,
    )


def fill_function(fragment: Fragment) -> DeviceFunction:
    """Return the fill of a fragment with one value, given as a float or, of integers, an int."""
    level, held, kind = fragment.check(), fragment.registers("f"), fragment.kind.ptx
    name = f"wmma_fill_{kind}_{held.size}"
    given, lines, value = _FILLS.get(kind, ("", "", ""))
    if not given:
        raise MmaError(f"a fragment of {kind} cannot be filled: load it")
    text = (
        f"static __device__ __forceinline__ void {name}(void* f_, {given} value) {{\n"
        f"  {held.c_type}* f = ({held.c_type}*)f_;\n"
        f"{lines}#pragma unroll\n  for (int i = 0; i < {held.size}; ++i) f[i] = {value};\n}}\n"
    )
    return DeviceFunction(name, text, level)


_FILLS = {
    "f32": ("float", "", "value"),
    "tf32": ("float", "", "__float_as_uint(value)"),
    "f64": ("double", "", "value"),
    "s32": ("int", "", "(unsigned)value"),
    "s8": ("int", "", "(unsigned)(value & 255) * 0x01010101u"),
    "u8": ("int", "", "(unsigned)(value & 255) * 0x01010101u"),
    "f16": (
        "float",
        "  unsigned both;\n"
        '  asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; mov.b32 %0, {h, h}; }" : "=r"(both) : '
        '"f"(value));\n',
        "both",
    ),
    "bf16": (
        "float",
        "  unsigned both;\n"
        '  asm("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(both) : "f"(value));\n',
        "both",
    ),
}  # fmt: skip
