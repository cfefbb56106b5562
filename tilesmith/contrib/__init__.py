"""Public names that users know, as thin wrappers over the runtime and the linker."""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "cc": "tilesmith.contrib.cc",
        "graph_executor": "tilesmith.contrib.graph_executor",
        "tar": "tilesmith.contrib.tar",
        "utils": "tilesmith.contrib.utils",
    },
)
