"""The example of a quantisation: it runs, and the integers agree with the floats."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "quantize.py"


def test_the_example_runs():
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ratios = [float(one) for one in re.findall(r"([-\d.]+) dB", done.stdout)]
    assert len(ratios) == 14 and min(ratios) > 20
    assert re.search(r"float32: .* int8: ", done.stdout)
