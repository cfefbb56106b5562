"""Public names that users know, as thin wrappers over the runtime and what others provide."""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "cblas": "tilesmith.contrib.cblas",
        "cc": "tilesmith.contrib.cc",
        "clang": "tilesmith.contrib.clang",
        "cplusplus": "tilesmith.contrib.cplusplus",
        "cublas": "tilesmith.contrib.cublas",
        "cublaslt": "tilesmith.contrib.cublaslt",
        "cudnn": "tilesmith.contrib.cudnn",
        "debugger": "tilesmith.contrib.debugger",
        "dnnl": "tilesmith.contrib.dnnl",
        "download": "tilesmith.contrib.download",
        "emcc": "tilesmith.contrib.emcc",
        "graph_executor": "tilesmith.contrib.graph_executor",
        "mkl": "tilesmith.contrib.mkl",
        "ndk": "tilesmith.contrib.ndk",
        "peak": "tilesmith.contrib.peak",
        "pickle_memoize": "tilesmith.contrib.pickle_memoize",
        "pipeline_executor": "tilesmith.contrib.pipeline_executor",
        "pipeline_executor_build": "tilesmith.contrib.pipeline_executor_build",
        "popen_pool": "tilesmith.contrib.popen_pool",
        "random": "tilesmith.contrib.random",
        "rocm": "tilesmith.contrib.rocm",
        "sort": "tilesmith.contrib.sort",
        "sparse": "tilesmith.contrib.sparse",
        "spirv": "tilesmith.contrib.spirv",
        "stackvm": "tilesmith.contrib.stackvm",
        "tar": "tilesmith.contrib.tar",
        "thrust": "tilesmith.contrib.thrust",
        "utils": "tilesmith.contrib.utils",
        "xcode": "tilesmith.contrib.xcode",
    },
)
