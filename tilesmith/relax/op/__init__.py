"""Operators of the graph: one record each (`relax.spec.OpSpec`) and the function that makes calls.

Families: `elementwise`, `activation`, `attention`, `convolution`, `pooling`, `normalization`,
`padding`, `linear_algebra`, `views`, `manipulate`, `index`, `scatter`, `statistical`, `create`,
`search`, `image`, `vision`, `qdq`, `memory`, `vm`, `data`, `grad`, `base` (calls of functions).
The functions are found here and in the namespaces `nn`, `grad`, `image`, `vision`, `memory`,
`builtin`, `data` and `vm`, by the operators' names.
"""

from __future__ import annotations

from typing import Any

from tilesmith.relax.op import (
    base,
    builtin,
    ccl,
    create,
    data,
    dist,
    elementwise,
    grad,
    gradients,
    image,
    index,
    inspect,
    linear_algebra,
    manipulate,
    memory,
    nn,
    qdq,
    sampling,
    scatter,
    search,
    statistical,
    views,
    vision,
    vm,
)
from tilesmith.relax.op.declaration import define, find_function, functions
from tilesmith.relax.spec import OpSpec

globals().update(functions())
nn.__dict__.update(functions("nn."))

__all__ = sorted(
    [
        *functions(),
        "OpSpec",
        "builtin",
        "ccl",
        "data",
        "dist",
        "define",
        "grad",
        "image",
        "inspect",
        "memory",
        "nn",
        "vision",
        "vm",
    ]
)


def __getattr__(name: str) -> Any:
    """Find operators that were declared later, by programs."""
    return find_function(name)
