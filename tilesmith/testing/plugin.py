"""Runs tests with ``target`` and ``dev`` for each enabled target (a pytest plugin).

Load it with ``-p tilesmith.testing.plugin`` or ``pytest_plugins = ["tilesmith.testing.plugin"]``.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pytest

from tilesmith.runtime.devices import device
from tilesmith.target import Target
from tilesmith.testing.assertions import device_enabled, enabled_targets

__all__ = [
    "HAVE_XDIST", "MARKERS", "dev", "pytest_addoption", "pytest_collection_modifyitems",
    "pytest_configure", "pytest_generate_tests", "pytest_sessionfinish",
    "pytest_xdist_make_scheduler",
]  # fmt: skip

HAVE_XDIST = importlib.util.find_spec("xdist") is not None
"""Whether tests can be spread over several processes (pytest-xdist)."""

MARKERS = {
    "targets_wanted(*targets)": "the targets to run a test for",
    "targets_excluded(*targets)": "kinds of targets that a test does not run for",
    "targets_failing(*targets)": "kinds of targets that a test is known to fail for",
    "xfail_by_text(texts, reason)": "parameters that are known to fail",
    "skip_by_text(texts, reason)": "parameters that are skipped",
    "gpu": "a test that needs a GPU",
}
"""The marks of ``tilesmith.testing``, and what each says."""


def pytest_configure(config: Any) -> None:
    """Declare the marks of ``tilesmith.testing``."""
    for mark, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{mark}: {meaning}")


def pytest_addoption(parser: Any) -> None:
    """Add the option ``--gtest_args``: arguments for the programs of C++ tests that a test runs. It
    gets them as its parameter ``gtest_args``.
    """
    parser.addoption(
        "--gtest_args", default="", help="arguments for C++ tests, the parameter gtest_args"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """With ``--dist loadscope`` run all parameters of a test in one process: values that fixtures
    keep (``fixture(cache_return_value=True)``) are made once.
    """
    if not HAVE_XDIST or config.getvalue("dist") != "loadscope":
        return None
    scheduling = importlib.import_module("xdist.scheduler.loadscope").LoadScopeScheduling

    class _ByTest(scheduling):  # type: ignore[misc, valid-type]
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("[")[0]

    return _ByTest(config, log)


def pytest_sessionfinish(session: Any, exitstatus: int) -> None:
    """Take it for success if the marks that were asked for (``-m``) leave no test."""
    if session.config.option.markexpr and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


def _kind(target: Any) -> str:
    return Target(target).kind.name


def pytest_generate_tests(metafunc: Any) -> None:
    """Parametrise ``target`` unless the test does so itself, and give ``gtest_args`` its value."""
    definition = metafunc.definition
    if "gtest_args" in metafunc.fixturenames:
        metafunc.parametrize("gtest_args", [metafunc.config.getoption("gtest_args")])
    given = [
        name.strip()
        for mark in definition.iter_markers("parametrize")
        for name in (
            mark.args[0].split(",") if isinstance(mark.args[0], str) else list(mark.args[0])
        )
    ]
    if "target" not in metafunc.fixturenames or "target" in given:
        return
    if "target" in metafunc._arg2fixturedefs:
        return  # a fixture of the test's own
    wanted = [target for mark in definition.iter_markers("targets_wanted") for target in mark.args]
    if not wanted:
        wanted = [text for text, _ in enabled_targets()]
    excluded = {
        _kind(target)
        for mark in definition.iter_markers("targets_excluded")
        for target in mark.args
    }
    failing = {
        _kind(target) for mark in definition.iter_markers("targets_failing") for target in mark.args
    }
    rows = []
    for target in wanted:
        kind = _kind(target)
        if kind in excluded:
            continue
        marks = []
        if not device_enabled(target):
            marks.append(pytest.mark.skip(reason=f"no code for '{target}' can run here"))
        if kind in failing:
            marks.append(pytest.mark.xfail(reason=f"known to fail for '{target}'"))
        rows.append(pytest.param(target, marks=marks, id=str(target)))
    metafunc.parametrize("target", rows)


@pytest.fixture
def dev(target: Any) -> Any:
    """Return the device for the ``target`` of a test."""
    return device(_kind(target))


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Apply the marks that were set for single parameters by their texts."""
    for item in items:
        parts = item.callspec.id if hasattr(item, "callspec") else ""
        for name, mark in (
            ("xfail_by_text", pytest.mark.xfail),
            ("skip_by_text", pytest.mark.skip),
        ):
            for wanted in item.iter_markers(name):
                texts, reason = wanted.args
                if any(f"-{text}-" in f"-{parts}-" for text in texts):
                    item.add_marker(mark(reason=reason))
