"""Rules of matrix products of four warps: ``wgmma`` and the fences and waits that go with it."""

from __future__ import annotations

from tilesmith.codegen.c_family.pieces import ATOM, OR, Piece
from tilesmith.codegen.gpu.device_calls import (
    add_function,
    call_function,
    constant,
    name_of,
    pointer,
    word,
)
from tilesmith.codegen.gpu.device_functions import DeviceFunction, Registers
from tilesmith.codegen.gpu.mma_functions import PTX_KINDS, MmaError
from tilesmith.codegen.gpu.rules import handles
from tilesmith.codegen.gpu.tensor_cores import DTYPES_OF_KINDS
from tilesmith.codegen.gpu.values import Values
from tilesmith.codegen.gpu.wgmma_functions import (
    COMMIT,
    DESCRIPTOR,
    DESCRIPTOR_MODES,
    FENCE,
    FENCE_PROXY,
    wait_function,
    wgmma_function,
)
from tilesmith.ir import Call, StringImm, Var
from tilesmith.ir.queries import is_call, nodes
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.stmt import Stmt
from tilesmith.tir.tensor_copies import pointer_base
from tilesmith.tir.warpgroup_products import OperandLayout, operand_layout

__all__ = ["keep_function", "registers_of_products"]

ARCHITECTURE = "sm_90a"
_UNIT = 16  # bytes
_LEFT, _LEFT_LAYOUT, _RESULTS = 4, 6, 14  # places of arguments


def registers_of_products(body: Stmt) -> list[Var]:
    """Return the arrays of registers that products of four warps read and write."""
    found: list[Var | None] = []
    for call in nodes(body, Call):
        if is_call(call, "tir.ptx_wgmma"):
            places = (_RESULTS, _LEFT) if _is_in_registers(call) else (_RESULTS,)
            found += [pointer_base(call.args[place]) for place in places]
    return [base for base in dict.fromkeys(found) if base is not None]


def _is_in_registers(call: Call) -> bool:
    layout = call.args[_LEFT_LAYOUT]
    return isinstance(layout, StringImm) and layout.value == "registers"


