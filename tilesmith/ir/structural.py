"""Compares nodes by structure, whatever their variables are called.

Equality (and the hash beside it) is derived from the roles of the fields (``ir/node.py``). A
``defines`` field pairs the variable, buffer or size that is bound on the left with the one on the
right; from then on a use of the one equals a use of the other, and of nothing else. With ``scope``
the pairing holds in that field only. Free variables are equal if they are one object; with
``map_free_vars`` they are paired at their first use. A buffer that is not declared is compared by
its fields.

Inside a part of a function that is compared on its own (a class with ``is_program_part``: a
statement), the declarations of its buffers may be missing on both sides. Such a buffer is paired at
its first use, and with it the variables of its data, shape, strides and offset.

A class may set

* ``structural_order``: names of its fields in the order in which they have to be looked at, where
  it differs from the order of declaration (definitions before their uses);
* ``structural_binds``: names of child fields in which variables that occur first are bound;
* ``is_variable``: instances are variables;
* ``is_program_part``: buffers that are declared outside of an instance are paired, see above;
* ``structural_key``: a method that gives a plain value to be compared instead of the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.ir.module import IRModule
from tilesmith.ir.node import COMPARISON, Node
from tilesmith.ir.object_path import ObjectPath, ObjectPathPair, key_text
from tilesmith.ir.structural_hash import structural_hash
from tilesmith.ir.structural_plan import (
    PLANS,
    Plan,
    as_array,
    definition_steps,
    expression_of,
    plan_of,
)  # fmt: skip
from tilesmith.runtime.dtype import ScalableLanes
from tilesmith.support.errors import StructuralMismatchError
from tilesmith.support.recursion import deep_recursion

__all__ = [
    "assert_structural_equal", "definition_steps", "get_first_structural_mismatch",
    "structural_equal", "structural_hash",
]  # fmt: skip

CONTEXT_LINES = 20
"""Lines shown before and after a difference."""


class _Comparison:
    """One comparison of two nodes. After a failure ``trail`` holds the path to the difference, from
    its end to its beginning, and ``reason`` what differs there. ``finds_path``: of sequences of
    different length the items are compared all the same, to find the first difference.
    """

    def __init__(self, map_free_vars: bool, pairs_buffers: bool, finds_path: bool) -> None:
        self.finds_path = finds_path
        self.map_free_vars = map_free_vars
        self.pairs_buffers = pairs_buffers  # those that nobody declared
        self.pairs_by_use = map_free_vars or pairs_buffers
        self.partner: dict[int, Any] = {}  # of a definition on the left, by its id
        self.taken: dict[int, Any] = {}  # of a definition on the right, by its id
        self.equal: dict[int, Any] = {}  # left node, by its id, to the right node found equal
        self.binding = False  # inside a definition: variables that occur first are bound
        self.renamed = 0  # pairs of different objects
        self.trail: list[tuple[str, Any]] = []
        self.reason = ""

    def fail(self, reason: str) -> bool:
        if not self.reason:
            self.reason = reason
        return False

    def items(self, this: Any, other: Any, compare: Callable[[Any, Any], bool], what: str) -> bool:
        """Compare two sequences item by item."""
        count = len(this)
        if count != len(other):
            if not self.finds_path:
                return False
            count = min(count, len(other))
        for index in range(count):
            if not compare(this[index], other[index]):
                self.trail.append(("index", index))
                return False
        if len(this) == len(other):
            return True
        self.trail.append(("beyond left" if count == len(this) else "beyond right", count))
        return self.fail(f"{len(this)} and {len(other)} {what}")

    # Pairs of definitions.

    def pair(self, left: Any, right: Any) -> None:
        old = self.partner.get(id(left))
        if old is right:
            return
        if old is not None or id(right) in self.taken:
            # Another loop over the same variable: conclusions from the old pairing no longer hold.
            self.unpair(left, right)
            self.equal.clear()
        self.partner[id(left)] = right
        self.taken[id(right)] = left
        if left is not right:
            self.renamed += 1

    def unpair(self, left: Any, right: Any) -> None:
        old_right = self.partner.pop(id(left), None)
        if old_right is not None:
            self.taken.pop(id(old_right), None)
            self.renamed -= old_right is not left
        old_left = self.taken.pop(id(right), None)
        if old_left is not None:
            self.partner.pop(id(old_left), None)
            self.renamed -= old_left is not right

    def restore(self, saved: list[tuple[Any, Any, Any, Any]]) -> None:
        """Undo the pairings of a scope; outer pairings of the same objects are restored."""
        for left, right, old_right, old_left in reversed(saved):
            if old_right is right:
                continue
            self.unpair(left, right)
            if old_right is not None:
                self.pair(left, old_right)
            if old_left is not None and old_left is not left:
                self.pair(old_left, right)

    # Nodes.

    def node(self, left: Any, right: Any) -> bool:
        if left is right and not self.renamed and not self.pairs_by_use and not self.binding:
            return True
        cls = left.__class__
        if cls is not right.__class__:
            return self.fail(f"{_class_name(left)} and {_class_name(right)}")
        plan = PLANS.get(cls) or plan_of(cls)
        kind = plan.kind
        if kind == "variable":
            return self.variable(left, right, plan)
        if kind == "leaf":
            return self.leaf(left, right, plan)
        if kind == "fields":
            if self.equal.get(id(left)) is right:
                return True
            if not self.fields(left, right, plan):
                return False
            self.equal[id(left)] = right
            return True
        if kind == "key":
            return self.data(left.structural_key(), right.structural_key())
        return self.module(left, right) if kind == "module" else self.data(left, right)

    def fields(self, left: Any, right: Any, plan: Plan) -> bool:
        saved: list[tuple[Any, Any, Any, Any]] | None = None
        for action, name, shape, binds in plan.steps:
            if action == "undo":
                self.restore(saved or [])
                break
            this, other = getattr(left, name), getattr(right, name)
            if action == "child":
                if this is other and this is None:
                    continue
                if binds and not self.binding:
                    self.binding = True
                    same = self.children(this, other, shape)
                    self.binding = False
                else:
                    same = self.children(this, other, shape)
            elif action == "data":
                same = self.data(this, other)
            else:
                if saved is None:
                    saved = []
                same = self.definitions(this, other, shape, saved)
            if not same:
                self.trail.append(("attr", name))
                return False
        return True

    def children(self, this: Any, other: Any, shape: str) -> bool:
        if shape == "one":
            return self.node(this, other)
        if shape == "tuple":
            return self.items(this, other, self.node, "items")
        if shape == "mapping":
            return self.mapping(this, other)
        if this is None or other is None:
            return self.fail("only one side has this")
        return self.node(this, other)

    def variable(self, left: Any, right: Any, plan: Plan) -> bool:
        partner = self.partner.get(id(left))
        if partner is not None:
            return partner is right or self.fail("variables that are bound in different places")
        if id(right) in self.taken:
            return self.fail("variables that are bound in different places")
        if self.binding or self.map_free_vars:
            if not self.fields(left, right, plan):
                return False
            self.pair(left, right)
            return True
        return left is right or self.fail("different variables that are not bound here")

    def leaf(self, left: Any, right: Any, plan: Plan) -> bool:
        partner = self.partner.get(id(left))
        if partner is not None:
            return partner is right or self.fail("buffers that are declared in different places")
        if id(right) in self.taken:
            return self.fail("buffers that are declared in different places")
        binding, self.binding = self.binding, self.pairs_buffers
        same = self.fields(left, right, plan)
        self.binding = binding
        if same:
            self.pair(left, right)
        return same

    def definitions(self, this: Any, other: Any, shape: str, saved: list[Any]) -> bool:
        if shape == "one":
            return self.definition(this, other, saved)
        if shape == "tuple":
            return self.items(this, other, lambda a, b: self.definition(a, b, saved), "definitions")
        if shape == "mapping":
            if len(this) != len(other):
                return self.fail(f"{len(this)} and {len(other)} definitions")
            for key, value in this.items():
                partner = other.get(self.partner.get(id(key), key))
                if partner is None:
                    self.trail.append(("absent right", key))
                    return self.fail(f"the right side lacks {key_text(key)}")
                if not self.definition(value, partner, saved):
                    self.trail.append(("key", key))
                    return False
            return True
        if this is None or other is None:
            return this is other or self.fail("only one side has this definition")
        return self.definition(this, other, saved)

    def definition(self, left: Any, right: Any, saved: list[Any]) -> bool:
        if left.__class__ is not right.__class__:
            return self.fail(f"{_class_name(left)} and {_class_name(right)}")
        plan = plan_of(left.__class__)
        if plan.kind not in ("variable", "leaf"):
            return self.node(left, right)
        binding, self.binding = self.binding, True
        same = self.fields(left, right, plan)
        self.binding = binding
        if not same:
            return False
        saved.append((left, right, self.partner.get(id(left)), self.taken.get(id(right))))
        self.pair(left, right)
        return True

    def module(self, left: IRModule, right: IRModule) -> bool:
        names = {variable.name_hint: function for variable, function in left.functions.items()}
        others = {variable.name_hint: function for variable, function in right.functions.items()}
        if set(names) != set(others):
            only = [f"'{name}' on the left" for name in names if name not in others]
            only += [f"'{name}' on the right" for name in others if name not in names]
            self.trail += [_one_sided(names, others), ("attr", "functions")]
            return self.fail("functions on one side only: " + ", ".join(only))
        for name, function in names.items():
            if not self.node(function, others[name]):
                self.trail += [("key", name), ("attr", "functions")]
                return False
        for name in ("attrs", "global_infos", "type_definitions"):
            if not self.data(getattr(left, name), getattr(right, name)):
                self.trail.append(("attr", name))
                return False
        return True

    # Plain values.

    def mapping(self, this: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
        if this.keys() != other.keys():
            self.trail.append(_one_sided(this, other))
            return self.fail(f"keys {sorted(map(str, this))} and {sorted(map(str, other))}")
        for key, value in this.items():
            if not self.data(value, other[key]):
                self.trail.append(("key", key))
                return False
        return True

    def data(self, this: Any, other: Any) -> bool:
        if this is other and not isinstance(this, (Node, tuple, Mapping)):
            return True
        if isinstance(this, Node) and isinstance(other, Node):
            return self.node(this, other)
        if isinstance(this, Mapping) and isinstance(other, Mapping):
            return self.mapping(this, other)
        if isinstance(this, (tuple, list)) and isinstance(other, (tuple, list)):
            return self.items(this, other, self.data, "items")
        if _plain_equal(this, other):
            return True
        return self.fail(f"{_value_text(this)} and {_value_text(other)}")


def _one_sided(this: Mapping[Any, Any], other: Mapping[Any, Any]) -> tuple[str, Any]:
    """Return the step to the first key that only one of two mappings has."""
    for key in this:
        if key not in other:
            return "absent right", key
    return "absent left", next(key for key in other if key not in this)


def _class_name(value: Any) -> str:
    return type(value).__name__


def _value_text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _plain_equal(this: Any, other: Any) -> bool:
    if isinstance(this, (str, bytes)):
        return isinstance(other, (str, bytes)) and this == other
    if isinstance(this, bool) or isinstance(other, bool):
        return this is other
    if isinstance(this, float) or isinstance(other, float):
        if not (isinstance(this, float) and isinstance(other, float)):
            return False
        return this.hex() == other.hex()  # tells -0.0 from 0.0, and NaN equals NaN
    if isinstance(this, int):
        same = isinstance(this, ScalableLanes) is isinstance(other, ScalableLanes)
        return same and isinstance(other, int) and int(this) == int(other)
    if this is None or other is None:
        return this is other
    array, other_array = as_array(this), as_array(other)
    if array is not None or other_array is not None:
        return _arrays_equal(array, other_array)
    if hasattr(this, "structural_key") and type(this) is type(other):
        return _plain_equal(this.structural_key(), other.structural_key())
    return type(this) is type(other) and bool(this == other)


def _arrays_equal(array: Any, other: Any) -> bool:
    if array is None or other is None:
        return False
    if array.dtype != other.dtype or array.shape != other.shape:
        return False
    return bool(array.tobytes() == other.tobytes())


def _compare(
    lhs: Any, rhs: Any, map_free_vars: bool, finds_path: bool = True
) -> _Comparison | None:
    """Compare both sides; return None if they are equal, else the comparison that failed."""
    lhs, rhs = expression_of(lhs), expression_of(rhs)
    is_part = isinstance(lhs, Node) and lhs.is_program_part
    comparison = _Comparison(map_free_vars, is_part, finds_path)
    with deep_recursion():
        return None if comparison.data(lhs, rhs) else comparison


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """True if two nodes (or tuples and mappings of nodes) are equal up to renaming; see the module
    docstring.
    """
    if lhs is rhs and isinstance(lhs, Node) and not map_free_vars:
        return True
    return _compare(lhs, rhs, map_free_vars, finds_path=False) is None


def _paths(trail: list[tuple[str, Any]]) -> ObjectPathPair:
    """Return the paths of a trail, which begins at the difference."""
    root = ObjectPath.root()
    left: ObjectPath = root
    right: ObjectPath = root
    for kind, step in reversed(trail):
        what, _, side = kind.partition(" ")
        left = _further(left, what, step, side == "left")
        right = _further(right, what, step, side == "right")
    return ObjectPathPair(left, right)


def _further(path: ObjectPath, kind: str, step: Any, is_missing: bool) -> ObjectPath:
    if kind == "attr":
        return path.attr(step)
    if kind in ("index", "beyond"):
        return path.missing_array_element(step) if is_missing else path.array_index(step)
    return path.missing_map_entry() if is_missing else path.map_value(step)


def get_first_structural_mismatch(
    lhs: Any, rhs: Any, map_free_vars: bool = False
) -> ObjectPathPair | None:
    """Return the paths to the first difference on the left and on the right, or None."""
    failed = _compare(lhs, rhs, map_free_vars)
    return None if failed is None else _paths(failed.trail)


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise StructuralMismatchError unless both are structurally equal. The error has the path to
    the first difference and shows both sides as script.
    """
    failed = _compare(lhs, rhs, map_free_vars)
    if failed is None:
        return
    left, right = _paths(failed.trail)
    raise StructuralMismatchError(
        f"StructuralEqual check failed, caused by lhs at {left}:\n{_side(lhs, left)}\n"
        f"and rhs at {right}:\n{_side(rhs, right)}",
        notes=(f"the difference: {failed.reason}",),
    )


def _side(root: Any, path: ObjectPath) -> str:
    """Print one side as script with the place of the difference underlined."""
    if not isinstance(root, Node):
        return _value_text(root)
    return root.script(path_to_underline=[path], num_context_lines=CONTEXT_LINES)


COMPARISON.register("equal", structural_equal)
COMPARISON.register("hash", structural_hash)
