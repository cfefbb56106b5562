"""Paths into nodes: their steps, prefixes, texts, and where comparisons lead."""

import pytest

from tests.tir.sample_programs import elementwise, module
from tilesmith import tir
from tilesmith.ir import IRModule, get_first_structural_mismatch
from tilesmith.ir.object_path import (
    ArrayIndexPath,
    AttributeAccessPath,
    MapValuePath,
    MissingArrayElementPath,
    MissingMapEntryPath,
    ObjectPath,
    RootPath,
    UnknownAttributeAccessPath,
)
from tilesmith.runtime.dtype import DataType

ROOT = ObjectPath.root()


@pytest.mark.parametrize(
    ("path", "kind", "text"),
    [
        (ROOT, RootPath, "<root>"),
        (ObjectPath.root("func"), RootPath, "func"),
        (ROOT.attr("body"), AttributeAccessPath, "<root>.body"),
        (ROOT.attr(None), UnknownAttributeAccessPath, "<root>.<unknown attribute>"),
        (ROOT.array_index(2), ArrayIndexPath, "<root>[2]"),
        (ROOT.missing_array_element(2), MissingArrayElementPath, "<root>[<missing element #2>]"),
        (ROOT.map_value("k"), MapValuePath, '<root>["k"]'),
        (ROOT.missing_map_entry(), MissingMapEntryPath, "<root>[<missing entry>]"),
    ],
)
def test_kinds_of_steps(path, kind, text):
    assert type(path) is kind and str(path) == text


def test_what_a_step_says():
    assert ROOT.attr("a").attr_key == "a" and ROOT.array_index(3).index == 3
    assert ROOT.missing_array_element(4).index == 4 and ROOT.map_value("k").key == "k"
    assert ROOT.name is None and ObjectPath.root("m").name == "m"


def test_prefixes():
    path = ROOT.attr("body").attr("seq").array_index(1)
    assert len(path) == 4 and path.parent == ROOT.attr("body").attr("seq")
    assert path.get_prefix(1) is ROOT and path.get_prefix(4) is path
    assert path.get_prefix(2) == ROOT.attr("body") and ROOT.parent is None
    assert ROOT.attr("body").is_prefix_of(path) and path.is_prefix_of(path)
    assert not path.is_prefix_of(ROOT.attr("body"))
    assert not ROOT.attr("block").is_prefix_of(path)
    for length in (0, 5, -1):
        with pytest.raises(IndexError, match="prefixes of length 1 to 4"):
            path.get_prefix(length)


def test_equality_is_that_of_the_steps():
    assert ROOT.attr("a").array_index(1) == ObjectPath.root().attr("a").array_index(1)
    assert len({ROOT.attr("a"), ObjectPath.root().attr("a"), ROOT.attr("b")}) == 2
    assert ROOT.array_index(1) != ROOT.missing_array_element(1)
    assert ROOT != ObjectPath.root("other") and ROOT.attr("a") != "<root>.a"
    deep, other = ROOT, ROOT
    for number in range(50_000):
        deep, other = deep.array_index(number), other.array_index(number)
    assert deep == other and deep != other.attr("x").parent.parent


def test_where_a_path_leads():
    block = tir.SeqStmt([tir.Evaluate(1), tir.Evaluate(2)])
    assert ROOT.attr("seq").array_index(1).resolve(block) is block.seq[1]
    for path in (ROOT.attr("seq").missing_array_element(2), ROOT.attr("none").attr("b")):
        assert path.resolve(block) is None
    assert ROOT.attr(None).resolve(block) is ROOT.missing_map_entry().resolve({}) is None
    assert ROOT.map_value("main").resolve(module(elementwise()).functions) is not None


X, Y = tir.Var("x", "int32"), tir.Var("y", "int32")
ONE, TWO = tir.Evaluate(1), tir.Evaluate(2)


@pytest.mark.parametrize(
    ("left", "right", "paths"),
    [
        (
            tir.SeqStmt([ONE, TWO]),
            tir.SeqStmt([ONE, TWO, ONE]),
            ("<root>.seq[<missing element #2>]", "<root>.seq[2]"),
        ),
        (
            tir.SeqStmt([ONE, TWO, ONE]),
            tir.SeqStmt([ONE, TWO]),
            ("<root>.seq[2]", "<root>.seq[<missing element #2>]"),
        ),
        # the first difference, not the number of items
        (
            tir.SeqStmt([ONE, TWO, ONE]),
            tir.SeqStmt([ONE, ONE]),
            ("<root>.seq[1].value.value", "<root>.seq[1].value.value"),
        ),
        (
            tir.PrimFunc([X], ONE),
            tir.PrimFunc([X, Y], ONE),
            ("<root>.params[<missing element #1>]", "<root>.params[1]"),
        ),
        (
            tir.PrimFunc([X], ONE).with_attr("k", 1),
            tir.PrimFunc([X], ONE),
            ('<root>.attrs["k"]', "<root>.attrs[<missing entry>]"),
        ),
        (
            IRModule({"a": tir.PrimFunc([], ONE)}),
            IRModule({"a": tir.PrimFunc([], ONE), "b": tir.PrimFunc([], ONE)}),
            ("<root>.functions[<missing entry>]", '<root>.functions["b"]'),
        ),
        ((1, DataType("int8")), (1, DataType("int16")), ("<root>[1]", "<root>[1]")),
    ],
)
def test_differences(left, right, paths):
    found = get_first_structural_mismatch(left, right)
    assert tuple(map(str, found)) == paths
    assert (str(found.lhs_path), str(found.rhs_path)) == paths
