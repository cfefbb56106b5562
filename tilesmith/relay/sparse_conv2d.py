"""``relay.analysis.sparse_conv2d``: makes weights of convolutions sparse."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any

from tilesmith.relay.sparse_weights import (
    SparseAnalysisResult,
    as_numpy,
    conv2d_matrix,
    make_sparse,
    weights_of,
)

__all__ = ["SparseAnalysisResult", "process_params"]


def process_params(
    expr: Any,
    params: MutableMapping[str, Any],
    block_size: Iterable[int],
    sparsity_threshold: float,
    layout: str,
    kernel_size: int,
    reg_task_input: bool = True,
) -> SparseAnalysisResult:
    """Replace in ``params`` the weights of convolutions with windows of ``kernel_size`` of which at
    least a part, the threshold, is 0: by ``name.data``, ``name.indices`` and ``name.indptr``.
    Return which they are. ``reg_task_input`` is for tuners of other compilers.
    """
    names = []
    for one in weights_of(expr, "nn.conv2d"):
        weight = as_numpy(params, one.name_hint)
        spatial = (0, 1) if layout == "NHWC" else (2, 3)
        if weight is not None and {weight.shape[axis] for axis in spatial} == {kernel_size}:
            names.append(one.name_hint)

    def as_matrix(weight: Any) -> Any:
        return conv2d_matrix(weight, layout)

    return make_sparse(names, params, block_size, sparsity_threshold, as_matrix)
