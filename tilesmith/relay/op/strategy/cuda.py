"""Strategies of operators for CUDA, and GPUs in general."""

from tilesmith.relay.op.strategy.names import StrategyNames
from tilesmith.support.lazy import lazy_attributes

_names = StrategyNames("cuda")

__getattr__, __dir__ = lazy_attributes(__name__, finder=_names)

__all__ = sorted(_names.public_names())
