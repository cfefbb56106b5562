"""Lists tags: short names of complete targets, such as `nvidia/geforce-rtx-4090`."""

from __future__ import annotations

from typing import Any

from tilesmith.support.registry import Registry

__all__ = ["TAGS"]

TAGS: Registry[dict[str, Any]] = Registry("target tag")
"""The configurations that tags stand for."""

# CUDA architecture, shared memory and registers per block → models.
_NVIDIA = {
    ("sm_50", 49152, 32768): "geforce-gtx-745 geforce-gtx-750 geforce-gtx-750-ti",
    ("sm_52", 49152, 65536): "geforce-gtx-950 geforce-gtx-960 geforce-gtx-970 geforce-gtx-980"
    " geforce-gtx-980-ti geforce-gtx-titan-x tesla-m40 tesla-m60 quadro-m6000",
    ("sm_60", 49152, 65536): "nvidia-p100 tesla-p100 quadro-gp100",
    ("sm_61", 49152, 65536): "geforce-gtx-1050 geforce-gtx-1050-ti geforce-gtx-1060"
    " geforce-gtx-1070 geforce-gtx-1070-ti geforce-gtx-1080 geforce-gtx-1080-ti"
    " nvidia-titan-x nvidia-titan-xp tesla-p4 tesla-p40",
    ("sm_70", 49152, 65536): "nvidia-v100 tesla-v100 nvidia-titan-v quadro-gv100",
    ("sm_75", 49152, 65536): "nvidia-t4 tesla-t4 geforce-gtx-1650 geforce-gtx-1650-ti"
    " geforce-gtx-1660 geforce-gtx-1660-ti geforce-rtx-2060 geforce-rtx-2070"
    " geforce-rtx-2080 geforce-rtx-2080-ti nvidia-titan-rtx quadro-rtx-6000",
    ("sm_80", 49152, 65536): "nvidia-a100 nvidia-a30",
    ("sm_86", 49152, 65536): "nvidia-a10 nvidia-a10g nvidia-a16 nvidia-a2 nvidia-a40 rtx-a4000"
    " rtx-a5000 rtx-a6000 geforce-rtx-3050 geforce-rtx-3060 geforce-rtx-3060-ti"
    " geforce-rtx-3070 geforce-rtx-3070-ti geforce-rtx-3080 geforce-rtx-3080-ti"
    " geforce-rtx-3090 geforce-rtx-3090-ti",
    ("sm_89", 49152, 65536): "nvidia-l4 nvidia-l40 nvidia-l40s geforce-rtx-4060"
    " geforce-rtx-4060-ti geforce-rtx-4070 geforce-rtx-4070-ti geforce-rtx-4080"
    " geforce-rtx-4090",
    ("sm_90a", 49152, 65536): "nvidia-h100 nvidia-h200",
    ("sm_100a", 49152, 65536): "nvidia-b100 nvidia-b200",
    ("sm_120a", 49152, 65536): "geforce-rtx-5070 geforce-rtx-5080 geforce-rtx-5090",
}

# Board → (CUDA architecture, CPU, cores).
_JETSON = {
    "jetson-nano": ("sm_53", "cortex-a57", 4),
    "jetson-tx2": ("sm_62", "cortex-a57", 4),
    "jetson-agx-xavier": ("sm_72", "carmel", 8),
    "jetson-agx-orin-32gb": ("sm_87", "cortex-a78", 8),
    "jetson-agx-orin-64gb": ("sm_87", "cortex-a78", 12),
}

# Board → (triple, CPU, features, cores).
_RASPBERRY_PI = {
    "2b-armv7l": ("armv7l-linux-gnueabihf", "cortex-a7", ("+neon",), 4),
    "3b-armv7l": ("armv7l-linux-gnueabihf", "cortex-a53", ("+neon",), 4),
    "3b-aarch64": ("aarch64-linux-gnu", "cortex-a53", ("+neon",), 4),
    "4b-armv7l": ("armv7l-linux-gnueabihf", "cortex-a72", ("+neon",), 4),
    "4b-aarch64": ("aarch64-linux-gnu", "cortex-a72", ("+neon",), 4),
    "5-aarch64": ("aarch64-linux-gnu", "cortex-a76", ("+neon",), 4),
}

# Family of machines in a data centre → (CPU, size → physical cores).
_AWS = {
    "c4": ("core-avx2", {"large": 1, "xlarge": 2, "2xlarge": 4, "4xlarge": 8, "8xlarge": 18}),
    "c5": (
        "skylake-avx512",
        {
            "large": 1,
            "xlarge": 2,
            "2xlarge": 4,
            "4xlarge": 8,
            "9xlarge": 18,
            "12xlarge": 24,
            "18xlarge": 36,
            "24xlarge": 48,
        },
    ),
}


def _cuda(architecture: str, shared: int, registers: int) -> dict[str, Any]:
    return {
        "kind": "cuda",
        "keys": ("cuda", "gpu"),
        "arch": architecture,
        "max_shared_memory_per_block": shared,
        "max_threads_per_block": 1024,
        "thread_warp_size": 32,
        "registers_per_block": registers,
    }


def _register_all() -> None:
    for (architecture, shared, registers), models in _NVIDIA.items():
        for model in models.split():
            TAGS.register(f"nvidia/{model}", _cuda(architecture, shared, registers))
    for board, (architecture, cpu, cores) in _JETSON.items():
        host = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": cpu, "num-cores": cores}
        TAGS.register(f"nvidia/{board}", {**_cuda(architecture, 49152, 65536), "host": host})
    for board, (triple, cpu, features, cores) in _RASPBERRY_PI.items():
        config = {"kind": "llvm", "mtriple": triple, "mcpu": cpu, "mattr": features}
        TAGS.register(f"raspberry-pi/{board}", {**config, "num-cores": cores})
    for family, (cpu, sizes) in _AWS.items():
        for size, cores in sizes.items():
            config = {"kind": "llvm", "keys": ("x86", "cpu"), "mcpu": cpu, "num-cores": cores}
            TAGS.register(f"aws/cpu/{family}.{size}", config)


_register_all()
