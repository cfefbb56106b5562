"""``relay.backend.vm``: the compiler for the virtual machine, under the name of its module."""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__)
