"""Passes over the functional door, under the names that users know."""

from tilesmith.support.lazy import lazy_attributes

_PASSES = {
    "automatic_differentiation": ("FirstOrderGradient", "gradient"),
    "canonicalize": ("AnnotateSpans", "CanonicalizeOps", "DivToMul", "EtaExpand"),
    "clean_up": ("DeadCodeElimination", "EliminateCommonSubexpr", "RemoveUnusedFunctions"),
    "continuations": ("ToCPS", "to_cps", "un_cps"),
    "defunctionalization": ("Defunctionalization",),
    "fold_constant": ("FoldConstant", "FoldConstantExpr"),
    "inline": ("DefuseOps", "Inline"),
    "lambda_lift": ("LambdaLift",),
    "lazy_gradient": ("LazyGradientInit",),
    "normal_form": (
        "ToANormalForm", "ToANormalFormExpr", "ToBasicBlockNormalForm", "ToGraphNormalForm",
    ),
    "partial_evaluate": ("PartialEvaluate",),
    "pass_classes": ("FunctionPass", "build_config", "function_pass"),
    "simplify_inference": ("SimplifyInference",),
    "types": ("InferType", "InferTypeLocal"),
}  # fmt: skip

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {name: f"{__name__}.{module}:{name}" for module, names in _PASSES.items() for name in names},
)
