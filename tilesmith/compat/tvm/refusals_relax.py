"""Names of Relax that have no meaning here: launch graphs of GPUs, makers' libraries,
and tuning, which is not there yet.
"""

from __future__ import annotations

_GRAPHS = (
    "a model becomes a graph of launches when it runs, as a whole",
    "contrib.cuda_graph.cuda_graph_executor.GraphModuleCudaGraph, or runtime.cuda.graphs.graph_of",
)
_IPC = (
    "memory that processes share between GPUs is not there: models run in one process",
    "relax.op.ccl keeps the operators as they are",
)
_TUNING = (
    "tuning is not there yet",
    "tilesmith.compile and relax.get_pipeline schedule kernels without it, by rules",
)
_LIBRARY = (
    "its library is not a part of Tilesmith",
    "relax.backend.contrib.cblas calls OpenBLAS; relax.backend.register_patterns and "
    "FuseOpsByPattern find parts for others, relax.ext.NAME (register_func) makes modules of them",
)

RELAX: dict[str, tuple[str, str]] = {
    "tvm.relax.transform:IPCAllReduceRewrite": _IPC,
    "tvm.relax.transform:LowerGPUIPCAllocStorage": _IPC,
    "tvm.relax.transform:RewriteCUDAGraph": _GRAPHS,
    "tvm.relax.transform.ipc_allreduce_rewrite:IPCAllReduceRewrite": _IPC,
    "tvm.relax.transform.lower_gpu_ipc_alloc_storage:LowerGPUIPCAllocStorage": _IPC,
    "tvm.relax.transform.transform:RewriteCUDAGraph": _GRAPHS,
    "tvm.relax.pipeline:static_shape_tuning_pipeline": _TUNING,
    **{
        f"tvm.relax.transform{module}:{name}": _TUNING
        for module in ("", ".transform")
        for name in (
            "FewShotTuning",
            "MetaScheduleApplyDatabase",
            "MetaScheduleTuneIRMod",
            "MetaScheduleTuneTIR",
        )
    },
    "tvm.relax.transform.tuning_api": _TUNING,
    "tvm.relax.transform:tuning_api": _TUNING,
    "tvm.relax.backend_tir.contrib:cutlass_fcodegen": _LIBRARY,
    **{
        f"tvm.relax.backend.contrib.{name}": _LIBRARY
        for name in ("coreml", "cublas", "cudnn", "cutlass", "hipblas", "nnapi")
    },
}
"""Name → reason and advice."""
