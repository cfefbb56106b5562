"""Tensors, devices, data types, modules, the function registry, executors.

A deployed model needs this package and `support`, nothing above. Names are resolved at first use.
"""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "DataType": "tilesmith.runtime.dtype:DataType",
    },
)
