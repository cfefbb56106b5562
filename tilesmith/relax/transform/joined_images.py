"""Joins images with their channels last: a part of PackForVectors.

    y = R.permute_dims(y1, [0, 3, 1, 2])            x1 = R.call_tir(permute_dims, (x,))
    z = R.concat((y, x), axis=1)              →     z1 = R.concat((y1, x1), axis=3)

In place, the join would read one operand along its channels and the other along its pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith import topi
from tilesmith.relax import op as operators
from tilesmith.relax.analysis.op_pattern import FusionKind
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import Call, Constant, Tuple, const

__all__ = ["joined_images"]

_TO_LAST = [0, 2, 3, 1]


def joined_images(builder: BlockBuilder, call: Call, known: Callable[[Any], Any]) -> Any:
    """Return a concatenation of images with the channels last, if at least half of them have that
    form already, which `known` gives; None if not.
    """
    attrs: Any = call.attrs
    parts = call.args[0].fields if isinstance(call.args[0], Tuple) else ()
    found = [known(one) for one in parts]
    count = sum([one is not None for one in found])
    if attrs.axis is None or count == 0 or 2 * count < len(parts):
        return None
    moved = [_moved(builder, one) if last is None else last for one, last in zip(parts, found)]
    return operators.concat(moved, _TO_LAST.index(int(attrs.axis) % 4))


def _moved(builder: BlockBuilder, expr: Any) -> Any:
    """Return an image with its channels last. Its permutation is a kernel of its own, for which
    there is a schedule by tiles.
    """
    if isinstance(expr, Constant):
        return const(numpy.asarray(expr.data).transpose(_TO_LAST))
    return builder.emit_te(
        topi.transpose, expr, _TO_LAST, primfunc_name_hint="permute_dims",
        primfunc_attrs={"op_pattern": int(FusionKind.OPAQUE)},
    )  # fmt: skip
