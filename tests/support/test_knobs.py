from pathlib import Path

import pytest

from tilesmith.support.errors import ConfigError
from tilesmith.support.knobs import Knobs


@pytest.fixture
def knobs():
    return Knobs()


def test_values_come_from_the_environment_when_asked(knobs, monkeypatch):
    monkeypatch.delenv("TILESMITH_TIMING", raising=False)
    assert knobs.timing is False
    monkeypatch.setenv("TILESMITH_TIMING", "1")
    assert knobs.timing is True
    monkeypatch.setenv("TILESMITH_NUM_THREADS", "3")
    assert knobs.num_threads == 3
    monkeypatch.setenv("TILESMITH_CACHE_DIR", "/somewhere")
    assert knobs.cache_dir == Path("/somewhere")


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("NUM_THREADS", "many", "a whole number"),
        ("NUM_THREADS", "0", "a whole number of at least 1"),
        ("TIMING", "maybe", "0 or 1"),
        ("THREAD_RUNTIME", "tbb", "one of auto, gomp"),
        ("TRACEBACK", "ful", "one of short, full"),
        ("CACHE_DIR", "", "a path"),
        ("DEBUG", "on", "a level, or a level and patterns of passes .2 or"),
        ("DEBUG", ",tir.*", "a level, or"),
    ],
)
def test_bad_values(knobs, monkeypatch, name, value, expected):
    monkeypatch.setenv(f"TILESMITH_{name}", value)
    with pytest.raises(ConfigError, match=f"TILESMITH_{name}: expected {expected}"):
        getattr(knobs, name.lower())


@pytest.mark.parametrize(
    "debug, level", [("", 0), ("0", 0), (" 1 ", 1), ("2,tir.*,b", 2), ("5,*", 5)]
)
def test_level_of_debug_output(knobs, monkeypatch, debug, level):
    monkeypatch.setenv("TILESMITH_DEBUG", debug)
    assert knobs.debug_level == level


def test_bad_value_of_another_knob_is_an_error_at_first_use(knobs, monkeypatch):
    monkeypatch.setenv("TILESMITH_DEBUG", "verbose")
    with pytest.raises(ConfigError, match="TILESMITH_DEBUG: expected a level"):
        assert knobs.timing


def test_unknown_variable_is_an_error_at_first_use(knobs, monkeypatch):
    monkeypatch.setenv("TILESMITH_NUM_TREADS", "3")
    with pytest.raises(ConfigError, match="(?s)TILESMITH_NUM_TREADS\n.*TILESMITH_NUM_THREADS"):
        assert knobs.timing


def test_override(knobs):
    with knobs.override(pass_limit=3):
        assert knobs.pass_limit == 3
        assert dict(knobs.cache_key())["pass_limit"] == 3
    assert knobs.pass_limit is None
    with pytest.raises(ConfigError, match="unknown knob 'pas_limit'"), knobs.override(pas_limit=3):
        pass
    with pytest.raises(ConfigError, match="expected a level"), knobs.override(debug="all"):
        pass


def test_table_is_complete_and_documented():
    for knob in Knobs.table():
        assert knob.meaning and knob.variable.startswith("TILESMITH_")
