"""``relay.qnn.op``: the operators of quantised networks.

They are views like those of `relay.op`: each says of which operators a call consists, in exact
integer arithmetic. ``parameters`` has what is common to scales and zero points.
"""

from tilesmith.relay.qnn.op import op, qnn
from tilesmith.relay.qnn.op.op import register_qnn_canonicalize, register_qnn_legalize
from tilesmith.relay.qnn.op.qnn import *  # noqa: F403
from tilesmith.support.lazy import lazy_attributes

_MODULES = ("canonicalizations", "layout_conversions", "legalizations")

__getattr__, __dir__ = lazy_attributes(__name__, {name: f"{__name__}.{name}" for name in _MODULES})

__all__ = [
    *qnn.__all__, "op", "qnn", "register_qnn_canonicalize", "register_qnn_legalize",
]  # fmt: skip
