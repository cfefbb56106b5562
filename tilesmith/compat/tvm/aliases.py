"""Lists spellings of several generations of programs, and what they mean here.

``MODULES`` maps a module of users' programs to the module here, or to another module of theirs that
has the same names; a module that is not listed has the same path. ``NAMES`` maps a module of users'
programs to further names in it ("module:attribute", or "module" for a module; "*" adds all public
names of one). Names that a module has here need no row.
"""

from __future__ import annotations

from tilesmith.compat.tvm import rows_2018, rows_relax
from tilesmith.compat.tvm.schedule_modules import schedule_modules

VERSION = "0.18.0"
"""What ``tvm.__version__`` says: the generation whose names count where generations differ."""

COMPLETE = ("tvm.tir",)
"""Modules that hold all their names from the beginning: texts of traces are run with the
``__dict__`` of ``tvm.tir``, which asks no module for a name."""

_INTRINSICS = "tilesmith.schedule_rules.intrinsics."

_LEGALIZED = (
    "binary ccl create datatype distributed grad image index linear_algebra manipulate nn search "
    "statistical unary"
).split()
"""Files in which users' programs look for how operators are legalised; here each operator's record
says it."""

MODULES: dict[str, str] = {
    **schedule_modules(),
    "tvm": "tilesmith",
    "tvm._ffi": "tilesmith.runtime",
    "tvm._ffi.base": "tilesmith.error",
    "tvm._ffi.registry": "tilesmith.runtime.registry",
    "tvm.container": "tvm.ir.container",
    "tvm.contrib.debugger.debug_runtime": "tilesmith.contrib.debugger.debug_executor",
    "tvm.contrib.graph_runtime": "tilesmith.compat.tvm.graph_runtime",
    "tvm.contrib.nvcc": "tilesmith.target.nvcc",
    "tvm.contrib.relay_viz": "tilesmith.inspect.relay_viz",
    "tvm.contrib.sdaccel": "tilesmith.compat.tvm.refused_module",
    "tvm.dlight": "tilesmith.schedule_rules.dlight",
    "tvm.dlight.base": "tilesmith.schedule_rules.dlight.base",
    "tvm.dlight.base.schedule_rule": "tvm.dlight.base",
    "tvm.dlight.base.transform": "tvm.dlight.base",
    "tvm.dlight.gpu": "tilesmith.schedule_rules.dlight.gpu",
    "tvm.dlight.gpu.base": "tvm.dlight.gpu",
    "tvm.dlight.gpu.fallback": "tvm.dlight.gpu",
    "tvm.dlight.gpu.gemv": "tvm.dlight.gpu",
    "tvm.dlight.gpu.general_reduction": "tvm.dlight.gpu",
    "tvm.dlight.gpu.reduction": "tvm.dlight.gpu",
    "tvm.dlight.gpu.rmsnorm": "tvm.dlight.gpu",
    "tvm.dlight.gpu.transpose": "tvm.dlight.gpu",
    "tvm.driver.build_module": "tilesmith.lowering",
    "tvm.driver.tvmc": "tilesmith.compat.tvm.tvmc",
    "tvm.driver.tvmc.project": "tilesmith.compat.tvm.refused_module",
    "tvm.exec": "tilesmith.compat.tvm.exec",
    "tvm.ffi": "tilesmith.runtime",
    "tvm.instrument": "tilesmith.ir.instrument",
    "tvm.ir.attrs": "tilesmith.ir",
    "tvm.ir.base": "tilesmith.ir",
    "tvm.ir.container": "tilesmith.ir",
    "tvm.ir.function": "tilesmith.ir",
    "tvm.ir.json_compact": "tilesmith.compat.tvm.json_compact",
    "tvm.ir.type": "tilesmith.ir.types",
    "tvm.nd": "tilesmith.runtime.nd",
    "tvm.ndarray": "tvm.nd",
    "tvm.relax.analysis.analysis": "tilesmith.relax.analysis",
    "tvm.relax.analysis.estimate_memory_usage": "tvm.relax.analysis",
    "tvm.relax.backend_tir.contrib": "tilesmith.compat.tvm.refused_module",
    "tvm.relax.ir": "tilesmith.compat.tvm.relax_instrument",
    "tvm.relax.ir.instrument": "tilesmith.compat.tvm.relax_instrument",
    "tvm.relax.op.binary": "tilesmith.relax.op",
    "tvm.relax.op.builtin.builtin": "tilesmith.relax.op.builtin",
    "tvm.relax.op.datatype": "tilesmith.relax.op",
    "tvm.relax.op.grad.grad": "tilesmith.relax.op.grad",
    "tvm.relax.op.image.image": "tilesmith.relax.op.image",
    "tvm.relax.op.mask": "tilesmith.relax.op",
    "tvm.relax.op.memory.memory": "tilesmith.relax.op.memory",
    "tvm.relax.op.memory.view": "tilesmith.relax.op.memory",
    "tvm.relax.op.set": "tilesmith.relax.op",
    "tvm.relax.op.sorting": "tilesmith.relax.op",
    "tvm.relax.op.ternary": "tilesmith.relax.op",
    "tvm.relax.op.unary": "tilesmith.relax.op",
    "tvm.relax.pipeline": "tilesmith.driver.pipelines",
    "tvm.relax.testing": "tilesmith.compat.tvm.relax_testing",
    "tvm.relax.testing.ast_printer": "tilesmith.compat.tvm.ast_printer",
    "tvm.relax.testing.nn": "tilesmith.compat.tvm.relax_testing_nn",
    "tvm.relax.testing.relay_translator": "tilesmith.compat.tvm.relax_testing_relay_translator",
    "tvm.relax.transform.attach_external_modules": "tvm.relax.transform",
    "tvm.relax.transform.fuse_transpose_matmul": "tvm.relax.transform",
    "tvm.relax.transform.ipc_allreduce_rewrite": "tilesmith.compat.tvm.refused_module",
    **{
        f"tvm.relax.transform.legalize_ops.{name}": "tilesmith.relax.transform.legalize_ops"
        for name in _LEGALIZED
    },
    "tvm.relax.transform.legalize_ops.common": "tilesmith.compat.tvm.legalize",
    "tvm.relax.transform.legalize_ops.inspect_op": "tilesmith.compat.tvm.legalize_parts",
    "tvm.relax.transform.legalize_ops.qdq": "tilesmith.compat.tvm.legalize_parts",
    "tvm.relax.transform.lower_gpu_ipc_alloc_storage": "tilesmith.compat.tvm.refused_module",
    "tvm.relax.transform.remove_redundant_reshape": "tvm.relax.transform",
    "tvm.relax.transform.transform": "tilesmith.relax.transform",
    "tvm.relax.ty": "tilesmith.compat.tvm.relax_types",
    "tvm.relax.vm": "tilesmith.driver.relax_build",
    "tvm.relax.vm_build": "tvm.relax.vm",
    "tvm.parser": "tilesmith.compat.tvm.relay_parser",
    "tvm.relay.analysis.analysis": "tilesmith.relay.analysis",
    "tvm.relay.analysis.annotated_regions": "tilesmith.relay.transform.annotated_regions",
    "tvm.relay.analysis.call_graph": "tilesmith.relay.analysis",
    "tvm.relay.analysis.count_layers": "tilesmith.relay.analysis",
    "tvm.relay.analysis.feature": "tilesmith.relay.analysis",
    "tvm.relay.analysis.operations_distribution": "tilesmith.relay.operations_distribution",
    "tvm.relay.analysis.sparse_conv2d": "tilesmith.relay.sparse_conv2d",
    "tvm.relay.analysis.sparse_dense": "tilesmith.relay.sparse_dense",
    "tvm.relay.backend._backend": "tilesmith.relay.backend.graph_plan_memory",
    "tvm.relay.backend.aot": "tilesmith.compat.tvm.refused_module",
    "tvm.relay.backend.compile_engine": "tilesmith.relay.backend.te_compiler",
    "tvm.relay.backend.graph_runtime_codegen": "tilesmith.relay.backend.graph_executor_codegen",
    "tvm.relay.backend.graph_runtime_factory": "tilesmith.relay.backend.executor_factory",
    "tvm.relay.backend.runtime": "tilesmith.relay.backend.executor",
    "tvm.relay.op.contrib.cblas": "tilesmith.relay.backend.contrib.cblas",
    "tvm.relay.op.contrib.dnnl": "tilesmith.relay.backend.contrib.dnnl",
    "tvm.relay.param_dict": "tilesmith.runtime.params",
    "tvm.relay.transform.recast": "tilesmith.relay.transform.recasting",
    "tvm.relay.transform.transform": "tvm.relay.transform",
    "tvm.rpc.base": "tilesmith.runtime.devices",
    "tvm.runtime.executor": "tilesmith.contrib.aot_executor",
    "tvm.runtime.executor.aot_executor": "tilesmith.contrib.aot_executor",
    "tvm.runtime.object": "tvm.runtime",
    "tvm.runtime.object_generic": "tvm.runtime",
    "tvm.runtime.object_path": "tilesmith.ir.object_path",
    "tvm.runtime.script_printer": "tilesmith.ir.printing.config",
    "tvm.s_tir": "tvm.tir",
    "tvm.script.ir_builder": "tilesmith.script",
    "tvm.script.ir_builder.base": "tilesmith.script.builder",
    "tvm.script.ir_builder.ir": "tilesmith.script.ir",
    "tvm.script.ir_builder.ir.frame": "tvm.script.ir_builder.ir",
    "tvm.script.ir_builder.ir.ir": "tvm.script.ir_builder.ir",
    "tvm.script.ir_builder.relax": "tilesmith.relax.script",
    "tvm.script.ir_builder.relax.distributed": "tilesmith.compat.tvm.script_parser.dist",
    "tvm.script.ir_builder.relax.distributed.ir": "tilesmith.compat.tvm.script_parser.dist",
    "tvm.script.ir_builder.relax.frame": "tilesmith.relax.script_frames",
    "tvm.script.ir_builder.relax.ir": "tilesmith.relax.script",
    "tvm.script.ir_builder.tir": "tilesmith.script.tir",
    "tvm.script.ir_builder.tir.external_kernel": "tilesmith.compat.tvm.script_parser.kernels",
    "tvm.script.ir_builder.tir.frame": "tilesmith.script.tir_frames",
    "tvm.script.ir_builder.tir.ir": "tilesmith.script.tir",
    "tvm.script.ir_builder.tir.triton": "tilesmith.compat.tvm.script_parser.kernels",
    "tvm.script.parser": "tilesmith.script",
    "tvm.script.parser.core": "tilesmith.compat.tvm.script_parser",
    "tvm.script.parser.ir": "tilesmith.script.ir",
    "tvm.script.parser.ir.entry": "tilesmith.script.ir",
    "tvm.script.parser.ir.parser": "tilesmith.compat.tvm.script_parser.ir_parser",
    "tvm.script.parser.relax": "tilesmith.relax.script",
    "tvm.script.parser.relax.dist": "tilesmith.compat.tvm.script_parser.dist",
    "tvm.script.parser.relax.entry": "tilesmith.compat.tvm.script_parser.relax_entry",
    "tvm.script.parser.relax.parser": "tilesmith.compat.tvm.script_parser.relax_parser",
    "tvm.script.parser.tir": "tilesmith.script.tir",
    "tvm.script.parser.tir.entry": "tvm.script.parser.tir",
    "tvm.script.parser.tir.parser": "tilesmith.compat.tvm.script_parser.tir_parser",
    "tvm.script.relax": "tilesmith.relax.script",
    "tvm.testing.autotvm": "tilesmith.compat.tvm.refused_module",
    "tvm.testing.utils": "tilesmith.testing",
    "tvm.tir.analysis.analysis": "tilesmith.tir.analysis",
    "tvm.tir.block_dependence_info": "tilesmith.tir.schedule.block_dependence_info",
    "tvm.tir.block_scope": "tilesmith.tir.analysis.block_scope",
    "tvm.tir.generic": "tilesmith.compat.tvm.generic",
    "tvm.tir.schedule.instruction": "tilesmith.tir.schedule.trace",
    "tvm.tir.schedule.testing": "tilesmith.testing.schedules",
    "tvm.tir.tensor_intrin.arm_cpu": _INTRINSICS + "arm_cpu",
    "tvm.tir.tensor_intrin.cuda": _INTRINSICS + "cuda",
    "tvm.tir.tensor_intrin.dot_product_common": _INTRINSICS + "dot_product_common",
    "tvm.tir.tensor_intrin.hexagon": _INTRINSICS + "hexagon",
    "tvm.tir.tensor_intrin.rocm": _INTRINSICS + "rocm",
    "tvm.tir.tensor_intrin.x86": _INTRINSICS + "x86",
    "tvm.tir.transform.transform": "tvm.tir.transform",
    "tvm.tirx": "tvm.tir",
    "tvm.topi.argwhere": "tilesmith.topi",
    "tvm.topi.cpp": "tilesmith.topi",
    "tvm.topi.cpp.vision.yolo": "tilesmith.topi.regions",
    **dict.fromkeys(
        [
            "tvm.topi.nn." + name
            for name in (
                "batch_matmul",
                "batch_norm",
                "batch_to_space_nd",
                "bitserial_conv2d",
                "bitserial_dense",
                "bitserial_util",
                "conv1d",
                "conv1d_transpose",
                "conv2d",
                "conv2d_transpose",
                "conv3d",
                "conv3d_transpose",
                "dense",
                "depth_to_space",
                "depthwise_conv2d",
                "fifo_buffer",
                "flatten",
                "group_norm",
                "instance_norm",
                "layer_norm",
                "local_response_norm",
                "pooling",
                "qnn",
                "rms_norm",
                "softmax",
                "sparse",
            )
        ],
        "tilesmith.topi.nn",
    ),
    "tvm.topi.random.kernel": "tilesmith.topi.random",
    "tvm.topi.scatter_elements": "tilesmith.topi",
    "tvm.topi.searchsorted": "tilesmith.topi",
    "tvm.topi.sparse.csrmm": "tilesmith.topi.sparse",
    "tvm.topi.sparse.csrmv": "tilesmith.topi.sparse",
    "tvm.topi.sparse.dense": "tilesmith.topi.sparse",
    "tvm.topi.sparse_fill_empty_rows": "tilesmith.topi.sparse_indices",
    "tvm.topi.sparse_reshape": "tilesmith.topi.sparse_indices",
    "tvm.topi.unique": "tilesmith.topi",
    "tvm.topi.vision.nms": "tilesmith.topi.vision",
    "tvm.topi.vision.rcnn.proposal": "tilesmith.topi.vision.rcnn",
    "tvm.topi.vision.rcnn.roi_align": "tilesmith.topi.regions",
    "tvm.topi.vision.rcnn.roi_pool": "tilesmith.topi.regions",
    "tvm.topi.vision.reorg": "tilesmith.topi.regions",
    "tvm.topi.vision.ssd.multibox": "tilesmith.topi.vision.ssd",
    "tvm.transform": "tvm.ir.transform",
    "tvm.utils": "tilesmith.inspect.roofline",
    "tvm.utils.roofline": "tilesmith.inspect.roofline",
    "tvm.utils.roofline.cuda": "tilesmith.compat.tvm.refused_module",
    "topi": "tvm.topi",
    **rows_2018.MODULES,
    **rows_relax.MODULES,
    **dict.fromkeys(
        [
            "tvm.topi.testing." + name
            for name in (
                "adaptive_pool_python",
                "attention_python",
                "batch_matmul",
                "batch_norm",
                "batch_to_space_nd",
                "conv1d_ncw_python",
                "conv1d_transpose_ncw_python",
                "conv2d_backcward_weight_python",
                "conv2d_hwcn_python",
                "conv2d_nchw_python",
                "conv2d_nhwc_python",
                "conv2d_transpose_python",
                "conv3d_ncdhw_python",
                "conv3d_ndhwc_python",
                "conv3d_transpose_ncdhw_python",
                "correlation_nchw_python",
                "crop_and_resize_python",
                "deformable_conv2d_python",
                "dense",
                "depth_to_space",
                "depthwise_conv2d_python",
                "dilate_python",
                "gather_nd_python",
                "gather_python",
                "grid_sample_python",
                "group_norm_python",
                "instance_norm_python",
                "l2_normalize_python",
                "layer_norm_python",
                "lrn_python",
                "lstm_python",
                "matrix_set_diag",
                "nll_loss",
                "one_hot",
                "pool_grad_python",
                "poolnd_python",
                "reorg_python",
                "resize_python",
                "rms_norm_python",
                "roi_align_python",
                "roi_pool_python",
                "searchsorted",
                "sequence_mask_python",
                "slice_axis_python",
                "softmax_python",
                "space_to_batch_nd",
                "space_to_depth",
                "strided_slice_python",
            )
        ],
        "tilesmith.topi.testing",
    ),
}

