"""Passes over the functional door, under the names that users know."""

from tilesmith.support.lazy import lazy_attributes

_PASSES = {
    "annotate_target": ("AnnotateTarget",),
    "automatic_differentiation": ("FirstOrderGradient", "gradient"),
    "canonicalize": (
        "AnnotateSpans", "CanonicalizeCast", "CanonicalizeOps", "DivToMul", "EtaExpand",
    ),
    "change_batch": ("ChangeBatch",),
    "clean_up": ("DeadCodeElimination", "EliminateCommonSubexpr", "RemoveUnusedFunctions"),
    "combine_parallel": (
        "BatchingOps", "CombineParallelBatchMatmul", "CombineParallelConv2D",
        "CombineParallelDense",
    ),
    "compiler_functions": (
        "InlineCompilerFunctionsBoundTo", "MarkCompilerFunctionsAsExtern",
        "OutlineCompilerFunctionsWithExistingGlobalSymbols",
    ),
    "compiler_regions": ("MergeCompilerRegions",),
    "continuations": ("ToCPS", "to_cps", "un_cps"),
    "convert_layout": ("AlterOpLayout", "ConvertLayout", "LayoutConfig"),
    "convolution": ("FlattenAtrousConv", "FoldExplicitPadding"),
    "defunctionalization": ("Defunctionalization",),
    "dynamic_to_static": ("DynamicToStatic",),
    "fast_math": ("FastMath",),
    "flexible_shape": ("FlexibleShapeDispatch",),
    "fold_constant": ("FoldConstant", "FoldConstantExpr"),
    "fold_scale_axis": ("BackwardFoldScaleAxis", "FoldScaleAxis", "ForwardFoldScaleAxis"),
    "fuse_ops": ("FuseOps", "LabelOps"),
    "inline": ("DefuseOps", "Inline"),
    "integer_graphs": ("FakeQuantizationToInteger",),
    "lambda_lift": ("LambdaLift",),
    "lazy_gradient": ("LazyGradientInit",),
    "legalize": ("Legalize",),
    "memory_alloc": ("ManifestAlloc", "ManifestLifetimes"),
    "memory_plan": ("LiftConstants", "MemoryPlan"),
    "merge_composite": ("MergeComposite",),
    "mixed_precision": ("ToMixedPrecision",),
    "normal_form": (
        "ToANormalForm", "ToANormalFormExpr", "ToBasicBlockNormalForm", "ToGraphNormalForm",
    ),
    "plan_devices": ("PlanDevices",),
    "partial_evaluate": ("PartialEvaluate",),
    "partition_graph": ("PartitionGraph",),
    "pass_classes": ("FunctionPass", "build_config", "function_pass"),
    "recasting": ("recast",),
    "simplify_expr": ("SimplifyExpr",),
    "simplify_inference": ("SimplifyInference",),
    "spans": ("CapturePostDfsIndexInSpans",),
    "sparse": ("Conv2dToSparse", "Conv2dToSparse2", "DenseToSparse", "SimplifyFCTranspose"),
    "split_args": ("SplitArgs",),
    "types": ("InferType", "InferTypeLocal"),
}  # fmt: skip

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {name: f"{__name__}.{module}:{name}" for module, names in _PASSES.items() for name in names},
)
