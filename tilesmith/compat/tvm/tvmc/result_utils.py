"""Picks what is most likely out of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

if TYPE_CHECKING:
    from tilesmith.compat.tvm.tvmc.model import TVMCResult


def get_top_results(result: TVMCResult, max_results: int) -> numpy.ndarray:
    """Return positions (first row) and values (second row) of the largest numbers of the first
    output, the largest first.
    """
    values = numpy.ravel(result.outputs["output_0"])
    places = numpy.argsort(-values, kind="stable")[:max_results]
    return numpy.array([places, values[places]])
