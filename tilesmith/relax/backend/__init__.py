"""Patterns for libraries, and what depends on the target before operators become kernels."""

from tilesmith.support.lazy import lazy_attributes

_WHERE = {
    "DispatchSampling": "dispatch_sampling:DispatchSampling",
    "DispatchSortScan": "dispatch_sort_scan:DispatchSortScan",
    "get_pattern": "pattern_registry:get_pattern",
    "get_patterns_with_prefix": "pattern_registry:get_patterns_with_prefix",
    "register_patterns": "pattern_registry:register_patterns",
    "contrib": "contrib",
    "dispatch_sampling": "dispatch_sampling",
    "dispatch_sort_scan": "dispatch_sort_scan",
    "pattern_registry": "pattern_registry",
    "patterns": "patterns",
    "utils": "utils",
}
__getattr__, __dir__ = lazy_attributes(
    __name__, {name: f"{__name__}.{place}" for name, place in _WHERE.items()}
)
