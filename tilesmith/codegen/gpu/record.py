"""Registers the back ends of CUDA C and OpenCL C."""

from tilesmith.support.packages import Package
from tilesmith.target.back_end import BackEnd, register_back_end

__all__ = ["CUDA", "OPENCL"]

CUDA = register_back_end(
    BackEnd(
        "cuda",
        kinds=("cuda",),
        generate="tilesmith.codegen.gpu.code:generate_cuda",
        intrinsic_rules="tilesmith.tir.transform.intrinsics:CUDA_RULES",
        is_device=True,
        interpreter=None,
        default_schedule="tilesmith.schedule_rules.default_for_devices:schedule_for_device",
        packages=(
            Package("cuda-bindings", "cuda.bindings", "compiling and launching CUDA C", "cuda"),
            Package("nvidia-cuda-nvrtc", "nvidia", "the compiler of CUDA C", "cuda"),
            Package("nvidia-cuda-runtime", "nvidia", "headers of CUDA C", "cuda"),
        ),
        describe="tilesmith.codegen.gpu.code:describe_cuda",
    )
)

OPENCL = register_back_end(
    BackEnd(
        "opencl",
        kinds=("opencl",),
        generate="tilesmith.codegen.gpu.code:generate_opencl",
        barrier_passes=("tilesmith.tir.transform:SplitBranchesAtBarriers",),
        is_device=True,
        interpreter=None,
        default_schedule="tilesmith.schedule_rules.default_for_devices:schedule_for_device",
        packages=(Package("pyopencl", "pyopencl", "launching OpenCL C", "opencl"),),
        describe="tilesmith.codegen.gpu.code:describe_opencl",
    )
)
