"""Tells what memory is read later, for calls that overwrite their operands.

c = add(y, 0)                        c became another name of y, which the result still needs:
z = call_tir_inplace(kernel, c)  →   the kernel gets a copy
return (y, z)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilesmith import relax
from tilesmith.driver.graph_values import TensorValue, leaves
from tilesmith.driver.memory_plan import Storage
from tilesmith.relax.analysis import used_vars

__all__ = ["KEPT_PARAMS", "LaterUses", "to_overwrite"]


KEPT_PARAMS = "tilesmith.kept_params"
"""The attribute of a function that lists which of its parameters its caller reads afterwards."""


class _Sequence:
    """The bindings of a sequence that is being lowered, up to ``position``."""

    def __init__(self, body: relax.SeqExpr) -> None:
        self.body: Any = body
        self.bindings = [binding for block in self.body.blocks for binding in block.bindings]
        self.position = 0
        self._last: dict[Any, int] | None = None

    def last_uses(self) -> dict[Any, int]:
        """Return the number of the binding that uses each variable last."""
        if self._last is None:
            values = [*[binding.value for binding in self.bindings], self.body.body]
            self._last = {}
            for number, value in enumerate(values):
                self._last.update(dict.fromkeys(used_vars(value), number))
        return self._last


class LaterUses:
    """Follows the sequences that are being lowered, one inside of the other."""

    def __init__(self) -> None:
        self._open: list[_Sequence] = []

    def walk(self, body: relax.SeqExpr) -> Iterator[Any]:
        """Yield the bindings of a sequence; until the next one, it is the one being lowered."""
        sequence = _Sequence(body)
        self._open.append(sequence)
        for number, binding in enumerate(sequence.bindings):
            sequence.position = number
            yield binding
        self._open.pop()

    def reads(self, storage: Storage, values: Mapping[Any, Any]) -> bool:
        """Return whether a binding after the current ones, or a result, uses a variable whose value
        lies in some memory.
        """
        for sequence in self._open:
            for var, last in sequence.last_uses().items():
                if last > sequence.position and var in values:
                    for leaf in leaves(values[var]):
                        if isinstance(leaf, TensorValue) and leaf.storage is storage:
                            return True
        return False


def to_overwrite(low: Any, value: TensorValue) -> TensorValue:
    """Return a value that a call in place may overwrite: a copy of constants, and of what is read
    later under any name.
    """
    storage = value.storage
    if storage.is_constant or low.later.reads(storage, low.values) or _is_kept(low, storage):
        kept, value = value, low.new_tensor(value.shape, value.dtype, "a copy to overwrite")
        low.copy(kept, value)
    low.overwritten.add(value.storage)
    return value


def _is_kept(low: Any, storage: Storage) -> bool:
    """Return whether a parameter that the caller reads afterwards lies in some memory."""
    kept = low.function.attrs.get(KEPT_PARAMS, ())
    values = [low.values.get(low.function.params[int(number)]) for number in kept]
    parts = [leaf for value in values if value is not None for leaf in leaves(value)]
    return any(isinstance(leaf, TensorValue) and leaf.storage is storage for leaf in parts)
