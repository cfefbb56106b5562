"""Tilesmith: a machine learning compiler that can be read from the model file to the machine code.

This file imports nothing: the public names are resolved at first use (`support/lazy.py`).
"""

from tilesmith.support.lazy import lazy_attributes

__version__ = "0.1.0"

PUBLIC: dict[str, str] = {
    # packages
    "arith": "tilesmith.arith",
    "codegen": "tilesmith.codegen",
    "contrib": "tilesmith.contrib",
    "driver": "tilesmith.driver",
    "error": "tilesmith.error",
    "inspect": "tilesmith.inspect",
    "ir": "tilesmith.ir",
    "lowering": "tilesmith.lowering",
    "nd": "tilesmith.runtime.nd",
    "relax": "tilesmith.relax",
    "relay": "tilesmith.relay",
    "rpc": "tilesmith.rpc",
    "runtime": "tilesmith.runtime",
    "schedule_rules": "tilesmith.schedule_rules",
    "script": "tilesmith.script",
    "support": "tilesmith.support",
    "target": "tilesmith.target",
    "te": "tilesmith.te",
    "testing": "tilesmith.testing",
    "tir": "tilesmith.tir",
    "topi": "tilesmith.topi",
    "transform": "tilesmith.ir.transform",
    # runtime
    "DataType": "tilesmith.runtime.dtype:DataType",
    "DataTypeCode": "tilesmith.runtime.dtype:DataTypeCode",
    "Device": "tilesmith.runtime.devices:Device",
    "NDArray": "tilesmith.runtime.ndarray:NDArray",
    "cpu": "tilesmith.runtime.devices:cpu",
    "cuda": "tilesmith.runtime.devices:cuda",
    "device": "tilesmith.runtime.devices:device",
    "ext_dev": "tilesmith.runtime.devices:ext_dev",
    "get_global_func": "tilesmith.runtime.registry:get_global_func",
    "gpu": "tilesmith.runtime.devices:cuda",
    "hexagon": "tilesmith.runtime.devices:hexagon",
    "load": "tilesmith.runtime.executable:load",
    "metal": "tilesmith.runtime.devices:metal",
    "num_threads": "tilesmith.runtime.threads:num_threads",
    "opencl": "tilesmith.runtime.devices:opencl",
    "register_func": "tilesmith.runtime.registry:register_func",
    "rocm": "tilesmith.runtime.devices:rocm",
    "set_num_threads": "tilesmith.runtime.threads:set_num_threads",
    "vulkan": "tilesmith.runtime.devices:vulkan",
    "webgpu": "tilesmith.runtime.devices:webgpu",
    # errors
    "TVMError": "tilesmith.error:TVMError",
    "TilesmithError": "tilesmith.error:TilesmithError",
    # compiler
    "IRModule": "tilesmith.ir:IRModule",
    "build": "tilesmith.lowering:build",
    "compile": "tilesmith.driver:compile",
    "lower": "tilesmith.lowering:lower",
}
"""Public name → where it lives ("module" or "module:attribute")."""

__getattr__, __dir__ = lazy_attributes(__name__, PUBLIC, doors=True)
