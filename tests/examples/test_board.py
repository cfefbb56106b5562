"""The example of a program for a board: packed, compiled from the package alone, and compared."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "board.py"


def test_the_example_packs_and_runs():
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "codegen/host/include/tvmgen_net.h" in done.stdout
    assert "the board computes" in done.stdout or "there is no C compiler here" in done.stdout
