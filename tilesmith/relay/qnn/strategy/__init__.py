"""``relay.qnn.strategy``: how the dialect's operators are computed on a target.

All targets have the program of the operator's record, scheduled by the static search; programs
register strategies of their own for keys of targets (`generic`).
"""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(
    __name__, {name: f"{__name__}.{name}" for name in ("arm_cpu", "generic", "hexagon")}
)
