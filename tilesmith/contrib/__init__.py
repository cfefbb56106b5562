"""Public names that users know, as thin wrappers over the runtime and the linker."""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "cc": "tilesmith.contrib.cc",
        "clang": "tilesmith.contrib.clang",
        "cudnn": "tilesmith.contrib.cudnn",
        "download": "tilesmith.contrib.download",
        "graph_executor": "tilesmith.contrib.graph_executor",
        "popen_pool": "tilesmith.contrib.popen_pool",
        "tar": "tilesmith.contrib.tar",
        "utils": "tilesmith.contrib.utils",
    },
)
