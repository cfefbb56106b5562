"""The queries about nodes: walks, variables, calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilesmith.relax
import tilesmith.te
import tilesmith.tir  # noqa: F401  (all classes of nodes)
from tilesmith.ir import (
    Add,
    Call,
    GlobalVar,
    IntImm,
    Let,
    Mul,
    PrimExpr,
    Range,
    Select,
    SizeVar,
    Var,
    const,
)
from tilesmith.ir.node import _CLASSES, Role
from tilesmith.ir.queries import (
    any_node,
    called_name,
    calls,
    is_call,
    mentions,
    nodes,
    variables,
    walk,
)
from tilesmith.support.errors import UnknownNameError

DEPTH = 100_000
NAMES = [Var(name, "int32") for name in "abcd"] + [SizeVar("n", "int32")]


def extended(children):
    pair = st.tuples(children, children)
    return st.one_of(
        pair.map(lambda ab: Add(*ab)),
        pair.map(lambda ab: Mul(*ab)),
        st.tuples(st.sampled_from(NAMES[:4]), children, children).map(lambda parts: Let(*parts)),
        st.tuples(children, children, children).map(
            lambda abc: Select(abc[0] < abc[1], abc[1], abc[2])
        ),
        children.map(lambda a: Call("int32", "tir.likely", [a])),
        pair.map(lambda ab: Call("int32", "tir.shift_left", ab)),
    )


EXPRESSIONS = st.recursive(
    st.one_of(st.sampled_from(NAMES), st.integers(0, 9).map(lambda v: IntImm("int32", v))),
    extended,
    max_leaves=20,
)


def listed(expr):
    """All nodes, parents first, by plain recursion."""
    return [expr, *[node for child in expr.children() for node in listed(child)]]


@given(EXPRESSIONS)
def test_walks_agree_with_plain_recursion(expr):
    expected = listed(expr)
    assert all(a is b for a, b in zip(walk(expr), expected, strict=True))
    for kind in (Var, Call, Add, PrimExpr):
        wanted = [node for node in expected if isinstance(node, kind)]
        assert all(a is b for a, b in zip(nodes(expr, kind), wanted, strict=True))
    used = list(dict.fromkeys(node for node in expected if isinstance(node, Var)))
    assert all(a is b for a, b in zip(variables(expr), used, strict=True))
    for name in NAMES:
        assert mentions(expr, {name}) == any(node is name for node in expected)
    likely = [node for node in expected if called_name(node) == "tir.likely"]
    assert all(a is b for a, b in zip(calls(expr, "tir.likely"), likely, strict=True))
    assert all(is_call(node, "tir.likely", "tir.exp") for node in likely)
    assert any_node(expr, lambda node: is_call(node, "tir.likely")) == bool(likely)


def test_a_sequence_is_walked_in_order():
    a, b = NAMES[:2]
    assert [node.name for node in nodes((b + 1, a + b), Var)] == ["b", "a", "b"]
    assert [variable.name for variable in variables([b + 1, a + b])] == ["b", "a"]
    assert not any_node((), lambda node: True)


def test_definitions_are_not_visited():
    a, b = NAMES[:2]
    assert variables(Let(a, b, const(1, "int32"))) == [b]
    assert not mentions(Let(a, b, const(1, "int32")), {a})


def test_enter_leaves_out_what_lies_below():
    a, b, c = NAMES[:3]
    expr = a + Let(b, c, b * 2)
    seen = list(walk(expr, enter=lambda node: not isinstance(node, Let)))
    assert [type(node) for node in seen] == [Add, Var, Let]
    assert [v.name for v in nodes(expr, Var, enter=lambda n: not isinstance(n, Let))] == ["a"]
    assert not any_node(expr, lambda n: n is c, enter=lambda n: not isinstance(n, Let))


def test_a_shared_node_occurs_twice_and_is_asked_once():
    shared = NAMES[0] + NAMES[1]
    asked = []
    assert len(list(nodes(shared * shared, Add))) == 2
    assert not any_node(shared * shared, lambda node: bool(asked.append(node)))
    assert sum(node is shared for node in asked) == 1


@pytest.mark.parametrize("share", [False, True])
def test_deep_expressions(share):
    a, b = NAMES[:2]
    expr = b
    for _ in range(DEPTH if not share else 60):
        expr = Add(expr, expr if share else a)
    assert variables(expr) == [b] if share else [b, a]
    assert mentions(expr, {b}) and not mentions(expr, {NAMES[2]})
    assert not any_node(expr, lambda node: isinstance(node, Call))
    if not share:
        assert sum(1 for _ in walk(expr)) == 2 * DEPTH + 1
        assert list(calls(expr)) == []


def test_calls_are_told_by_the_operator():
    a = NAMES[0]
    likely, function = Call("bool", "tir.likely", [a < 1]), Call("int32", GlobalVar("f"), [a])
    assert is_call(likely, "tir.likely") and is_call(likely, "tir.exp", "tir.likely")
    assert not is_call(likely, "tir.exp") and not is_call(likely)
    for other in (function, a, None, "tir.likely"):
        assert not is_call(other, "tir.likely") and called_name(other) == ""
    assert called_name(likely) == "tir.likely"
    assert list(calls(Select(likely, function, a))) == [likely, function]


def test_an_unknown_operator_is_an_error():
    likely = Call("bool", "tir.likely", [NAMES[0] < 1])
    with pytest.raises(UnknownNameError, match="tir.likley"):
        is_call(likely, "tir.likley")
    with pytest.raises(UnknownNameError):
        list(calls(likely, "tir.likley"))


def made(cls):
    """An instance with a node in each field of children, without the constructor's checks."""
    node = cls.__new__(cls)
    for field in cls.node_fields:
        if field.role is Role.CHILD:
            parts = [Var(f"{field.name}{i}", "int32") for i in range(2)]
            value = {"tuple": tuple(parts), "mapping": dict(zip("xy", parts))}
            setattr(node, field.name, value.get(field.shape, parts[0]))
    return node


def test_walks_reach_all_children_of_each_class():
    for key, cls in sorted(_CLASSES.items()):
        if not key.startswith(("tir.", "ir.", "relax.", "te.")) or cls.__subclasses__():
            continue
        node, stack = made(cls), []
        node.push_children(stack)
        if cls.is_leaf or cls.is_atom:
            assert not stack, key
        else:
            order, expected = stack[::-1], node.children()
            if hasattr(cls, "structural_order"):
                order, expected = set(order), set(expected)
            assert order == expected, key


def test_a_range_is_a_root_like_any_other():
    a, b = NAMES[:2]
    assert variables(Range.from_min_extent(a, b)) == [a, b]
