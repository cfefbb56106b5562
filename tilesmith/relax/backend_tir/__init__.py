"""Kernels, and patterns of kernels, for passes that depend on the target."""

from tilesmith.support.lazy import lazy_attributes

_WHERE = {
    "generic_get_sample_index": "sampling:generic_get_sample_index",
    "get_tir_pattern": "pattern:get_tir_pattern",
    "gpu_2d_continuous_cumsum": "cumsum:gpu_2d_continuous_cumsum",
    "gpu_multinomial_from_uniform": "sampling:gpu_multinomial_from_uniform",
    "cumsum": "cumsum",
    "pattern": "pattern",
    "sampling": "sampling",
}
__getattr__, __dir__ = lazy_attributes(
    __name__, {name: f"{__name__}.{place}" for name, place in _WHERE.items()}
)
