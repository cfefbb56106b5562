"""Layers that move elements."""

from __future__ import annotations

from typing import Any

from tilesmith.relay import op
from tilesmith.relay.frontend.keras.registry import Graph, plain
from tilesmith.relay.op.view import rank_of, sizes

__all__: list[str] = []


@plain("Flatten")
def _flatten(graph: Graph, layer: Any, x: Any) -> Any:
    if layer.data_format == "channels_first" and rank_of(x) > 2:
        x = op.transpose(x, [0, *range(2, rank_of(x)), 1])
    return op.expand_dims(x, 1) if rank_of(x) == 1 else op.nn.batch_flatten(x)


@plain("Reshape")
def _reshape(graph: Graph, layer: Any, x: Any) -> Any:
    batch = sizes(x)[0]
    target = [int(size) for size in layer.target_shape]
    if isinstance(batch, int) or -1 in target:
        return op.reshape(x, (batch if isinstance(batch, int) else 0, *target))
    return op.reshape(x, (-1, *target))


@plain("Permute")
def _permute(graph: Graph, layer: Any, x: Any) -> Any:
    return op.transpose(x, [0, *layer.dims])


@plain("RepeatVector")
def _repeat_vector(graph: Graph, layer: Any, x: Any) -> Any:
    return op.repeat(op.expand_dims(x, 1), int(layer.n), 1)
