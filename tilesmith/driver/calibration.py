"""Chooses the ranges that values are quantised in, from histograms of what calibration data gave.

    histogram = Histogram()
    for values in batches: histogram.add(values)
    RANGES["mse"](histogram)        # (low, high); what is outside is cut

A range contains 0, which is one of its levels, so that padding and ReLU are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy

from tilesmith.relay.quantize.kl_divergence import threshold_of_histogram
from tilesmith.support.errors import ConfigError

__all__ = ["METHODS", "Histogram", "Quantisation", "chosen_quantisation"]

_BINS = 2048
_LEVELS = 255
_PERCENTILE = 99.99
_CUTS = numpy.linspace(0.2, 1.0, 97)
"""The parts of the whole range that are tried for the least error."""


class Quantisation(NamedTuple):
    """Unsigned bytes for floats: value = scale * (byte - point)."""

    scale: float
    point: int

    def rounded(self, values: numpy.ndarray) -> numpy.ndarray:
        """Return the floats that quantised values stand for."""
        found: numpy.ndarray = numpy.rint(values / self.scale) + self.point
        return (found.clip(0, _LEVELS) - self.point) * self.scale


class Histogram:
    """Counts of values in equal bins between the least and the greatest of them."""

    def __init__(self) -> None:
        self.low = self.high = 0.0
        self.counts = numpy.zeros(_BINS)

    @property
    def centres(self) -> numpy.ndarray:
        """The middles of the bins."""
        width = (self.high - self.low) / _BINS
        return self.low + width * (numpy.arange(_BINS) + 0.5)

    def add(self, values: numpy.ndarray) -> None:
        """Count values; raise ConfigError for those that are not finite."""
        flat = numpy.asarray(values, "float32").reshape(-1)
        if not flat.size:
            return
        least, greatest = float(flat.min()), float(flat.max())
        if not numpy.isfinite([least, greatest]).all():
            raise ConfigError(
                "the calibration data lead to a value that is not finite",
                notes=("give typical inputs of the model",),
            )
        low, high = min(self.low, least), max(self.high, greatest)
        if (low, high) != (self.low, self.high):
            before, known = self.centres, self.counts
            self.low, self.high = low, high
            self.counts = numpy.histogram(before, _BINS, (low, high), weights=known)[0]
        if self.high > self.low:
            # of float64, so that neither a bin is too narrow for its edges nor the range too wide
            limits = numpy.float64(self.low), numpy.float64(self.high)
            self.counts += numpy.histogram(flat, _BINS, limits)[0]


def _whole(histogram: Histogram) -> tuple[float, float]:
    return histogram.low, histogram.high


def _by_percentile(histogram: Histogram) -> tuple[float, float]:
    """Return the range without the rarest values, at both ends."""
    total = numpy.cumsum(histogram.counts)
    rest = (1 - _PERCENTILE / 100) * total[-1]
    centres = histogram.centres
    low = centres[int(numpy.searchsorted(total, rest))]
    high = centres[min(int(numpy.searchsorted(total, total[-1] - rest)), _BINS - 1)]
    return min(float(low), 0.0), max(float(high), 0.0)


def _by_divergence(histogram: Histogram) -> tuple[float, float]:
    """Return the range that loses the least information (`relay.quantize.kl_divergence`)."""
    greatest = max(-histogram.low, histogram.high)
    magnitudes = numpy.histogram(
        abs(histogram.centres), _BINS, (0.0, greatest), weights=histogram.counts
    )
    bits = 9 if histogram.low == 0 or histogram.high == 0 else 8  # one sign has all the levels
    limit = threshold_of_histogram(*magnitudes, bits)
    return max(histogram.low, -limit), min(histogram.high, limit)


def _by_error(histogram: Histogram) -> tuple[float, float]:
    """Return the range with the least mean square error."""
    centres, counts = histogram.centres, histogram.counts
    errors = [
        float((counts * (_quantisation(*cut).rounded(centres) - centres) ** 2).sum())
        for cut in [(part * histogram.low, part * histogram.high) for part in _CUTS]
    ]
    part = _CUTS[int(numpy.argmin(errors))]
    return part * histogram.low, part * histogram.high


METHODS: dict[str, Callable[[Histogram], tuple[float, float]]] = {
    "kl_divergence": _by_divergence,
    "max": _whole,
    "mse": _by_error,
    "percentile": _by_percentile,
}
"""How the range of values is chosen, by name."""


def _quantisation(low: float, high: float) -> Quantisation:
    """Return the bytes for a range that contains 0."""
    scale = float(numpy.float32((high - low) / _LEVELS))
    if scale < 1e-30:  # all values are 0, or as good as
        return Quantisation(1.0, 0)
    return Quantisation(scale, round(-low / scale))


def chosen_quantisation(histogram: Histogram, method: str) -> Quantisation:
    """Return how values of a histogram are quantised."""
    return (
        _quantisation(*METHODS[method](histogram))
        if histogram.counts.any()
        else _quantisation(histogram.low, histogram.high)
    )
