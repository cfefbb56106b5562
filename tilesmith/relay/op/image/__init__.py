"""``relay.op.image``, known as ``relay.image``: operators of images."""

from tilesmith.relay.op.image import image
from tilesmith.relay.op.view import functions

globals().update(functions("image."))

__all__ = sorted([*functions("image."), "image"])
