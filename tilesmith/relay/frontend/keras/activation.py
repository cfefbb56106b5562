"""Activations that belong to layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.relay.frontend.activations import ACTIVATIONS, ALONG_CHANNELS
from tilesmith.relay.frontend.images import channels_first, channels_last
from tilesmith.relay.frontend.keras.registry import Graph, Value
from tilesmith.support.errors import OpNotImplemented

__all__ = ["activated", "activation_of"]


def activation_of(graph: Graph, layer: Any, name: str = "activation") -> Callable[[Any], Any]:
    """Return a layer's activation as a function of an expression with its channels last."""
    given = getattr(layer, name, None)
    if given is None:
        return ACTIVATIONS["linear"]
    if hasattr(given, "get_config"):  # a layer
        return lambda x: graph.call(given, Value(x)).plain()
    known = getattr(given, "__name__", str(given))
    if known not in ACTIVATIONS or not getattr(given, "__module__", "").startswith("keras."):
        raise OpNotImplemented(
            f"the activation '{known}' of the layer '{layer.name}' cannot be imported",
            notes=("keras.activations has those that can", "use a layer for it: layers.ReLU(…)"),
        )
    return ACTIVATIONS[known]


def activated(graph: Graph, layer: Any, x: Any, first: bool) -> Any:
    """Return the activation of an image, whose channels may be at axis 1."""
    given = getattr(layer, "activation", None)
    function = activation_of(graph, layer)
    across = hasattr(given, "get_config") or getattr(given, "__name__", "") in ALONG_CHANNELS
    if first and across:
        return channels_first(function(channels_last(x)))
    return function(x)
