"""``relay.data_dep_optimization.bsr_conv2d``: convolutions with sparse weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilesmith.relay.data_dep_optimization.utils import run_opt_pass
from tilesmith.relay.expr import const
from tilesmith.relay.rewriting import bind
from tilesmith.relay.sparse_conv2d import process_params
from tilesmith.relay.transform.sparse import Conv2dToSparse, Conv2dToSparse2

__all__ = ["convert", "convert2"]


def convert(
    func: Any,
    params: Mapping[str, Any],
    blocksize: Iterable[int],
    sparsity_threshold: float,
    layout: str = "NHWC",
    kernel_size: int = 1,
) -> tuple[Any, dict[str, Any]]:
    """Return a function whose convolutions use sparse weights, and its parameters: of the weights
    of which at least a part, the threshold, is 0.
    """
    params = dict(params)
    found = process_params(func, params, blocksize, sparsity_threshold, layout, kernel_size)
    step = Conv2dToSparse(found.weight_name, found.weight_shape, layout, kernel_size)
    return run_opt_pass(func, step), params


def convert2(
    func: Any,
    params: Mapping[str, Any],
    blocksize: Iterable[int],
    sparsity_threshold: float,
    layout: str,
    kernel_size: int,
) -> tuple[Any, dict[str, Any]]:
    """Return a function that has its parameters as constants, the sparse weights of convolutions
    among them, and the parameters that are left: none of those that it has.
    """
    names = {param.name_hint for param in func.params}
    known = {name: value for name, value in params.items() if name in names}
    values = {
        name: const(value.numpy() if hasattr(value, "numpy") else value)
        for name, value in known.items()
    }
    step = Conv2dToSparse2(layout, kernel_size, blocksize, sparsity_threshold)
    made = run_opt_pass(bind(func, values), step)
    return made, {name: value for name, value in params.items() if name not in known}
