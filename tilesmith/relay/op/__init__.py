"""Relay's operators: views of the records that relax's operators have, too.

`view` declares them; families: `tensor`, `reduce`, `movement` and `indexing` (known together as
`transform`), `algorithm`, `nn`, `image`, `vision`, `random`, `annotation`. The functions are found
here, in the namespaces and in `relay` itself, by the operators' names.
"""

from __future__ import annotations

from typing import Any

from tilesmith.relay.op import (
    algorithm,
    annotation,
    image,
    nn,
    op,
    patterns,
    random,
    reduce,
    tensor,
    transform,
    vision,
)
from tilesmith.relay.op.op import get, register
from tilesmith.relay.op.view import find_function, functions

globals().update(functions())

__all__ = sorted(
    [
        *functions(), "algorithm", "annotation", "get", "image", "nn", "op", "patterns", "random",
        "reduce", "register", "tensor", "transform", "vision",
    ]
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """Find operators that were declared later."""
    return find_function(name)
