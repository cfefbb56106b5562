"""``lower`` and ``build``: lower tensor programs to flat loops and compile them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.codegen import build as generate
from tilesmith.ir import BaseFunc, IRModule
from tilesmith.ir.transform import Pass, PassContext, Sequential
from tilesmith.lowering.checking import (
    check_builds,
    check_same,
    checked_passes,
    is_checking,
)
from tilesmith.lowering.devices import build_for_device
from tilesmith.lowering.pipelines import PHASES, classic_passes, host_passes, lower_passes
from tilesmith.lowering.program_kind import ProgramKind, program_kind
from tilesmith.runtime.module import Module
from tilesmith.support.errors import (
    ConfigError,
    OutOfBoundsError,
    TypeMismatchError,
    UnsupportedError,
)
from tilesmith.support.fallbacks import capture_fallbacks
from tilesmith.support.knobs import knobs
from tilesmith.support.memory_planner import check_algorithm
from tilesmith.support.scopes import Scoped
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of, find_back_end, part
from tilesmith.tir.analysis.out_of_bounds import find_out_of_bounds
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.schedule import Schedule
from tilesmith.tir.transform import Apply, ConvertForLoopsToSerial
from tilesmith.tir.transform.options import memory_algorithm

__all__ = ["build", "build_to_run", "check_scheduled", "checking_bounds", "lower", "lower_entries"]

_DEFAULT_NAMES = ("main", "default_function")


def lower(
    inp: Any,
    args: Sequence[Any] | None = None,
    name: str = "main",
    binds: Mapping[Any, Any] | None = None,
    simple_mode: bool = False,
) -> IRModule:
    """Lower a schedule, a PrimFunc or a module of PrimFuncs to a module of flat loops.

    ``name`` is the public name of the function; by default a PrimFunc keeps the name that it has.
    ``args`` (the tensors, buffers and variables that are the parameters) and ``binds`` (buffers for
    tensors) belong to classic schedules. ``simple_mode`` stops before loops are vectorized and
    unrolled. Raises UnsupportedError for inputs that cannot be lowered.
    """
    module = _as_module(inp, args, name, binds)
    context = PassContext.current()
    check_options(context)
    added = _added_passes(context)
    with checked_passes():
        lowered = _lowered(module, added, simple_mode)
    if _is_classic(inp) and not added:
        from tilesmith.lowering.te_schedules import check_pragmas  # loads classic schedules

        check_pragmas(inp, lowered)
    return lowered


def _lowered(module: IRModule, added: list[tuple[int, Pass]], simple_mode: bool) -> IRModule:
    """Lower each function by the passes for its kind: blocks, blocks on threads, or classic
    loops.
    """
    kinds = {variable: program_kind(func) for variable, func in module.functions.items()}
    lowered = module
    for kind in dict.fromkeys(kinds.values()):
        if kind is ProgramKind.CLASSIC:
            passes = classic_passes(added)
        else:
            passes = lower_passes(added, on_threads=kind is ProgramKind.THREADS)
        if simple_mode:
            unwanted = ["tir.VectorizeLoop", "tir.UnrollLoop", "tir.StorageRewrite"]
            if kind is ProgramKind.CLASSIC:
                unwanted += ["tir.LoopPartition", "tir.PeelVectorTails"]
            passes = [step for step in passes if step.info.name not in unwanted]
        sequence = Sequential(passes, name="tir.lower")
        if len(set(kinds.values())) == 1:
            return sequence(module)
        part = {v: module[v] for v, found in kinds.items() if found is kind}
        lowered = lowered.shallow_copy()
        lowered.update(sequence(IRModule(part, None, module.attrs, module.global_infos)))
    return lowered


def _is_classic(inp: Any) -> bool:
    """Return whether an input is a classic schedule, without loading what knows about these."""
    loaded = sys.modules.get("tilesmith.te.schedule.schedule")
    return loaded is not None and isinstance(inp, loaded.Schedule)


def _as_module(
    inp: Any,
    args: Sequence[Any] | None,
    name: str,
    binds: Mapping[Any, Any] | None = None,
) -> IRModule:
    if isinstance(inp, IRModule):
        others = [v.name_hint for v, f in inp.functions.items() if not isinstance(f, PrimFunc)]
        if others:
            raise UnsupportedError(
                f"only PrimFuncs can be lowered here, the module also has {', '.join(others)}",
                notes=("compile graph functions with relax.build",),
            )
        return inp
    if isinstance(inp, PrimFunc):
        if "global_symbol" not in inp.attrs or name not in _DEFAULT_NAMES:
            inp = inp.with_attr("global_symbol", name)
        if "tir.noalias" not in inp.attrs and _no_alias():
            inp = inp.with_attr("tir.noalias", True)
        return IRModule({str(inp.attrs["global_symbol"]): inp})
    if isinstance(inp, (list, tuple)) and all(
        isinstance(part, (PrimFunc, IRModule)) for part in inp
    ):
        module = IRModule()
        for part in inp:
            for variable, func in _as_module(part, None, name).items():
                if variable.name_hint in module:
                    raise UnsupportedError(
                        f"two functions are called '{variable.name_hint}'",
                        notes=("give them names: func.with_attr('global_symbol', 'name')",),
                    )
                module[variable] = func
        return module
    if isinstance(inp, BaseFunc):
        raise UnsupportedError(
            f"a {type(inp).__name__} cannot be lowered here",
            notes=("compile graph functions with relax.build",),
        )
    if isinstance(inp, Schedule):
        return _as_module(inp.mod, args, name)
    if _is_classic(inp):
        from tilesmith.lowering.te_schedules import schedule_to_module

        module = schedule_to_module(inp, args, name, binds)
        func = module[name]
        return IRModule({name: func.with_attr("tir.noalias", True)}) if _no_alias() else module
    raise TypeMismatchError(
        f"lower and build take a PrimFunc, an IRModule or a schedule, got {type(inp).__name__}",
        notes=("a tensor expression becomes a PrimFunc by te.create_prim_func",),
    )


def _with_public_functions(module: IRModule) -> IRModule:
    """Return a module whose functions are named by their symbols, as other object files call them.

    If no function of the module is public, all become public under their names. Raises ConfigError
    where two functions have one symbol.
    """
    functions = dict(module.items())
    if not any("global_symbol" in func.attrs for func in functions.values()):
        module = module.shallow_copy()
        for variable, func in functions.items():
            module[variable] = func.with_attr("global_symbol", variable.name_hint)
        return module
    symbols = {v: str(f.attrs.get("global_symbol", v.name_hint)) for v, f in functions.items()}
    renamed = {v: symbol for v, symbol in symbols.items() if v.name_hint != symbol}
    return module.replace_global_vars(renamed) if renamed else module


def _no_alias() -> bool:
    return bool(PassContext.current().get_config("tir.noalias", True))


def _added_passes(context: PassContext) -> list[tuple[int, Pass]]:
    """Return the passes that the user adds after each phase; functions over PrimFuncs count as
    passes.
    """
    found = []
    for entry in context.get_config("tir.add_lower_pass") or ():
        if not isinstance(entry, (list, tuple)) or len(entry) != 2:
            raise ConfigError(
                f"'tir.add_lower_pass' takes pairs of a phase and a pass, got {entry!r}"
            )
        phase, step = int(entry[0]), entry[1]
        if not 0 <= phase < len(PHASES):
            raise ConfigError(
                f"'tir.add_lower_pass' names phase {phase}, there are 0 to {len(PHASES) - 1}"
            )
        if not isinstance(step, Pass) and not callable(step):
            raise ConfigError(f"'tir.add_lower_pass' takes passes and functions, got {step!r}")
        found.append((phase, step if isinstance(step, Pass) else Apply(step)))
    return found


class CompilingForBoard(Scoped):
    """Entered while a program for a board is compiled: there its options have a meaning."""


def check_options(context: PassContext) -> None:
    """Check the options of the context: raise UnsupportedError for options of parts that this
    compiler does not have, ConfigError for an unknown algorithm of memory planning.
    """
    is_for_board = CompilingForBoard.innermost() is not None
    check_algorithm(memory_algorithm())
    for name, advice in _WITHOUT_PART.items():
        if context.config.get(name) and not (is_for_board and name in _OF_BOARDS):
            raise UnsupportedError(f"the option '{name}' has no effect here", notes=(advice,))


_MEMORY_PLAN = (
    "workspaces of models are always planned, in the order that tir.usmp.algorithm names;"
    " memory within a kernel is shared by StorageRewrite; the pools of a board are planned by"
    " tir.usmp.transform.UnifiedStaticMemoryPlanner and by relay.build with Runtime('crt')"
)
_WITHOUT_PART = {
    "tir.usmp.enable": _MEMORY_PLAN,
    "tir.usmp.use_workspace_io": _MEMORY_PLAN,
    "tir.usmp.custom_algorithm": _MEMORY_PLAN,
}
_OF_BOARDS = ("tir.usmp.enable", "tir.usmp.use_workspace_io")
"""Those of them that programs for boards have."""


def build(
    inputs: Any,
    args: Sequence[Any] | None = None,
    target: Any = None,
    target_host: Any = None,
    runtime: Any = None,
    name: str = "default_function",
    binds: Mapping[Any, Any] | None = None,
    bounds: str | None = None,
) -> Module:
    """Compile tensor programs to a ``runtime.Module`` of callable functions.

    ``inputs`` is a PrimFunc, an IRModule of PrimFuncs, a ``tir.Schedule``, a list of PrimFuncs, or
    a mapping from targets to such; or a classic schedule with the arguments ``args`` (tensors,
    buffers, variables) and with ``binds``, buffers for some tensors.
    ``target`` is a Target or its text; without one the attribute ``target`` of each function
    counts, the current target, else "llvm". The loops are compiled as they are given: no schedule
    is chosen here. ``runtime`` is "cpp" or "crt": the code is the same for both.
    ``bounds="check"``: an access that is not proven to be inside of its buffer is checked when the
    program runs (OutOfBoundsError); the compile report lists these accesses.
    Raises OutOfBoundsError for accesses that are provably outside of their buffers,
    UnsupportedError when there is no back end for the target, and what lowering raises.
    """
    if bounds is not None:
        with checking_bounds(bounds):
            return build(inputs, args, target, target_host, runtime, name, binds)
    if runtime is not None and str(runtime).split()[0] not in ("cpp", "crt"):
        raise UnsupportedError(f"there is no runtime '{runtime}'", notes=("cpp or crt",))
    if isinstance(inputs, Mapping):
        return _build_for_several(inputs, args, target_host, name)
    if target is None and isinstance(inputs, IRModule):
        parts = _by_target(inputs)
        if len(parts) > 1:
            return _build_for_several(parts, args, target_host, name)
    chosen = _target(target, target_host)
    with checked_passes():
        return _build(inputs, args, target, chosen, name, binds)


def checking_bounds(bounds: str) -> PassContext:
    """Return the current context with checks of accesses; ``bounds`` has to be "check"."""
    if bounds != "check":
        raise ConfigError(f"bounds={bounds!r} is unknown", notes=('use bounds="check"',))
    now = PassContext.current()
    config = {**now.config, "tir.instrument_bound_checkers": True}
    return PassContext(now.opt_level, now.required_pass, now.disabled_pass, now.instruments, config)


def _refuse_out_of_bounds(module: IRModule) -> None:
    """Raise OutOfBoundsError for an access that is known to leave its buffer."""
    for variable, function in module.functions.items():
        if not isinstance(function, PrimFunc):
            continue
        reached = [access for access in find_out_of_bounds(function) if access.is_reached]
        if reached:
            raise OutOfBoundsError(
                f"in the function '{variable.name_hint}' {reached[0].text}",
                reached[0].span or function.span,
                tuple([access.text for access in reached[1:5]]),
            )


def _by_target(module: IRModule) -> dict[Target, IRModule]:
    """Group the functions of a module by their own targets, if all of them name one."""
    functions = dict(module.items())
    if not all("target" in func.attrs for func in functions.values()):
        return {}
    parts: dict[Target, dict[Any, Any]] = {}
    for variable, func in functions.items():
        parts.setdefault(Target(func.attrs["target"]), {})[variable] = func
    return {
        target: IRModule(part, None, module.attrs, module.global_infos)
        for target, part in parts.items()
    }


def _build(inputs: Any, args: Any, target: Any, chosen: Target, name: str, binds: Any) -> Module:
    """Build for one target."""
    given = _as_module(inputs, args, name, binds)
    _refuse_out_of_bounds(given)
    module = _with_public_functions(lower(given))
    if _is_classic(inputs):
        from tilesmith.lowering.te_schedules import check_schedule

        check_schedule(inputs, module)
    if target is None:
        for func in module.functions.values():
            if "target" in func.attrs:
                chosen = Target(func.attrs["target"])
    if back_end_of(chosen).is_device:
        from tilesmith.lowering.gpu_checks import check_build  # which loads interpreters

        check_build(module, chosen)
        return build_for_device(module, chosen)
    level = PassContext.current().opt_level
    built = generate(_for_host(module, chosen), chosen, level if level < 2 else None)
    if is_checking():
        original = _with_public_functions(given)
        check_builds(original, lambda: built, lambda part: _plainest_build(part, chosen))
    return built


def build_to_run(function: PrimFunc) -> Module:
    """Compile a function for use inside the compiler, for example to fold constants.

    The code is for the current target where this machine can run it, else for the host.
    """
    current = Target.current(allow_none=True)
    record = None if current is None else find_back_end(current)
    if current is not None and record is not None and not record.is_device:
        if record.runs_here is None or part(record.runs_here)(current):
            built = build(function, target=current)
            if built.is_runnable:
                return built
    return build(function, target="llvm")


def lower_entries(module: IRModule, target: Target) -> IRModule:
    """Return the lowered functions that `build` would hand to the back end of a host."""
    with checked_passes():
        return _for_host(_with_public_functions(lower(module)), target)


def _for_host(lowered: IRModule, target: Target) -> IRModule:
    disable_assert = bool(PassContext.current().get_config("tir.disable_assert", False))
    return Sequential(host_passes(target, disable_assert), name="tir.host")(lowered)


def check_scheduled(original: IRModule, scheduled: IRModule, target: Target) -> None:
    """Compare scheduled functions with the originals, if ``TILESMITH_CHECK`` is set: interpret
    small ones, build and run large ones.
    """
    if not is_checking():
        return
    for variable, function in original.functions.items():
        if isinstance(function, PrimFunc):
            check_same(function, scheduled[variable], "the schedule")

    def get_built() -> Module:
        with knobs.override(check=False):
            return build(scheduled, target=target)

    check_builds(original, get_built, lambda part: _plainest_build(part, target), scheduled)


def _plainest_build(module: IRModule, target: Target) -> Module:
    """Build the code that is easiest to trust: serial loops, no optional pass, LLVM at level 0."""
    optional = ("tir.LoopPartition", "tir.PeelVectorTails", "tir.StorageRewrite", "tir.UnrollLoop",
                "tir.HoistIfThenElse", "tir.CommonSubexprElimTIR")  # fmt: skip
    # What this build leaves undone tells users nothing about theirs.
    with capture_fallbacks(), PassContext(opt_level=0, config={"tir.disable_vectorize": True}):
        passes = [step for step in lower_passes() if step.info.name not in optional]
        steps = [ConvertForLoopsToSerial(), *passes, *host_passes(target)]
        return generate(Sequential(steps, name="tir.plain")(module), target, 0)


def _target(target: Any, target_host: Any) -> Target:
    if target is None:
        target = Target.current(allow_none=True) or "llvm"
    found, _ = Target.canon_target_and_host(target, target_host)
    assert found is not None
    return found


def _build_for_several(
    inputs: Mapping[Any, Any], args: Sequence[Any] | None, target_host: Any, name: str
) -> Module:
    """Build for several targets: one module that imports those of the other targets."""
    modules = [
        build(part, args, target, target_host, name=name) for target, part in inputs.items()
    ]  # fmt: skip
    if not modules:
        raise TypeMismatchError("build needs at least one function")
    for other in modules[1:]:
        modules[0].import_module(other)
    return modules[0]
