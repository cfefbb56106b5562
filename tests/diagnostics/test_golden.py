"""What a user reads after a mistake: one program and one expected text for each mistake.

Each program ends in an error on purpose, or makes a warning. The whole text is compared, the
folder's path left out.
"""

import re
import runpy
import warnings
from pathlib import Path

import pytest

from tilesmith.support.errors import TilesmithError

HERE = Path(__file__).parent
PROGRAMS = sorted(HERE.glob("*/*_script.py"))


def message_of(program):
    """The error of a program, or its warnings: class, and text with short paths."""
    found = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            runpy.run_path(str(program), run_name="mistake")
        except TilesmithError as error:
            found = [error]
    found = found or [warning.message for warning in warned]
    text = "".join([f"{type(message).__name__}: {message}\n" for message in found])
    assert text, "the program has no mistake"
    text = text.replace(str(program), program.name)
    return re.sub(r"<script \w+>", "<script>", text)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_message(program, request):
    golden = program.with_name(program.stem.removesuffix("_script") + ".txt")
    text = message_of(program)
    if request.config.getoption("--update-golden"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_each_expected_text_has_its_program():
    programs = {path.with_name(path.stem.removesuffix("_script") + ".txt") for path in PROGRAMS}
    assert set(HERE.glob("*/*.txt")) == programs


def test_there_are_enough():
    count = {name: len(list((HERE / name).glob("*_script.py"))) for name in FOLDERS}
    assert all(count[name] >= least for name, least in FOLDERS.items()), count


FOLDERS = {
    "scripts": 20,
    "well_formed": 10,
    "schedules": 20,
    "tensor_expressions": 9,
    "graphs": 15,
}
