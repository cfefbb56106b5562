"""Passes over the graph, under the names that users know."""

from tilesmith.relax.transform.annotate import AnnotateTIROpPattern
from tilesmith.relax.transform.bind import BindParams, BindSymbolicVars
from tilesmith.relax.transform.dead_code import (
    DeadCodeElimination,
    EliminateCommonSubexpr,
    InlinePrivateFunctions,
)
from tilesmith.relax.transform.decompose_ops import DecomposeOpsForInference
from tilesmith.relax.transform.fold_constant import FoldConstant
from tilesmith.relax.transform.fold_scale_axis import FoldScaleAxis
from tilesmith.relax.transform.function_pass import (
    DataflowBlockPass,
    FunctionPass,
    dataflowblock_pass,
    function_pass,
)
from tilesmith.relax.transform.fuse_by_pattern import (
    FuseOpsByPattern,
    FusionPattern,
    MergeCompositeFunctions,
    PatternCheckContext,
)
from tilesmith.relax.transform.fuse_ops import FuseOps
from tilesmith.relax.transform.fuse_tir import FuseTIR
from tilesmith.relax.transform.gradient import Gradient
from tilesmith.relax.transform.lambda_lift import LambdaLift
from tilesmith.relax.transform.legalize_ops import CheckLegalized, LegalizeOps
from tilesmith.relax.transform.matmul import CombineParallelMatmul
from tilesmith.relax.transform.memory import CallTIRRewrite, StaticPlanBlockMemory
from tilesmith.relax.transform.mixed_precision import ToMixedPrecision
from tilesmith.relax.transform.normal_form import (
    AttachGlobalSymbol,
    CanonicalizeBindings,
    ConvertToDataflow,
    Normalize,
    NormalizeGlobalVar,
    RemovePurityChecking,
    ToNonDataflow,
    TopologicalSort,
)
from tilesmith.relax.transform.pack_for_vectors import PackForVectors
from tilesmith.relax.transform.parameters import (
    BundleModelParams,
    ExpandTupleArguments,
    LiftTransformParams,
    RemoveUnusedOutputs,
    RemoveUnusedParameters,
    UpdateParamStructInfo,
)
from tilesmith.relax.transform.reshape import RewriteDataflowReshape
from tilesmith.relax.transform.simplify import RecognizeOps, RemoveRedundantReshape, SimplifyExpr

__all__ = sorted(name for name in globals() if name[0].isupper() or name.endswith("_pass"))
