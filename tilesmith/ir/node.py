"""Defines immutable nodes that declare their fields once.

A node class lists its fields with a *role* each; construction, copying, traversal, structural
equality, structural hash, printing's skeleton and JSON are derived from that list::

    class Select(PrimExpr):
        condition: PrimExpr = child()
        true_value: PrimExpr = child()
        false_value: PrimExpr = child()

Roles:

* ``child``: a node (or a tuple, an optional, or a mapping of nodes) that is visited, compared,
hashed.
* ``defines``: a variable, buffer or symbolic size that is *bound* here. Compared by pairing it with
  its partner before the other fields are looked at. Not visited by ``map_children``.
* ``data``: a plain value (number, text, dtype, attribute dictionary): compared and hashed.
* ``note``: span or name hint: saved and printed, neither compared nor hashed.

Whether a field holds one node, an optional one, a tuple or a mapping is read off its annotation.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.knobs import knobs
from tilesmith.support.registry import Registry

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "COMPARISON",
    "DIALECT_TEXT",
    "ComparedByStructure",
    "Field",
    "Node",
    "NodeMeta",
    "Role",
    "SCRIPT_DIALECTS",
    "child",
    "data",
    "defines",
    "node_class",
    "note",
    "register_object",
]


AnyNode = TypeVar("AnyNode", bound="Node")

PRINTING: Registry[Callable[..., Any]] = Registry(
    "printing of nodes", {"": "tilesmith.ir.printing.entry"}
)
"""What ``str(node)`` ("text"), ``node.script()`` and ``node.show()`` call: ``printing/entry.py``
registers the functions, since a printer knows the nodes that it prints."""

DIALECT_TEXT: Registry[Callable[..., Any]] = Registry(
    "text format of a dialect", {"relay": "tilesmith.relay.printer"}
)
"""Prints nodes and modules whose ``dialect`` has a text format of its own."""

SCRIPT_DIALECTS = ("", "relax")
"""What ``dialect`` says of nodes that TVMScript shows."""

COMPARISON: Registry[Callable[..., Any]] = Registry(
    "comparison of nodes", {"": "tilesmith.ir.structural"}
)
"""What ``==`` ("equal") and ``hash`` call for nodes that are compared by structure:
``structural.py`` registers the functions."""


class Role(Enum):
    """What a field means to the derived operations; see the module docstring."""

    CHILD = "child"
    DEFINES = "defines"
    DATA = "data"
    NOTE = "note"


class _Missing:
    def __repr__(self) -> str:
        return "<required>"


MISSING = _Missing()


class Field:
    """One declared field of a node class."""

    __slots__ = ("annotation", "convert", "default", "name", "role", "scope", "shape")

    def __init__(self, role: Role, default: Any, convert: Any, scope: str | None) -> None:
        self.name = ""
        self.annotation = ""
        self.shape = "one"  # "one", "optional", "tuple" or "mapping"
        self.role = role
        self.default = default
        self.convert = convert
        self.scope = scope

    def named(self, name: str, annotation: str) -> Field:
        """Return this field with a name, and the shape given by its annotation."""
        field = Field(self.role, self.default, self.convert, self.scope)
        field.name, field.annotation = name, annotation
        if annotation.startswith(("tuple[", "tuple", "Sequence[")):
            field.shape = "tuple"
        elif annotation.startswith(("dict[", "Mapping[")):
            field.shape = "mapping"
        elif annotation.endswith("| None") or annotation.startswith("Optional["):
            field.shape = "optional"
        return field

    def __repr__(self) -> str:
        return f"{self.role.value} {self.name}: {self.annotation}"


def child(*, default: Any = MISSING, convert: Callable[[Any], Any] | None = None) -> Any:
    """Declare a node that is visited, compared and hashed."""
    return Field(Role.CHILD, default, convert, None)


def defines(
    *, scope: str | None = None, default: Any = MISSING, convert: Callable[[Any], Any] | None = None
) -> Any:
    """Declare a variable, buffer or size that this node binds; ``scope`` names the field it is
    bound in.
    """
    return Field(Role.DEFINES, default, convert, scope)


def data(*, default: Any = MISSING, convert: Callable[[Any], Any] | None = None) -> Any:
    """Declare a plain value that is compared and hashed."""
    return Field(Role.DATA, default, convert, None)


def note(*, default: Any = MISSING, convert: Callable[[Any], Any] | None = None) -> Any:
    """Declare a value that is printed and saved, but neither compared nor hashed."""
    return Field(Role.NOTE, default, convert, None)


_CLASSES: dict[str, type[Node]] = {}


def node_class(key: str) -> type[Node]:
    """Return the node class registered under ``key`` (for example ``"tir.Add"``), as JSON names
    it.
    """
    return _CLASSES[key]


def register_object(type_key: Any = None) -> Any:
    """Let JSON name a class of nodes ``type_key``. A decorator, with a name or without: then the
    class's own. Raises TypeMismatchError for a class that is no node.
    """
    if isinstance(type_key, type):
        return register_object(type_key.__name__)(type_key)

    def register(cls: Any) -> Any:
        if not isinstance(cls, NodeMeta):
            raise TypeMismatchError(
                f"{cls.__name__} is no class of nodes", notes=("derive it from ir.Node",)
            )
        cls.node_key = type_key
        _CLASSES[type_key] = cls  # type: ignore[assignment]
        return cls

    return register


def _map_tuple(function: Callable[[Any], Any], items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Apply the function to each item; return the same tuple when nothing changed."""
    new = [function(item) for item in items]
    for old_item, new_item in zip(items, new):
        if old_item is not new_item:
            return tuple(new)
    return items


