"""Tracebacks of Tilesmith's errors without Tilesmith's own frames."""

import os
import subprocess
import sys
import traceback

import pytest

from tilesmith.support.tracebacks import shortened, user_frames

PROGRAM = """
import sys
from tilesmith import te

A = te.placeholder((8,), name="A")

def element(i, j):
    return A[i, j] + 1

def refused():
    te.compute((8, 8), element)

def of_another_kind():
    te.compute((8,), lambda i: 1 // 0)

def caused_by_the_user():
    try:
        {}["missing"]
    except KeyError:
        te.compute((8,), lambda i, j: A[i])

def leaves_a_context_manager():
    from tilesmith import relax
    with relax.BlockBuilder().function("main", []):
        pass

globals()[sys.argv[1]]()
"""


def displayed(tmp_path, function, detail="short"):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    environment = {**os.environ, "TILESMITH_TRACEBACK": detail}
    ended = subprocess.run(
        [sys.executable, str(file), function], capture_output=True, text=True, env=environment
    )
    assert ended.returncode == 1
    return ended.stderr


@pytest.mark.parametrize(
    "function, shown",
    [
        ("refused", ["te.compute((8, 8), element)", "return A[i, j] + 1"]),
        ("caused_by_the_user", ['{}["missing"]', "During handling of", "te.compute((8,)"]),
        ("leaves_a_context_manager", ['with relax.BlockBuilder().function("main", []):']),
    ],
)
def test_frames_of_the_user_are_shown_and_no_others(tmp_path, function, shown):
    short = displayed(tmp_path, function)
    assert [text for text in shown if text in short] == shown
    files = [line for line in short.splitlines() if line.startswith("  File ")]
    assert files and all("program.py" in line for line in files)
    assert f"{os.sep}tilesmith{os.sep}" in displayed(tmp_path, function, "full")


def test_other_errors_are_displayed_as_ever(tmp_path):
    assert f"{os.sep}tilesmith{os.sep}te{os.sep}" in displayed(tmp_path, "of_another_kind")


def test_the_error_keeps_its_whole_traceback():
    from tilesmith import te

    with pytest.raises(RuntimeError, match="mine") as caught:
        try:
            te.compute((8,), lambda i, j: 1)
        except ValueError as error:
            raise RuntimeError("mine") from error
    error = caught.value
    depth = len(traceback.extract_tb(error.__cause__.__traceback__))
    with shortened(error):
        assert len(traceback.extract_tb(error.__cause__.__traceback__)) == 1
    assert len(traceback.extract_tb(error.__cause__.__traceback__)) == depth > 1
    assert error.__suppress_context__
    assert user_frames(None) is None
