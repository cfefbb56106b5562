"""Rules of barriers of all blocks of a kernel, which is launched so that all of them run at once.

The first thread of each block adds to a counter in global memory and waits until its highest bit
changes. All blocks but the first add 1, the first one what is missing to that bit: so it changes
when all have arrived, and the other bits are zero again, for the next barrier or launch. A launch
takes the counter of its number modulo 64: two launches of kernels of one module that run at the
same time must not be a multiple of 64 launches apart, or they would share a counter. (The
cooperative groups of CUDA's headers would do, but these need the headers of its C++ library.)
"""

from __future__ import annotations

from tilesmith.codegen.c_family.pieces import ATOM, Piece
from tilesmith.codegen.gpu.device_calls import call_function
from tilesmith.codegen.gpu.device_functions import DeviceFunction
from tilesmith.codegen.gpu.rules import handles
from tilesmith.codegen.gpu.values import Values
from tilesmith.ir import Call

__all__ = ["barrier_of_grid"]

_TEXT = """\
static __device__ unsigned arrived_blocks[64];  // by the number of the launch
static __device__ __forceinline__ void wait_for_all_blocks() {
  __syncthreads();
  if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
    unsigned long long launch;
    asm("mov.u64 %0, %%gridid;" : "=l"(launch));
    unsigned* const counter = &arrived_blocks[launch % 64];
    const unsigned others = gridDim.x * gridDim.y * gridDim.z - 1;
    const bool is_first = blockIdx.x + blockIdx.y + blockIdx.z == 0;
    __threadfence();  // what the threads of this block wrote comes before
    const unsigned before = atomicAdd(counter, is_first ? 0x80000000u - others : 1u);
    while (((before ^ *(volatile unsigned*)counter) & 0x80000000u) == 0) {
    }
    __threadfence();
  }
  __syncthreads();
}
"""
_WAIT = DeviceFunction("wait_for_all_blocks", _TEXT, 60)


def barrier_of_grid(emit: Values) -> Piece:
    """Return a barrier of all blocks."""
    if emit.dialect.name == "cuda":
        return call_function(emit, "tvm_storage_sync", _WAIT)
    raise emit.out.unsupported(
        "a barrier of all blocks ('global') inside a kernel: groups of an OpenCL kernel may run "
        "one after the other, so that they cannot wait for each other",
        "let a second kernel begin there: kernels of a stream run one after the other",
    )


@handles("tvm_global_barrier_kinit", dialect="cuda")
def _prepare(emit: Values, call: Call) -> Piece:
    return "0", ATOM  # the counters are zero when the code is loaded
