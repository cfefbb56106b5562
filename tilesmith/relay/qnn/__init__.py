"""``relay.qnn``: operators of quantised networks, whose tensors are small integers.

A number r is stored as an integer q: ``r = scale * (q - zero_point)``. ``qnn.op`` has the
operators, ``qnn.transform`` the passes that write them as others.
"""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {name: f"{__name__}.{name}" for name in ("op", "strategy", "transform")},
)
