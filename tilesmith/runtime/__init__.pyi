"""Made by tools/write_stubs.py from the table PUBLIC; do not edit."""

from tilesmith.runtime.artifact import Artifact as Artifact
from tilesmith.runtime.container import ShapeTuple as ShapeTuple
from tilesmith.runtime.container import String as String
from tilesmith.runtime.devices import Device as Device
from tilesmith.runtime.devices import cpu as cpu
from tilesmith.runtime.devices import cuda as cuda
from tilesmith.runtime.devices import device as device
from tilesmith.runtime.devices import ext_dev as ext_dev
from tilesmith.runtime.devices import gpu as gpu
from tilesmith.runtime.devices import hexagon as hexagon
from tilesmith.runtime.devices import metal as metal
from tilesmith.runtime.devices import opencl as opencl
from tilesmith.runtime.devices import rocm as rocm
from tilesmith.runtime.devices import vpi as vpi
from tilesmith.runtime.devices import vulkan as vulkan
from tilesmith.runtime.devices import webgpu as webgpu
from tilesmith.runtime.dtype import DataType as DataType
from tilesmith.runtime.dtype import DataTypeCode as DataTypeCode
from tilesmith.runtime.executable import Executable as Executable
from tilesmith.runtime.library import Library as Library
from tilesmith.runtime.module import Module as Module
from tilesmith.runtime.module import enabled as enabled
from tilesmith.runtime.module import load_module as load_module
from tilesmith.runtime.module import module_from_functions as module_from_functions
from tilesmith.runtime.ndarray import NDArray as NDArray
from tilesmith.runtime.ndarray import NDArray as Tensor
from tilesmith.runtime import ndarray as ndarray
from tilesmith.runtime.ndarray import array as tensor
from tilesmith.runtime.packed_func import PackedFunc as PackedFunc
from tilesmith.runtime.params import load_param_dict as load_param_dict
from tilesmith.runtime.params import load_param_dict_from_file as load_param_dict_from_file
from tilesmith.runtime.params import save_param_dict as save_param_dict
from tilesmith.runtime.params import save_param_dict_to_file as save_param_dict_to_file
from tilesmith.runtime.registry import get_global_func as get_global_func
from tilesmith.runtime.registry import register_func as register_func
from tilesmith.runtime.relax_vm import VirtualMachine as VirtualMachine
from tilesmith.runtime import relax_vm as relax_vm
from tilesmith.runtime.threads import num_threads as num_threads
from tilesmith.runtime.threads import set_num_threads as set_num_threads
from tilesmith.runtime.timing import BenchmarkResult as BenchmarkResult
from tilesmith.support.errors import TilesmithError as TVMError

PUBLIC: dict[str, str]
