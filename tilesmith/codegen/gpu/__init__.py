"""Generates source for GPUs: kernels → CUDA C or OpenCL C.

What they share with C is `codegen.c_family`. A dialect is a table (`dialect`, filled in by `cuda`
and `opencl`). The parts, each using only those below it:

    code             a module's code and its formats; `nvrtc` compiles CUDA C, `cubin` reads results
    module           a module: its functions, and the parts of the file that they ask for
    kernels          one kernel: head, threads, shared memory;  `limits` are checked before
    statements       statements;  vectors: stores and loads of several lanes
       |
    expressions, conversions, intrinsics, memory
       |             rules, entered into the tables of `rules`
    tensor_cores, warpgroups, fragments, async_copies, atomics, warps, foreign_operators
       |             rules of the operators of devices, by `device_calls` of functions around PTX:
       |             `mma_functions`, `wmma_functions`, `wgmma_functions`, `copy_functions`
    values           the text of expressions, and what is known of variables
    lines            lines of one function
    file_text        the file's other parts: headers, helpers, constants
    dialect, helpers

A kernel is a function that SplitHostDevice made. A vector is written lane by lane, except that
loads and stores of neighbouring elements are one access each.
"""

from tilesmith.support.lazy import lazy_attributes

_LAZY = {
    "emit_source": "tilesmith.codegen.gpu.module:emit_source",
    "kernel_alignments": "tilesmith.codegen.gpu.module:kernel_alignments",
    "kernel_resources": "tilesmith.codegen.gpu.cubin:kernel_resources",
}

__getattr__, __dir__ = lazy_attributes(__name__, _LAZY)

__all__ = ["emit_source", "kernel_alignments", "kernel_resources"]
