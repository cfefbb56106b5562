"""Nodes are frozen, and Tilesmith itself never asks for the truth of an `==` of expressions."""

import pytest

from tilesmith import relax, tir
from tilesmith.ir import GlobalVar, IRModule, Node, Range
from tilesmith.ir.node import child
from tilesmith.support.errors import InternalError
from tilesmith.support.knobs import knobs

i, j = tir.Var("i", "int32"), tir.Var("j", "int32")
NODES = [
    (i + j, "dtype", "int64"),
    (tir.LT(i, j), "dtype", "int32"),
    (tir.Call("int32", "tir.clz", [1]), "args", ()),
    (Range(3), "extent", j),
    (tir.For(i, 0, 4, tir.ForKind.SERIAL, tir.Evaluate(0)), "min", j),
    (GlobalVar("f"), "name_hint", "g"),
    (GlobalVar("f"), "struct_info", None),
    (relax.Var("x", relax.TensorStructInfo((3,), "float32")), "struct_info", None),
]


@pytest.mark.parametrize("node, name, value", NODES)
def test_fields_are_set_once(node, name, value):
    before = getattr(node, name)
    with pytest.raises(AttributeError):
        setattr(node, name, value)
    with pytest.raises(AttributeError):
        delattr(node, name)
    assert getattr(node, name) is before


def test_new_classes_are_frozen_too():
    class Pair(Node, key="test.CheckedPair"):
        left: Node = child()

    pair = Pair(i)
    with pytest.raises(AttributeError, match="Pair.left cannot be changed"):
        pair.left = j


def test_a_module_may_be_changed_by_its_owner():
    module = IRModule({"f": tir.PrimFunc([], tir.Evaluate(0))})
    module.attrs = {"a": 1}
    assert module.attrs == {"a": 1}


def test_a_module_describes_its_names():
    name = GlobalVar("f")
    assert name.struct_info is None
    x = relax.Var("x", relax.TensorStructInfo((3,), "float32"))
    IRModule({name: relax.Function([x], x)})
    assert isinstance(name.struct_info, relax.FuncStructInfo)


def asked_from(module_name, question):
    scope = {"__name__": module_name, "i": i, "j": j}
    exec(f"def ask():\n    return bool({question})\n", scope)
    return scope["ask"]()


@pytest.mark.parametrize("question", ["i == j", "i != j", "i in [j]", "(i, 1) == (j, 1)"])
def test_truth_of_equality_is_for_users(question):
    wanted = "!=" in question
    assert asked_from("user_program", question) == wanted
    with pytest.raises(InternalError, match="tilesmith.tir.stmt:2 asks for the truth"):
        asked_from("tilesmith.tir.stmt", question)
    with knobs.override(check_inside=False):
        assert asked_from("tilesmith.tir.stmt", question) == wanted


def test_what_folds_has_a_truth_everywhere():
    assert asked_from("tilesmith.tir.stmt", "(i * 0) == 0")
    assert not asked_from("tilesmith.tir.stmt", "(i * 0) == 1")
