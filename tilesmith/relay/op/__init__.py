"""Relay's operators: views of the records that relax's operators have, too.

`view` declares them; families: `tensor`, `reduce`, `movement` and `indexing` (known together as
`transform`), `algorithm`, `nn`, `image`, `vision`, `random`, `annotation`. The functions are found
here, in the namespaces and in `relay` itself, by the operators' names.
"""

from __future__ import annotations

from typing import Any

import tilesmith.relay.op.type_relations
from tilesmith.relay.op import (
    algorithm,
    annotation,
    dyn,
    image,
    memory,
    nn,
    op,
    op_attrs,
    patterns,
    random,
    reduce,
    strategy,
    tensor,
    transform,
    vision,
    vm,
)
from tilesmith.relay.op.op import *  # noqa: F403 - the table of names is in op.py
from tilesmith.relay.op.op import __all__ as _registrations
from tilesmith.relay.op.view import find_function, functions

import tilesmith.relay.op.layout_conversions  # isort: skip  # rules of the operators above

globals().update(functions())
for _module, _prefix in (  # functions of `dyn` have taken the place of static ones
    (algorithm, ""), (image, "image."), (image.image, "image."), (nn, "nn."), (nn.nn, "nn."),
    (tensor, ""), (transform, ""),
):  # fmt: skip
    vars(_module).update(functions(_prefix))

__all__ = sorted(
    {
        *functions(), *_registrations, "algorithm", "annotation", "dyn", "image", "memory", "nn",
        "op", "op_attrs", "patterns", "random", "reduce", "strategy", "tensor", "transform", "vision", "vm",
    }
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """Find operators that were declared later."""
    return find_function(name)
