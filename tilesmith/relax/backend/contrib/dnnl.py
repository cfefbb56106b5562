"""The code generator "dnnl": convolutions and products of matrices by oneDNN.

mod = relax.transform.RunCodegen()(partition_for_dnnl(mod))    # pip install onednn-cpu-gomp
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relax.backend.contrib.cblas import matmul_patterns, multiplies
from tilesmith.relax.backend.contrib.library_codegen import register_library_codegen
from tilesmith.relax.backend.contrib.library_graph import known_tensor
from tilesmith.relax.backend.pattern_registry import get_patterns_with_prefix, register_patterns
from tilesmith.relax.backend.patterns import make_conv2d_pattern
from tilesmith.relax.transform import FuseOpsByPattern
from tilesmith.relax.transform.fuse_by_pattern import FusionPattern, PatternCheckContext
from tilesmith.runtime.libraries.dnnl import find_dnnl

__all__ = ["partition_for_dnnl"]


def _is_plain_convolution(context: PatternCheckContext) -> bool:
    """Return whether a convolution is of float32, NCHW by OIHW or NHWC by HWIO, and keeps its
    shape behind it.
    """
    parts = context.annotated_expr
    known = [known_tensor(one) for one in (*parts.values(), context.matched_expr)]
    if None in known or {one[1] for one in known if one is not None} != {"float32"}:
        return False
    attrs: Any = parts["root"].attrs
    layouts = (attrs.data_layout, attrs.kernel_layout)
    if layouts not in (("NCHW", "OIHW"), ("NHWC", "HWIO")):
        return False
    is_same = known_tensor(parts["root"]) == known[-1]
    return is_same and attrs.out_layout in (None, "", attrs.data_layout)


def _patterns() -> list[FusionPattern]:
    found = []
    for bias, with_bias in (("_bias", True), ("", False)):
        for word, activation in (("_relu", "relax.nn.relu"), ("", None)):
            pattern, parts = make_conv2d_pattern(with_bias, activation)
            name = f"dnnl.conv2d{bias}{word}"
            found.append(FusionPattern(name, pattern, parts, _is_plain_convolution))
    return found


def partition_for_dnnl(mod: IRModule, bind_constants: bool = False) -> IRModule:
    """Return a module whose convolutions and products, with the bias and the activation behind
    them, are functions for "dnnl". Raises MissingDependencyError where oneDNN is not installed.
    """
    find_dnnl()
    patterns = get_patterns_with_prefix("dnnl.")
    made: IRModule = FuseOpsByPattern(patterns, bind_constants, annotate_codegen=True)(mod)
    return made


register_patterns([*_patterns(), *matmul_patterns("dnnl", multiplies("float32"))])
register_library_codegen("dnnl", find_dnnl)
