"""Runs compiled models: tensors, devices, data types, modules, the function registry, executors.

A deployed model needs this package and `support`, nothing above. Names are resolved at first use.
"""

from tilesmith.support.lazy import lazy_attributes

PUBLIC: dict[str, str] = {
    "Artifact": "tilesmith.runtime.artifact:Artifact",
    "BenchmarkResult": "tilesmith.runtime.timing:BenchmarkResult",
    "DataType": "tilesmith.runtime.dtype:DataType",
    "DataTypeCode": "tilesmith.runtime.dtype:DataTypeCode",
    "Device": "tilesmith.runtime.devices:Device",
    "Executable": "tilesmith.runtime.executable:Executable",
    "Library": "tilesmith.runtime.library:Library",
    "Module": "tilesmith.runtime.module:Module",
    "ModulePropertyMask": "tilesmith.runtime.module:ModulePropertyMask",
    "NDArray": "tilesmith.runtime.ndarray:NDArray",
    "PackedFunc": "tilesmith.runtime.packed_func:PackedFunc",
    "ShapeTuple": "tilesmith.runtime.container:ShapeTuple",
    "String": "tilesmith.runtime.container:String",
    "TVMError": "tilesmith.support.errors:TilesmithError",
    "Tensor": "tilesmith.runtime.ndarray:NDArray",
    "VirtualMachine": "tilesmith.runtime.relax_vm:VirtualMachine",
    "cpu": "tilesmith.runtime.devices:cpu",
    "cuda": "tilesmith.runtime.cuda",
    "device": "tilesmith.runtime.devices:device",
    "enabled": "tilesmith.runtime.devices:enabled",
    "ext_dev": "tilesmith.runtime.devices:ext_dev",
    "from_dlpack": "tilesmith.runtime.ndarray:from_dlpack",
    "get_global_func": "tilesmith.runtime.registry:get_global_func",
    "gpu": "tilesmith.runtime.devices:gpu",
    "hexagon": "tilesmith.runtime.devices:hexagon",
    "load_module": "tilesmith.runtime.module:load_module",
    "load_static_library": "tilesmith.runtime.module:load_static_library",
    "load_param_dict": "tilesmith.runtime.params:load_param_dict",
    "load_param_dict_from_file": "tilesmith.runtime.params:load_param_dict_from_file",
    "metal": "tilesmith.runtime.devices:metal",
    "module_from_functions": "tilesmith.runtime.module:module_from_functions",
    "ndarray": "tilesmith.runtime.ndarray",
    "num_threads": "tilesmith.runtime.threads:num_threads",
    "opencl": "tilesmith.runtime.opencl",
    "profiling": "tilesmith.runtime.profiling",
    "register_func": "tilesmith.runtime.registry:register_func",
    "relax_vm": "tilesmith.runtime.relax_vm",
    "rocm": "tilesmith.runtime.devices:rocm",
    "save_param_dict": "tilesmith.runtime.params:save_param_dict",
    "save_param_dict_to_file": "tilesmith.runtime.params:save_param_dict_to_file",
    "set_num_threads": "tilesmith.runtime.threads:set_num_threads",
    "system_lib": "tilesmith.runtime.module:system_lib",
    "tensor": "tilesmith.runtime.ndarray:array",
    "vm": "tilesmith.runtime.vm",
    "vpi": "tilesmith.runtime.devices:vpi",
    "vulkan": "tilesmith.runtime.devices:vulkan",
    "webgpu": "tilesmith.runtime.devices:webgpu",
}
"""Public name → where it lives."""

__getattr__, __dir__ = lazy_attributes(__name__, PUBLIC)
