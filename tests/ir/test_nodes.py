"""Methods that node classes get from their declared fields."""

from tilesmith.ir import IntImm, Node
from tilesmith.ir.node import child


class Inner(Node, key="tests.Inner"):
    """A node with a child."""

    first: Node = child()


class Outer(Inner, key="tests.Outer"):
    """A subclass with one more child."""

    second: Node = child()


class Same(Inner, key="tests.Same"):
    """A subclass with the same fields."""


def test_a_subclass_has_methods_of_its_own():
    """Also after its base class has used its own: those know neither field nor class."""
    one, two, three = IntImm("int32", 1), IntImm("int32", 2), IntImm("int32", 3)
    assert Inner(one).children() == [one]
    assert Inner(one).map_children(lambda _: three).first is three
    stack: list = []
    Inner(one).push_children(stack)
    assert stack == [one]

    outer = Outer(one, two)
    assert outer.children() == [one, two]
    changed = outer.map_children(lambda node: three if node is two else node)
    assert type(changed) is Outer and changed.first is one and changed.second is three
    stack.clear()
    outer.push_children(stack)
    assert stack == [two, one]
    assert type(Same(one).map_children(lambda _: two)) is Same
