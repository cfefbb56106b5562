"""Strategies of operators for any target, and what strategies are written with."""

from tilesmith.relay.op.strategy.names import StrategyNames
from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__, finder=StrategyNames("generic"))
