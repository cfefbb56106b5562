"""``relay.backend``: what programs are built for (executor, runtime), what building gives, and the
compiler of single functions of operators (`te_compiler`).
"""

from tilesmith.relay.backend import executor_factory
from tilesmith.relay.backend.executor import Executor, Runtime
from tilesmith.support.lazy import lazy_attributes

_LAZY = {
    "te_compiler": "tilesmith.relay.backend.te_compiler",
    "utils": "tilesmith.relay.backend.utils",
}

__getattr__, __dir__ = lazy_attributes(__name__, _LAZY)

__all__ = ["Executor", "Runtime", "executor_factory"]
