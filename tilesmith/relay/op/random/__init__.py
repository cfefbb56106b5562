"""``relay.op.random``, known as ``relay.random``: random numbers from keys (Threefry)."""

from tilesmith.relay.op.random import kernel
from tilesmith.relay.op.view import functions

globals().update(functions("random."))

__all__ = sorted([*functions("random."), "kernel"])
