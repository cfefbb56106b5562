"""Interleaved measurements."""

import time

import pytest

from tilesmith.inspect import timing


def test_quantiles():
    assert timing.quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert timing.quantile([0.0, 10.0], 0.1) == pytest.approx(1.0)
    assert timing.quantile([5.0], 0.9) == 5.0


def test_rounds_interleave_and_ratios_compare():
    seen = []

    def contestant(name, seconds):
        def run():
            seen.append(name)
            time.sleep(seconds)

        return run

    steps = []
    timings = timing.interleave(
        {"a": contestant("a", 0.004), "b": contestant("b", 0.001)},
        rounds=5,
        sample_seconds=0.001,
        progress=lambda done, total: steps.append((done, total)),
    )
    assert list(timings) == ["a", "b"] and len(timings["a"].samples) == 5
    assert steps[-1] == (5, 5)
    assert seen.index("b") < len(seen) - 1 - seen[::-1].index("a"), "the contestants take turns"
    assert timing.ratio(timings["a"], timings["b"]) > 1.5
    record = timings["a"].as_json()
    assert record["p10_ms"] <= record["median_ms"] <= record["p90_ms"] and record["samples"] == 5


@pytest.mark.parametrize(
    "seconds, text",
    [(2.5, "2.5 s"), (0.00123, "1.23 ms"), (4.2e-6, "4.2 µs"), (3e-8, "30 ns")],
)
def test_units(seconds, text):
    assert timing.format_seconds(seconds) == text


def test_percentiles_of_single_calls():
    nothing = {"pass": lambda: None}
    found = timing.interleave(nothing, rounds=2, sample_seconds=0.0001, each_call=True)["pass"]
    assert len(found.samples) == 2 <= len(found.calls)
    assert 0 < found.percentile(50) <= found.percentile(90) <= found.percentile(99)
    assert timing.interleave(nothing, rounds=2)["pass"].calls == ()
