"""Facts about operators live in their records: passes and executors name no operator in a string.

A pass that is about one operator imports its function: ``call.op is operators.matmul.op``.
"""

import ast
from pathlib import Path

import tilesmith
from tilesmith.ir import Op

PACKAGE = Path(tilesmith.__file__).parent
ROOMS = ["relax/transform", "relax/analysis", "relax/interpreter.py", "driver"]


def texts(path: Path) -> list[tuple[int, str]]:
    """The strings of a file (parts of f-strings too) that are not docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    shown = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in shown
    ]


def test_no_operator_is_named_in_a_string():
    assert Op.exists("relax.add")  # loads all of them
    names = [name for name in Op.list_op_names() if name.startswith("relax.")]
    assert len(names) > 150

    def names_operators(text: str) -> bool:
        """True for the name of an operator, and for a prefix that a name could be made of."""
        return text.startswith("relax.") and any(name.startswith(text) for name in names)

    files = [file for room in ROOMS for file in [PACKAGE / room, *(PACKAGE / room).rglob("*.py")]]
    found = [
        f"{file.relative_to(PACKAGE)}:{line}: {text!r}"
        for file in files
        if file.is_file()
        for line, text in texts(file)
        if names_operators(text)
    ]
    assert not found, "ask the operator's record, or import its function:\n" + "\n".join(found)
