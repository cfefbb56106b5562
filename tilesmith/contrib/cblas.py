"""Products of matrices by a BLAS library with a C interface (usually OpenBLAS)."""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__)
