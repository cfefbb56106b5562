"""Strategies of operators for x86 CPUs."""

from tilesmith.relay.op.strategy.names import StrategyNames
from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__, finder=StrategyNames("x86"))
