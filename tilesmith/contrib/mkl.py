"""Products of matrices by Intel's MKL (`pip install mkl`)."""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__)
