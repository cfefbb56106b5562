"""Made by tools/write_stubs.py from the table PUBLIC; do not edit."""

from tilesmith import arith as arith
from tilesmith import codegen as codegen
from tilesmith import contrib as contrib
from tilesmith.driver import compile as compile
from tilesmith import driver as driver
from tilesmith.error import TVMError as TVMError
from tilesmith.error import TilesmithError as TilesmithError
from tilesmith import error as error
from tilesmith import inspect as inspect
from tilesmith.ir import IRModule as IRModule
from tilesmith import ir as ir
from tilesmith.ir import transform as transform
from tilesmith.lowering import build as build
from tilesmith.lowering import lower as lower
from tilesmith import lowering as lowering
from tilesmith import relax as relax
from tilesmith import relay as relay
from tilesmith import rpc as rpc
from tilesmith import runtime as runtime
from tilesmith.runtime.devices import Device as Device
from tilesmith.runtime.devices import cpu as cpu
from tilesmith.runtime.devices import cuda as cuda
from tilesmith.runtime.devices import device as device
from tilesmith.runtime.devices import ext_dev as ext_dev
from tilesmith.runtime.devices import cuda as gpu
from tilesmith.runtime.devices import hexagon as hexagon
from tilesmith.runtime.devices import metal as metal
from tilesmith.runtime.devices import opencl as opencl
from tilesmith.runtime.devices import rocm as rocm
from tilesmith.runtime.devices import vulkan as vulkan
from tilesmith.runtime.devices import webgpu as webgpu
from tilesmith.runtime.dtype import DataType as DataType
from tilesmith.runtime.dtype import DataTypeCode as DataTypeCode
from tilesmith.runtime.executable import load as load
from tilesmith.runtime import nd as nd
from tilesmith.runtime.ndarray import NDArray as NDArray
from tilesmith.runtime.registry import get_global_func as get_global_func
from tilesmith.runtime.registry import register_func as register_func
from tilesmith.runtime.threads import num_threads as num_threads
from tilesmith.runtime.threads import set_num_threads as set_num_threads
from tilesmith import schedule_rules as schedule_rules
from tilesmith import script as script
from tilesmith import support as support
from tilesmith import target as target
from tilesmith import te as te
from tilesmith import testing as testing
from tilesmith import tir as tir
from tilesmith import topi as topi

PUBLIC: dict[str, str]
__version__: str
