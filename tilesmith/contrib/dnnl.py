"""Products and convolutions by oneDNN (`pip install onednn-cpu-gomp`)."""

from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__)
