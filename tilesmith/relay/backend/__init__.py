"""``relay.backend``: what programs are built for (executor, runtime), what building gives, and the
compiler of single functions of operators (`te_compiler`).
"""

from tilesmith.relay.backend import executor_factory
from tilesmith.relay.backend.executor import Executor, Runtime
from tilesmith.support.lazy import lazy_attributes

_MODULES = (
    "graph_executor_codegen", "graph_plan_memory", "interpreter", "name_transforms",
    "te_compiler", "utils", "vm",
)  # fmt: skip

__getattr__, __dir__ = lazy_attributes(__name__, {name: f"{__name__}.{name}" for name in _MODULES})

__all__ = ["Executor", "Runtime", "executor_factory"]