def keep_function(dtype: DataType, size: int) -> DeviceFunction:
    """Return a function that does nothing, but that the compiler takes for a change of registers.

    Products are asynchronous: their operands may be changed before a fence only, and their results
    be read behind a wait only. Neither names the registers, so the compiler would be free to move
    arithmetic on them from one side to the other.
    """
    kind = Registers("c", "f" if dtype == "float32" else "r", size // 4)
    name = f"keep_registers_{kind.size}{kind.kind}"
    text = (
        f"static __device__ __forceinline__ void {name}(void* c_) {{\n"
        f"  {kind.c_type}* c = ({kind.c_type}*)c_;\n"
        f"#pragma unroll\n  for (int i = 0; i < {kind.size}; ++i)\n"
        f'    asm volatile("" : "+{kind.kind}"(c[i]) : : "memory");\n}}\n'
    )
    return DeviceFunction(name, text, 90)


def _keep_registers(emit: Values) -> None:
    for var, size in emit.product_registers.items():
        if size >= 4:
            function = keep_function(emit.pointer_types[var] or DataType("float32"), size)
            text, _ = call_function(emit, "ptx_wgmma", function, emit.names[var])
            emit.out.write(text + ";")


def _require(emit: Values, what: str) -> None:
    """Refuse all architectures but the one that has these instructions."""
    if emit.arch != ARCHITECTURE:
        raise emit.out.unsupported(
            f"'{what}' needs the architecture {ARCHITECTURE}, and no other has it; the target's is "
            f"{emit.arch or 'not named'}",
            f'build for "cuda -arch={ARCHITECTURE}", if the GPU is one (compute capability 9.0)',
        )


def _call(emit: Values, call: Call, function: DeviceFunction, *arguments: str) -> Piece:
    _require(emit, name_of(call))
    return call_function(emit, name_of(call), function, *arguments)


def _layout(emit: Values, call: Call, which: int) -> OperandLayout:
    try:
        layout = operand_layout(word(emit, call, which))
    except ValueError as error:
        raise emit.out.unsupported(str(error)) from None
    if not layout.is_permuted:
        raise emit.out.unsupported(
            f"ptx_wgmma reads rows of {layout.width} bytes whose pieces are permuted, and these "
            "are not",
            'annotate the copy to shared memory: sch.annotate(block, "permuted_layout", 1)',
        )
    return layout


def _descriptor(emit: Values, call: Call, place: int, layout: OperandLayout, kind: str) -> str:
    """Return the descriptor of the operand whose pointer is argument ``place``."""
    dtype = DataType(DTYPES_OF_KINDS[PTX_KINDS[kind].ptx])
    start = pointer(emit, call.args[place], call.args[place + 1], dtype)
    distances = [
        constant(emit, call, place + 3, "the leading distance"),
        constant(emit, call, place + 4, "the stride"),
    ]
    for distance in distances:
        if distance % _UNIT or not 0 <= distance < 1 << 18:
            raise emit.out.unsupported(
                f"distances of ptx_wgmma are multiples of {_UNIT} bytes below 256 KiB, not "
                f"{distance}"
            )
    add_function(emit, DESCRIPTOR)
    leading, stride = distances
    return f"{DESCRIPTOR.name}({start}, {leading}, {stride}, {DESCRIPTOR_MODES[layout.width]})"


@handles("ptx_wgmma", dialect="cuda")
def _wgmma(emit: Values, call: Call) -> Piece:
    _require(emit, "ptx_wgmma")
    shape, *names = [word(emit, call, which) for which in range(4)]
    kinds = (names[0], names[1], names[2])
    layouts = (_layout(emit, call, 6), _layout(emit, call, 11))
    try:
        function = wgmma_function(shape, kinds, layouts)
    except MmaError as error:
        raise emit.out.unsupported(f"ptx_wgmma: {error}") from None
    if layouts[0].major == "registers":
        dtype = DataType(DTYPES_OF_KINDS[PTX_KINDS[kinds[0]].ptx])
        left = pointer(emit, call.args[4], call.args[5], dtype)
    else:
        left = _descriptor(emit, call, 4, layouts[0], kinds[0])
    right = _descriptor(emit, call, 9, layouts[1], kinds[1])
    results = DataType(DTYPES_OF_KINDS[PTX_KINDS[kinds[2]].ptx])
    target = pointer(emit, call.args[14], call.args[15], results)
    return _call(emit, call, function, target, left, right, emit.text(call.args[16], OR))


@handles("ptx_wgmma_fence", dialect="cuda")
def _fence(emit: Values, call: Call) -> Piece:
    _require(emit, name_of(call))
    _keep_registers(emit)
    return _call(emit, call, FENCE)


@handles("ptx_wgmma_commit_group", dialect="cuda")
def _commit(emit: Values, call: Call) -> Piece:
    return _call(emit, call, COMMIT)


@handles("ptx_wgmma_wait_group", dialect="cuda")
def _wait(emit: Values, call: Call) -> Piece:
    pending = constant(emit, call, 0, "the number of pending groups")
    try:
        waiting, _ = _call(emit, call, wait_function(pending))
    except MmaError as error:
        raise emit.out.unsupported(str(error)) from None
    emit.out.write(waiting + ";")
    _keep_registers(emit)
    return "", ATOM


@handles("ptx_fence_proxy_async", dialect="cuda")
def _fence_proxy(emit: Values, call: Call) -> Piece:
    return call_function(emit, name_of(call), FENCE_PROXY)


_REFUSED = (
    "ptx_wgmma", "ptx_wgmma_fence", "ptx_wgmma_commit_group", "ptx_wgmma_wait_group",
    "ptx_fence_proxy_async",
)  # fmt: skip


@handles(*_REFUSED, dialect="opencl")
def _refuse(emit: Values, call: Call) -> Piece:
    raise emit.out.unsupported(
        f"'{name_of(call)}' is an instruction of NVIDIA's Hopper GPUs, which OpenCL C has no words "
        "for",
        'build for "cuda -arch=sm_90a", or schedule the product without tensor intrinsics',
    )
