"""``relay.backend``: what programs are built for (executor, runtime), and what building gives."""

from tilesmith.relay.backend import executor_factory
from tilesmith.relay.backend.executor import Executor, Runtime

__all__ = ["Executor", "Runtime", "executor_factory"]
