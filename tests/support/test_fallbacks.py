"""What was given up is counted, reaches who collects in this thread, and is shown on request."""

import threading

import pytest

from tilesmith.support.errors import InternalError, ScheduleError
from tilesmith.support.fallbacks import (
    Fallback,
    FallbackReport,
    capture_fallbacks,
    collect_fallbacks,
    fallback_counts,
    fallbacks_within,
    record_fallback,
)
from tilesmith.support.knobs import knobs

REASON = ScheduleError("the block is an output\nwith more lines", notes=("a note",))


def test_reports_are_nested_and_of_one_thread():
    before = fallback_counts()["inlining"]
    with collect_fallbacks() as outer:
        record_fallback("inlining", "block 'a'", "first")
        with collect_fallbacks() as inner, fallbacks_within("main"):
            record_fallback("inlining", "block 'a'", REASON)
            other = threading.Thread(target=record_fallback, args=("inlining", "", "elsewhere"))
            other.start()
            other.join()
    (made,) = inner.rows()
    assert made == (Fallback("inlining", "main", "block 'a'", "the block is an output"), 1)
    assert made[0].subject == "main: block 'a'"
    assert [fallback.reason for fallback, _ in outer.rows()] == ["first", made[0].reason]
    assert fallback_counts()["inlining"] == before + 3


def test_what_is_captured_is_told_when_it_is_recorded_again():
    before = fallback_counts()["schedule"]
    with collect_fallbacks() as report:
        with capture_fallbacks() as captured, fallbacks_within("kernel_1"):
            record_fallback("schedule", "block 'x'", "kernel_1_1 and kernel_1 refuse")
        assert len(report) == 0 and fallback_counts()["schedule"] == before
        captured.renamed({"kernel_1": "add", "kernel_1_1": "callee"}).record()
    ((fallback, _),) = report.rows()
    assert fallback == Fallback("schedule", "add", "block 'x'", "callee and add refuse")
    assert fallback_counts()["schedule"] == before + 1


def test_rows_are_sorted_and_travel_as_json():
    report = FallbackReport()
    for kind, place in (("schedule", "b"), ("fusion", "z"), ("schedule", "a"), ("cache", "c")):
        report.add(Fallback(kind, "f", place, "why"), 2)
    assert [fallback.place for fallback, _ in report.rows()] == ["z", "a", "b", "c"]
    again = FallbackReport.from_json(report.to_json())
    assert again.rows() == report.rows() and again.to_json()[0]["count"] == 2
    assert [fallback.place for fallback, _ in report.about_code().rows()] == ["z", "a", "b"]


@pytest.mark.parametrize(("debug", "shown"), [("", False), ("1", True), ("2,NoPass", True)])
def test_the_debug_level_shows_them(capsys, debug, shown):
    with knobs.override(debug=debug):
        record_fallback("fusion", "'lv'", "too long")
    text = capsys.readouterr().err
    assert text == ("# fallback (fusion) 'lv': too long\n" if shown else "")


def test_an_unknown_kind_is_refused():
    with pytest.raises(InternalError, match="'speed'"):
        record_fallback("speed", "", "slow")
