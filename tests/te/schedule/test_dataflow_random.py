"""Random classic schedules of random programs keep the results of the programs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.te.schedule.random_schedules import HypothesisPick, Pick, Program, random_schedule
from tilesmith.support.errors import ScheduleError, UnsupportedError

# What passes refuse with a reason: programs whose buffers cannot be doubled, or roll.
REFUSED_BY_PASSES = ("double buffer", "cannot roll", "moves along")


def carry_out(pick, note=lambda text: None, on_threads=False):
    """Compare the results of a random schedule; return whether it could be lowered."""
    program = Program(pick)
    schedule = random_schedule(pick, program.results, note, on_threads)
    try:
        got = program.computed(schedule)
    except ScheduleError:
        return False
    except UnsupportedError as error:
        if not any(text in error.message for text in REFUSED_BY_PASSES):
            raise
        return False
    for one, want in zip(got, program.wanted()):
        np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-5)
    return True


@given(st.data())
@settings(max_examples=60)
def test_schedules_keep_the_results(data):
    carry_out(HypothesisPick(data, st))


@given(st.data())
@settings(max_examples=40)
def test_schedules_on_threads_keep_the_results(data):
    carry_out(HypothesisPick(data, st), on_threads=True)


@pytest.mark.parametrize("on_threads", [False, True])
@pytest.mark.parametrize("seed", range(0, 50, 25))
def test_most_schedules_are_carried_out(seed, on_threads):
    """What is refused is the exception: the property above is about something."""
    done = [carry_out(Pick(n), on_threads=on_threads) for n in range(seed, seed + 25)]
    assert sum(done) >= 17
