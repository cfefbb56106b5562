"""The worked examples of CONTRIBUTING run: an operator, a primitive, a pass, a back end."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TEXT = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = TEXT.partition("## Adding something\n")[2].partition("\n## ")[0]
EXAMPLES = dict(re.findall(r"^### (.*?)\n.*?^```python\n(.*?)^```", SECTION, re.M | re.S))


def test_all_examples_are_there():
    assert list(EXAMPLES) == [
        "An operator",
        "A schedule primitive",
        "A pass",
        "A target with its back end",
    ]


@pytest.mark.parametrize("title", EXAMPLES)
def test_example(title, tmp_path):
    """Each runs in a process of its own: what it declares is for nobody else."""
    program = tmp_path / "example.py"
    program.write_text(EXAMPLES[title], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 0, done.stderr
