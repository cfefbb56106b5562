"""Strategies of operators for Mali GPUs."""

from tilesmith.relay.op.strategy.names import StrategyNames
from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__, finder=StrategyNames("mali"))
