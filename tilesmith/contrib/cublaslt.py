"""Products of matrices by cuBLASLt, on an NVIDIA GPU."""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__)
