"""Makes targets from the names of products: `tilesmith.target.arm_cpu("rasp4b64")`,
`cuda("2080ti")`, …
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilesmith.support.errors import TargetError
from tilesmith.target.target import Target

__all__ = [
    "MICRO_SUPPORTED_MODELS", "STM32_SUPPORTED_SERIES", "adreno", "arm_cpu", "bifrost", "create",
    "cuda", "hexagon", "intel_graphics", "mali", "micro", "rasp", "riscv_cpu", "rocm", "stm32",
    "vta",
]  # fmt: skip

_ARM64 = "-mtriple=aarch64-linux-gnu -mattr=+neon"
_ARM32 = "-mtriple=armv7l-linux-gnueabihf -mattr=+neon"
_ANDROID = "-mtriple=arm64-linux-android -mattr=+neon"

# Board or phone → the options of its CPU.
ARM_MODELS = {
    "pixel2": _ANDROID,
    "mate10": _ANDROID,
    "mate10pro": _ANDROID,
    "p20": _ANDROID,
    "p20pro": _ANDROID,
    "rasp3b": _ARM32,
    "rasp3b32": _ARM32,
    "rasp3b64": _ARM64,
    "rasp4b": _ARM32 + " -mcpu=cortex-a72",
    "rasp4b32": _ARM32 + " -mcpu=cortex-a72",
    "rasp4b64": _ARM64 + " -mcpu=cortex-a72",
    "rk3399": _ARM64,
    "pynq": "-mtriple=armv7a-linux-eabi -mattr=+neon",
    "ultra96": _ARM64,
    "beagleai": "-mtriple=armv7a-linux-gnueabihf -mcpu=cortex-a15 -mattr=+neon",
    "stm32mp1": "-mtriple=armv7a-linux-gnueabihf -mcpu=cortex-a7 -mattr=+neon",
    "thunderx": "-mtriple=aarch64-linux-gnu -mattr=+neon,+crc,+lse",
}

# Series of microcontrollers → its core.
STM32_SERIES = {
    "stm32H7xx": "cortex-m7",
    "stm32F7xx": "cortex-m7",
    "stm32F4xx": "cortex-m4",
    "stm32L4xx": "cortex-m4",
    "stm32L5xx": "cortex-m33",
    "stm32U5xx": "cortex-m33",
}

MICRO_MODELS = {
    "host": "",
    "atsamd51": "-mcpu=cortex-m4",
    "cxd5602gg": "-mcpu=cortex-m4",
    "esp32": "",
    "imxrt10xx": "-mcpu=cortex-m7",
    "mps2_an521": "-mcpu=cortex-m33",
    "mps3_an547": "-mcpu=cortex-m55",
    "nrf52840": "-mcpu=cortex-m4+nodsp",
    "nrf5340dk": "-mcpu=cortex-m33",
    "rp2040": "-mcpu=cortex-m0",
    "sam3x8e": "-mcpu=cortex-m3",
    "stm32f746xx": "-mcpu=cortex-m7 -march=armv7e-m",
    "stm32h7xx": "-mcpu=cortex-m7",
    "stm32l4r5zi": "-mcpu=cortex-m4",
    "stm32u5xx": "-mcpu=cortex-m33",
    "zynq_mp_r5": "-mcpu=cortex-r5",
}

MICRO_SUPPORTED_MODELS = {model: options.split() for model, options in MICRO_MODELS.items()}
"""Microcontroller → the options of its target."""
STM32_SUPPORTED_SERIES = {
    series: ["-keys=arm_cpu,cpu", "-device=arm_cpu", f"-mcpu={core}"]
    for series, core in STM32_SERIES.items()
}
"""Series of microcontrollers → the options of its target."""

RISCV_MODELS = {
    "sifive-e31": "-mtriple=riscv32-unknown-elf -mcpu=sifive-e31 -mabi=ilp32",
    "sifive-e76": "-mtriple=riscv32-unknown-elf -mcpu=sifive-e76 -mabi=ilp32",
    "sifive-u54": "-mtriple=riscv64-unknown-linux-gnu -mcpu=sifive-u54 -mabi=lp64d",
    "sifive-u74": "-mtriple=riscv64-unknown-linux-gnu -mcpu=sifive-u74 -mabi=lp64d",
    "licheerv": "-mtriple=riscv64-unknown-linux-gnu -mcpu=generic-rv64 -mabi=lp64d"
    " -mattr=+64bit,+m,+a,+f,+d,+c",
}


def _make(words: Iterable[str], options: Any) -> Target:
    more = [options] if isinstance(options, str) else list(options or ())
    return Target(" ".join([word for word in [*words, *more] if word]))


def _model_options(table: dict[str, str], model: str, what: str) -> str:
    if model not in table:
        raise TargetError(f"unknown {what} '{model}'", notes=("known: " + ", ".join(table),))
    return table[model]


def cuda(model: str = "unknown", arch: str | None = None, options: Any = None) -> Target:
    """Return the target of an NVIDIA GPU; `arch` is its architecture (`sm_90a`)."""
    return _make(["cuda", f"-model={model}", f"-arch={arch}" if arch else ""], options)


def rocm(model: str = "unknown", options: Any = None) -> Target:
    """Return the target of an AMD GPU."""
    return _make(["rocm", f"-model={model}"], options)


def mali(model: str = "unknown", options: Any = None) -> Target:
    """Return the target of an Arm Mali GPU of the Midgard generation, through OpenCL."""
    return _make(["opencl", "-device=mali", f"-model={model}"], options)


def bifrost(model: str = "unknown", options: Any = None) -> Target:
    """Return the target of an Arm Mali GPU of the Bifrost generation, through OpenCL."""
    return _make(["opencl", "-device=bifrost", f"-model={model}"], options)


def adreno(model: str = "unknown", options: Any = None) -> Target:
    """Return the target of a Qualcomm Adreno GPU, through OpenCL."""
    return _make(["opencl", "-device=adreno", f"-model={model}"], options)


def intel_graphics(model: str = "unknown", options: Any = None) -> Target:
    """Return the target of a GPU inside an Intel CPU, through OpenCL."""
    words = ["opencl", "-device=intel_graphics", f"-model={model}", "-thread_warp_size=16"]
    return _make(words, options)


def arm_cpu(model: str = "unknown", options: Any = None) -> Target:
    """Return the target of an Arm CPU; a board in ARM_MODELS sets its platform and features."""
    words = ["llvm", "-device=arm_cpu", f"-model={model}", ARM_MODELS.get(model, "")]
    return _make(words, options)


def rasp(options: Any = None) -> Target:
    """Return the target of a Raspberry Pi 3 with a 32-bit system."""
    return arm_cpu("rasp3b", options)


def micro(model: str = "unknown", options: Any = None) -> Target:
    """Return a target for C code on a microcontroller."""
    table = {"unknown": "", **MICRO_MODELS}
    found = _model_options(table, model, "microcontroller")
    return _make(["c", f"-model={model}", found], options)


def stm32(series: str = "unknown", options: Any = None) -> Target:
    """Return a target for C code on a series of STM32 microcontrollers."""
    core = _model_options(STM32_SERIES, series, "STM32 series")
    return _make(["c", "-keys=arm_cpu,cpu", "-device=arm_cpu", f"-model={series}",
                  f"-mcpu={core}"], options)  # fmt: skip


def riscv_cpu(model: str = "sifive-u54", options: Any = None) -> Target:
    """Return the target of a RISC-V CPU."""
    found = _model_options(RISCV_MODELS, model, "RISC-V model")
    return _make(["llvm", "-keys=riscv_cpu,cpu", f"-model={model}", found], options)


def vta(model: str = "unknown", options: Any = None) -> Target:
    """Return the target of the VTA accelerator."""
    return _make(["ext_dev", "-keys=vta,cpu", "-device=vta", f"-model={model}"], options)


def hexagon(cpu_ver: str = "v68", **kwargs: Any) -> Target:
    """Return the target of a Hexagon DSP; `num_cores`, `vtcm_capacity` and `llvm_options` as
    keywords.
    """
    version = cpu_ver.lower()
    number = version.removeprefix("v")
    if not version.startswith("v") or not number.isdigit():
        raise TargetError(f"'{cpu_ver}' is not a Hexagon version", notes=("such as 'v68'",))
    config: dict[str, Any] = {
        "kind": "hexagon",
        "mtriple": "hexagon",
        "mcpu": f"hexagon{version}",
        "mattr": (f"+hvx{version}", "+hvx-length128b"),
    }
    for name, value in kwargs.items():
        option = name.replace("_", "-")
        config[option] = value.split() if option == "llvm-options" else value
    return Target(config)


def create(target: Any) -> Target:
    """Return `Target(target)`; an older name."""
    return Target(target)
