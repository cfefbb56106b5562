"""``relay.op.annotation``, known as ``relay.annotation``: notes for passes, which change no
value.
"""

from tilesmith.relay.op.annotation import annotation
from tilesmith.relay.op.view import functions

globals().update(functions("annotation."))

__all__ = sorted([*functions("annotation."), "annotation"])
