"""The benchmark of classic schedules: both ways give the product, each step is timed."""

from benchmarks.classic_schedules import paths, steps


def test_both_ways_are_measured():
    ways = paths(64, 1)  # compares the results with numpy
    assert set(ways) == {"classic", "TensorIR"}
    assert all(seconds > 0 for way in ways.values() for seconds in way.values())


def test_steps_of_a_chain_are_measured():
    assert set(steps(5, 1)) >= {"infer bounds", "write loops", "all of lower"}
