"""What the compiler knows about a target stands in the records of back ends and kinds."""

import ast
from dataclasses import fields
from pathlib import Path

import pytest

from tests.layout.test_floors import FLOORS
from tilesmith.support.lazy import resolve
from tilesmith.target.back_end import BACK_ENDS, BackEnd
from tilesmith.target.kind import KINDS

ROOT = Path(__file__).resolve().parents[2] / "tilesmith"
RECORDS = [BACK_ENDS[kind] for kind in sorted(BACK_ENDS.names(load=True))]


def texts(node: ast.AST) -> set[str]:
    """The texts in an expression."""
    constants = [each for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return {each.value for each in constants if isinstance(each.value, str)}


def asks_for_a_kind(node: ast.AST) -> bool:
    """Whether an expression compares the kind of something with names of target kinds."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
    elif isinstance(node, ast.MatchValue):
        sides = [node.value]
    else:
        return False
    words = {name for side in sides for name in texts(side)} & set(KINDS)
    return bool(words) and any("kind" in ast.unparse(side) for side in sides)


@pytest.mark.parametrize(
    "source, found",
    [
        ("target.kind.name == 'llvm'", True),
        ("target.kind.name in ('llvm', 'c')", True),
        ("'cuda' != kind", True),
        ("self.kind.name == 'Annotate'", False),
        ("form == 'c'", False),
    ],
)
def test_what_is_looked_for(source, found):
    assert asks_for_a_kind(ast.parse(source).body[0].value) == found


def test_nobody_asks_for_the_name_of_a_kind():
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [
            f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
            for node in ast.walk(tree)
            if asks_for_a_kind(node)
        ]
    assert not found, "ask the back end's record (target/back_end.py) or the kind's"


# The floor that asks for a part resolves it: the part stands there or below.
ASKING = {
    "generate": "codegen",
    "kernel_object": "driver",
    "shared_objects": "driver",
    "c_support": "driver",
    "c_support_source": "driver",
    "toolchain": "driver",
    "load": "codegen",
    "runs_here": "codegen",
    "symbol": "codegen",
    "interpreter": "lowering",
    "intrinsic_rules": "tir",
    "host_passes": "lowering",
    "barrier_passes": "lowering",
    "default_schedule": "schedule_rules",
    "graph_passes": "driver",
    "describe": "cli",
}
DATA = {"name", "kinds", "is_device", "is_for_boards", "host", "packages", "wants_wide_indices"}


def test_each_field_is_known():
    assert {field.name for field in fields(BackEnd)} == ASKING.keys() | DATA


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_parts_stand_on_or_below_the_floor_that_asks(record):
    for name, floor in ASKING.items():
        value = getattr(record, name)
        for place in value if isinstance(value, tuple) else (value,):
            if isinstance(place, str):
                assert resolve(place) is not None
                assert FLOORS[place.split(".")[1]] <= FLOORS[floor], f"{record.name}: {name}"