def _map_mapping(function: Callable[[Any], Any], items: Mapping[Any, Any]) -> Mapping[Any, Any]:
    new = {key: function(value) for key, value in items.items()}
    for key, value in items.items():
        if new[key] is not value:
            return new
    return items


_MAP = {
    "one": "{n} = f(self.{n})",
    "optional": "{n} = self.{n}\n    if {n} is not None: {n} = f({n})",
    "tuple": "{n} = _map_tuple(f, self.{n})",
    "mapping": "{n} = _map_mapping(f, self.{n})",
}
_PUSH = {
    "one": "stack.append(self.{n})",
    "optional": "if self.{n} is not None: stack.append(self.{n})",
    "tuple": "stack += self.{n}[::-1]",
    "mapping": "stack += [*self.{n}.values()][::-1]",
}
_EACH = {
    "one": "f(self.{n})",
    "optional": "if self.{n} is not None: f(self.{n})",
    "tuple": "for item in self.{n}: f(item)",
    "mapping": "for item in self.{n}.values(): f(item)",
}


def _compile(cls: type, method: str, source: str, scope: dict[str, Any]) -> Any:
    """Compile a method from text; debuggers find the text through ``linecache``."""
    filename = f"<{cls.__module__}.{cls.__qualname__}.{method}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), scope)
    function = scope[method]
    function.__qualname__ = f"{cls.__qualname__}.{method}"
    function.__module__ = cls.__module__
    return function


def _make_init(cls: type[Node]) -> Any:
    parameters, body, scope = ["self"], [], {}
    for field in cls.node_fields:
        name = field.name
        if field.default is MISSING:
            parameters.append(name)
        else:
            scope[f"default_{name}"] = field.default
            parameters.append(f"{name}=default_{name}")
        value = name
        if field.convert is not None:
            scope[f"convert_{name}"] = field.convert
            value = f"convert_{name}({name})"
        elif field.shape == "tuple" and field.role is not Role.DATA:
            value = f"{name} if {name}.__class__ is tuple else tuple({name})"
        body.append(f"    self.{name} = {value}")
    if hasattr(cls, "_finish"):
        body.append("    self._finish()")
    source = f"def __init__({', '.join(parameters)}):\n" + "\n".join(body or ["    pass"]) + "\n"
    return _compile(cls, "__init__", source, scope)


def _child_fields(cls: type[Node]) -> list[Field]:
    return [] if cls.is_atom else [field for field in cls.node_fields if field.role is Role.CHILD]


