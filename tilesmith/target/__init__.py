"""Describes targets: what code is generated for, and the properties of the machines behind them."""

from tilesmith.target import codegen, datatype, x86
from tilesmith.target.compilation_config import CompilationConfig, make_compilation_config
from tilesmith.target.detect_target import detect_target_from_device
from tilesmith.target.factories import (
    adreno,
    arm_cpu,
    bifrost,
    create,
    cuda,
    hexagon,
    intel_graphics,
    mali,
    micro,
    rasp,
    riscv_cpu,
    rocm,
    stm32,
    vta,
)
from tilesmith.target.features import (
    LLVMMachine,
    TargetFeatures,
    architecture,
    cpu_features,
    is_host,
    llvm_machine,
    target_features,
)
from tilesmith.target.generic_func import (
    GenericFunc,
    generic_func,
    get_native_generic_func,
    override_native_generic_func,
)
from tilesmith.target.host import HostCPU, host_caches, host_cores, host_cpu
from tilesmith.target.kind import KINDS, TargetKind, declare_kind, register_kind_attr
from tilesmith.target.machine import MachineModel, machine_model, target_identity
from tilesmith.target.tag import list_tags, register_tag
from tilesmith.target.target import Target, canon_target
from tilesmith.target.virtual_device import VirtualDevice

__all__ = [
    "CompilationConfig",
    "GenericFunc",
    "HostCPU",
    "KINDS",
    "LLVMMachine",
    "MachineModel",
    "Target",
    "TargetFeatures",
    "TargetKind",
    "VirtualDevice",
    "adreno",
    "architecture",
    "arm_cpu",
    "bifrost",
    "canon_target",
    "codegen",
    "cpu_features",
    "create",
    "cuda",
    "declare_kind",
    "datatype",
    "detect_target_from_device",
    "generic_func",
    "get_native_generic_func",
    "hexagon",
    "host_caches",
    "host_cores",
    "host_cpu",
    "intel_graphics",
    "is_host",
    "list_tags",
    "llvm_machine",
    "machine_model",
    "make_compilation_config",
    "mali",
    "micro",
    "override_native_generic_func",
    "rasp",
    "register_kind_attr",
    "register_tag",
    "riscv_cpu",
    "rocm",
    "stm32",
    "target_features",
    "target_identity",
    "vta",
    "x86",
]
