"""``relay.build``: compiles programs of the functional door, by the same path as relax's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith import relax
from tilesmith.contrib.graph_executor import checksum
from tilesmith.driver.board_build import BoardOptions, build_for_board, check_pools
from tilesmith.driver.graph_values import ConstantTable
from tilesmith.driver.node_program import node_program
from tilesmith.driver.relax_build import build_graph, graph_pipeline
from tilesmith.driver.relay_passes import chosen_passes, requested
from tilesmith.ir import IRModule
from tilesmith.ir.pass_context import PassContext
from tilesmith.ir.transform import Sequential
from tilesmith.lowering.functions import CompilingForBoard, check_options
from tilesmith.relay import transform as relay_passes
from tilesmith.relay.backend.executor import Executor, Runtime
from tilesmith.relay.backend.executor_factory import (
    AOTExecutorFactoryModule,
    ExecutorFactoryModule,
    GraphExecutorFactoryModule,
)
from tilesmith.relay.backend.external_code import EXTERNAL_KINDS, generate_external_code
from tilesmith.relay.backend.graph_json import graph_json
from tilesmith.relay.backend.target_hooks import has_hook
from tilesmith.relay.error_words import in_relays_words
from tilesmith.relay.expr import bind, const
from tilesmith.relay.function import Function
from tilesmith.relay.translate import to_relax
from tilesmith.relay.translate_devices import names_devices, to_relax_on_devices
from tilesmith.runtime.ndarray import array
from tilesmith.support.collector import rare_collections
from tilesmith.support.errors import (
    ConfigError,
    ExecutionError,
    TypeMismatchError,
    UnsupportedError,
)
from tilesmith.support.fallbacks import collect_fallbacks
from tilesmith.support.recursion import deep_recursion
from tilesmith.support.summary import phase
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of
from tilesmith.tir import PrimFunc
from tilesmith.tir.usmp.utils import use_workspace_io_is_enabled

__all__ = [
    "BuildModule", "GraphExecutorCodegen", "GraphRuntimeCodegen", "as_module",
    "bind_params_by_name", "build", "build_target", "optimize",
]  # fmt: skip

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
    board = _board_options(
        executor, runtime, workspace_memory_pools, constant_memory_pools, mod_name
    )
    chosen = build_target(target, target_host)
    module = as_module(ir_mod)
    if board is not None:
        with CompilingForBoard():
            check_options(PassContext.current())
            return _built_for_board(module, params, executor, chosen, board)
    check_options(PassContext.current())
    constants = ConstantTable("p")
    with (
        deep_recursion(),
        rare_collections(),
        chosen,
        in_relays_words(),
        collect_fallbacks() as fallbacks,
    ):
        passed = _passed(module, params, chosen)
        executable = build_graph(passed, chosen, constants)
    executable.add_fallbacks(fallbacks)
    executable.metadata["module_name"] = mod_name
    executable.metadata["bound_params"] = _bound_params(module, params)
    executable.node_program = lambda: node_program(passed, chosen)
    values = {name: array(value) for name, value in constants.arrays.items()}
    if executor.name == "aot":
        made: ExecutorFactoryModule = AOTExecutorFactoryModule(
            module, chosen, executor, executable, mod_name, values
        )
        made.lowered = passed
        return made

    def describe() -> str:
        main: Any = passed["main"]
        return graph_json(main, lambda one: f"p{constants.position(one)}")

    made = GraphExecutorFactoryModule(
        module, chosen, executor, describe, executable, mod_name, values
    )
    made.lowered = passed
    return made


def _board_options(
    executor: Executor,
    runtime: Runtime,
    workspace_pools: Any,
    constant_pools: Any,
    mod_name: str,
) -> BoardOptions | None:
    """Return the choices about a program for a board; None for one of this process. Raises
    UnsupportedError for what neither has.
    """
    check_pools(workspace_pools, constant_pools)
    if runtime.options.get("system-lib"):
        raise UnsupportedError(
            "relay.build: system-lib is not supported: there is no table of all linked functions",
            notes=("leave it out: functions are linked by their names",),
        )
    if runtime.name != "crt":
        if workspace_pools is not None or constant_pools is not None:
            raise UnsupportedError(
                "relay.build: memory pools are those of a board; programs of this process plan "
                "their workspace by themselves",
                notes=('runtime=Runtime("crt"), executor=Executor("aot"), target="c"',),
            )
        return None
    if executor.name != "aot":
        raise UnsupportedError(
            "relay.build: the graph executor reads the graph as JSON while it runs, which programs "
            "for boards do not",
            notes=('executor=Executor("aot") makes one C function that calls the kernels',),
        )
    interface = str(executor.options.get("interface-api", "packed"))
    if interface not in ("c", "packed"):
        raise ConfigError(
            f"there is no interface-api '{interface}'",
            notes=("c (structures of pointers), packed",),
        )
    has_own_io = use_workspace_io_is_enabled()
    if has_own_io and interface == "packed":
        raise ConfigError(
            "tir.usmp.use_workspace_io: arguments that are packed have memory of the caller",
            notes=('Executor("aot", {"interface-api": "c"})',),
        )
    return BoardOptions(
        mod_name, interface == "packed", workspace_pools, constant_pools, has_own_io
    )


def _built_for_board(
    module: IRModule,
    params: Mapping[str, Any] | None,
    executor: Executor,
    chosen: Target,
    board: BoardOptions,
) -> AOTExecutorFactoryModule:
    """Compile a program for a board: to C files."""
    if not back_end_of(chosen).is_for_boards:
        raise UnsupportedError(
            f"programs for boards are written in C, not for targets of kind '{chosen.kind.name}'",
            notes=('target="c", with the compiler\'s names: "c -mcpu=cortex-m7"',),
        )
    with deep_recursion(), chosen, in_relays_words():
        passed = _passed(module, params, chosen)
        library = build_for_board(passed, chosen, board)
    used = library.constants
    made = AOTExecutorFactoryModule(module, chosen, executor, library, board.module_name, used)
    made.lowered = passed
    return made


def _passed(module: IRModule, params: Mapping[str, Any] | None, chosen: Target) -> IRModule:
    """Return a program after the passes of the graph."""
    with phase("graph passes"):
        # external compilers get their functions as they were partitioned
        prepared = requested(generate_external_code(_needed(module)))
        bound = _bind(_translated(prepared, chosen), params)
        return graph_pipeline(bound, chosen, pipeline=chosen_passes(chosen), has_views=False)


def _translated(module: IRModule, chosen: Target) -> IRModule:
    """Return a program in relax's words; for a device, with the places of its values if it names
    some.
    """
    if back_end_of(chosen).is_device and names_devices(module):
        return to_relax_on_devices(module, chosen)
    return to_relax(module)


def build_target(target: Any, host: Any) -> Target:
    """Return the one target that is meant: a program runs on devices of one type, and on the host.
    Of several, all have to be the same, but for that of the host beside that of a device; a device
    of a mapping may be given by name, number or as a Device. Targets of external code generators
    may stand beside it, or have it as their host.
    """
    if isinstance(target, Mapping):
        target = list(target.values())
    if isinstance(target, (list, tuple)):
        compiled = [one for one in target if not _is_external(Target(one))]
        different = {str(Target(one)): Target(one) for one in compiled or target}
        beside = [one for one in different.values() if not _is_device(one)]
        if len(different) == 2 and len(beside) == 1:
            (target,) = [one for one in different.values() if _is_device(one)]
            host = host or target.host or beside[0]
        elif len(different) == 1:
            target = (compiled or target)[0]
        else:
            raise UnsupportedError(
                "relay.build: one program runs on devices of one type, and on the host, got the "
                "targets " + (", ".join(sorted(different)) or "none"),
                notes=("give one target, or one with that of the host",),
            )
    if target is None:
        return Target.current(allow_none=True) or Target("llvm")
    chosen = Target(target) if host is None else Target(target, host)
    if _is_external(chosen):
        return chosen.host or Target("llvm")
    return chosen


def _is_device(target: Target) -> bool:
    return not _is_external(target) and back_end_of(target).is_device


def _is_external(target: Target) -> bool:
    """Return whether a target only compiles parts of programs, by a code generator or a hook."""
    return target.kind.name in EXTERNAL_KINDS or has_hook(target.kind.name)


def as_module(program: Any) -> IRModule:
    """Return a program as a module; a function becomes its ``main``."""
    if isinstance(program, IRModule):
        return program
    if isinstance(program, (Function, relax.Function)):
        return IRModule.from_expr(program)
    raise TypeMismatchError(
        f"relay.build takes an IRModule or a relay.Function, got {type(program).__name__}",
        notes=("IRModule.from_expr(relay.Function([x, w], y)) makes one of an expression",),
    )


def _needed(module: IRModule) -> IRModule:
    """Return a module without the functions of all types that ``main`` does not need, such as those
    of the prelude: native code has a type.
    """
    generic = [one for one in module.functions.values() if getattr(one, "type_params", ())]
    if not generic or "main" not in module:
        return module
    needed: IRModule = relay_passes.RemoveUnusedFunctions()(module)
    return needed


def _bound_params(module: IRModule, params: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the parameters of ``main`` that are constants, with the checksums of their values."""
    main: Any = module["main"]
    names = [param.name_hint for param in main.params]
    return {name: checksum(array(params[name])) for name in names if params and name in params}


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
    by_name = {param.name_hint: param for param in func.params}
    values = {by_name[name]: const(value) for name, value in params.items() if name in by_name}
    made: Function = bind(func, values)
    return made


