"""``relay.data_dep_optimization.bsr_dense``: dense layers with sparse weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilesmith.relay.data_dep_optimization.utils import run_opt_pass
from tilesmith.relay.sparse_dense import process_params
from tilesmith.relay.transform.sparse import DenseToSparse

__all__ = ["convert"]


def convert(
    func: Any, params: Mapping[str, Any], blocksize: Iterable[int], sparsity_threshold: float
) -> tuple[Any, dict[str, Any]]:
    """Return a function whose dense layers use sparse weights, and its parameters: of the weights
    of which at least a part, the threshold, is 0.
    """
    params = dict(params)
    found = process_params(func, params, blocksize, sparsity_threshold)
    return run_opt_pass(func, DenseToSparse(found.weight_name, found.weight_shape)), params
