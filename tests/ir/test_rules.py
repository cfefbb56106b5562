"""Tables of rules by class and by operator."""

import pytest

from tilesmith.ir import Add, BinaryOp, Node, PrimExpr, Var, const
from tilesmith.ir.rules import NodeRules, OperatorRules


def test_a_class_has_the_rule_of_its_nearest_base_class():
    rules = NodeRules("names", {PrimExpr: "expression"})
    assert rules[Add] == rules[Var] == "expression"
    rules.handles(BinaryOp)("operation")
    assert rules[Add] == "operation" and rules[Var] == "expression"
    rules.handles(Add)("sum")
    assert rules[Add] == "sum"


def test_a_rule_is_entered_for_several_classes_and_stays_a_function():
    rules = NodeRules("values")

    @rules.handles(Add, Var)
    def first(node):
        return node.dtype

    assert rules[Add] is rules[Var] is first
    assert rules[Var](Var("x", "int32")) == first(const(1, "int32")) == "int32"


def test_a_class_without_a_rule_is_named_with_the_table():
    rules = NodeRules("C code of expressions", {BinaryOp: "operation"})
    with pytest.raises(TypeError, match=r"C code of expressions: no rule for Node"):
        rules[Node]
    assert Node not in rules and rules.get(Node) is None


def test_operators_are_entered_by_their_short_names():
    rules = OperatorRules()
    rules.handles("likely", "assume")("hint")
    assert rules == {"tir.likely": "hint", "tir.assume": "hint"}
    copied = OperatorRules(rules)
    copied.handles("likely")("other")
    assert rules["tir.likely"] == "hint" and copied["tir.assume"] == "hint"