def optimize(
    mod: Any, target: Any = None, params: Mapping[str, Any] | None = None
) -> tuple[IRModule, dict[str, Any]]:
    """Return a program after relay's own passes, and its parameters; ``params`` gives values to
    parameters of ``main``, which become constants.
    """
    module = as_module(mod)
    if params and "main" in module:
        module = module.shallow_copy()
        main: Any = module["main"]
        module["main"] = bind_params_by_name(main, params)
    with deep_recursion(), build_target(target, None):
        passes = [getattr(relay_passes, name)() for name in _OPTIMIZE]
        return Sequential(passes, name="relay.optimize")(module), dict(params or {})


_OPTIMIZE = ("InferType", "SimplifyInference", "FoldConstant", "EliminateCommonSubexpr")


class BuildModule:
    """Builds programs in steps, as `build` does at once."""

    def __init__(self) -> None:
        self._built: ExecutorFactoryModule | None = None
        self._module: IRModule | None = None

    def build(
        self,
        mod: Any,
        target: Any = None,
        target_host: Any = None,
        executor: Executor | str = _GRAPH,
        runtime: Runtime | str = _CPP,
        workspace_memory_pools: Any = None,
        constant_memory_pools: Any = None,
        params: Mapping[str, Any] | None = None,
        mod_name: str | None = None,
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Compile a program; return its graph as JSON, the compiled program, its parameters."""
        self._module = as_module(mod)
        self._built = build(
            mod, target, target_host, executor, runtime, workspace_memory_pools,
            constant_memory_pools, params, mod_name or "default",
        )  # fmt: skip
        return self._built.get_executor_config(), self._built.get_lib(), self._built.get_params()

    def optimize(
        self,
        mod: Any,
        target: Any = None,
        target_host: Any = None,
        params: Mapping[str, Any] | None = None,
    ) -> tuple[IRModule, dict[str, Any]]:
        """Return a program after relay's own passes, and its parameters."""
        return optimize(mod, target, params)

    @property
    def built(self) -> ExecutorFactoryModule:
        """What `build` has made."""
        if self._built is None:
            raise ExecutionError("nothing is built yet", notes=("call build(mod, target) first",))
        return self._built

    def get_graph_json(self) -> str:
        """Return the graph of the built program as JSON."""
        config: str = self.built.get_executor_config()
        return config

    def get_module(self) -> Any:
        """Return the compiled program."""
        return self.built.get_lib()

    def get_function_metadata(self) -> dict[str, Any]:
        """Return what is known of each compiled function: inputs, results, workspace."""
        return dict(self.built.get_lib().metadata["functions"])

    def get_executor_codegen_metadata(self) -> dict[str, Any]:
        """Return what an executor of the built program has to know."""
        metadata = self.built.get_lib().metadata
        return {
            "executor": self.built.executor.name,
            "mod_name": self.built.libmod_name,
            "inputs": self.built.get_lib().input_names,
            "target": metadata["target"],
        }

    def get_devices(self) -> list[str]:
        """Return the kinds of devices that the program runs on."""
        return self.built.get_devices()

    def get_params(self) -> dict[str, Any]:
        """Return the constants of the built program by name."""
        return self.built.get_params()

    def get_irmodule(self) -> IRModule:
        """Return the program that was built."""
        _ = self.built
        assert self._module is not None
        return self._module


class GraphExecutorCodegen:
    """Writes the graph executor's JSON of a function."""

    def __init__(self, mod: IRModule | None = None, target: Any = None) -> None:
        self.mod = IRModule() if mod is None else mod
        self.target = build_target(target, None)

    def codegen(
        self, ir_module: IRModule, func: Function
    ) -> tuple[str, dict[Target, IRModule], dict[str, Any]]:
        """Return the JSON, the kernels for the target, and the constants by name."""
        module = ir_module.shallow_copy()
        module["main"] = func
        built = build(module, self.target)
        kernels = IRModule(
            {name: one for name, one in built.lowered.items() if isinstance(one, PrimFunc)}
        )
        return built.get_executor_config(), {self.target: kernels}, built.get_params()


GraphRuntimeCodegen = GraphExecutorCodegen
