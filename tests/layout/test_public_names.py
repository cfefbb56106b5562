"""The public names resolve, and the stub files show the same names."""

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

import tilesmith
from tilesmith.support.lazy import resolve

ROOT = Path(tilesmith.__file__).parent.parent


@pytest.fixture(scope="module")
def writer():
    specification = importlib.util.spec_from_file_location(
        "write_stubs", ROOT / "tools" / "write_stubs.py"
    )
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    yield module
    sys.modules.pop("write_stubs", None)


@pytest.mark.parametrize("package", ["tilesmith", "tilesmith.runtime"])
def test_stubs_show_the_tables(writer, package):
    text = writer.stub_path(package).read_text()
    assert text == writer.stub_text(package), "run: python tools/write_stubs.py"


def test_the_stub_shows_the_methods_of_schedules(writer):
    text = writer.stub_path(writer.METHODS).read_text()
    assert text == writer.methods_text(), "run: python tools/write_stubs.py"


@pytest.mark.parametrize("path", sorted(set(tilesmith.PUBLIC.values())))
def test_public_names_resolve(path):
    assert resolve(path) is not None
