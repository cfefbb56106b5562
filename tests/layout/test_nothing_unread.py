"""Knobs and options are read somewhere: what nobody reads is neither accepted nor documented."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import tilesmith.relax.transform.fuse_ops  # what declares options does so when it is imported
import tilesmith.tir.transform.options  # noqa: F401
from tilesmith.ir.transform import PassContext
from tilesmith.support.errors import ConfigError
from tilesmith.support.knobs import Knobs

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "tilesmith"
KNOBS = [knob.name for knob in Knobs.table()]
# Tests of the same process may declare passes with options of their own.
OPTIONS = {
    name: option
    for name, option in PassContext.list_configs().items()
    if name.startswith(("tir.", "te.", "relax."))
}


def sources():
    return {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}


@cache
def uses():
    """How often each text (docstrings left out) and each attribute is read, and where."""
    texts, attributes = Counter(), Counter()
    for path in sources().values():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        registrations = [
            argument
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and getattr(node.func, "id", "") == "register_config_option"
            for argument in node.args
        ]
        statements = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
        tables = [
            row.elts[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "OPTIONS"
            for row in node.value.elts
        ]
        ignored = {id(node) for node in [*registrations, *statements, *tables]}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts[node.value] += id(node) not in ignored
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                owner = node.value.id if isinstance(node.value, ast.Name) else ""
                attributes[owner, node.attr] += 1
    return texts, attributes


@pytest.mark.parametrize("name", KNOBS)
def test_knobs_are_read(name):
    _, attributes = uses()
    assert attributes["knobs", name], f"nobody reads the knob '{name}': let it go or act"


def parts_of(name):
    """The names of an option's parts, as the refusal of an unknown one lists them."""
    if OPTIONS[name]["type"] != "dict":
        return []
    with pytest.raises(ConfigError) as caught:
        PassContext(config={name: {"?": 0}})
    return str(caught.value).partition("it has: ")[2].split(", ")


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_options_are_read(name):
    texts, attributes = uses()
    assert texts[name], f"nobody reads the option '{name}': let it go or act"
    for part in parts_of(name):
        # The first text is its declaration.
        found = texts[part] - 1 + sum(n for (_, attr), n in attributes.items() if attr == part)
        assert found > 0, f"nobody reads '{part}' of the option '{name}': let it go or act"


def test_knobs_that_are_named_exist():
    known = {f"TILESMITH_{name.upper()}" for name in KNOBS}
    for path in sources().values():
        for word in re.findall(r"\bTILESMITH_[A-Z_]+\b", path.read_text(encoding="utf-8")):
            assert word in known or word.endswith("_"), f"{path}: no knob is called {word}"
