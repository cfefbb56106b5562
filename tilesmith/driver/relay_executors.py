"""``relay.create_executor``: programs of the functional door as Python functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tilesmith.driver.relay_build import as_module, bind_params_by_name, build, build_target
from tilesmith.driver.relay_vm import VMExecutor
from tilesmith.ir import IRModule
from tilesmith.relay.backend.interpreter import Executor, Interpreter
from tilesmith.runtime.device_models import model_on
from tilesmith.support.errors import UnknownNameError

__all__ = ["AotExecutor", "GraphExecutor", "create_executor"]


class GraphExecutor(Executor):
    """Runs programs of tensors as the graph executor does."""

    kind: ClassVar[str] = "graph"

    def function_of(self, module: IRModule) -> Callable[..., Any]:
        """Return a function that runs ``main`` of a module."""
        library: Callable[..., Any] = build(module, self.target, executor=self.kind).get_lib()
        if self.device is None:
            return library
        made: Callable[..., Any] = model_on(library, [self.device]).get_function("main")
        return made


class AotExecutor(GraphExecutor):
    """Runs programs of tensors by one function that was compiled ahead of time."""

    kind = "aot"


def create_executor(
    kind: str = "debug",
    mod: IRModule | None = None,
    device: Any = None,
    target: Any = "llvm",
    params: Mapping[str, Any] | None = None,
) -> Executor:
    """Make an executor: ``create_executor("graph", mod).evaluate()(x)``.

    "debug" evaluates with numpy, expression by expression; "graph" and "aot" run programs of
    tensors, "vm" all programs, compiled. ``params`` gives values to parameters of ``main``.
    """
    kinds: dict[str, type[Executor]] = {
        "debug": Interpreter, "graph": GraphExecutor, "vm": VMExecutor, "aot": AotExecutor
    }  # fmt: skip
    if kind not in kinds:
        raise UnknownNameError(
            f"there is no executor '{kind}'", notes=("known: " + ", ".join(kinds),)
        )
    module = IRModule() if mod is None else as_module(mod)
    if params:
        module = module.shallow_copy()
        main: Any = module["main"]
        module["main"] = bind_params_by_name(main, params)
    if isinstance(device, (list, tuple)):
        device = device[0] if device else None
    return kinds[kind](module, device, build_target(target, None))
