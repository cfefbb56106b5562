"""What holds for every test, and for the processes that it starts: no disk caches, two threads at
most, checked schedules, frozen nodes, no doors and no truth of `==` from inside; reproducible
property tests. With ``TILESMITH_CHECK=1`` the report ends with what was checked."""

import gc
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Set before any module of the product reads them.
os.environ.setdefault("TILESMITH_CACHE", "0")
os.environ.setdefault("TILESMITH_NUM_THREADS", "2")
os.environ.setdefault("TILESMITH_CHECK_SCHEDULES", "1")
os.environ.setdefault("TILESMITH_CHECK_INSIDE", "1")
os.environ.setdefault("TILESMITH_CHECK_FROZEN", "1")

from tilesmith.lowering import checking
from tilesmith.support import tracebacks

tracebacks.hides_from_pytest = False

settings.register_profile(
    "tilesmith",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tilesmith")


def pytest_collection_finish() -> None:
    """Leave what was collected (20 000 tests, torch, the product) out of every later search for
    garbage, and search less often: compilers make many objects and little garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


# What checked compiles (TILESMITH_CHECK=1) have counted: in this process, and in xdist's workers.


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["checks"] = checking.take_counts()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    checking.add_counts(getattr(node, "workeroutput", {}).get("checks", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    counts = checking.summary()
    if counts:
        terminalreporter.section("TILESMITH_CHECK")
        for what, number in counts.items():
            terminalreporter.line(f"{number:>8} {what}")
