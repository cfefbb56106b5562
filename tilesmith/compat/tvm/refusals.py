"""Names and modules of users' programs that have no meaning here, with reasons and alternatives.

A record has two uses: what is raised where a program uses the name, and the row in
``docs/coverage`` (``tools/coverage_tables.py``). A key "module:name" (or "module:Class.method")
is a name that can be imported, and raises UnsupportedError when it is called; a key "module" stands
for a module and all below it, whose import raises UnsupportedModuleError.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from tilesmith.compat.tvm.refusals_frontends import FRONTENDS
from tilesmith.compat.tvm.refusals_relax import RELAX
from tilesmith.support.errors import UnsupportedError, UnsupportedModuleError

__all__ = ["REFUSALS", "Refusal", "RefusedName", "refusal_of", "refuse_module", "refused_names"]


@dataclass(frozen=True)
class Refusal:
    """Why a name has no meaning here, and what to do instead."""

    reason: str
    advice: str


def _named(module: str, names: Iterable[str], refusal: Refusal) -> dict[str, Refusal]:
    return {f"{module}:{name}": refusal for name in names}


_ONE_TENSOR_IR = Refusal("there is one tensor IR", "tilesmith.lower lowers it")
_COMPILED = Refusal(
    "cuDNN is not called, kernels are compiled", "use the operators of topi.nn and relax.op.nn"
)
_DSP = Refusal(
    "there are no micro kernels for the DSP extension of Cortex-M, as C sources",
    "target='c -mcpu=cortex-m7' writes plain C",
)
_COLLAGE = Refusal(
    "a graph is divided among compilers by rules, not by measuring all divisions",
    "MergeComposite, AnnotateTarget, MergeCompilerRegions and PartitionGraph of relay.transform",
)
_NO_LIBRARY = Refusal(
    "its library or device is not a part of Tilesmith",
    "register_pattern_table, target.NAME attributes and relay.ext.NAME declare a compiler; "
    "relay.op.contrib.dnnl and cblas call libraries of the CPU",
)
_RPC_PROCESS = Refusal(
    "it is a part of how servers and trackers used to be run, not of how they are used",
    "rpc.Server and rpc.Tracker: port, wait and terminate; what happens is on standard error",
)
_ONE_WORKER = Refusal(
    "models are not divided among several devices and processes",
    "relax.build compiles for one device; leave the exchange out of the module",
)
_TUNING = Refusal(
    "there is no tuning yet", "tvmc.compile and relay.build choose schedules by rules"
)
_PATTERN_NODE = Refusal(
    "patterns are Python classes, no nodes of another runtime",
    "a class of its own enters its rule by relax.dpl.matcher.MATCHING.handles",
)
_RELAY = "it works on graphs of Relay, which is not a part of Tilesmith yet"

_PROJECTS = Refusal(
    "projects around programs for boards are not made here: each board has its own builds",
    "micro.export_model_library_format packs C files that any C compiler takes",
)
_SESSIONS = Refusal(
    "there are no sessions with boards",
    "compile the C files of micro.export_model_library_format with the board's compiler",
)
REFUSALS: dict[str, Refusal] = {
    "tvm.tir.transform:TilePrimitiveDispatch": Refusal(
        "programs have no tile primitives",
        "tir.Schedule.tensorize puts intrinsics in place of tiles",
    ),
    **_named("tvm.tir.transform", ("LowerTIRx", "LowerTIRxOpaque"), _ONE_TENSOR_IR),
    "tvm.contrib.graph_executor:GraphModule.debug_get_output": Refusal(
        "operators are fused: the values between them are not stored",
        "contrib.debugger.debug_executor.create runs the program node by node",
    ),
    **_named(
        "tvm.contrib.cudnn",
        (
            "conv_backward_data",
            "conv_backward_data_find_algo",
            "conv_backward_filter",
            "conv_backward_filter_find_algo",
            "conv_forward",
            "conv_forward_find_algo",
            "log_softmax",
            "softmax",
        ),
        _COMPILED,
    ),
    "tvm.rpc.proxy": Refusal(
        "servers are not reached through a proxy, nor from web pages",
        "connect directly, or through ssh -L; rpc.Tracker lends servers",
    ),
    "tvm.rpc.tornado_util": Refusal(
        "trackers and servers run in threads, without an event loop of Tornado",
        "rpc.Tracker and rpc.Server are complete",
    ),
    **_named("tvm.rpc.server", ("PopenRPCServerState", "console_handler"), _RPC_PROCESS),
    **_named(
        "tvm.rpc.tracker",
        ("PopenTrackerServerState", "TCPEventHandler", "console_handler"),
        _RPC_PROCESS,
    ),
    "tvm.contrib.sdaccel:compile_vhls": Refusal(
        "Xilinx has replaced SDAccel (2019), and there is no back end for it",
        "target='c' writes C code, which high-level synthesis reads",
    ),
    **_named(
        "tvm.topi.arm_cpu.mprofile.dsp.micro_kernel.common",
        ("MICRO_WORD_LENGTH_BITS", "common_includes"),
        _DSP,
    ),
    "tvm.topi.arm_cpu.mprofile.dsp.micro_kernel.tensordot:SMLAInstruction": _DSP,
    **_named(
        "tvm.topi.cuda.sort",
        ("block_size", "thread_work"),
        Refusal(
            "sorting goes by digits, not by blocks of threads", "topi.argsort, topi.sort, topi.topk"
        ),
    ),
    "tvm.topi.x86.conv3d:Workload3D": Refusal(
        "it is a key of AutoTVM's table of schedules", "topi.x86.schedule_conv3d_ncdhw needs none"
    ),
    **_named(
        "tvm.relax.frontend.nn.op",
        ("ccl_allgather", "ccl_allreduce", "ccl_broadcast_from_worker0"),
        _ONE_WORKER,
    ),
    "tvm.relax.frontend.nn.llm.kv_cache:FlashInferPagedKVCache": Refusal(
        "FlashInfer is a library of CUDA kernels that is not a part of Tilesmith",
        "TIRPagedKVCache takes the same arguments",
    ),
    "tvm.relay.transform:CollagePartition": _COLLAGE,
    "tvm.relay.dataflow_pattern:ffi": Refusal(
        "patterns are matched in Python, by no functions of another runtime",
        "relay.dataflow_pattern.match, rewrite and partition",
    ),
    "tvm.relay.dataflow_pattern:register_df_node": _PATTERN_NODE,
    "tvm.relax.dpl.pattern:register_df_node": _PATTERN_NODE,
    **{name: Refusal(*row) for name, row in (FRONTENDS | RELAX).items()},
    # whole modules
    "tvm.relay.collage": _COLLAGE,
    **{
        f"tvm.relay.op.contrib.{name}": _NO_LIBRARY
        for name in (
            "arm_compute_lib",
            "bnns",
            "clml",
            "cmsisnn",
            "coreml",
            "cublas",
            "cudnn",
            "cutlass",
            "ethosn",
            "ethosu",
            "libtorch",
            "mrvl",
            "te_target",
            "tensorrt",
            "vitis_ai",
        )
    },
    "tvm.topi.arm_cpu.pstate_attributes": Refusal(
        "functions that use SME enter and leave its modes by themselves",
        "tir.Schedule.tensorize with the intrinsics of tir.tensor_intrin.arm_cpu",
    ),
    "tvm.contrib.msc": Refusal(
        "the Multi-System Compiler is a project of its own, with its own formats and tools",
        "relax.frontend imports models, relax.transform changes them",
    ),
    "tvm.contrib.micro": Refusal(
        "boards without an operating system are not measured by remote control yet",
        "micro.export_model_library_format packs C files for them",
    ),
    "tvm.contrib.hexagon": Refusal(
        "there is no runtime for Hexagon DSPs yet",
        "compile with target='hexagon' and save the code",
    ),
    "tvm.contrib.ethosu": Refusal(_RELAY, "target='c' writes C code for the CPU beside the NPU"),
    **_named(
        "tvm.relay.backend.aot",
        ("AOTLowerMain", "CreateExecutorMetadata", "CreateFunctionMetadata"),
        Refusal(
            "the function that calls the kernels is made by the driver, not by a pass of its own",
            "relay.build(mod, executor=Executor('aot')).get_lib().get_source() shows it",
        ),
    ),
    "tvm.contrib.tedd": Refusal(
        "pictures of schedules are not drawn yet", "print(schedule.mod) shows the loops"
    ),
    "tvm.contrib.torch": Refusal(
        "modules of PyTorch are not made from compiled functions yet",
        'torch.compile(model, backend="tilesmith") runs a module of PyTorch with compiled kernels; '
        "torch tensors can be passed to compiled functions: they share memory",
    ),
    "tvm.contrib.target": Refusal(_RELAY, "relax.frontend.onnx reads ONNX models"),
    "tvm.contrib.coreml_runtime": Refusal(
        "models of Core ML are run by Apple's own library", "use coremltools"
    ),
    "tvm.contrib.tflite_runtime": Refusal(
        "models of TensorFlow Lite are run by its own interpreter", "use the package tflite-runtime"
    ),
    "tvm.runtime.disco": Refusal(
        "models are not divided among several devices and processes yet",
        "relax.build and relay.build compile for one device, whose threads share the work",
    ),
    "tvm.testing.auto_scheduler:get_tiled_matmul": _TUNING,
    **_named(
        "tvm.testing.autotvm",
        ("DummyRunner", "bad_matmul", "get_sample_records", "get_sample_task", "matmul"),
        _TUNING,
    ),
    "tvm.utils.roofline:auto_scheduler": _TUNING,
    **_named(
        "tvm.utils.roofline.cuda",
        (
            "estimate_peak_bandwidth",
            "estimate_peak_bandwidth_global_mem",
            "estimate_peak_flops",
            "estimate_peak_flops_fma",
            "estimate_peak_flops_tensorcore",
            "peak_bandwidth_tir",
        ),
        Refusal(
            "what GPUs can do at most is not measured yet",
            "utils.roofline.registry.estimate_peak_flops.register takes a function for a target",
        ),
    ),
    **_named(
        "tvm.driver.tvmc.autotuner",
        (
            "autoscheduler_get_tuning_tasks",
            "autotvm_get_tuning_tasks",
            "filter_tasks",
            "gen_task_list",
            "schedule_tasks",
            "tune_tasks",
        ),
        _TUNING,
    ),
    **_named(
        "tvm.driver.tvmc.project",
        (
            "check_options",
            "check_options_choices",
            "get_and_check_options",
            "get_options",
            "get_project_dir",
            "get_project_options",
        ),
        _PROJECTS,
    ),
    "tvm.micro.build": _PROJECTS,
    "tvm.micro.class_factory": _SESSIONS,
    "tvm.micro.debugger": _SESSIONS,
    "tvm.micro.project": _PROJECTS,
    "tvm.micro.project_api": _PROJECTS,
    "tvm.micro.session": _SESSIONS,
    "tvm.micro.testing.aot_test_utils": _SESSIONS,
    "tvm.micro.testing.evaluation": _SESSIONS,
    "tvm.micro.testing.pytest_plugin": _SESSIONS,
    "tvm.micro.transport": _SESSIONS,
    **_named(
        "tvm.micro",
        (
            "GeneratedProject",
            "TemplateProject",
            "copy_crt_config_header",
            "generate_project",
            "get_microtvm_template_projects",
            "get_standalone_crt_dir",
        ),
        _PROJECTS,
    ),
    **_named(
        "tvm.micro",
        (
            "AutoTvmModuleLoader",
            "Session",
            "SessionTerminatedError",
            "TransportLogger",
            "autotvm_build_func",
            "create_local_aot_executor",
            "create_local_debug_executor",
            "create_local_graph_executor",
        ),
        _SESSIONS,
    ),
    **_named(
        "tvm.micro.model_library_format",
        ("CRT_TEMPLATE_FILES_URL", "STANDALONE_CRT_URL"),
        Refusal(
            "programs for boards need no runtime that an archive would carry",
            "the C files of export_model_library_format need the C library only",
        ),
    ),
    **_named(
        "tvm.micro.testing",
        (
            "create_aot_session",
            "get_supported_boards",
            "get_target",
            "predict_labels_aot",
            "tune_model",
        ),
        _SESSIONS,
    ),
    **_named(
        "tvm.micro.testing.utils",
        (
            "TIMEOUT_SEC",
            "aot_transport_find_message",
            "aot_transport_init_wait",
            "check_tune_log",
            "get_conv2d_relay_module",
            "get_supported_boards",
            "get_supported_platforms",
            "get_target",
        ),
        _SESSIONS,
    ),
}


class RefusedName:
    """What stands for a refused name: calling it, or a name inside of it, raises
    UnsupportedError.
    """

    def __init__(self, name: str, refusal: Refusal) -> None:
        self._name = name
        self._refusal = refusal
        self.__doc__ = f"Is not there: {refusal.reason}. Instead: {refusal.advice}."

    def __call__(self, *arguments: Any, **named: Any) -> NoReturn:
        refusal = self._refusal
        raise UnsupportedError(f"{self._name}: {refusal.reason}", notes=(refusal.advice,))

    def __mro_entries__(self, bases: tuple[Any, ...]) -> NoReturn:
        """Raise UnsupportedError: a class cannot be derived from what is not there."""
        self()

    def __getattr__(self, name: str) -> RefusedName:
        if name.startswith("_"):
            raise AttributeError(name)
        return RefusedName(f"{self._name}.{name}", self._refusal)

    def __repr__(self) -> str:
        return f"<refused {self._name}: {self._refusal.reason}>"


def refusal_of(module: str) -> Refusal | None:
    """Return the refusal of a module or of one above it; None where it is not refused."""
    parts = module.split(".")
    for count in range(len(parts), 1, -1):
        found = REFUSALS.get(".".join(parts[:count]))
        if found is not None:
            return found
    return None


def refused_names(module: str) -> dict[str, RefusedName]:
    """Return the refused names of a module, those inside of classes left out."""
    start = module + ":"
    names = [key.removeprefix(start) for key in REFUSALS if key.startswith(start)]
    return {
        name: RefusedName(f"{module}.{name}", REFUSALS[start + name])
        for name in names
        if "." not in name
    }


def refuse_module(module: str, refusal: Refusal) -> NoReturn:
    """Raise UnsupportedModuleError for the import of a module."""
    raise UnsupportedModuleError(
        f"no module named '{module}': {refusal.reason}", notes=(refusal.advice,)
    )
