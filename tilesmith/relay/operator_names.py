"""Finds operators, and what registers them, under their names in ``relay``: ``relay.add`` is
``relay.op.add``.
"""

from __future__ import annotations

from typing import Any

from tilesmith.support.lazy import resolve

__all__ = ["OPERATORS"]


class _OperatorNames:
    """Loads the operators when one of them is asked for."""

    def find(self, name: str) -> Any:
        """Return the function of an operator; raises AttributeError if there is none."""
        registrations = resolve("tilesmith.relay.op.op")
        if name in registrations.__all__:
            return getattr(registrations, name)
        if name.endswith("Attrs"):
            return getattr(resolve("tilesmith.relay.op.op_attrs"), name)
        return resolve("tilesmith.relay.op.view:find_function")(name)

    def public_names(self) -> list[str]:
        """Return the names of all operators without a namespace."""
        resolve("tilesmith.relay.op")
        registrations = resolve("tilesmith.relay.op.op").__all__
        kinds = resolve("tilesmith.relay.op.op_attrs:OPERATORS")
        return [*resolve("tilesmith.relay.op.view:functions")(), *registrations, *kinds]


OPERATORS = _OperatorNames()
