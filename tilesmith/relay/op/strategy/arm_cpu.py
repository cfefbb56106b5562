"""Strategies of operators for Arm CPUs."""

from tilesmith.relay.op.strategy.names import StrategyNames
from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__, finder=StrategyNames("arm_cpu"))
