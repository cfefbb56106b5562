"""The public names resolve, and the stub files show the same names."""

import ast
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import tilesmith
from tilesmith.relax.op.declaration import functions
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


@pytest.mark.parametrize(
    "module", ["tilesmith.relax.op", "tilesmith.relax.op.nn", "tilesmith.relax.op.builtin"]
)
def test_the_stubs_show_the_operators(writer, module):
    text = writer.stub_path(module).read_text()
    fresh = subprocess.run(  # a test may have declared operators in this process
        [sys.executable, "-c", PROGRAM, str(ROOT / "tools"), module],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert text == fresh.stdout, "run: python tools/write_stubs.py"


PROGRAM = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
import write_stubs
importlib.import_module(sys.argv[2])
sys.stdout.write(write_stubs.operators_text(sys.argv[2]))
"""


def test_namespaces_of_operators_bind_their_functions_in_their_text():
    """Those without a stub: editors see what the files define."""
    for name in ("grad", "image", "memory", "vision"):
        module = importlib.import_module(f"tilesmith.relax.op.{name}")
        tree = ast.parse(Path(module.__file__).read_text())
        bound = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        for node in tree.body:
            if isinstance(node, ast.Assign):
                bound |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        missing = set(functions(name + ".")) - bound
        assert not missing, f"relax.op.{name}: editors do not see {sorted(missing)}"
