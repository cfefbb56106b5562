"""Natural numbers as data: zero, and the successor of a number.

prelude.mod.import_from_std("nat.rly")
count(prelude, run_as_python(make_nat_expr(prelude, 3), prelude.mod))     # 3
"""

from __future__ import annotations

from typing import Any

from tilesmith.relay.backend.interpreter import ConstructorValue
from tilesmith.relay.prelude import Prelude
from tilesmith.support.errors import OutOfBoundsError, TypeMismatchError

__all__ = ["count", "get_type", "make_nat_expr", "make_nat_value"]


def get_type(prelude: Prelude, name: str) -> tuple[Any, ...]:
    """Return the name of a type of data and its constructors."""
    found: tuple[Any, ...] = prelude.mod.get_type(name)
    return found


def count(prelude: Prelude, n: Any) -> int:
    """Return the number that a value of ``nat`` stands for."""
    _, zero, successor = get_type(prelude, "nat")
    found = 0
    while n.tag == successor.tag:
        n = n[0] if isinstance(n, tuple) else n.fields[0]
        found += 1
    if n.tag != zero.tag:
        raise TypeMismatchError(f"{n!r} is no value of the type nat")
    return found


def make_nat_value(prelude: Prelude, n: int) -> ConstructorValue:
    """Return the value of a number."""
    _, zero, successor = get_type(prelude, "nat")
    found = ConstructorValue(zero.tag, (), zero)
    for _ in range(_checked(n)):
        found = ConstructorValue(successor.tag, (found,), successor)
    return found


def make_nat_expr(prelude: Prelude, n: int) -> Any:
    """Return the expression of a number."""
    _, zero, successor = get_type(prelude, "nat")
    found = zero()
    for _ in range(_checked(n)):
        found = successor(found)
    return found


def _checked(n: int) -> int:
    if n < 0:
        raise OutOfBoundsError(f"{n} is no natural number")
    return n
