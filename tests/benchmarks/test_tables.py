"""The page's tables come from the recorded files; predictions are ranked and drawn."""

import json
import math

import numpy as np
import pytest

from benchmarks import report, tables
from benchmarks.predictions import (
    Prediction,
    cases,
    picture,
    predict,
    rank_correlation,
    searched_cycles,
    summary,
    weight,
)
from tilesmith.runtime.profiling import Duration, Ratio
from tilesmith.schedule_rules.choices import Choice, Considered


def contest(ours, rival, failures=()):
    latency = {"tilesmith": {"median_ms": ours}, "torch": {"median_ms": rival}}
    return {
        "latency": {name: {**one, "p10_ms": ours, "p90_ms": ours} for name, one in latency.items()},
        "times_as_fast": {"torch": rival / ours},
        "best": {"name": "torch", "times_as_fast": rival / ours},
        "largest_error": {"tilesmith": 1e-6},
        "failures": dict(failures),
        "gflops": 50.0,
        "peak_gflops": 100.0,
    }


SETTINGS = {"precision": "f32", "batch": 1, "threads": 2, "rounds": 5}


def test_the_page_has_a_table_for_each_file(tmp_path):
    first = {"conv": contest(2.0, 4.0), "matmul": contest(2.0, 1.0, [("jax", "ValueError: no\nx")])}
    report.add_to_record("kernels", first, tmp_path, **SETTINGS)
    report.add_to_record("kernels", {"conv": contest(4.0, 4.0)}, tmp_path, **SETTINGS)  # again
    part = tables.page_part(tmp_path)
    assert "### Kernels, f32, 2 threads" in part and "torch" in part
    assert "| conv | 4 ms | 50 GFLOP/s, 50% | 4 ms (1.00) | – | **1.00** | 1e-06 |" in part
    assert "| matmul | 2 ms | 50 GFLOP/s, 50% | 1 ms (0.50) | failed | **0.50** | 1e-06 |" in part
    assert "| geometric mean |  |  | (0.71) | – | **0.71** |  |" in part
    assert "- jax failed (matmul): `ValueError: no`" in part
    assert "| Kernels, f32, 2 threads | 2 | 0.71 | 1 |" in part
    assert not [*tmp_path.glob("*.json")]  # in the folder of this CPU
    assert f"numpy {np.__version__}" in part


def test_only_what_is_between_the_marks_changes():
    page = f"# Title\n{tables.BEGIN}\nold\n{tables.END}\nrest\n"
    new = tables.written(page, "new\n")
    assert new == f"# Title\n{tables.BEGIN}\n\nnew\n\n{tables.END}\nrest\n"
    assert tables.written(new, "new\n") == new
    with pytest.raises(Exception, match="no marks"):
        tables.written("# Title", "new")


def test_the_page_says_what_the_files_say():
    page = tables.PAGE.read_text(encoding="utf-8")
    assert tables.written(page, tables.page_part(report.RESULTS)) == page


def test_machines_have_chapters_of_their_own(tmp_path, monkeypatch):
    here = report.machine()
    report.add_to_record("kernels", {"a": contest(1.0, 1.0)}, tmp_path, **SETTINGS)
    monkeypatch.setattr(report, "machine", lambda: {**here, "cpu": "another", "class": "slow"})
    path = report.add_to_record("kernels", {"b": contest(1.0, 2.0)}, tmp_path, **SETTINGS)
    assert set(json.loads(path.read_text())["results"]) == {"b"}
    part = tables.page_part(tmp_path)
    assert f"## {here['cpu']} ({here['class']})\n" in part and "## another (slow)\n" in part
    assert "| another (slow) | Kernels, f32, 2 threads | 1 | 2.00 | 1 |" in part


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [([1, 2, 3], [10, 20, 30], 1), ([1, 2, 3], [3, 2, 1], -1), ([1, 2, 3, 4], [1, 3, 2, 4], 0.8),
     ([1, 1, 2], [1, 2, 3], math.sqrt(0.75)), ([1, 2, 3], [1e-9, 1e-3, 1e9], 1)],
)  # fmt: skip
def test_the_correlation_of_ranks(a, b, expected):
    assert rank_correlation(a, b) == pytest.approx(expected)


def test_more_than_a_hundred_kernels_with_names_of_their_own():
    names = [case.name for case in cases()]
    assert len(names) == len(set(names)) >= 100


def test_a_kernel_is_predicted_and_drawn():
    chosen = [case for case in cases() if case.name in ("matmul 64^3", "softmax 16x64")]
    found = [predict(case, 3e9, 1, runs=2) for case in chosen]
    assert all(one.predicted > 0 and one.measured > 0 for one in found)
    both = summary(found)
    assert both["all"]["kernels"] == 2 and both["rows"]["kernels"] == 1
    drawn = picture([*found, Prediction("<x>", "rows", 1e-6, 2e-6, "roof")], "three & more")
    assert drawn.count("fill-opacity") == 3 and "&lt;x&gt;" in drawn and "three &amp; more" in drawn


def test_the_winners_of_a_search_are_added_up():
    def choice(*cycles):
        considered = [Considered("", one, {}) for one in cycles]
        return Choice("conv", "block", (*considered,), "")

    assert searched_cycles([choice(5.0, 7.0), choice(1.0)]) == 6
    assert searched_cycles([]) is None


def test_the_main_kernel_is_that_with_the_work():
    (case,) = [case for case in cases() if case.name == "conv1x1 64->256@56"]
    row = lambda micros, rate: {"Duration (us)": Duration(micros), "GFLOP/s": Ratio(rate)}
    layout, product = row(900.0, 0.1), row(400.0, 200.0)
    assert max([layout, product], key=lambda one: weight(case, one)) is product
    rows = next(case for case in cases() if case.kind == "rows")
    assert max([layout, product], key=lambda one: weight(rows, one)) is layout
