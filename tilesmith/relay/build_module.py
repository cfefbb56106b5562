"""``relay.build_module``: building programs, under the name of its module."""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__)