_WORKLOADS = "tilesmith.topi.nn.workloads:"
_OBJECTS = "tilesmith.compat.tvm.object_generic:"
_EXTENSION = {"register_extension": _OBJECTS + "register_extension"}
_SHORT_DEVICES = {
    "cl": "tilesmith.runtime.devices:opencl",
    "mtl": "tilesmith.runtime.devices:metal",
}
_OBJECT_WORDS = {
    name: _OBJECTS + name for name in ("ObjectGeneric", "ObjectTypes", "convert_to_object")
}

NAMES: dict[str, dict[str, str]] = {
    "tvm.arith.int_set": {
        name: "tilesmith.arith:" + name
        for name in (
            "PresburgerSet",
            "estimate_region_lower_bound",
            "estimate_region_strict_bound",
            "estimate_region_upper_bound",
        )
    },
    "tvm.topi.cuda.argwhere": {"fdiv": "tilesmith.tir:floordiv", "fmod": "tilesmith.tir:floormod"},
    "tvm.topi.random": {"absolute_import": "__future__:absolute_import"},
    "tvm.arith.iter_affine_map": {"subspace_divide": "tilesmith.arith:subspace_divide"},
    "tvm": {
        "__version__": "tilesmith.compat.tvm.aliases:VERSION",
        "context": "tilesmith.runtime.devices:device",
        **_SHORT_DEVICES,
        **_EXTENSION,
        "register_object": "tilesmith.ir.node:register_object",
        "tvm_wrap_excepthook": _OBJECTS + "tvm_wrap_excepthook",
        "vpi": "tilesmith.runtime.devices:vpi",
        "convert": "tilesmith.compat.tvm.convert:convert",
        "instrument": "tilesmith.ir.instrument",
        **{
            name: "tilesmith.ir.memory_pools:" + name
            for name in (
                "ConstantMemoryPools",
                "ConstantPoolInfo",
                "PoolInfo",
                "PoolInfoProperties",
                "WorkspaceMemoryPools",
                "WorkspacePoolInfo",
            )
        },
        "Object": "tilesmith.ir:Node",
        "Target": "tilesmith.target:Target",
        "ndarray": "tilesmith.runtime.nd",
        "register_global_func": "tilesmith.runtime.registry:register_func",
        "tirx": "tilesmith.tir",
        "s_tir": "tilesmith.tir",
    },
    "tvm._ffi": {"register_object": "tilesmith.ir.node:register_object", **_EXTENSION},
    "tvm._ffi.registry": {"register_object": "tilesmith.ir.node:register_object", **_EXTENSION},
    "tvm.contrib.graph_runtime": {"create": "tilesmith.compat.tvm.old_names:create_graph_runtime"},
    "tvm.driver": {"build": "tilesmith.lowering:build", "lower": "tilesmith.lowering:lower"},
    "tvm.error": {"TVMError": "tilesmith.error:TilesmithError"},
    "tvm.ir": {
        "Array": "builtins:tuple",
        "Attrs": "tilesmith.relax.attrs:Attrs",
        "DictAttrs": "tilesmith.relax.attrs:DictAttrs",
        "Map": "collections.abc:Mapping",
        "RelayExpr": "tilesmith.ir:RelaxExpr",
    },
    "tvm.ir.attrs": {
        "Attrs": "tilesmith.relax.attrs:Attrs",
        "DictAttrs": "tilesmith.relax.attrs:DictAttrs",
    },
    "tvm.ir.base": {"deprecated": _OBJECTS + "deprecated"},
    "tvm.ir.diagnostics": {
        "Object": "tilesmith.ir:Node",
        "get_global_func": "tilesmith.runtime.registry:get_global_func",
        "register_func": "tilesmith.runtime.registry:register_func",
    },
    "tvm.ir.expr": {"RelayExpr": "tilesmith.ir:RelaxExpr"},
    "tvm.ir.container": {"Array": "builtins:tuple", "Map": "collections.abc:Mapping"},
    "tvm.relax": {
        # 2022: words of scripts, operators, and types beside the shapes
        "DynTensorType": "tilesmith.compat.tvm.relax_types:DynTensorType",
        "ObjectType": "tilesmith.compat.tvm.relax_types:ObjectType",
        "PackedFuncType": "tilesmith.compat.tvm.relax_types:PackedFuncType",
        "ShapeType": "tilesmith.compat.tvm.relax_types:ShapeType",
        "TupleType": "tilesmith.ir:TupleType",
        "add": "tilesmith.relax.op:add",
        "dataflow": "tilesmith.relax.script:dataflow",
        "ewise_fma": "tilesmith.relax.op:ewise_fma",
        "match_cast": "tilesmith.relax.script:match_cast",
        "multiply": "tilesmith.relax.op:multiply",
        "output": "tilesmith.relax.script:output",
        "ty": "tilesmith.compat.tvm.relax_types",
        "vm": "tilesmith.driver.relax_build",
        "vm_build": "tilesmith.driver.relax_build",
    },
    "tvm.relax.backend_tir.pattern": {
        "MatchResult": "tilesmith.relax.transform.split_call_tir:MatchResult"
    },
    "tvm.relax.transform.fast_math": {
        "FastMathTransform": "tilesmith.relax.transform:FastMathTransform"
    },
    "tvm.relax.transform.lazy_transform_params": {
        "LazyTransformParams": "tilesmith.relax.transform:LazyTransformParams"
    },
    "tvm.relax.transform.legalize_ops": {
        **dict.fromkeys(_LEGALIZED, "tilesmith.relax.transform.legalize_ops"),
        "inspect_op": "tilesmith.compat.tvm.legalize_parts",
        "qdq": "tilesmith.compat.tvm.legalize_parts",
    },
    "tvm.relax.transform.optimize_layout_transform": {
        "OptimizeLayoutTransform": "tilesmith.relax.transform:OptimizeLayoutTransform"
    },
    "tvm.relay": {"setrecursionlimit": "sys:setrecursionlimit"},
    # a variable is its own identifier
    "tvm.relay.base": {"Id": "tilesmith.relay.expr:Var"},
    "tvm.relay.dataflow_pattern": {
        "Dict": "typing:Dict",
        "Expr": "tilesmith.relay.expr:Expr",
        "List": "typing:List",
        "Node": "tilesmith.ir:Node",
        "Object": "tilesmith.ir:Node",
        "Optional": "typing:Optional",
        "astext": "tilesmith.relay.base:astext",
        "get": "tilesmith.ir:Op.get",
        "make_node": "tilesmith.ir:make_node",
        "pretty_print": "tilesmith.relay.base:pretty_print",
        "tvm_ffi": "tilesmith.runtime.ffi:tvm_ffi",
    },
    "tvm.relay.expr": {
        name: "tilesmith.relay.backend.graph_plan_memory:" + name
        for name in ("StaticMemoryPlan", "StorageInfo")
    },
    "tvm.relay.scope_builder": {"WithScope": "tilesmith.tir.ir_builder:WithScope"},
    "tvm.relax.vm": {
        "Executable": "tilesmith.runtime.executable:Executable",
        "VirtualMachine": "tilesmith.runtime.relax_vm:VirtualMachine",
    },
    "tvm.runtime": {
        **_SHORT_DEVICES,
        **_OBJECT_WORDS,
        "ObjectPath": "tilesmith.ir.object_path:ObjectPath",
        "ObjectPathPair": "tilesmith.ir.object_path:ObjectPathPair",
        "Report": "tilesmith.runtime.profiling:Report",
        "Scriptable": "tilesmith.ir:Node",
        "Tensor": "tilesmith.runtime.ndarray:NDArray",
        "convert": "tilesmith.compat.tvm.convert:convert",
        "tensor": "tilesmith.runtime.nd:array",
    },
    "tvm.nd": _SHORT_DEVICES,
    "tvm.runtime.module": {"enabled": "tilesmith.runtime.devices:enabled"},
    "tvm.runtime.ndarray": _SHORT_DEVICES,
    "tvm.runtime.packed_func": {"PackedFuncHandle": _OBJECTS + "PackedFuncHandle"},
    "tvm.runtime.profiling": {
        "Dict": "typing:Dict",
        "Object": "tilesmith.ir:Node",
        "Optional": "typing:Optional",
        "PAPIMetricCollector": "tilesmith.runtime.papi:PAPIMetricCollector",
    },
    "tvm.runtime.script_printer": {"Scriptable": "tilesmith.ir:Node"},
    "tvm.script.ir_builder": {"IRBuilderFrame": "tilesmith.script.builder:Frame"},
    "tvm.script.ir_builder.base": {"IRBuilderFrame": "tilesmith.script.builder:Frame"},
    "tvm.script.ir_builder.ir": {"IRModuleFrame": "tilesmith.script.ir:ModuleFrame"},
    "tvm.script.ir_builder.relax": {
        "distributed": "tilesmith.compat.tvm.script_parser.dist",
        "frame": "tilesmith.relax.script_frames",
    },
    "tvm.script.ir_builder.relax.ir": {
        "py_print": "builtins:print",
        "py_str": "builtins:str",
        "py_tuple": "builtins:tuple",
    },
    "tvm.script.ir_builder.tir.frame": {
        "BlockInitFrame": "tilesmith.script.tir_frames:InitFrame",
        "TIRFrame": "tilesmith.script.builder:Frame",
    },
    "tvm.script.parser": {
        "Parser": "tilesmith.compat.tvm.script_parser.parser:Parser",
        "prim_func": "tilesmith.script.tir:prim_func",
    },
    "tvm.script.ir_builder.tir.ir": {"P": "typing:Any", "T": "typing:Any"},
    "tvm.script.parser.relax": {
        "*": "tilesmith.compat.tvm.script_parser.relax_entry",
        "TYPE_CHECKING": "typing:TYPE_CHECKING",
        "dist": "tilesmith.compat.tvm.script_parser.dist",
    },
    "tvm.script.parser.tir": {
        "BufferProxy": "tilesmith.script.tir_types:BufferWord",
        "PtrProxy": "tilesmith.script.tir_types:PtrWord",
        "TYPE_CHECKING": "typing:TYPE_CHECKING",
    },
    "tvm.target": {"create": "tilesmith.target:Target"},
    "tvm.target.codegen": {"build_module": "tilesmith.compat.tvm.target_codegen:build_module"},
    "tvm.target.target": {"*": "tilesmith.target.factories"},
    "tvm.tir": {
        "SBlock": "tilesmith.tir:Block",
        "generic": "tilesmith.compat.tvm.generic",
        "select": "tilesmith.tir:Select",
    },
    "tvm.tir.block_scope": {"StmtSRef": "tilesmith.tir.schedule:StmtSRef"},
    "tvm.tir.schedule": {
        name: "tilesmith.tir.analysis.block_scope:" + name
        for name in ("BlockScope", "DepKind", "Dependency")
    },
    # what annotations of users' rules mention
    "tvm.tir.schedule.instruction": dict.fromkeys(
        ("ATTR_TYPE", "INPUT_RV_TYPE", "OUTPUT_RV_TYPE"), "typing:Any"
    ),
    "tvm.tir.schedule.schedule": {"RAND_VAR_TYPE": "typing:Any"},
    "tvm.tir.schedule.state": {"CachedFlags": "tilesmith.tir.schedule.state:BlockFlags"},
    "tvm.tir.schedule.trace": dict.fromkeys(("DECISION_TYPE", "JSON_TYPE"), "typing:Any"),
    "tvm.tir.expr": {
        "*": "tilesmith.ir.expr",
        "BinaryOpExpr": "tilesmith.ir.expr:BinaryOp",
        "CallEffectKind": "tilesmith.ir.op:CallEffectKind",
        "CmpExpr": "tilesmith.ir.expr:CompareOp",
        "EqualOp": "tilesmith.ir.expr:EQ",
        "IntImmEnum": "tilesmith.compat.tvm.int_imm_enum:IntImmEnum",
        "LogicalExpr": "tilesmith.ir.expr:LogicalOp",
        "NotEqualOp": "tilesmith.ir.expr:NE",
        "PrimExprWithOp": "tilesmith.ir.expr:PrimExpr",
    },
    "tvm.tir.function": {
        "IndexMap": "tilesmith.tir.index_map:IndexMap",
        "TensorIntrin": "tilesmith.tir.tensor_intrin:TensorIntrin",
    },
    "tvm.topi.cpp.utils": {"*": "tilesmith.topi.helpers"},
    "tvm.topi.image.resize": {
        "*": "tilesmith.topi.image.indices",
        "crop_and_resize": "tilesmith.topi.image.crop_and_resize:crop_and_resize",
    },
    "tvm.topi.math": {"erf_legalize": "tilesmith.topi.legalization:erf_legalize"},
    "tvm.topi.nn.conv2d": {
        "Workload": _WORKLOADS + "Workload",
        "_get_workload": _WORKLOADS + "conv2d_workload",
    },
    "tvm.topi.nn.depthwise_conv2d": {
        "Workload": _WORKLOADS + "DepthwiseWorkload",
        "_get_workload": _WORKLOADS + "depthwise_workload",
    },
    "tvm.topi.transform": {
        "take_legalize": "tilesmith.topi.legalization:take_legalize",
        **{
            name: "tilesmith.topi.indexing:" + name
            for name in (
                "adv_index",
                "invert_permutation",
                "matrix_set_diag",
                "meshgrid",
                "ndarray_size",
                "sliding_window",
                "sparse_to_dense",
            )
        },
        **{
            name: "tilesmith.topi.slicing:" + name
            for name in ("dynamic_strided_slice", "strided_set", "strided_slice")
        },
        **{
            name: "tilesmith.topi:" + name
            for name in ("matmul", "reverse_sequence", "sequence_mask", "tensordot", "where")
        },
    },
    "tvm.topi.utils": {"*": "tilesmith.topi.helpers"},
    "tvm.tir.transform": {
        "UnifiedStaticMemoryPlanner": "tilesmith.tir.usmp.transform:UnifiedStaticMemoryPlanner",
    },
    "tvm.utils.roofline": {
        "Device": "tilesmith.runtime.devices:Device",
        "Dict": "typing:Dict",
        "GlobalVar": "tilesmith.ir:GlobalVar",
        "IRModule": "tilesmith.ir:IRModule",
        "Optional": "typing:Optional",
        "RPCSession": "tilesmith.rpc:RPCSession",
        "RPC_SESS_MASK": "tilesmith.runtime.devices:RPC_SESS_MASK",
        "T": "tilesmith.script.tir",
        "Target": "tilesmith.target:Target",
        "Union": "typing:Union",
        "build": "tilesmith.lowering:build",
        "get_global_func": "tilesmith.runtime.registry:get_global_func",
        "nd": "tilesmith.runtime.nd",
        "num_threads": "tilesmith.runtime.threads:num_threads",
        "pass_instrument": "tilesmith.ir.instrument:pass_instrument",
        "profiler_vm": "tilesmith.runtime.profiler_vm",
        "profiling": "tilesmith.runtime.profiling",
        "relay": "tilesmith.relay",
        "tir": "tilesmith.tir",
        "topi": "tilesmith.topi",
        "transform": "tilesmith.ir.transform",
        "utils": "tilesmith.contrib.utils",
    },
}
for _module, _rows in (*rows_2018.NAMES.items(), *rows_relax.NAMES.items()):
    NAMES[_module] = {**_rows, **NAMES.get(_module, {})}
