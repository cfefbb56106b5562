"""Registers the back ends that use LLVM: for CPUs, and for NVIDIA's GPUs as PTX."""

from tilesmith.support.packages import Package
from tilesmith.target.back_end import BackEnd, register_back_end

__all__ = ["LLVM", "NVPTX"]

_LLVMLITE = Package("llvmlite", "llvmlite", "code for CPUs")

LLVM = register_back_end(
    BackEnd(
        "llvm",
        kinds=("llvm",),
        generate="tilesmith.codegen.llvm.code:generate",
        kernel_object="tilesmith.codegen.llvm.code:kernel_object",
        wants_wide_indices=True,
        shared_objects="tilesmith.codegen.llvm.code:shared_objects",
        c_support="tilesmith.codegen.llvm.c_support:c_support",
        runs_here="tilesmith.codegen.llvm.code:is_runnable",
        intrinsic_rules="tilesmith.tir.transform.intrinsics:LLVM_RULES",
        default_schedule="tilesmith.schedule_rules.default:schedule_for_cpu",
        graph_passes=("tilesmith.relax.transform:PackForVectors",),
        packages=(_LLVMLITE,),
        describe="tilesmith.codegen.llvm.code:describe_host",
    )
)

NVPTX = register_back_end(
    BackEnd(
        "nvptx",
        kinds=("nvptx",),
        generate="tilesmith.codegen.llvm.nvptx:generate",
        is_device=True,
        interpreter=None,
        default_schedule="tilesmith.schedule_rules.default_for_devices:schedule_for_device",
        intrinsic_rules="tilesmith.tir.transform.intrinsics:NVPTX_RULES",
        packages=(_LLVMLITE,),
        describe="tilesmith.codegen.llvm.nvptx:describe",
    )
)
