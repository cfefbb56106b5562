"""Ranges of quantised values: histograms that grow, and what each method cuts."""

import numpy
import pytest

from tilesmith.driver.calibration import METHODS, Histogram, chosen_quantisation
from tilesmith.support.errors import ConfigError

RANDOM = numpy.random.default_rng(0)


def histogram(*batches):
    made = Histogram()
    for batch in batches:
        made.add(batch)
    return made


def error(how, values):
    return float(((how.rounded(values) - values) ** 2).mean())


@pytest.mark.parametrize("method", METHODS)
def test_zero_is_a_level(method):
    for values in (RANDOM.standard_normal(5000), RANDOM.random(5000), -RANDOM.random(5000) - 1):
        how = chosen_quantisation(histogram(values), method)
        assert how.scale > 0 and 0 <= how.point <= 255
        assert how.rounded(numpy.zeros(1))[0] == 0


def test_a_histogram_grows():
    parts = [RANDOM.random(1000), RANDOM.standard_normal(1000) * 3, RANDOM.random(1000) * 8]
    grown = histogram(*parts)
    assert grown.counts.sum() == 3000
    whole = numpy.concatenate(parts)
    assert grown.low == pytest.approx(whole.min()) and grown.high == pytest.approx(whole.max())
    mean = (grown.centres * grown.counts).sum() / 3000
    assert mean == pytest.approx(whole.mean(), abs=0.02)


def test_outliers_are_cut_unless_the_whole_range_is_asked_for():
    values = numpy.concatenate([abs(RANDOM.standard_normal(100_000)), [60.0]])
    ranges = {name: chosen_quantisation(histogram(values), name) for name in METHODS}
    assert ranges["max"].scale * 255 == pytest.approx(60, rel=1e-3)
    assert ranges["mse"].scale < 0.95 * ranges["max"].scale  # the one outlier counts 900 times
    for name in ("kl_divergence", "percentile"):
        assert ranges[name].scale < ranges["max"].scale / 4, name


def test_mse_has_the_least_error():
    for values in (RANDOM.laplace(size=50_000), RANDOM.standard_normal(50_000) ** 3):
        made = histogram(values)
        errors = {name: error(chosen_quantisation(made, name), values) for name in METHODS}
        assert errors["mse"] <= 1.02 * min(errors.values())


def test_nothing_but_zeros_and_values_that_are_not_finite():
    assert chosen_quantisation(histogram(numpy.zeros(10)), "mse").scale == 1
    for bad in (numpy.nan, numpy.inf):
        with pytest.raises(ConfigError, match="not finite"):
            histogram(numpy.array([1, bad]))


@pytest.mark.parametrize("method", METHODS)
def test_ranges_of_extreme_widths(method):
    """float32 has neither edges for bins that narrow nor the width of the whole range."""
    tiny = chosen_quantisation(histogram(numpy.array([1e-42, 0], "float32")), method)
    assert tiny == (1, 0)
    huge = chosen_quantisation(histogram(numpy.array([3e38, -3e38], "float32")), method)
    assert numpy.isfinite(huge.scale) and huge.scale > 1e35
