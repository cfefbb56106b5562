"""Strategies of operators for x86 CPUs."""

from tilesmith.relay.op.strategy.names import StrategyNames
from tilesmith.support.lazy import lazy_attributes

_names = StrategyNames("x86")

__getattr__, __dir__ = lazy_attributes(__name__, finder=_names)

__all__ = sorted(_names.public_names())
