"""Implements the parts that the records of CUDA and OpenCL name."""

from __future__ import annotations

from tilesmith.codegen.gpu.cuda import DEFAULT_ARCH
from tilesmith.codegen.gpu.module import emit_kernels
from tilesmith.codegen.gpu.nvrtc import compile_source
from tilesmith.codegen.gpu.user_steps import compiled_by_user, source_after_user
from tilesmith.ir import IRModule
from tilesmith.runtime.formats import Format
from tilesmith.target import Target
from tilesmith.target.back_end import Code

__all__ = ["describe_cuda", "describe_opencl", "generate_cuda", "generate_opencl"]


def generate_cuda(module: IRModule, target: Target, opt_level: int | None = None) -> Code:
    """Return kernels as CUDA C (format "cu"); NVRTC makes "ptx" and "cubin" when they are asked
    for, unless the user has a compiler of his own.
    """
    source, alignments, tensor_maps = emit_kernels(module, target)
    source = source_after_user(source, target)
    advice = "save('kernels.cu') for nvcc, or get_source('cubin')"
    made = compiled_by_user(source, target)
    if made is not None:
        formats: dict[str, Format] = {"cu": source, made[0]: made[1]}
        return Code(formats, advice=advice, alignments=alignments, tensor_maps=tensor_maps)
    arch = str(target.attrs.get("arch") or DEFAULT_ARCH)
    is_fast = str(target.attrs.get("fast-math", "")).lower() in ("1", "true")
    options = ("--use_fast_math",) if is_fast else ()
    return Code(
        {
            "cu": source,
            "ptx": lambda: compile_source(source, arch, "ptx", options).decode(),
            "cubin": lambda: compile_source(source, arch, "cubin", options),
        },
        advice=advice,
        alignments=alignments,
        tensor_maps=tensor_maps,
    )


def generate_opencl(module: IRModule, target: Target, opt_level: int | None = None) -> Code:
    """Return kernels as OpenCL C (format "cl")."""
    kernels = emit_kernels(module, target)
    source = source_after_user(kernels.source, target)
    advice = "save('kernels.cl')"
    return Code({"cl": source}, advice=advice, alignments=kernels.alignments)


def describe_cuda() -> str:
    """Return what `tilesmith doctor` shows."""
    return "CUDA C, compiled by NVRTC, launched on the CUDA devices below"


def describe_opencl() -> str:
    """Return what `tilesmith doctor` shows."""
    return "OpenCL C, compiled and launched by the drivers of the devices below"
