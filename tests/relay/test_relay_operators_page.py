"""The page of relay's operators is what the tool finds, by trying each of them."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "coverage" / "relay_operators.md"


def test_the_page_is_what_the_tool_writes():
    command = [sys.executable, str(ROOT / "tools" / "relay_operators.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_operator_that_is_there_is_typed_and_lowered():
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| (\w+) \| .* \| (\w+) \| (\w+) \| (\w+) \|$", text, re.M)
    assert len(rows) > 250
    others = [name for name, typed, _, lowered, _ in rows if (typed, lowered) != ("yes", "yes")]
    assert others == [
        "memory.alloc_storage", "memory.alloc_tensor", "memory.kill", "vm.invoke_tvm_op",
        "vm.shape_func",
    ]  # fmt: skip
    gradients = {name: gradient for name, _, gradient, _, _ in rows}
    for name in (
        "nn.conv2d",
        "nn.dense",
        "nn.max_pool2d",
        "nn.softmax",
        "take",
        "layout_transform",
    ):
        assert gradients[name] == "yes"
    assert gradients["floor"] == "zero" and gradients["unique"] == "no"


def test_all_known_operators_stand_on_the_page_once():
    text = PAGE.read_text(encoding="utf-8")
    listed, _, rest = text.partition("\n## Further operators\n")
    _, _, absent = rest.partition("\n## Operators that are not there\n")
    names = re.findall(r"^\| `([\w.]+)` \|", listed, re.M) + re.findall(r"`([\w.]+)`", absent)
    assert len(names) == len(set(names)) == 298
