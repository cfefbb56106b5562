"""The code generator "cblas": products of matrices by a BLAS library through its C interface.

mod = partition_for_cblas(mod)         # parts for OpenBLAS, which numpy and scipy bring along
mod = relax.transform.RunCodegen()(mod)
executable = relax.build(mod, "llvm")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.relax.backend.contrib.library_codegen import (
    is_matrix_transpose,
    register_library_codegen,
)
from tilesmith.relax.backend.contrib.library_graph import known_tensor
from tilesmith.relax.backend.pattern_registry import get_patterns_with_prefix, register_patterns
from tilesmith.relax.backend.patterns import make_matmul_pattern
from tilesmith.relax.expr import Call
from tilesmith.relax.transform import FuseOpsByPattern
from tilesmith.relax.transform.fuse_by_pattern import FusionPattern, PatternCheckContext
from tilesmith.runtime.libraries.blas import find_openblas
from tilesmith.support.errors import MissingDependencyError
from tilesmith.support.fallbacks import record_fallback

__all__ = ["matmul_patterns", "multiplies", "partition_for_cblas"]


def multiplies(*dtypes: str) -> Callable[[PatternCheckContext], bool]:
    """Return a check: all values have known sizes and one of the dtypes, the product is one of
    two matrices, of matrices by one matrix, or of two equal batches; a bias keeps its shape.
    """

    def check(context: PatternCheckContext) -> bool:
        parts = context.annotated_expr
        calls = [one for one in context.matched_bindings.values() if isinstance(one, Call)]
        turned = [one for one in calls if isinstance(one.op, Op) and one.op.name == _TRANSPOSE]
        known = [known_tensor(one) for one in (*parts.values(), context.matched_expr)]
        found = [one for one in known if one is not None]
        if len(found) < len(known) or {dtype for _, dtype in found} - set(dtypes):
            return False
        if len({dtype for _, dtype in found}) != 1 or not all(map(is_matrix_transpose, turned)):
            return False
        shapes = {name: sizes for name, (sizes, _) in zip(parts, found)}
        lhs, rhs, root = shapes["lhs"], shapes["rhs"], shapes["root"]
        if len(lhs) < 2 or len(rhs) < 2 or 0 in root:
            return False
        return (len(rhs) == 2 or lhs[:-2] == rhs[:-2]) and found[-1][0] == root

    return check


_TRANSPOSE = "relax.permute_dims"


def matmul_patterns(library: str, check: Callable[[PatternCheckContext], bool]) -> list[Any]:
    """Return the patterns of products for a library: the largest parts first."""
    activations = {"_relu": "relax.nn.relu", "_gelu": "relax.nn.gelu", "": None}
    found = []
    for turned, transposed in (("_transposed", True), ("", False)):
        for bias, with_bias in (("_bias", True), ("", False)):
            for word, activation in activations.items():
                if with_bias or activation is None:
                    pattern, parts = make_matmul_pattern(with_bias, activation, transposed)
                    name = f"{library}.matmul{turned}{bias}{word}"
                    found.append(FusionPattern(name, pattern, parts, check))
    return sorted(found, key=lambda one: -one.name.count("_"))


def partition_for_cblas(mod: IRModule, bind_constants: bool = False) -> IRModule:
    """Return a module whose products of matrices, with the bias and the activation (ReLU or GELU)
    behind them, are functions for "cblas".

    ``bind_constants`` makes constants parts of these functions. Without a BLAS library the module
    stays as it is, which is recorded as a fallback.
    """
    try:
        find_openblas()
    except MissingDependencyError as error:
        record_fallback("library", "partition_for_cblas", error)
        return mod
    patterns = get_patterns_with_prefix("cblas.")
    made: IRModule = FuseOpsByPattern(patterns, bind_constants, annotate_codegen=True)(mod)
    return made


register_patterns(matmul_patterns("cblas", multiplies("float32", "float64")))
register_library_codegen("cblas", find_openblas)
