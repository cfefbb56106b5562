"""Strategies of operators for Mali GPUs."""

from tilesmith.relay.op.strategy.names import StrategyNames
from tilesmith.support.lazy import lazy_attributes

_names = StrategyNames("mali")

__getattr__, __dir__ = lazy_attributes(__name__, finder=_names)

__all__ = sorted(_names.public_names())
