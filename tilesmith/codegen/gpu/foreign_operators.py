"""Refuses the operators of other kinds of devices, and says what to use instead."""

from __future__ import annotations

from tilesmith.codegen.c_family.pieces import Piece
from tilesmith.codegen.gpu.device_calls import name_of
from tilesmith.codegen.gpu.rules import handles
from tilesmith.codegen.gpu.values import Values
from tilesmith.ir import Call

_TENSOR_CORES = "on NVIDIA GPUs, fragments (tvm_mma_sync) and ptx_mma multiply matrices"
_COPIES = "on NVIDIA GPUs, ptx_cp_async copies in the background"
_SOURCE = "call a function of the source: T.call_extern with the pragma import_c"
_TEXTURE = "keep the array in the scope 'global', which the cache of a GPU serves as well"

ADVICE: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("make_filled_simdgroup_matrix", "simdgroup_load", "simdgroup_store",
         "simdgroup_multiply_accumulate"),
        ("multiplies matrices on GPUs with Metal", _TENSOR_CORES),
    ),
    **dict.fromkeys(
        ("dma_copy", "dma_wait", "dma_start_group", "dma_end_group"),
        ("copies by the DMA engine of Hexagon", _COPIES),
    ),
    **dict.fromkeys(("texture2d_load", "texture2d_store"), ("accesses textures", _TEXTURE)),
    **dict.fromkeys(
        ("call_llvm_intrin", "call_llvm_pure_intrin"), ("is an instruction of LLVM", _SOURCE)
    ),
    "call_spirv_pure_glsl450": ("is an instruction of SPIR-V", _SOURCE),
    "tvm_thread_allreduce": (
        "combines values of threads", "the pass LowerThreadAllreduce writes it out: lower first"
    ),
    "tvm_global_barrier_kinit": (
        "prepares a barrier of all blocks",
        "let a second kernel begin there: kernels of a stream run one after the other",
    ),
    "vscale": ("is the length of vectors of a CPU", "give loops a constant extent"),
}  # fmt: skip
"""Operator → what it is, and what to do instead."""


@handles(*ADVICE)
def _refuse(emit: Values, call: Call) -> Piece:
    what, advice = ADVICE[name_of(call)]
    raise emit.out.unsupported(
        f"'{name_of(call)}' {what}, which {emit.dialect.title} has no words for", advice
    )
