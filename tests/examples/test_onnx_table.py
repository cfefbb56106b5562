"""The table of ONNX operators is what the importer says, and the README quotes its numbers."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "onnx_operators.md"


@pytest.fixture(scope="module")
def tool():
    place = ROOT / "tools" / "onnx_operators.py"
    spec = importlib.util.spec_from_file_location("onnx_operators", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_up_to_date(tool):
    import onnx

    text = TABLE.read_text(encoding="utf-8")
    if f"from onnx {onnx.__version__}." not in text:
        pytest.skip("the table was written from another version of onnx")
    assert text == tool.table(), "run: python tools/onnx_operators.py"


def test_the_readme_quotes_it():
    numbers = r"(\d+ of \d+)\s+operators import"
    (quoted,) = re.findall(numbers, (ROOT / "README.md").read_text(encoding="utf-8"))
    (counted,) = re.findall(numbers, TABLE.read_text(encoding="utf-8"))
    assert quoted == counted
