"""Measures and views compiled programs, and finds what is wrong with them."""

from tilesmith.support.lazy import lazy_attributes

_NAMES = {
    "KernelProfile": "tilesmith.inspect.kernel_profile:KernelProfile",
    "StepExecutor": "tilesmith.inspect.step_executor:StepExecutor",
    "CacheObserver": "tilesmith.inspect.gpu_cache:CacheObserver",
    "CacheReport": "tilesmith.inspect.gpu_cache:CacheReport",
    "GPUReport": "tilesmith.inspect.gpu_reports:GPUReport",
    "accuracy": "tilesmith.inspect.layer_accuracy:accuracy",
    "cache_report": "tilesmith.inspect.gpu_cache:cache_report",
    "gpu_report": "tilesmith.inspect.gpu_reports:gpu_report",
    "profile": "tilesmith.inspect.kernel_profile:profile",
}

__all__ = sorted(_NAMES)

__getattr__, __dir__ = lazy_attributes(__name__, _NAMES)
