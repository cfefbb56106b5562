"""The example of a strategy for a new target: short, and what it says is what is built."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "strategy.py"


def test_a_strategy_is_a_few_lines():
    text = EXAMPLE.read_text(encoding="utf-8")
    strategy = text[text.index("def schedule_dense") : text.index("def main")]
    lines = [line for line in strategy.splitlines() if line.strip() and '"""' not in line]
    assert len(lines) <= 20


def test_the_example_builds_and_runs():
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "for ax1_inner in T.vectorized(8)" in done.stdout
    assert '"from_legacy_te_schedule": True' in done.stdout
