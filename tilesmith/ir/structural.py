"""Equality and hash of what nodes say, whatever their variables are called.

Both are derived from the roles of the fields (``ir/node.py``). A ``defines`` field pairs the
variable, buffer or size that is bound on the left with the one on the right; from then on a use of
the one equals a use of the other, and of nothing else. With ``scope`` the pairing holds in that
field only. Variables that nobody bound are equal if they are one object; with ``map_free_vars``
they are paired at their first use. A buffer that nobody declared is compared by its fields.

A class may set

* ``structural_order``: names of its fields in the order in which they have to be looked at, where
  it differs from the order of declaration (definitions before their uses);
* ``structural_binds``: names of child fields in which variables that occur first are bound;
* ``is_variable``: instances are variables;
* ``structural_key``: a method that gives a plain value to be compared instead of the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from hashlib import blake2b
from typing import Any, NamedTuple

from tilesmith.ir.module import IRModule
from tilesmith.ir.node import Node, Role
from tilesmith.support.errors import StructuralMismatchError, TypeMismatchError
from tilesmith.support.recursion import deep_recursion

__all__ = [
    "ObjectPath", "assert_structural_equal", "get_first_structural_mismatch", "structural_equal",
    "structural_hash",
]  # fmt: skip


CONTEXT_LINES = 20
"""Lines shown before and after a difference."""


class ObjectPath(tuple):
    """The way from a node to something inside it: ``<root>.body.seq[0]``."""

    __slots__ = ()

    @staticmethod
    def root(name: Any = None) -> ObjectPath:
        """The way that stays where it is."""
        return ObjectPath()

    def attr(self, name: str) -> ObjectPath:
        """Further into a field."""
        return ObjectPath((*self, ("attr", name)))

    def array_index(self, index: int) -> ObjectPath:
        """Further to an item of a sequence."""
        return ObjectPath((*self, ("index", index)))

    def map_value(self, key: Any) -> ObjectPath:
        """Further to a value of a mapping."""
        return ObjectPath((*self, ("key", key)))

    @property
    def parent(self) -> ObjectPath:
        """The way without its last step."""
        return ObjectPath(self[:-1])

    def resolve(self, root: Any) -> Any:
        """What lies at the end of the way; None where it is missing there."""
        current = root
        for kind, step in self:
            try:
                current = getattr(current, step) if kind == "attr" else current[step]
            except (AttributeError, KeyError, IndexError, TypeError):
                return None
        return current

    def __str__(self) -> str:
        text = "<root>"
        for kind, step in self:
            if kind == "attr":
                text += f".{step}"
            elif kind == "index":
                text += f"[{step}]"
            else:
                text += f"[{_key_text(step)}]"
        return text

    __repr__ = __str__


def _key_text(key: Any) -> str:
    name = getattr(key, "name_hint", None) or getattr(key, "name", None)
    return f'"{name if isinstance(name, str) else key}"'


class Step(NamedTuple):
    """How one field is looked at: ``action`` is "define", "child", "data" or "undo"."""

    action: str
    name: str
    shape: str
    binds: bool


class Plan(NamedTuple):
    """How a class is compared and hashed."""

    kind: str  # "variable", "leaf", "key", "module", "fields" or "data"
    steps: tuple[Step, ...]
    tag: int


_PLANS: dict[type, Plan] = {}


def _plan(cls: type) -> Plan:
    found = _PLANS.get(cls)
    if found is None:
        found = _PLANS[cls] = _make_plan(cls)
    return found


def _make_plan(cls: Any) -> Plan:
    if not issubclass(cls, Node):
        return Plan("data", (), 0)
    if cls.is_variable:
        kind = "variable"
    elif cls.is_leaf:
        kind = "leaf"
    elif hasattr(cls, "structural_key"):
        kind = "key"
    elif issubclass(cls, IRModule):
        kind = "module"
    else:
        kind = "fields"
    fields = [field for field in cls._fields if field.role is not Role.NOTE]
    order = getattr(cls, "structural_order", None)
    if order is not None:
        by_name = {field.name: field for field in fields}
        missing = set(by_name) ^ set(order)
        if missing:
            raise TypeError(f"{cls.__name__}.structural_order and the fields differ: {missing}")
        fields = [by_name[name] for name in order]
    else:
        fields = _definitions_first(fields)
    binds = getattr(cls, "structural_binds", ())
    steps = []
    for field in fields:
        action = {Role.CHILD: "child", Role.DATA: "data", Role.DEFINES: "define"}[field.role]
        steps.append(Step(action, field.name, field.shape, field.name in binds))
    if any(field.role is Role.DEFINES and field.scope is not None for field in fields):
        steps.append(Step("undo", "", "", False))
    return Plan(kind, tuple(steps), _text_hash(cls._key))


def definition_steps(cls: type) -> tuple[Step, ...]:
    """The fields of a node class (notes left out) in the order in which definitions come before
    their uses; ``action`` "undo" ends the scopes."""
    return _plan(cls).steps


def _definitions_first(fields: list) -> list:
    """Definitions without scope, then what lies outside the scopes, then the scoped definitions
    followed by what lies in their scopes."""
    scopes = {field.scope for field in fields if field.role is Role.DEFINES and field.scope}
    everywhere = [f for f in fields if f.role is Role.DEFINES and not f.scope]
    outside = [f for f in fields if f.role is not Role.DEFINES and f.name not in scopes]
    scoped = [f for f in fields if f.role is Role.DEFINES and f.scope]
    inside = [f for f in fields if f.name in scopes]
    return everywhere + outside + scoped + inside


class _Comparison:
    """One comparison of two nodes. After a failure ``trail`` holds the way to the difference, from
    the end to the beginning, and ``reason`` what is wrong there."""

    def __init__(self, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
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

    # Pairs of definitions.

    def pair(self, left: Any, right: Any) -> None:
        old = self.partner.get(id(left))
        if old is right:
            return
        if old is not None or id(right) in self.taken:
            # Another loop over the same variable: what was concluded under the old pair is void.
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
        """Undo the pairs that were made for a scope; outer pairs of the same objects come back."""
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
        if left is right and not self.renamed and not self.map_free_vars and not self.binding:
            return True
        cls = left.__class__
        if cls is not right.__class__:
            return self.fail(f"{_class_name(left)} and {_class_name(right)}")
        plan = _PLANS.get(cls) or _plan(cls)
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
            if len(this) != len(other):
                return self.fail(f"{len(this)} and {len(other)} items")
            for index in range(len(this)):
                if not self.node(this[index], other[index]):
                    self.trail.append(("index", index))
                    return False
            return True
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
        binding, self.binding = self.binding, False
        same = self.fields(left, right, plan)
        self.binding = binding
        if same:
            self.pair(left, right)
        return same

    def definitions(self, this: Any, other: Any, shape: str, saved: list) -> bool:
        if shape == "one":
            return self.definition(this, other, saved)
        if shape == "tuple":
            if len(this) != len(other):
                return self.fail(f"{len(this)} and {len(other)} definitions")
            for index in range(len(this)):
                if not self.definition(this[index], other[index], saved):
                    self.trail.append(("index", index))
                    return False
            return True
        if shape == "mapping":
            if len(this) != len(other):
                return self.fail(f"{len(this)} and {len(other)} definitions")
            for key, value in this.items():
                partner = other.get(self.partner.get(id(key), key))
                if partner is None:
                    return self.fail(f"the right side has nothing for {_key_text(key)}")
                if not self.definition(value, partner, saved):
                    self.trail.append(("key", key))
                    return False
            return True
        if this is None or other is None:
            return this is other or self.fail("only one side has this definition")
        return self.definition(this, other, saved)

    def definition(self, left: Any, right: Any, saved: list) -> bool:
        if left.__class__ is not right.__class__:
            return self.fail(f"{_class_name(left)} and {_class_name(right)}")
        plan = _plan(left.__class__)
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
            self.trail.append(("attr", "functions"))
            return self.fail("functions on one side only: " + ", ".join(only))
        for name, function in names.items():
            if not self.node(function, others[name]):
                self.trail += [("key", name), ("attr", "functions")]
                return False
        for name in ("attrs", "global_infos"):
            if not self.data(getattr(left, name), getattr(right, name)):
                self.trail.append(("attr", name))
                return False
        return True

    # Plain values.

    def mapping(self, this: Mapping, other: Mapping) -> bool:
        if this.keys() != other.keys():
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
            if len(this) != len(other):
                return self.fail(f"{len(this)} and {len(other)} items")
            for index in range(len(this)):
                if not self.data(this[index], other[index]):
                    self.trail.append(("index", index))
                    return False
            return True
        if _plain_equal(this, other):
            return True
        return self.fail(f"{_value_text(this)} and {_value_text(other)}")


def _class_name(value: Any) -> str:
    return type(value).__name__


def _value_text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _as_array(value: Any) -> Any:
    """The numpy array behind an array or a tensor of the runtime; None for anything else."""
    if value.__class__.__module__ == "numpy":
        return value if hasattr(value, "tobytes") else None
    convert = getattr(value, "numpy", None)
    if callable(convert) and hasattr(value, "shape"):
        return convert()
    return None


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
        return isinstance(other, int) and int(this) == int(other)
    if this is None or other is None:
        return this is other
    array, other_array = _as_array(this), _as_array(other)
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
    return array.tobytes() == other.tobytes()


def _compare(lhs: Any, rhs: Any, map_free_vars: bool) -> _Comparison | None:
    """None when both sides are equal, else the comparison that failed."""
    comparison = _Comparison(map_free_vars)
    with deep_recursion():
        return None if comparison.data(lhs, rhs) else comparison


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two nodes (or tuples and mappings of nodes) say the same; see the module's text."""
    return _compare(lhs, rhs, map_free_vars) is None


