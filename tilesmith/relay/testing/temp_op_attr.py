"""Another attribute of an operator, for a while.

with TempOpAttr("nn.dense", "FTVMAlterOpLayout", alter):
    ...
"""

from __future__ import annotations

from typing import Any

from tilesmith.relay.op.op import get

__all__ = ["TempOpAttr"]


class TempOpAttr:
    """Sets an attribute of an operator inside of a ``with``; the one before comes back after."""

    def __init__(self, op_name: str, attr_key: str, attr_value: Any) -> None:
        self.op = get(op_name)
        self.attr_key = attr_key
        self.attr_value = attr_value

    def __enter__(self) -> TempOpAttr:
        self.older_attr = self.op.get_attr(self.attr_key)
        self.op.reset_attr(self.attr_key)
        self.op.set_attr(self.attr_key, self.attr_value)
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.op.reset_attr(self.attr_key)
        if self.older_attr is not None:
            self.op.set_attr(self.attr_key, self.older_attr)
