"""Answers questions about nodes: what occurs below them, which variables they mention, what they
call.

All of them walk the children of nodes as ``Node`` declares them: operands, bodies, the regions that
a block declares. Not visited are definitions (the variable of a loop, an allocated buffer),
annotations and attributes, types, and the shape and pointer of a buffer or tensor that is *used*:
such a use is a leaf. Walks go in the order of the text, parents before children, and keep their own
stack: programs may be as deep as they like. Unless a function says otherwise, a node that two
parents share occurs twice.

``root`` is a node or a sequence of nodes. Queries about statements and buffers are in
``tir.queries``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import TypeGuard, TypeVar

from tilesmith.ir.expr import GE, LE, LT, And, Call, IntImm, PrimExpr, Var
from tilesmith.ir.node import Node
from tilesmith.ir.op import Op
from tilesmith.ir.structural import structural_equal

__all__ = [
    "any_node", "called_name", "calls", "checked_size", "conjuncts", "is_call", "mentions", "nodes",
    "variables", "walk",
]  # fmt: skip

Kind = TypeVar("Kind", bound=Node)


def walk_stack(root: Node | Sequence[Node]) -> list[Node]:
    """Return the stack with which a walk from ``root`` begins."""
    return [root] if isinstance(root, Node) else list(root)[::-1]


def walk(
    root: Node | Sequence[Node], enter: Callable[[Node], bool] | None = None
) -> Iterator[Node]:
    """Yield ``root`` and all nodes below it.

    Nodes below a node for which ``enter`` is false are left out; the node itself is not.
    """
    stack = walk_stack(root)
    pop = stack.pop
    while stack:
        node = pop()
        yield node
        if enter is None or enter(node):
            node.push_children(stack)


# Class that was asked for → class of a node → whether it is a subclass. ``isinstance`` asks the
# metaclass of nodes each time, which costs more than the rest of the walk.
_SUBCLASSES: dict[type, dict[type, bool]] = {}


def nodes(
    root: Node | Sequence[Node], kind: type[Kind], enter: Callable[[Node], bool] | None = None
) -> Iterator[Kind]:
    """Yield the nodes of a class, or of its subclasses, as ``walk`` finds them."""
    stack = walk_stack(root)
    pop = stack.pop
    wanted = _SUBCLASSES.get(kind)
    if wanted is None:
        wanted = _SUBCLASSES[kind] = {}
    while stack:
        node = pop()
        cls = node.__class__
        if wanted[cls] if cls in wanted else wanted.setdefault(cls, issubclass(cls, kind)):
            yield node  # type: ignore[misc]
        if enter is None or enter(node):
            node.push_children(stack)


def any_node(
    root: Node | Sequence[Node],
    predicate: Callable[[Node], bool],
    enter: Callable[[Node], bool] | None = None,
) -> bool:
    """True if ``predicate`` holds for a node of the walk; shared nodes are asked once.

    Do not write ``any(calls(…))`` instead: the truth of an expression does not say that there is
    one.
    """
    stack = walk_stack(root)
    pop = stack.pop
    seen: set[int] = set()
    while stack:
        node = pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if predicate(node):
            return True
        if enter is None or enter(node):
            node.push_children(stack)
    return False


def variables(root: Node | Sequence[Node]) -> list[Var]:
    """Return the variables that occur as expressions, each once, in order of their first
    occurrence.

    Variables bound below ``root`` count; pointers and sizes of buffers do not. ``free_variables``
    in ``tir.queries`` lists only the free ones.
    """
    found: dict[Var, None] = {}
    stack = walk_stack(root)
    pop = stack.pop
    seen: set[int] = set()
    while stack:
        node = pop()
        if node.is_variable and isinstance(node, Var):
            found[node] = None
        elif id(node) not in seen:
            seen.add(id(node))
            node.push_children(stack)
    return list(found)


def mentions(root: Node | Sequence[Node], wanted: Container[Var]) -> bool:
    """True if one of some variables occurs as an expression; accesses through a buffer do not
    mention its pointer (``tir.queries.uses_variable`` counts them).
    """
    stack = walk_stack(root)
    pop = stack.pop
    seen: set[int] = set()
    while stack:
        node = pop()
        if node.is_variable and isinstance(node, Var):
            if node in wanted:
                return True
        elif id(node) not in seen:
            seen.add(id(node))
            node.push_children(stack)
    return False


class _Operators(dict[str, Op]):
    """A set of operators given by name, looked up in the registry at first use."""

    def __missing__(self, name: str) -> Op:
        found = self[name] = Op.get(name)
        return found


_NAMED = _Operators()


def is_call(node: object, *names: str) -> TypeGuard[Call]:
    """True if a node calls one of some operators: ``is_call(expr, "tir.likely")``.

    An unknown name is an error that suggests the nearest one.
    """
    if node.__class__ is not Call:
        return False
    op = node.op
    for name in names:
        if op is _NAMED[name]:
            return True
    return False


def called_name(node: object) -> str:
    """Return the name of the operator that a node calls, or "" if it does not call one (a function
    of the module is not an operator).
    """
    if node.__class__ is Call:
        op = node.op
        if op.__class__ is Op:
            return op.name
    return ""


def conjuncts(condition: PrimExpr, through_likely: bool = False) -> list[PrimExpr]:
    """Return the operands of a conjunction; none for the constant True.

    ``through_likely``: the operands of a conjunction within ``T.likely(...)``, without this hint.
    """
    if isinstance(condition, And):
        left = conjuncts(condition.a, through_likely)
        return left + conjuncts(condition.b, through_likely)
    if through_likely and is_call(condition, "tir.likely"):
        return conjuncts(condition.args[0], through_likely)
    if isinstance(condition, IntImm) and condition.value == 1:
        return []
    return [condition]


def checked_size(value: PrimExpr, condition: PrimExpr) -> PrimExpr | None:
    """Return ``size`` if a condition is the bounds check ``0 <= value and value < size``, else
    None.
    """
    if not isinstance(condition, And):
        return None
    above, below = condition.a, condition.b
    if isinstance(above, GE):
        first, zero = above.a, above.b
    elif isinstance(above, LE):
        zero, first = above.a, above.b
    else:
        return None
    if not (isinstance(zero, IntImm) and zero.value == 0 and isinstance(below, LT)):
        return None
    is_same = structural_equal(first, value) and structural_equal(below.a, value)
    return below.b if is_same else None


def calls(root: Node | Sequence[Node], *names: str) -> Iterator[Call]:
    """Yield the calls of some operators, or all calls if no name is given."""
    wanted = {id(_NAMED[name]) for name in names}
    for call in nodes(root, Call):
        if not wanted or id(call.op) in wanted:
            yield call
