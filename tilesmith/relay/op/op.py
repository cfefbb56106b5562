"""``relay.op.op``: finds and registers operators."""

from __future__ import annotations

from tilesmith.ir import Op


def get(op_name: str) -> Op:
    """Return the operator of a name; the error for an unknown one suggests the nearest."""
    return Op.get(op_name)


def register(op_name: str, describe: str = "") -> Op:
    """Make and register an operator, which a program describes by its attributes."""
    return Op.register(op_name, description=describe)
