"""Tensors of random numbers; the packed function `tvm.contrib.random.seed` starts them anew."""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__)
