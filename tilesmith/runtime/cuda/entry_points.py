"""Lists the functions of CUDA's driver that Tilesmith calls, and the types of their arguments.

All return a status (`statuses`). Names are those of the manual; where the library has a newer
version of a function under another symbol, SYMBOLS has it.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_ulonglong,
    c_void_p,
)

_int_out = POINTER(c_int)
_out = POINTER(c_void_p)
_size_out = POINTER(c_size_t)
_address = c_void_p  # CUdeviceptr: an integer as wide as a pointer


class PoolLocation(ctypes.Structure):
    """CUmemLocation: the kind of place (1: a device) and its number."""

    _fields_ = [("kind", c_int), ("id", c_int)]


class PoolProperties(ctypes.Structure):
    """CUmemPoolProps: what a pool of memory is made of."""

    _fields_ = [
        ("allocation_type", c_int),
        ("handle_types", c_int),
        ("location", PoolLocation),
        ("security_attributes", c_void_p),
        ("max_size", c_size_t),
        ("usage", ctypes.c_ushort),
        ("reserved", c_ubyte * 54),
    ]


FUNCTIONS: dict[str, tuple[object, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (_int_out,),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    # devices and contexts
    "cuDeviceGetCount": (_int_out,),
    "cuDeviceGet": (_int_out, c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (_int_out, c_int, c_int),
    "cuDeviceTotalMem": (_size_out, c_int),
    "cuDevicePrimaryCtxRetain": (_out, c_int),
    "cuCtxGetCurrent": (_out,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxGetDevice": (_int_out,),
    "cuCtxSynchronize": (),
    # memory
    "cuMemGetInfo": (_size_out, _size_out),
    "cuMemAlloc": (_out, c_size_t),
    "cuMemFree": (_address,),
    "cuMemAllocManaged": (_out, c_size_t, c_uint),
    "cuMemHostAlloc": (_out, c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemPoolCreate": (_out, POINTER(PoolProperties)),
    "cuMemPoolSetAttribute": (c_void_p, c_int, c_void_p),
    "cuMemPoolGetAttribute": (c_void_p, c_int, c_void_p),
    "cuMemPoolTrimTo": (c_void_p, c_size_t),
    "cuMemAllocFromPoolAsync": (_out, c_size_t, c_void_p, c_void_p),
    "cuMemFreeAsync": (_address, c_void_p),
    "cuMemcpyHtoDAsync": (_address, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync": (c_void_p, _address, c_size_t, c_void_p),
    "cuMemcpyAsync": (_address, _address, c_size_t, c_void_p),
    "cuMemcpyPeerAsync": (_address, c_void_p, _address, c_void_p, c_size_t, c_void_p),
    "cuMemsetD8Async": (_address, c_ubyte, c_size_t, c_void_p),
    # queues and events
    "cuStreamCreate": (_out, c_uint),
    "cuStreamDestroy": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuEventCreate": (_out, c_uint),
    "cuEventDestroy": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    # code
    "cuModuleLoadDataEx": (_out, c_void_p, c_uint, POINTER(c_int), _out),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (_out, c_void_p, c_char_p),
    "cuModuleGetGlobal": (_out, _size_out, c_void_p, c_char_p),
    "cuFuncGetAttribute": (_int_out, c_int, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (_int_out, c_void_p, c_int, c_size_t),
    "cuStreamBeginCapture": (c_void_p, c_int),
    "cuStreamIsCapturing": (c_void_p, _int_out),
    "cuStreamEndCapture": (c_void_p, _out),
    "cuGraphInstantiateWithFlags": (_out, c_void_p, c_ulonglong),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphDestroy": (c_void_p,),
    "cuTensorMapEncodeTiled": (
        c_void_p, c_int, c_uint, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int,
        c_int, c_int,
    ),
    "cuLaunchKernelEx": (c_void_p, c_void_p, c_void_p, c_void_p),
    "cuLaunchKernel": (
        c_void_p, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_void_p,
        c_void_p, c_void_p,
    ),
}  # fmt: skip
"""Name → types of the arguments."""

SYMBOLS = {
    "cuDeviceTotalMem": "cuDeviceTotalMem_v2",
    "cuMemGetInfo": "cuMemGetInfo_v2",
    "cuMemAlloc": "cuMemAlloc_v2",
    "cuMemFree": "cuMemFree_v2",
    "cuMemcpyHtoDAsync": "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync": "cuMemcpyDtoHAsync_v2",
    "cuModuleGetGlobal": "cuModuleGetGlobal_v2",
    "cuStreamDestroy": "cuStreamDestroy_v2",
    "cuEventDestroy": "cuEventDestroy_v2",
    "cuStreamBeginCapture": "cuStreamBeginCapture_v2",
}
"""Name → the symbol that has it in every driver since CUDA 4."""
