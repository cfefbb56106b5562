"""``relay.analysis.sparse_dense``: makes weights of dense layers sparse."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any

from tilesmith.relay.sparse_weights import SparseAnalysisResult, dense_weights, make_sparse

__all__ = ["SparseAnalysisResult", "process_params"]


def process_params(
    expr: Any,
    params: MutableMapping[str, Any],
    block_size: Iterable[int],
    sparsity_threshold: float,
) -> SparseAnalysisResult:
    """Replace in ``params`` the weights of dense layers of which at least a part, the threshold, is
    0: by ``name.data``, ``name.indices`` and ``name.indptr``. Return which they are.
    """
    names = [one.name_hint for one in dense_weights(expr)]
    return make_sparse(names, params, block_size, sparsity_threshold)
