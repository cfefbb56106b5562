"""The page of the graph's operators is what the tool finds, by trying each of them."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "coverage" / "relax_operators.md"
COLUMNS = ("operands", "symbolic", "becomes", "fusion", "numpy", "gradient", "precision")


def rows():
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        match = re.match(r"\| `([\w.]+)` \| (.*) \|$", line)
        if match:
            found[match[1]] = dict(zip(COLUMNS, match[2].split(" | "), strict=True))
    return found


def test_the_page_is_what_the_tool_writes():
    command = [sys.executable, str(ROOT / "tools" / "relax_operators.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_operators_are_inferred_lowered_and_evaluated():
    found = rows()
    assert len(found) > 195
    kernels = {name: row for name, row in found.items() if "kernel" in row["becomes"]}
    assert len(kernels) > 150 and not [n for n, row in found.items() if row["becomes"] == "no"]
    assert [name for name, row in kernels.items() if row["numpy"] != "yes"] == []
    assert [name for name, row in kernels.items() if row["symbolic"] == "no"] == []
    depends_on_data = {name for name, row in kernels.items() if row["symbolic"] == "rank"}
    assert depends_on_data == {"dynamic_strided_slice", "nonzero", "unique"}


def test_what_is_said_of_known_operators():
    found = rows()
    assert found["nn.conv2d"] == {
        "operands": found["nn.conv2d"]["operands"], "symbolic": "yes", "becomes": "a kernel",
        "fusion": "out elemwise fusable", "numpy": "yes", "gradient": "yes", "precision": "always",
    }  # fmt: skip
    assert found["nn.conv2d"]["operands"].startswith("*data*, *weight*, `strides`, `padding`")
    assert found["sum"]["fusion"] == "comm reduce" and found["add"]["precision"] == "follow"
    assert found["floor"]["gradient"] == "zero" and found["unique"]["gradient"] == "no"
    assert found["reshape"]["becomes"] == "a view" and found["call_tir"]["becomes"] == "stays"
