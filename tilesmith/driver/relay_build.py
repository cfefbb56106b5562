"""``relay.build``: compiles programs of the functional door, by the same path as relax's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilesmith import relax
from tilesmith.driver.graph_values import ConstantTable
from tilesmith.driver.relax_build import build_graph, graph_pipeline
from tilesmith.driver.relay_passes import chosen_passes, requested
from tilesmith.ir import IRModule
from tilesmith.ir.pass_context import PassContext
from tilesmith.lowering.functions import check_options
from tilesmith.relay.backend.executor import Executor, Runtime
from tilesmith.relay.backend.executor_factory import (
    AOTExecutorFactoryModule,
    ExecutorFactoryModule,
    GraphExecutorFactoryModule,
)
from tilesmith.relay.backend.graph_json import graph_json
from tilesmith.relay.expr import RelaxExpr
from tilesmith.relay.function import Function
from tilesmith.relay.translate import to_relax
from tilesmith.runtime.devices import Device
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.support.errors import TypeMismatchError, UnknownNameError, UnsupportedError
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.support.recursion import deep_recursion
from tilesmith.support.summary import phase
from tilesmith.target import Target

__all__ = ["ProgramExecutor", "bind_params_by_name", "build", "create_executor"]

_GRAPH, _CPP = Executor("graph"), Runtime("cpp")


def build(
    ir_mod: Any,
    target: Any = None,
    target_host: Any = None,
    executor: Executor | str = _GRAPH,
    runtime: Runtime | str = _CPP,
    workspace_memory_pools: Any = None,
    constant_memory_pools: Any = None,
    params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
) -> ExecutorFactoryModule:
    """Compile a program (an IRModule, or a function, which becomes ``main``) for a target.

    ``params`` gives values to parameters of ``main``: they become constants of the program.
    ``executor`` chooses the form of the result; either runs the same native code.
    """
    executor = Executor(executor) if isinstance(executor, str) else executor
    runtime = Runtime(runtime) if isinstance(runtime, str) else runtime
    _refuse(runtime, workspace_memory_pools, constant_memory_pools)
    check_options(PassContext.current())
    chosen = _target(target, target_host)
    module = _module(ir_mod)
    constants = ConstantTable()
    with deep_recursion(), chosen, collect_fallbacks() as fallbacks:
        with phase("graph passes"):
            bound = _bind(to_relax(requested(module)), params)
            passed = graph_pipeline(bound, chosen, pipeline=chosen_passes(chosen))
        executable = build_graph(passed, chosen, constants)
    executable.add_fallbacks(fallbacks)
    executable.metadata["module_name"] = mod_name
    values = {name: array(value) for name, value in constants.arrays.items()}
    if executor.name == "aot":
        return AOTExecutorFactoryModule(module, chosen, executor, executable, mod_name, values)

    def describe() -> str:
        main: Any = passed["main"]
        return graph_json(main, lambda one: f"constant_{constants.position(one)}")

    return GraphExecutorFactoryModule(
        module, chosen, executor, describe, executable, mod_name, values
    )


def _refuse(runtime: Runtime, *pools: Any) -> None:
    if any(pool is not None for pool in pools):
        raise UnsupportedError("relay.build: memory pools of boards are not supported yet")
    if runtime.name == "crt" or runtime.options.get("system-lib"):
        raise UnsupportedError(
            "relay.build: programs for boards (the C runtime, system-lib) cannot be built yet",
            notes=('target="c" writes the program as C: lib.get_lib().get_source()',),
        )


def _target(target: Any, host: Any) -> Target:
    if isinstance(target, Mapping):
        if len(target) != 1:
            raise UnsupportedError(
                "relay.build: one program runs on one device so far", notes=("give one target",)
            )
        target = next(iter(target.values()))
    if isinstance(target, (list, tuple)) and len(target) == 1:
        target = target[0]
    if target is None:
        return Target.current(allow_none=True) or Target("llvm")
    return Target(target) if host is None else Target(target, host)


def _module(program: Any) -> IRModule:
    if isinstance(program, IRModule):
        return program
    if isinstance(program, (Function, relax.Function)):
        return IRModule.from_expr(program)
    raise TypeMismatchError(
        f"relay.build takes an IRModule or a relay.Function, got {type(program).__name__}",
        notes=("IRModule.from_expr(relay.Function([x, w], y)) makes one of an expression",),
    )


def _bind(module: IRModule, params: Mapping[str, Any] | None) -> IRModule:
    """Make constants of the parameters of ``main`` that have a value; other names are ignored, as
    users hand over the weights of a whole model.
    """
    if not params:
        return module
    main: Any = module["main"]
    names = {param.name_hint for param in main.params}
    known = {name: value for name, value in params.items() if name in names}
    bound: IRModule = relax.transform.BindParams("main", known)(module)
    return bound


def bind_params_by_name(func: Function, params: Mapping[str, Any]) -> Function:
    """Return a function whose parameters that are named in ``params`` are constants."""
    from tilesmith.relay.expr import bind, const

    by_name = {param.name_hint: param for param in func.params}
    values = {by_name[name]: const(value) for name, value in params.items() if name in by_name}
    made: Function = bind(func, values)
    return made


class ProgramExecutor:
    """Compiles the functions of a module and runs them; see `create_executor`."""

    def __init__(self, mod: IRModule, device: Device | None, target: Target) -> None:
        if device is not None and device.device_type != 1:
            raise UnsupportedError(f"programs run on the CPU so far, not on {device}")
        self.mod = mod
        self.device = device
        self.target = target

    def evaluate(self, expr: Any = None, binds: Mapping[Any, Any] | None = None) -> Any:
        """Return a Python function that runs a function of the functional door (``main`` without
        ``expr``), or the value of another expression; ``binds`` gives values to free variables.
        """
        if binds:
            from tilesmith.relay.expr import bind, const

            constants = {
                var: value if isinstance(value, RelaxExpr) else const(value)
                for var, value in binds.items()
            }
            expr = bind(expr, constants)
        if expr is None or isinstance(expr, Function):
            return self._callable(self.mod if expr is None else self._with_main(expr))
        name = getattr(expr, "name_hint", None)
        if name is not None and name in [one.name_hint for one in self.mod.functions]:
            return self._callable(self._with_main(self.mod[name]))
        return self._callable(self._with_main(Function([], expr)))()

    def _with_main(self, function: Any) -> IRModule:
        module = self.mod.shallow_copy()
        module["main"] = function
        return module

    def _callable(self, module: IRModule) -> Callable[..., Any]:
        executable = build(module, self.target).get_lib()
        names = executable.input_names

        def run(*args: Any, **named: Any) -> Any:
            for name in named:
                if name not in names:
                    raise UnknownNameError(
                        f"the function has no parameter '{name}'",
                        notes=("it has: " + ", ".join(names),),
                    )
            converted = [_argument(arg) for arg in args]
            return executable(*converted, **{key: _argument(one) for key, one in named.items()})

        return run


def _argument(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple([_argument(one) for one in value])
    return value if isinstance(value, NDArray) else array(value)


def create_executor(
    kind: str = "debug",
    mod: IRModule | None = None,
    device: Any = None,
    target: Any = "llvm",
    params: Mapping[str, Any] | None = None,
) -> ProgramExecutor:
    """Make an executor: ``create_executor("graph", mod).evaluate()(x)``.

    All kinds ("debug", "graph", "vm", "aot") run the same native code. ``params`` gives values to
    parameters of ``main``.
    """
    if kind not in ("debug", "graph", "vm", "aot"):
        raise UnknownNameError(
            f"there is no executor '{kind}'", notes=("known: debug, graph, vm, aot",)
        )
    module = IRModule() if mod is None else _module(mod)
    if params:
        module = module.shallow_copy()
        main: Any = module["main"]
        module["main"] = bind_params_by_name(main, params)
    if isinstance(device, (list, tuple)):
        device = device[0] if device else None
    return ProgramExecutor(module, device, _target(target, None))
