"""States that modules keep from call to call: the order of outputs, growing caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import ExternFunc, PrimValue, ShapeExpr, Var
from tilesmith.relax.frontend.nn import core
from tilesmith.relax.op import call_inplace_packed, call_pure_packed, null_value, zeros
from tilesmith.relax.struct_info import ObjectStructInfo, TensorStructInfo
from tilesmith.support.errors import DiagnosticError, ShapeError, TypeMismatchError

__all__ = ["IOEffect", "KVCache"]


class IOEffect(core.Effect):
    """The order in which a method prints and calls debug functions."""

    def __init__(self) -> None:
        self.effect: Any = None

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        """Emit the first state: an object without contents."""
        return [builder.emit(null_value(), f"{name_hint}_io")]

    def create(self, name_hint: str) -> list[Var]:
        """Make the input of a method."""
        return [Var(f"{name_hint}_io", ObjectStructInfo())]

    def set_state(self, state_vars: list[Var]) -> None:
        """Set what the next output waits for."""
        (self.effect,) = state_vars

    def finalize(self) -> list[Var]:
        """Return what the last output left."""
        result, self.effect = self.effect, None
        return [result]


class KVCache(core.Effect):
    """Keys or values of earlier calls: a tensor that grows along its first axis."""

    def __init__(
        self, init_seq_len: int, unit_shape: Sequence[int], dtype: str | None = None
    ) -> None:
        self.init_seq_len = int(init_seq_len)
        self.unit_shape = [int(size) for size in unit_shape]
        self.dtype = dtype or core.get_default_dtype()
        self.cache: Any = None

    def emit_init(self, name_hint: str, bb: BlockBuilder) -> list[Var]:
        """Emit an empty cache with room for ``init_seq_len`` elements."""
        shape = ShapeExpr([self.init_seq_len, *self.unit_shape])
        made = call_pure_packed(
            ExternFunc("vm.builtin.attention_kv_cache_create"),
            bb.emit(zeros(shape, self.dtype)),
            shape,
            PrimValue(0),
            sinfo_args=[ObjectStructInfo()],
        )
        return [bb.emit(made, name_hint)]

    def create(self, name_hint: str) -> list[Var]:
        """Make the input of a method."""
        return [Var(name_hint, ObjectStructInfo())]

    def set_state(self, state_vars: list[Var]) -> None:
        """Set the cache that a method begins with."""
        (self.cache,) = state_vars

    def finalize(self) -> list[Var]:
        """Return the cache at the end of a method."""
        result, self.cache = self._state(), None
        return [result]

    def to(self, dtype: str | None = None) -> None:
        """Change the data type of the elements."""
        if dtype is not None:
            self.dtype = dtype

    def _state(self) -> Any:
        if self.cache is None:
            raise DiagnosticError(
                "the cache is used outside of a method that is exported with its states",
                notes=('effect_mode "none" leaves states out',),
            )
        return self.cache

    def view(self, seq_len: PrimExpr | int) -> core.Tensor:
        """Return the first ``seq_len`` elements."""
        shape = ShapeExpr([seq_len, *self.unit_shape])
        found = call_pure_packed(
            ExternFunc("vm.builtin.attention_kv_cache_view"),
            self._state(),
            shape,
            sinfo_args=[TensorStructInfo(shape, self.dtype)],
        )
        return core.Tensor(_expr=core.current_builder().emit(found))

    def append(self, new_element: core.Tensor) -> None:
        """Append elements, which the first axis counts."""
        if new_element.dtype != self.dtype:
            raise TypeMismatchError(
                f"a cache of {self.dtype} cannot hold elements of {new_element.dtype}"
            )
        if list(new_element.shape[1:]) != self.unit_shape:
            raise ShapeError(
                f"elements of shape {self.unit_shape} are needed after the first axis, got "
                f"{new_element.shape}"
            )
        grown = call_inplace_packed(
            ExternFunc("vm.builtin.attention_kv_cache_append"),
            self._state(),
            core.as_expression(new_element),
            inplace_indices=[0],
            sinfo_args=[ObjectStructInfo()],
        )
        self.cache = core.current_builder().emit(grown, "cache")
