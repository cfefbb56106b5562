"""The place of a call in the user's program."""

import pickle

import pytest

from tilesmith.support.caller import place_of_caller
from tilesmith.support.errors import ScheduleError, format_span


def raising(run=lambda: None):
    """What stands for a function of Tilesmith's: its frames are not the user's."""
    code = compile(
        "def inner(run):\n    run()\n    raise ScheduleError('no', notes=('so',))\n",
        "inner.py",
        "exec",
    )
    names = {"__name__": "tilesmith.fake", "ScheduleError": ScheduleError}
    exec(code, names)
    return names["inner"](run)


def test_the_call_is_shown():
    with pytest.raises(ScheduleError) as caught:
        # fmt: off
        (1 +
            raising())
        # fmt: on
    place = caught.value.place
    assert place.file == __file__
    lines = str(caught.value).split("\n")
    assert lines[0] == "no" and lines[1].startswith(f"  {__file__}:{place.line}:")
    assert lines[2].strip().startswith("return names") and set(lines[3].strip()) == {"^"}
    assert lines[4] == "  so"


def test_columns_are_counted_in_letters():
    größe = [place_of_caller() for _ in "ä"]
    first, last = größe[0].columns()
    with open(__file__) as file:
        line = file.read().split("\n")[größe[0].line - 1]
    assert line[first - 1 : last - 1] == "place_of_caller()"


def test_code_without_source():
    names = {"place_of_caller": place_of_caller, "__name__": "somebody"}
    exec(compile("\n\nplace = place_of_caller()", "nowhere.py", "exec"), names)
    assert format_span(names["place"]).startswith("nowhere.py:3")


def test_the_first_of_several_lines_is_marked():
    place = place_of_caller(
    )  # fmt: skip
    assert place.columns() == (13, 29)
    assert place.format().split("\n") == [
        f"{__file__}:{place.line}:13",
        "        place = place_of_caller(",
        "                ^^^^^^^^^^^^^^^^",
    ]


def test_errors_travel_between_processes():
    with pytest.raises(ScheduleError) as caught:
        raising()
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_a_place_that_is_given_stays():
    assert ScheduleError("no", span="elsewhere").span == "elsewhere"
