import inspect
import pickle
from pathlib import Path

import pytest

import tilesmith
from tilesmith import error as public
from tilesmith.support import errors, packages
from tilesmith.support.errors import (
    MissingDependencyError,
    OpNotImplemented,
    ShapeError,
    TilesmithError,
    UnknownNameError,
    format_span,
)
from tilesmith.support.packages import install_command

CLASSES = [
    item
    for _, item in inspect.getmembers(errors, inspect.isclass)
    if issubclass(item, TilesmithError)
]


class Span:
    def __init__(self, file, line, column=None, end_column=None):
        self.file, self.line, self.column, self.end_column = file, line, column, end_column


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_is_public_and_says_what_it_is(kind):
    assert getattr(public, kind.__name__) is kind
    assert kind.__doc__
    assert issubclass(kind, RuntimeError)


@pytest.mark.parametrize("kind", [k for k in CLASSES if k is not MissingDependencyError])
def test_message_place_and_notes_are_shown_and_survive_pickling(kind):
    found = kind("what", span="model.py:3", notes=("why", "do\nthis"))
    assert str(found) == "what\n  model.py:3\n  why\n  do\n  this"
    again = pickle.loads(pickle.dumps(found))
    assert type(again) is kind and str(again) == str(found)


def test_builtin_kinds():
    with pytest.raises(ValueError):
        raise ShapeError("x")
    with pytest.raises(NotImplementedError):
        raise OpNotImplemented("x")
    with pytest.raises(KeyError, match="no such thing"):
        raise UnknownNameError("no such thing")
    assert str(UnknownNameError("no such thing")).splitlines()[0] == "no such thing"


def test_span_shows_the_source_line_with_a_marker(tmp_path):
    file = tmp_path / "program.py"
    file.write_text("a = 1\ny = a + undefined\n")
    text = str(TilesmithError("undefined variable", Span(str(file), 2, 9, 18)))
    lines = text.splitlines()
    assert lines[1].strip() == f"{file}:2"
    assert lines[2].endswith("y = a + undefined")
    marked = lines[2][lines[3].index("^") : lines[3].rindex("^") + 1]
    assert marked == "undefined"


def test_span_with_its_own_format():
    class Own:
        def format(self):
            return "here"

    assert format_span(Own()) == "here"
    assert format_span(None) == ""


def test_missing_dependency_names_the_command():
    found = MissingDependencyError("onnx", "onnx", "importing a model")
    assert install_command("onnx", "onnx") in str(found)
    assert isinstance(found, ImportError)
    assert found.command == install_command("onnx", "onnx")


def test_commands_of_pip_work_from_a_checkout(monkeypatch):
    monkeypatch.setattr(packages, "_pip", lambda: "pip")
    root = Path(tilesmith.__file__).resolve().parents[1]
    monkeypatch.chdir(root)
    assert packages.install_command("onnx", "onnx") == "pip install -e '.[onnx]'"
    monkeypatch.chdir("/")
    assert packages.install_command("onnx", "onnx") == f"pip install -e '{root}[onnx]'"
    monkeypatch.setattr(packages, "_checkout", lambda: None)
    assert packages.install_command("onnx", "onnx") == "pip install 'tilesmith[onnx]'"
    assert packages.install_command("ziglang") == "pip install ziglang"


def test_pip_is_that_of_this_python(monkeypatch):
    monkeypatch.setattr(packages.sys, "executable", "/house/.venv/bin/python")
    monkeypatch.setattr(packages.shutil, "which", lambda name: "/usr/bin/pip")
    assert packages.install_command("rich") == "/house/.venv/bin/python -m pip install rich"
    monkeypatch.setattr(packages.shutil, "which", lambda name: "/house/.venv/bin/pip")
    assert packages.install_command("rich") == "pip install rich"
