"""The compiler "cblas": products of matrices by a BLAS library through its C interface.

mod = partition_for_cblas(mod, params)
lib = relay.build(mod, "llvm")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import IRModule, register_op_attr
from tilesmith.relay.backend.contrib.json_codegen import register_json_codegen
from tilesmith.relay.backend.contrib.library_support import find_call, multiplies, partition_for
from tilesmith.relay.dataflow_pattern import is_op, wildcard
from tilesmith.relay.op.contrib.register import register_pattern_table

__all__ = ["partition_for_cblas", "pattern_table"]

_MATRICES = multiplies("float32", "float64", ranks=(2,))
_BATCHES = multiplies("float32", "float64", ranks=(3,))

register_op_attr("nn.dense", "target.cblas", _MATRICES)
register_op_attr("nn.matmul", "target.cblas", _MATRICES)
register_op_attr("nn.batch_matmul", "target.cblas", _BATCHES)


def pattern_table() -> list[tuple[Any, ...]]:
    """Return what the compiler takes besides single products: one with a bias, and a ReLU."""
    dense = is_op("nn.dense")(wildcard(), wildcard())
    biased = is_op("nn.bias_add")(dense, wildcard()) | is_op("add")(dense, wildcard())

    def fits(root: Any) -> bool:
        call = find_call(root, "nn.dense")
        return call is not None and _MATRICES(call)

    return [
        ("cblas.dense_bias_relu", is_op("nn.relu")(biased), fits),
        ("cblas.dense_bias", biased, fits),
    ]


def partition_for_cblas(
    mod: IRModule, params: Mapping[str, Any] | None = None, mod_name: str = "default"
) -> IRModule:
    """Return a module whose products are functions for the compiler "cblas"."""
    return partition_for("cblas", mod, params, mod_name)


register_pattern_table("cblas", pattern_table)
register_json_codegen("cblas")
