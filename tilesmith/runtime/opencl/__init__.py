"""Devices of kind "opencl": memory, queues and events through pyopencl.

`platforms` finds devices and has their contexts and queues, `buffers` allocates and says what a
pointer of a tensor is for OpenCL (`argument_of`), `api` is what the runtime asks
(`DEVICE_APIS["opencl"]`). Importing this package does not import pyopencl.
"""

from tilesmith.runtime.devices import make_callable, opencl

make_callable(__name__, opencl)
