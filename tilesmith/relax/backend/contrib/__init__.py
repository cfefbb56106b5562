"""Code generators for parts of graphs: libraries that compute them where the program runs."""

from tilesmith.support.lazy import lazy_attributes

__all__ = ["cblas", "dnnl", "library_codegen", "library_graph"]

__getattr__, __dir__ = lazy_attributes(__name__, {name: f"{__name__}.{name}" for name in __all__})