def get_first_structural_mismatch(
    lhs: Any, rhs: Any, map_free_vars: bool = False
) -> tuple[ObjectPath, ObjectPath] | None:
    """The ways to the first difference on the left and on the right; None when there is none."""
    failed = _compare(lhs, rhs, map_free_vars)
    if failed is None:
        return None
    path = ObjectPath(reversed(failed.trail))
    return path, path


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise StructuralMismatchError, which tells the way to the first difference and shows both
    sides as script, unless both say the same."""
    failed = _compare(lhs, rhs, map_free_vars)
    if failed is None:
        return
    path = ObjectPath(reversed(failed.trail))
    raise StructuralMismatchError(
        f"the two sides differ at {path}: {failed.reason}",
        notes=(f"left:\n{_side(lhs, path)}", f"right:\n{_side(rhs, path)}"),
    )


def _side(root: Any, path: ObjectPath) -> str:
    """One side as script with the differing node underlined."""
    if not isinstance(root, Node):
        return _value_text(root)
    from tilesmith.ir import printing

    node, marked = root, root
    for step in path:
        node = ObjectPath((step,)).resolve(node)
        if isinstance(node, Node):
            marked = node
    return printing.script(root, obj_to_underline=[marked], num_context_lines=CONTEXT_LINES)


_MASK = (1 << 64) - 1


def _text_hash(text: str | bytes) -> int:
    raw = text.encode() if isinstance(text, str) else text
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "little")


_VARIABLE = _text_hash("variable")
_FREE = _text_hash("free variable")
_NONE = _text_hash("none")
_TRUE, _FALSE = _text_hash("true"), _text_hash("false")
_SEQUENCE, _MAPPING, _ARRAY = _text_hash("sequence"), _text_hash("mapping"), _text_hash("array")
_TEXTS: dict[str, int] = {}


def _mix(state: int, value: int) -> int:
    state = (state ^ value) * 0x9E3779B97F4A7C15 & _MASK
    return state ^ (state >> 29)


class _Hasher:
    """One hash. Definitions are numbered in the order in which they come."""

    def __init__(self, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
        self.defined: dict[int, int] = {}  # hash of a definition, by its id
        self.known: dict[int, int] = {}  # hash of a node, by its id
        self.binding = False
        self.count = 0

    def node(self, node: Any) -> int:
        cls = node.__class__
        plan = _PLANS.get(cls) or _plan(cls)
        kind = plan.kind
        if kind == "fields":
            found = self.known.get(id(node))
            if found is None:
                found = self.known[id(node)] = self.fields(node, plan)
            return found
        if kind == "variable":
            return self.variable(node, plan)
        if kind == "leaf":
            defined = self.defined.get(id(node))
            if defined is not None:
                return defined
            binding, self.binding = self.binding, False
            found = self.fields(node, plan)
            self.binding = binding
            return found
        if kind == "key":
            return _mix(plan.tag, self.data(node.structural_key()))
        return self.module(node, plan) if kind == "module" else self.data(node)

    def fields(self, node: Any, plan: Plan) -> int:
        state = plan.tag
        for action, name, shape, binds in plan.steps:
            if action == "undo":
                break
            value = getattr(node, name)
            if action == "child":
                outer = self.binding
                self.binding = outer or binds
                part = self.children(value, shape)
                self.binding = outer
            elif action == "data":
                part = self.data(value)
            else:
                part = self.definitions(value, shape)
            state = _mix(state, part)
        return state

    def children(self, value: Any, shape: str) -> int:
        if shape == "one":
            return self.node(value)
        if shape == "tuple":
            state = _mix(_SEQUENCE, len(value))
            for item in value:
                state = _mix(state, self.node(item))
            return state
        return self.data(value)

    def variable(self, node: Any, plan: Plan) -> int:
        defined = self.defined.get(id(node))
        if defined is not None:
            return defined
        if self.binding or self.map_free_vars:
            return self.define(node, self.fields(node, plan))
        # Free variables are equal only if they are one object, which has one name.
        return _mix(_FREE, self.data(getattr(node, "name", None)))

    def define(self, node: Any, fields: int) -> int:
        if id(node) in self.defined:
            self.known.clear()
        self.count += 1
        found = self.defined[id(node)] = _mix(_mix(_VARIABLE, fields), self.count)
        return found

    def definitions(self, value: Any, shape: str) -> int:
        if shape == "tuple":
            items: Any = value
        elif shape == "mapping":
            items = value.values()
        else:
            items = () if value is None else (value,)
        state = _mix(_SEQUENCE, len(items))
        for item in items:
            state = _mix(state, self.definition(item))
        return state

    def definition(self, node: Any) -> int:
        plan = _plan(node.__class__)
        if plan.kind not in ("variable", "leaf"):
            return self.node(node)
        binding, self.binding = self.binding, True
        found = self.fields(node, plan)
        self.binding = binding
        return self.define(node, found)

    def module(self, module: IRModule, plan: Plan) -> int:
        state = plan.tag
        named = {variable.name_hint: function for variable, function in module.functions.items()}
        for name in sorted(named):
            self.count = 0  # the order of the functions does not matter
            state = _mix(_mix(state, self.data(name)), self.node(named[name]))
        return _mix(_mix(state, self.data(module.attrs)), self.data(module.global_infos))

    def data(self, value: Any) -> int:
        if isinstance(value, str):
            found = _TEXTS.get(value)
            if found is None:
                found = _text_hash(value)
                if len(_TEXTS) < 10_000:
                    _TEXTS[str(value)] = found
            return found
        if value is None:
            return _NONE
        if isinstance(value, bool):
            return _TRUE if value else _FALSE
        if isinstance(value, int):
            return int(value) & _MASK if -(2**63) <= value < 2**63 else _text_hash(str(int(value)))
        if isinstance(value, float):
            return _text_hash(value.hex())
        if isinstance(value, Node):
            return self.node(value)
        if isinstance(value, (tuple, list)):
            state = _mix(_SEQUENCE, len(value))
            for item in value:
                state = _mix(state, self.data(item))
            return state
        if isinstance(value, Mapping):
            state = _mix(_MAPPING, len(value))
            for key in sorted(value, key=str):
                state = _mix(_mix(state, self.data(str(key))), self.data(value[key]))
            return state
        return self.other(value)

    def other(self, value: Any) -> int:
        if isinstance(value, bytes):
            return _text_hash(value)
        array = _as_array(value)
        if array is not None:
            state = _mix(_mix(_ARRAY, _text_hash(str(array.dtype))), self.data(tuple(array.shape)))
            return _mix(state, _text_hash(array.tobytes()))
        if isinstance(value, Enum):
            return _text_hash(f"{type(value).__name__}.{value.name}")
        if hasattr(value, "structural_key"):
            return self.data(value.structural_key())
        text = str(value)
        if " at 0x" in text:
            raise TypeMismatchError(
                f"an attribute of type {type(value).__name__} has no structural hash",
                notes=("give the class a method structural_key that returns a plain value",),
            )
        return _mix(_text_hash(type(value).__name__), _text_hash(text))


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A 64-bit number that is equal for nodes that are ``structural_equal``, in every process."""
    with deep_recursion():
        return _Hasher(map_free_vars).data(node)
