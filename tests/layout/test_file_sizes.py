"""A file holds one idea and fits in the head: files and functions have a budget of lines."""

import ast
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = sorted((REPOSITORY / "tilesmith").rglob("*.py"))

FILE_BUDGET = 600
FUNCTION_BUDGET = 60

# Files that may be longer, each with the reason. Tables of records are looked up, not read through.
LONGER_FILES: dict[str, str] = {}
# Functions that may be longer, as "path::qualified name".
LONGER_FUNCTIONS: dict[str, str] = {}


def relative(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def function_lengths(path: Path) -> dict[str, int]:
    """Lines from `def` to the last statement of each function, without its docstring."""
    lengths: dict[str, int] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                visit(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                first = child.body[0]
                is_documented = ast.get_docstring(child, clean=False) is not None
                documentation = first.end_lineno - first.lineno + 1 if is_documented else 0
                lengths[prefix + child.name] = child.end_lineno - child.lineno + 1 - documentation
                visit(child, f"{prefix}{child.name}.")
            else:
                visit(child, prefix)

    visit(ast.parse(path.read_text(encoding="utf-8")), "")
    return lengths


def test_sources_were_found():
    assert SOURCES


def test_file_lengths():
    too_long = {
        relative(path): lines
        for path in SOURCES
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > FILE_BUDGET
        and relative(path) not in LONGER_FILES
    }
    assert not too_long, f"over {FILE_BUDGET} lines (split by idea): {too_long}"


def test_function_lengths():
    too_long = {
        name: lines
        for path in SOURCES
        for function, lines in function_lengths(path).items()
        if lines > FUNCTION_BUDGET
        and (name := f"{relative(path)}::{function}") not in LONGER_FUNCTIONS
    }
    assert not too_long, f"functions over {FUNCTION_BUDGET} lines: {too_long}"


def test_exceptions_are_still_needed():
    """An exception that no longer applies leaves the table."""
    for entry in [*LONGER_FILES, *LONGER_FUNCTIONS]:
        path, _, function = entry.partition("::")
        source = REPOSITORY / path
        assert source.is_file(), f"{entry}: the file is gone"
        if function:
            assert function_lengths(source).get(function, 0) > FUNCTION_BUDGET, entry
        else:
            assert len(source.read_text(encoding="utf-8").splitlines()) > FILE_BUDGET, entry
