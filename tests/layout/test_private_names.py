"""A name that begins with an underscore is used in its own file only."""

import ast
from pathlib import Path

import tilesmith

PACKAGE = Path(tilesmith.__file__).parent
OF_OTHERS = {
    "_CLASS_TENSOR", "_convert_to_opaque_object", "_set_class_tensor",  # tvm_ffi
    "_env_get_current_stream", "_env_set_current_stream",  # tvm_ffi
    "_arg2fixturedefs",  # pytest
    "_exit", "_getframe", "_name", "_replace",  # os, sys, ctypes, named tuples
}  # fmt: skip
"""Names that libraries write so although they are meant for use."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def defined(tree: ast.Module) -> set[str]:
    """The names that a file gives to functions, classes, variables, attributes and slots."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)  # a slot
    return names


def borrowed(tree: ast.Module) -> list[tuple[int, str]]:
    """Lines with private names of other files."""
    own = defined(tree) | OF_OTHERS
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tilesmith"):
            found += [(node.lineno, alias.name) for alias in node.names if is_private(alias.name)]
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                found.append((node.lineno, node.attr))
    return found


def test_private_names_of_other_files_are_found():
    tree = ast.parse(
        "from tilesmith.ir.node import _CLASSES\n"
        "class Own:\n"
        "    def __init__(self): self._mine = 1\n"
        "    def same(self, other): return other._mine == other._yours + self._inherited\n"
    )
    assert borrowed(tree) == [(1, "_CLASSES"), (4, "_yours")]


def test_no_private_name_of_another_file_is_used():
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, name in borrowed(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "give these a public name, or move the code to them:\n" + "\n".join(found)