def _make_map_children(cls: type[Node]) -> Any:
    children = _child_fields(cls)
    lines = ["def map_children(self, f):"]
    if children:
        lines += ["    " + _MAP[field.shape].format(n=field.name) for field in children]
        unchanged = " and ".join(f"{field.name} is self.{field.name}" for field in children)
        lines.append(f"    if {unchanged}: return self")
        mapped = {field.name for field in children}
        arguments = [f.name if f.name in mapped else f"self.{f.name}" for f in cls.node_fields]
        lines.append(f"    return cls({', '.join(arguments)})")
    else:
        lines.append("    return self")
    scope = {"cls": cls, "_map_tuple": _map_tuple, "_map_mapping": _map_mapping}
    return _compile(cls, "map_children", "\n".join(lines) + "\n", scope)


def _make_for_each_child(cls: type[Node]) -> Any:
    children = _child_fields(cls)
    lines = ["def for_each_child(self, f):"]
    lines += ["    " + _EACH[field.shape].format(n=field.name) for field in children]
    if not children:
        lines.append("    return None")
    return _compile(cls, "for_each_child", "\n".join(lines) + "\n", {})


def _make_push_children(cls: type[Node]) -> Any:
    children = [] if cls.is_leaf else _child_fields(cls)
    order = getattr(cls, "structural_order", None)
    if order is not None:
        children = sorted(children, key=lambda field: order.index(field.name))
    lines = ["def push_children(self, stack):"]
    lines += ["    " + _PUSH[field.shape].format(n=field.name) for field in reversed(children)]
    if not children:
        lines.append("    return None")
    return _compile(cls, "push_children", "\n".join(lines) + "\n", {})


def _first_map_children(self: AnyNode, f: Callable[[Any], Any]) -> AnyNode:
    """Return a copy with ``f`` applied to each child, or this object when no child changed."""
    cls = type(self)
    cls.map_children = _make_map_children(cls)
    return cls.map_children(self, f)


def _first_for_each_child(self: Node, f: Callable[[Any], Any]) -> None:
    """Call ``f`` on each child in order of declaration."""
    cls = type(self)
    cls.for_each_child = _make_for_each_child(cls)
    cls.for_each_child(self, f)


def _first_push_children(self: Node, stack: list[Node]) -> None:
    """Append the children to a stack of nodes still to be walked, the first on top.

    The order is that of the text (``structural_order`` where a class has one). Leaves push nothing.
    ``ir.queries.walk`` is built on this.
    """
    cls = type(self)
    cls.push_children = _make_push_children(cls)
    cls.push_children(self, stack)


# Each class gets methods of its own at first use: those compiled for a base class know neither
# the fields nor the constructor of its subclasses.
_FIRST = {
    "for_each_child": _first_for_each_child,
    "map_children": _first_map_children,
    "push_children": _first_push_children,
}


def _first_init(self: Node, *args: Any, **kwargs: Any) -> None:
    """Used as ``__init__`` until the class makes its first instance."""
    for cls in type(self).__mro__:
        if cls.__dict__.get("__init__") is _first_init:
            cls.__init__ = _make_init(cls)  # type: ignore[misc]
            break
    type(self).__init__(self, *args, **kwargs)


