"""The compiler "dnnl": convolutions and products of matrices by oneDNN.

mod = partition_for_dnnl(mod, params)
lib = relay.build(mod, "llvm")         # oneDNN is needed where the program runs
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import IRModule, register_op_attr
from tilesmith.relay.backend.contrib.json_codegen import register_json_codegen
from tilesmith.relay.backend.contrib.library_support import (
    find_call,
    is_plain_convolution,
    multiplies,
    partition_for,
)
from tilesmith.relay.dataflow_pattern import DFPattern, is_op, wildcard
from tilesmith.relay.op.contrib.register import register_pattern_table

__all__ = ["make_conv_pattern", "make_dense_pattern", "partition_for_dnnl", "pattern_table"]

_MATRICES = multiplies("float32", ranks=(2,))

register_op_attr("nn.conv2d", "target.dnnl", is_plain_convolution)
register_op_attr("nn.dense", "target.dnnl", _MATRICES)
register_op_attr("nn.matmul", "target.dnnl", _MATRICES)


def _extended(core: DFPattern, with_bias: bool, with_eltwise: str | None) -> DFPattern:
    if with_bias:
        core = is_op("nn.bias_add")(core, wildcard()) | is_op("add")(core, wildcard())
    return is_op(with_eltwise)(core) if with_eltwise else core


def make_conv_pattern(with_bias: bool = True, with_eltwise: str | None = None) -> DFPattern:
    """Return the pattern of a convolution, with a bias and an operator behind it."""
    return _extended(is_op("nn.conv2d")(wildcard(), wildcard()), with_bias, with_eltwise)


def make_dense_pattern(with_bias: bool = True, with_eltwise: str | None = None) -> DFPattern:
    """Return the pattern of a dense layer, with a bias and an operator behind it."""
    return _extended(is_op("nn.dense")(wildcard(), wildcard()), with_bias, with_eltwise)


def _fits(root: Any) -> bool:
    convolution, dense = find_call(root, "nn.conv2d"), find_call(root, "nn.dense")
    if convolution is not None:
        return is_plain_convolution(convolution)
    return dense is not None and _MATRICES(dense)


def pattern_table() -> list[tuple[Any, ...]]:
    """Return what the compiler takes besides single operators, the largest parts first."""
    relu = "nn.relu"
    return [
        ("dnnl.conv2d_bias_relu", make_conv_pattern(True, relu), _fits),
        ("dnnl.conv2d_relu", make_conv_pattern(False, relu), _fits),
        ("dnnl.conv2d_bias", make_conv_pattern(True), _fits),
        ("dnnl.dense_bias_relu", make_dense_pattern(True, relu), _fits),
        ("dnnl.dense_relu", make_dense_pattern(False, relu), _fits),
        ("dnnl.dense_bias", make_dense_pattern(True), _fits),
    ]


def partition_for_dnnl(
    mod: IRModule, params: Mapping[str, Any] | None = None, mod_name: str = "default"
) -> IRModule:
    """Return a module whose convolutions and products are functions for the compiler "dnnl"."""
    return partition_for("dnnl", mod, params, mod_name)


register_pattern_table("dnnl", pattern_table)
register_json_codegen("dnnl")
