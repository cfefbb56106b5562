"""The example of Relay: it runs, and shows the program, the result and the kernels."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "relay.py"


def test_the_example_builds_runs_and_inspects():
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "nn.conv2d(%x, %filter, padding=[1, 1, 1, 1])" in done.stdout
    text = re.search(r"classes: \[\[(.*?)\]\]", done.stdout, re.DOTALL)
    values = [float(one) for one in text[1].split()]
    assert len(values) == 10 and abs(sum(values) - 1) < 0.01
    assert "Total_time" in done.stdout and "fused_conv2d" in done.stdout


def test_the_example_is_short():
    text = EXAMPLE.read_text(encoding="utf-8")
    code = text[text.index("def network") :].splitlines()
    lines = [line for line in code if line.strip() and '"""' not in line]
    assert len(lines) <= 30