class NodeMeta(type):
    """Makes ``__slots__`` and the table of fields from a class's declarations.

    Class arguments: ``key``, the name in JSON and in the registry (default: package and class
    name); ``slots``, further slots that are not fields (derived values such as ``dtype``).
    """

    node_fields: tuple[Field, ...]
    node_key: str

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        key: str | None = None,
        slots: tuple[str, ...] = (),
    ) -> NodeMeta:
        own: dict[str, Field] = {}
        for field_name, annotation in namespace.get("__annotations__", {}).items():
            declared = namespace.get(field_name)
            if isinstance(declared, Field):
                del namespace[field_name]
                own[field_name] = declared.named(field_name, str(annotation))
        inherited: dict[str, Field] = {}
        taken: set[str] = set()
        for base in reversed(bases):
            inherited.update({f.name: f for f in getattr(base, "node_fields", ())})
            for ancestor in base.__mro__:
                taken.update(ancestor.__dict__.get("__slots__", ()))
        namespace["__slots__"] = tuple(
            [n for n in own if n not in taken] + [n for n in slots if n not in taken]
        )
        if own and "__init__" not in namespace:
            namespace["__init__"] = _first_init
        for method, first in _FIRST.items():
            namespace.setdefault(method, first)
        cls = super().__new__(mcls, name, bases, namespace)
        cls.node_fields = tuple({**inherited, **own}.values())
        if key is None:
            key = f"{cls.__module__.split('.')[1] if '.' in cls.__module__ else ''}.{name}"
        cls.node_key = key
        _CLASSES[key] = cls  # type: ignore[assignment]
        return cls

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[Any, Any], **_: Any
    ) -> None:
        super().__init__(name, bases, namespace)


class Node(metaclass=NodeMeta, slots=("__weakref__",)):
    """Base of all nodes of a program."""

    node_fields: ClassVar[tuple[Field, ...]]
    node_key: ClassVar[str]
    # Whether generic walks stop here: a use of a buffer is looked at from outside.
    is_leaf: ClassVar[bool] = False
    # Whether nothing inside is visited or rewritten: the type of a variable.
    is_atom: ClassVar[bool] = False
    # Whether equality is identity or having been bound in the same place.
    is_variable: ClassVar[bool] = False
    # Whether this may be compared without the declarations of its buffers (`structural.py`).
    is_program_part: ClassVar[bool] = False
    # Whether fields never change once they are set (TILESMITH_CHECK_FROZEN looks).
    is_frozen: ClassVar[bool] = True

    map_children = _first_map_children
    for_each_child = _first_for_each_child
    push_children = _first_push_children

    def children(self) -> list[Node]:
        """Return the children in order of declaration."""
        found: list[Node] = []
        self.for_each_child(found.append)
        return found

    def with_fields(self, **changes: Any) -> Self:
        """Return a copy with some fields replaced. It goes through the constructor, so checks
        apply.
        """
        values = [
            changes.pop(field.name) if field.name in changes else getattr(self, field.name)
            for field in self.node_fields
        ]
        if changes:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(changes))}")
        return type(self)(*values)

    def field_values(self) -> Iterator[tuple[Field, Any]]:
        """Return each declared field with its value."""
        for field in self.node_fields:
            yield field, getattr(self, field.name)

    def same_as(self, other: object) -> bool:
        """True if both are one object."""
        return self is other

    def legacy_repr(self) -> str:
        """Return the class and the fields as text, whatever the node's own form is."""
        values = ", ".join([f"{field.name}={value}" for field, value in self.field_values()])
        return f"{self.node_key}({values})"

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return str(PRINTING["text"](self))

    def script(self, **options: Any) -> str:
        """Return this node as complete text that parses back; see ``ir.printing.PrinterConfig``."""
        return str(PRINTING["script"](self, **options))

    def show(
        self, style: str | None = None, black_format: bool | None = None, **options: Any
    ) -> None:
        """Print this node for a person: highlighted in terminals, large constants elided."""
        PRINTING["show"](self, style, black_format, **options)


class ComparedByStructure(Node, key="ir.ComparedByStructure"):
    """Base of nodes that ``==`` compares by structure: types, struct info."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, ComparedByStructure) and bool(COMPARISON["equal"](self, other))

    def __hash__(self) -> int:
        return int(COMPARISON["hash"](self))


if knobs.check_frozen:

    def _set_once(self: Node, name: str, value: Any) -> None:
        if self.is_frozen and hasattr(self, name):
            raise AttributeError(
                f"{type(self).__name__}.{name} cannot be changed: nodes are immutable"
            )
        object.__setattr__(self, name, value)

    def _never_deleted(self: Node, name: str) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted: nodes are immutable")

    Node.__setattr__ = _set_once  # type: ignore[method-assign,assignment]
    Node.__delattr__ = _never_deleted  # type: ignore[method-assign,assignment]
