"""``relay.vm``: compiles programs of the functional door for the virtual machine.

Programs of tensors, with choices and loops, become native code by the same path as all others.
What native code cannot hold (data types, closures, references, tensors whose sizes a choice
decides) runs step by step, and the tensor parts in between are native code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilesmith import relax
from tilesmith.driver.graph_values import ConstantTable
from tilesmith.driver.relax_build import build_graph, graph_pipeline
from tilesmith.driver.relay_build import as_module, build_target, optimize
from tilesmith.driver.relay_passes import chosen_passes, requested
from tilesmith.ir import IRModule
from tilesmith.ir.pass_context import PassContext
from tilesmith.lowering.functions import check_options
from tilesmith.relay.backend.external_code import generate_external_code
from tilesmith.relay.backend.interpreter import Executor
from tilesmith.relay.error_words import in_relays_words
from tilesmith.relay.transform import RemoveUnusedFunctions
from tilesmith.relay.translate import to_relax
from tilesmith.relay.translate_objects import needs_objects, to_relax_objects
from tilesmith.runtime.ndarray import array
from tilesmith.runtime.vm import Executable, VirtualMachine
from tilesmith.support.errors import ExecutionError
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.support.recursion import deep_recursion
from tilesmith.support.summary import phase
from tilesmith.target import Target

__all__ = ["VMCompiler", "VMExecutor", "compile"]


def compile(
    mod: Any, target: Any = None, target_host: Any = None, params: Mapping[str, Any] | None = None
) -> Executable:
    """Compile a program (an IRModule, or a function, which becomes ``main``) for the virtual
    machine. ``params`` gives values to parameters of ``main``.

    Where there is a ``main``, functions that it does not need are left out.
    """
    compiler = VMCompiler()
    if params:
        compiler.set_params(params)
    compiler.lower(mod, target, target_host)
    compiler.codegen()
    return compiler.get_exec()


class VMCompiler:
    """Compiles in steps: `set_params`, `lower`, `codegen`, `get_exec`."""

    def __init__(self) -> None:
        self._params: dict[str, Any] = {}
        self._lowered: tuple[IRModule, Target] | None = None
        self._constants = ConstantTable()
        self._fallbacks: Any = None
        self._executable: Executable | None = None

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Give values to parameters of ``main``."""
        self._params = dict(params)

    def get_params(self) -> dict[str, Any]:
        """Return the constants of the program by name; before `codegen`, the values that are
        set.
        """
        arrays = self._constants.arrays or self._params
        return {name: array(value) for name, value in arrays.items()}

    def optimize(
        self,
        mod: IRModule,
        target: Any = None,
        target_host: Any = None,
        params: Mapping[str, Any] | None = None,
    ) -> tuple[IRModule, dict[str, Any]]:
        """Return the program after relay's own passes, and its parameters."""
        return optimize(mod, target, {**self._params, **(params or {})})

    def lower(self, mod: Any, target: Any = None, target_host: Any = None) -> None:
        """Translate a program and apply the passes of the graph."""
        check_options(PassContext.current())
        chosen = build_target(target, target_host)
        module = as_module(mod)
        if "main" in module:
            module = RemoveUnusedFunctions()(module)
        entries = [
            name.name_hint
            for name, function in module.functions.items()
            if not getattr(function, "type_params", ())
        ]
        with deep_recursion(), chosen, in_relays_words(), collect_fallbacks() as self._fallbacks:
            with phase("graph passes"):
                module = requested(generate_external_code(module))
                translate = to_relax_objects if needs_objects(module) else to_relax
                translated = translate(module, entries)
                if self._params:
                    main: Any = translated["main"]
                    names = {param.name_hint for param in main.params}
                    known = {key: one for key, one in self._params.items() if key in names}
                    translated = relax.transform.BindParams("main", known)(translated)
                passes = chosen_passes(chosen)
                self._lowered = (
                    graph_pipeline(translated, chosen, pipeline=passes, has_views=False),
                    chosen,
                )

    def codegen(self) -> None:
        """Compile what `lower` has made."""
        if self._lowered is None:
            raise ExecutionError("there is nothing to compile", notes=("call lower(mod) first",))
        module, target = self._lowered
        self._constants = ConstantTable()
        with deep_recursion(), target, in_relays_words(), collect_fallbacks() as fallbacks:
            built = build_graph(module, target, self._constants)
        built.add_fallbacks(self._fallbacks)
        built.add_fallbacks(fallbacks)
        self._executable = Executable(built)

    def get_exec(self) -> Executable:
        """Return the executable."""
        if self._executable is None:
            raise ExecutionError("there is no executable yet", notes=("call codegen() first",))
        return self._executable


class VMExecutor(Executor):
    """Runs programs by the virtual machine."""

    def function_of(self, module: IRModule) -> Callable[..., Any]:
        """Return a function that runs ``main`` of a module."""
        machine = VirtualMachine(compile(module, self.target), self.device)
        return machine.run
