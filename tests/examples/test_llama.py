"""The example of relax.frontend.nn: the compiled decoder writes the tokens that torch writes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "llama.py"


def test_the_example_agrees_with_torch():
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    tokens = re.search(r"tokens: \[(.*)\]", done.stdout)[1]
    assert len(set(tokens.split(", "))) > 5
    assert tokens == re.search(r"torch:  \[(.*)\]", done.stdout)[1]
    assert float(re.search(r"scores: (\S+)", done.stdout)[1]) < 1e-4
