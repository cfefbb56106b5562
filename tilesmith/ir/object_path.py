"""Names a place inside a node: the way there from the root, step by step.

    path = ObjectPath.root().attr("body").attr("seq").array_index(1)
    str(path)                                # <root>.body.seq[1]
    func.script(path_to_underline=[path])    # the second statement, underlined

Paths are compared by their steps. One may lead to what is *missing*: the third item of a sequence
of two, where another sequence has three.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = [
    "ArrayIndexPath", "AttributeAccessPath", "MapValuePath", "MissingArrayElementPath",
    "MissingMapEntryPath", "ObjectPath", "ObjectPathPair", "RootPath",
    "UnknownAttributeAccessPath",
]  # fmt: skip


class ObjectPath:
    """A path; the classes below say what its last step is. Begin with ``ObjectPath.root()``."""

    __slots__ = ("_hash", "_length", "_parent", "step")

    def __init__(self, parent: ObjectPath | None, step: Any = None) -> None:
        self._parent = parent
        self._length: int = 1 if parent is None else parent._length + 1
        self.step = step
        self._hash = hash((type(self), parent, step))

    @staticmethod
    def root(root_name: str | None = None) -> RootPath:
        """Return the path to the root itself."""
        return RootPath(None, root_name)

    def attr(self, attr_key: str | None) -> ObjectPath:
        """Append a field; None stands for one that has no name."""
        if attr_key is None:
            return UnknownAttributeAccessPath(self)
        return AttributeAccessPath(self, attr_key)

    def array_index(self, index: int) -> ArrayIndexPath:
        """Append an item of a sequence."""
        return ArrayIndexPath(self, int(index))

    def missing_array_element(self, index: int) -> MissingArrayElementPath:
        """Append an item that a sequence would have if it were longer."""
        return MissingArrayElementPath(self, int(index))

    def map_value(self, key: Any) -> MapValuePath:
        """Append a value of a mapping."""
        return MapValuePath(self, key)

    def missing_map_entry(self) -> MissingMapEntryPath:
        """Append an entry that a mapping does not have."""
        return MissingMapEntryPath(self)

    @property
    def parent(self) -> ObjectPath | None:
        """The path without its last step; None for the root."""
        return self._parent

    def __len__(self) -> int:
        """Return the number of steps, the root counted."""
        return self._length

    def get_prefix(self, length: int) -> ObjectPath:
        """Return the first ``length`` steps, the root counted. Raises IndexError."""
        if not 1 <= length <= self._length:
            raise IndexError(f"{self} has prefixes of length 1 to {self._length}, not {length}")
        found: ObjectPath = self
        while found._length > length and found._parent is not None:
            found = found._parent
        return found

    def prefixes(self) -> list[ObjectPath]:
        """Return the root, the path of one step, and so on to this path."""
        found: list[ObjectPath] = []
        path: ObjectPath | None = self
        while path is not None:
            found.append(path)
            path = path._parent
        return found[::-1]

    def is_prefix_of(self, other: ObjectPath) -> bool:
        """True if the other path begins with this one, or is equal to it."""
        return self._length <= other._length and other.get_prefix(self._length) == self

    def follow(self, value: Any) -> Any:
        """Return what the last step leads to from ``value``. Raises LookupError, AttributeError or
        TypeError where it leads nowhere.
        """
        return value

    def resolve_all(self, root: Any) -> list[Any]:
        """Return the objects on the way, the root first, as far as the path leads."""
        found: list[Any] = []
        value = root
        for path in self.prefixes():
            try:
                value = path.follow(value)
            except (AttributeError, LookupError, TypeError):  # it leads no further
                break
            found.append(value)
        return found

    def resolve(self, root: Any) -> Any:
        """Return the object at the end of the path, or None if there is none."""
        found = self.resolve_all(root)
        return found[-1] if len(found) == self._length else None

    def same_as(self, other: object) -> bool:
        """True if both are one object."""
        return self is other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectPath) or self._length != other._length:
            return False
        one: ObjectPath | None = self
        while one is not None and other is not None and one is not other:
            if type(one) is not type(other) or one._hash != other._hash:
                return False
            if one.step is not other.step and not one.step == other.step:
                return False
            one, other = one._parent, other._parent
        return True

    def __hash__(self) -> int:
        return self._hash

    def text(self) -> str:
        """Return the last step as text."""
        return ""

    def __str__(self) -> str:
        return "".join([path.text() for path in self.prefixes()])

    __repr__ = __str__


class RootPath(ObjectPath):
    """The root itself, under a name if it has one."""

    __slots__ = ()

    @property
    def name(self) -> str | None:
        """The name of the root."""
        return self.step  # type: ignore[no-any-return]

    def text(self) -> str:
        return self.step or "<root>"


class AttributeAccessPath(ObjectPath):
    """A field of an object."""

    __slots__ = ()

    @property
    def attr_key(self) -> str:
        """The name of the field."""
        return self.step  # type: ignore[no-any-return]

    def follow(self, value: Any) -> Any:
        return getattr(value, self.step)

    def text(self) -> str:
        return f".{self.step}"


class UnknownAttributeAccessPath(ObjectPath):
    """Something in an object that is no field of it."""

    __slots__ = ()

    def follow(self, value: Any) -> Any:
        raise LookupError("nobody knows where this leads")

    def text(self) -> str:
        return ".<unknown attribute>"


class ArrayIndexPath(ObjectPath):
    """An item of a sequence."""

    __slots__ = ()

    @property
    def index(self) -> int:
        """The position of the item."""
        return self.step  # type: ignore[no-any-return]

    def follow(self, value: Any) -> Any:
        return value[self.step]

    def text(self) -> str:
        return f"[{self.step}]"


class MissingArrayElementPath(ObjectPath):
    """An item that is not there."""

    __slots__ = ()

    @property
    def index(self) -> int:
        """The position that the item would have."""
        return self.step  # type: ignore[no-any-return]

    def follow(self, value: Any) -> Any:
        raise LookupError("the item is missing")

    def text(self) -> str:
        return f"[<missing element #{self.step}>]"


class MapValuePath(ObjectPath):
    """A value of a mapping; a variable among its keys is found by its name too."""

    __slots__ = ()

    @property
    def key(self) -> Any:
        """The key of the value."""
        return self.step

    def follow(self, value: Any) -> Any:
        if isinstance(self.step, str):
            for known, item in value.items():
                if getattr(known, "name_hint", known) == self.step:
                    return item
        return value[self.step]

    def text(self) -> str:
        return f"[{key_text(self.step)}]"


class MissingMapEntryPath(ObjectPath):
    """An entry that a mapping does not have."""

    __slots__ = ()

    def follow(self, value: Any) -> Any:
        raise LookupError("the entry is missing")

    def text(self) -> str:
        return "[<missing entry>]"


class ObjectPathPair(NamedTuple):
    """The two ends of a difference."""

    lhs_path: ObjectPath
    rhs_path: ObjectPath


def key_text(key: Any) -> str:
    """Return the key of a mapping as text: a variable by its name."""
    name = getattr(key, "name_hint", None) or getattr(key, "name", None)
    return f'"{name if isinstance(name, str) else key}"'
