"""Chooses where to cut the range of values that are quantised: by the least loss of information.

For each threshold the histogram of the values within it is compared with the one that the quantised
values have, by the Kullback-Leibler divergence.
"""

from __future__ import annotations

import numpy

__all__ = ["best_threshold", "divergence", "merged", "threshold_of_histogram"]

_BINS = 2048
_CANDIDATES = 96


def merged(counts: numpy.ndarray, levels: int) -> numpy.ndarray:
    """Return a histogram (of magnitudes) whose bins are merged into levels: within a level all bins
    that had any have the same count.
    """
    groups = (numpy.arange(len(counts)) * levels) // len(counts)
    filled = counts > 0
    sums = numpy.bincount(groups, counts, minlength=levels)
    sizes = numpy.bincount(groups, filled, minlength=levels)
    spread = numpy.divide(sums, sizes, out=numpy.zeros(levels), where=sizes > 0)
    found: numpy.ndarray = spread[groups] * filled
    return found


def divergence(p: numpy.ndarray, q: numpy.ndarray) -> float:
    """Return the divergence of two histograms; where only the first has values, the second counts
    as having a few.
    """
    p, q = p / p.sum(), numpy.maximum(q, 1e-4)
    q = q / q.sum()
    filled = p > 0
    return float((p[filled] * numpy.log(p[filled] / q[filled])).sum())


def best_threshold(values: numpy.ndarray, bits: int) -> float:
    """Return the magnitude beyond which values are cut, for signed integers of so many bits; 0 for
    values that are all zero.
    """
    magnitudes = numpy.abs(numpy.asarray(values, "float32").reshape(-1))
    magnitudes = magnitudes[magnitudes > 0]
    if magnitudes.size == 0:
        return 0.0
    greatest = float(magnitudes.max())
    return threshold_of_histogram(*numpy.histogram(magnitudes, _BINS, (0.0, greatest)), bits)


def threshold_of_histogram(counts: numpy.ndarray, edges: numpy.ndarray, bits: int) -> float:
    """Return the magnitude beyond which values are cut, for the histogram of their magnitudes."""
    levels = 1 << (bits - 1)
    best, least = float(edges[-1]), float("inf")
    for count in numpy.unique(numpy.linspace(levels, len(counts), _CANDIDATES).astype(int)):
        kept = counts[:count].astype("float64")
        if not kept.any():
            continue
        whole = kept.copy()
        whole[-1] += counts[count:].sum()  # what is cut becomes the greatest level
        loss = divergence(whole, merged(kept, levels))
        if loss < least:
            best, least = float(edges[count]), loss
    return best
