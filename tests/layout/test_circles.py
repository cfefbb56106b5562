"""Files do not import each other in a circle; those that still do are listed, with the reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

import tilesmith

PACKAGE = Path(tilesmith.__file__).parent
CIRCLES = [
    # Python's operators on expressions make expressions, fold them, and compare them.
    {
        "ir.expr", "ir.expr_op", "ir.module", "ir.operators", "ir.structural", "ir.structural_hash",
        "ir.structural_plan",
    },
    # `buffer[i]` is a load or a region, `buffer[i] = value` a store.
    {"tir.buffer", "tir.expr", "tir.stmt"},
    # `func.specialize(…)` rewrites the function.
    {"tir.function", "tir.functor", "tir.specialize"},
]  # fmt: skip


def files() -> dict[str, Path]:
    """Each file of the package by its name as a module, without `tilesmith.`."""
    names = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imported(tree: ast.AST, modules: set[str]) -> Iterator[str]:
    """The files that a file imports, inside functions too, but not for types only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tilesmith"):
            parent = (node.module or "").removeprefix("tilesmith").lstrip(".")
            for alias in node.names:
                name = f"{parent}.{alias.name}".lstrip(".")
                yield name if name in modules else parent
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.removeprefix("tilesmith.")
        yield from imported(node, modules)


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The groups of names that reach each other (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for other in graph[name]:
            if other not in order:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], order[other])
        if lowest[name] == order[name]:
            start = stack.index(name)
            group = set(stack[start:])
            del stack[start:]
            if len(group) > 1:
                found.append(group)

    for name in graph:
        if name not in order:
            visit(name)
    return found


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [{"b", "c"}]


def test_files_do_not_import_each_other():
    known = files()
    graph = {}
    for name, path in known.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        graph[name] = {other for other in imported(tree, set(known)) if other in known} - {name}
    found = circles(graph)
    unknown = [sorted(group) for group in found if group not in CIRCLES]
    assert not unknown, f"open these: move code down, or register it from above: {unknown}"
    assert len(found) == len(CIRCLES), "a circle of the list is open now: take it off the list"
