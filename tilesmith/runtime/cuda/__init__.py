"""Devices of kind "cuda": memory, streams, events and code on NVIDIA GPUs, through the driver.

`driver` reaches libcuda, `memory` allocates and copies, `streams` has queues and clocks, `api` is
what the runtime asks (`DEVICE_APIS["cuda"]`), `graphs` records calls as graphs.
Importing this package loads no driver. Called, it is the function `tilesmith.cuda`.
"""

from tilesmith.runtime.devices import cuda, make_callable
from tilesmith.support.lazy import lazy_attributes

_LAZY = {
    "Graph": "tilesmith.runtime.cuda.graphs:Graph",
    "graph_of": "tilesmith.runtime.cuda.graphs:graph_of",
}

__getattr__, __dir__ = lazy_attributes(__name__, _LAZY)

__all__ = ["Graph", "graph_of"]

make_callable(__name__, cuda)
