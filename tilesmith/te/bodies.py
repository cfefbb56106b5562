"""Rewrites the bodies of computations: the values of tuple reductions, the tensors they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.ir import PrimExpr, Rewriter
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.expr import ProducerLoad, Reduce
from tilesmith.tir.stmt import ProducerRealize, ProducerStore, Stmt

__all__ = ["map_body", "read_other_tensors", "replace_tensors"]

Body = tuple[PrimExpr, ...]


def map_body(body: Body, function: Callable[[Any], Any]) -> Body:
    """Return the values of a computation with ``function`` applied to each; the same tuple where
    nothing changes. The values of one reduction share their parts, also afterwards.
    """
    first = body[0] if body else None
    if not isinstance(first, Reduce):
        new = [function(value) for value in body]
        return body if all(one is other for one, other in zip(new, body)) else tuple(new)
    reduction = function(first)
    if reduction is first:
        return body
    return tuple([reduction.with_fields(value_index=value.value_index) for value in body])  # type: ignore[attr-defined]


class _TensorReplacer(Rewriter):
    def __init__(self, replaced: Mapping[Any, Any]) -> None:
        self.replaced = replaced

    def visit_ProducerLoad(self, load: ProducerLoad) -> ProducerLoad:
        load = self.children(load)
        tensor = self.replaced.get(load.producer)
        return load if tensor is None else ProducerLoad(tensor, load.indices, load.span)


def read_other_tensors(body: Any, replaced: Mapping[Any, Any]) -> Any:
    """Return the values (or statements) of an operation with other tensors read in the place of
    some.
    """
    with deep_recursion():
        return map_body(body, _TensorReplacer(replaced).visit)


class _StorageReplacer(_TensorReplacer):
    def visit_ProducerStore(self, store: ProducerStore) -> Stmt:
        new = self.children(store)
        return new.with_fields(producer=self.replaced.get(store.producer, store.producer))

    def visit_ProducerRealize(self, realize: ProducerRealize) -> Stmt:
        new = self.children(realize)
        return new.with_fields(producer=self.replaced.get(realize.producer, realize.producer))


def replace_tensors(body: Stmt, replaced: Mapping[Any, Any]) -> Stmt:
    """Return a statement that reads, writes and realizes other tensors in the place of some."""
    with deep_recursion():
        return _StorageReplacer(replaced).visit(body)
