"""The table of ONNX operators is what the importer says, and the README quotes its numbers."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "onnx_operators.md"


# In a process of its own: other tests register operators of their own.
PRINT_TABLE = "import sys, onnx_operators; sys.stdout.write(onnx_operators.table())"


def test_the_table_is_up_to_date():
    import onnx

    text = TABLE.read_text(encoding="utf-8")
    if f"from onnx {onnx.__version__}." not in text:
        pytest.skip("the table was written from another version of onnx")
    paths = os.pathsep.join([str(ROOT / "tools"), str(ROOT)])
    table = subprocess.run(
        [sys.executable, "-c", PRINT_TABLE],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert text == table.stdout, "run: python tools/onnx_operators.py"


def test_the_readme_quotes_it():
    numbers = r"(\d+ of \d+)\s+operators import"
    (quoted,) = re.findall(numbers, (ROOT / "README.md").read_text(encoding="utf-8"))
    (counted,) = re.findall(numbers, TABLE.read_text(encoding="utf-8"))
    assert quoted == counted
