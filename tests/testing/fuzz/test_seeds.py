"""The hand-out of seeds to the threads of a run, and the count of findings."""

import os
import signal
import threading

import pytest

from tilesmith.testing.fuzz.seeds import Findings, Seeds, Stopped


class _Runner:
    closed = 0

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()

    def close(self) -> None:
        _Runner.closed += 1


@pytest.mark.parametrize("threads", [1, 3])
def test_each_seed_is_handed_out_once(threads):
    taken = []
    seeds = Seeds(100, None, 20)
    before = _Runner.closed
    seeds.work(threads, _Runner, lambda runner, seed: taken.append(seed))
    assert sorted(taken) == list(range(100, 120))
    assert _Runner.closed == before + threads


def test_no_time_no_seeds():
    assert Seeds(0, 0.0, None).take() is None


def test_the_end_is_an_end():
    seeds = Seeds(5, None, None)
    assert seeds.take() == 5
    seeds.end()
    assert seeds.take() is None


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_ends_the_run(threads):
    def one(runner, seed):
        if seed == 3:
            raise ValueError("three")

    seeds = Seeds(0, 60.0, None)
    with pytest.raises(ValueError, match="three"):
        seeds.work(threads, _Runner, one)
    assert seeds.take() is None


@pytest.mark.parametrize("threads", [1, 3])
def test_an_interruption_stops_the_runners(threads):
    # a shell lets what it starts in the background ignore the signal
    before_test = signal.signal(signal.SIGINT, signal.default_int_handler)
    asked, finished = [], []

    def one(runner, seed):
        asked.append(seed)
        if len(asked) == threads:
            os.kill(os.getpid(), signal.SIGINT)  # which the main thread handles
        assert runner.stopped.wait(60)
        finished.append(seed)
        raise Stopped

    seeds = Seeds(0, None, None)
    before = _Runner.closed
    try:
        with pytest.raises(KeyboardInterrupt):
            seeds.work(threads, _Runner, one)
    finally:
        signal.signal(signal.SIGINT, before_test)
    assert sorted(asked) == sorted(finished) == list(range(threads))
    assert seeds.take() is None and _Runner.closed == before + threads


def test_findings_are_kept_once_and_counted():
    found = Findings()
    first = {"seed": 1}
    assert found.is_new("a", first)
    assert not found.is_new("a", {"seed": 2})
    assert found.is_new("b", {"seed": 3})
    assert found.findings["a"] is first
    assert found.again == {"a": 1}
