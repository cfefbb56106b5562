"""``relax.build``: compiles a module at any stage to an executable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from tilesmith import relax
from tilesmith.driver.device_build import (
    HostParts,
    compile_for_device,
    device_name,
    device_type_of,
    external_on_device,
    host_record,
    refuse_on_device,
    texts_of,
)
from tilesmith.driver.external import join_external
from tilesmith.driver.graph_function import GraphFunction, lower_graph_function
from tilesmith.driver.graph_program import Programs, divide
from tilesmith.driver.graph_values import ConstantTable
from tilesmith.driver.kernels import KernelCompilation, KernelTable, lower_jobs
from tilesmith.driver.observed import KernelMarks, ObserverMarks
from tilesmith.driver.pipelines import get_pipeline
from tilesmith.ir import GlobalVar, IRModule, const
from tilesmith.ir.pass_context import PassContext
from tilesmith.ir.transform import Sequential
from tilesmith.lowering import build as build_functions
from tilesmith.lowering import lower_entries
from tilesmith.lowering.functions import check_options
from tilesmith.relax import transform as graph
from tilesmith.relax.base import FUSED_PREFIX
from tilesmith.runtime.executable import Executable
from tilesmith.runtime.interface import interface_symbol
from tilesmith.runtime.module import Module
from tilesmith.support.collector import rare_collections
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.support.fallbacks import capture_fallbacks, collect_fallbacks, record_fallback
from tilesmith.support.progress import progress
from tilesmith.support.recursion import deep_recursion
from tilesmith.support.summary import count, phase
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of, part
from tilesmith.tir import Evaluate, PrimFunc

if TYPE_CHECKING:
    from tilesmith.runtime.observation import ObservedProgram

__all__ = ["build", "graph_pipeline", "public_functions"]


def build(
    mod: IRModule | relax.Function,
    target: Any = None,
    params: Mapping[str, Any] | None = None,
    pipeline: Any = "default",
    exec_mode: str = "bytecode",
    system_lib: bool | None = None,
    *,
    relax_pipeline: Any = None,
    tir_pipeline: Any = None,
) -> Executable:
    """Compile a module for a target and return an Executable.

    ``mod`` may be at any stage: operators, ``call_tir``, private functions marked ``Primitive``,
    PrimFuncs scheduled by hand. ``params`` binds parameters of ``main`` to arrays. ``pipeline`` is
    the name of graph passes or a pass; None runs only what is needed. ``exec_mode`` ("bytecode" or
    "compiled", as users know them) makes no difference: graph functions become native code.
    """
    if exec_mode not in ("bytecode", "compiled"):
        raise UnsupportedError(f"exec_mode is 'bytecode' or 'compiled', got '{exec_mode}'")
    if system_lib:
        raise UnsupportedError("relax.build: system_lib is not supported; use export_library")
    if tir_pipeline is not None:
        raise UnsupportedError(
            "relax.build: tir_pipeline is not supported; schedule the PrimFuncs before"
        )
    check_options(PassContext.current())
    if isinstance(mod, relax.Function):
        mod = IRModule.from_expr(mod)
    if not isinstance(mod, IRModule):
        raise TypeMismatchError(
            f"relax.build takes an IRModule or a relax function, got {type(mod).__name__}",
            notes=("a PrimFunc or tensor expression is built with tilesmith.build",),
        )
    chosen = _target(target)
    with deep_recursion(), rare_collections(), chosen, collect_fallbacks() as fallbacks:
        count("operators", _calls(mod))
        modules = [mod]
        del mod  # or this frame would keep the weights as they were before the passes
        with phase("graph passes"):
            module = graph_pipeline(modules.pop(), chosen, params, relax_pipeline or pipeline)
        executable = build_graph(module, chosen)
    executable.add_fallbacks(fallbacks)
    return executable


def _target(target: Any) -> Target:
    if target is None:
        return Target.current(allow_none=True) or Target("llvm")
    return Target(target)


def graph_pipeline(
    mod: IRModule,
    target: Target,
    params: Mapping[str, Any] | None = None,
    pipeline: Any = "default",
    has_views: bool = True,
) -> IRModule:
    """Apply all graph passes; return a module of kernel calls. ``has_views``: it may also call
    `R.reshape`, which the graphs of relay's executor have no word for.
    """
    if params:
        mod = graph.BindParams("main", dict(params))(mod)
    if device_type_of(target) is not None and mod.global_infos.get("vdevice"):
        mod = graph.RealizeVDevice()(mod)
    if pipeline is None:
        pipeline = "zero"
    passes: Callable[[IRModule], IRModule]
    passes = get_pipeline(pipeline, target=target) if isinstance(pipeline, str) else pipeline
    # One by one: a sequence would keep the module that it was given, and its weights, to its end.
    context = PassContext.current()
    for step in passes.enabled_passes(context) if isinstance(passes, Sequential) else [passes]:
        mod = step(mod)
    mod = graph.LegalizeOps()(mod)  # a no-op after a full pipeline
    if not has_views:
        return mod
    # A reshape that no neighbour has taken in is another view of the same memory.
    return graph.DeadCodeElimination()(graph.RewriteDataflowReshape()(mod))


def _calls(module: IRModule) -> int:
    """Return how many calls the graph functions of a module have."""
    functions = [module[variable] for variable in public_functions(module)]
    bodies = [function.body for function in functions if isinstance(function, relax.Function)]
    blocks = [block for body in bodies if isinstance(body, relax.SeqExpr) for block in body.blocks]
    values = [binding.value for block in blocks for binding in block.bindings]
    return sum([isinstance(value, relax.Call) for value in values])


def public_functions(module: IRModule) -> list[GlobalVar]:
    """Return the graph functions that are not private."""
    found = []
    for variable, function in module.items():
        if isinstance(function, relax.Function) and not function.attrs.get("Primitive"):
            if function.attrs.get("global_symbol") is not None or variable.name_hint == "main":
                found.append(variable)
    return found


def build_graph(
    module: IRModule,
    target: Target,
    constants: ConstantTable | None = None,
    marks: KernelMarks | None = None,
) -> Executable:
    """Compile the graph functions and kernels of a module after the graph passes; their constants
    are recorded in ``constants``. ``marks`` are put around the calls of kernels.
    """
    record = back_end_of(target)
    constants = ConstantTable() if constants is None else constants
    given = module
    module, external, linked = join_external(module)
    if external is not None and record.is_device:
        raise external_on_device(target)
    with phase("lowering graph functions"):
        divided = divide(module, public_functions(module), constants, device_type_of(target))
        module = divided.module
        pending = None if record.kernel_object is None else KernelCompilation()
        kernels = KernelTable(module, target, marks, None if pending is None else pending.add)
        on_host = HostParts(divided, target, marks)
        lowered = _lowered(divided, constants, kernels, on_host)
    descriptions = {str(one.function.attrs["global_symbol"]): one.metadata for one in lowered}
    entries = _entries(lowered, interface_symbol(descriptions, constants.arrays))
    with phase("compiling kernels"):
        code = _compiled(entries, kernels, pending, target, on_host)
    count("kernel calls", _calls(module))
    count("kernels", len(kernels.jobs))
    count("fused groups", sum([name.startswith(FUSED_PREFIX) for name in kernels.names]))
    metadata = _metadata(divided, descriptions, constants, target)
    context = PassContext.current()
    settings = partial(_as_built, target, context)

    def sources() -> Mapping[str, Any]:
        if code.module is not None:
            return {**texts_of(code.module), "script": lambda: module.script()}
        with settings():
            written = part(record.generate)(_whole(entries, kernels, target), target, None)
        return {**written.formats, "script": lambda: module.script()}

    executable = Executable(
        metadata,
        [*code.objects, *(linked if code.objects else ())],
        constants.arrays,
        sources,
        load=part(record.load if code.module is None else host_record(target).load),
        advice=code.advice,
        external=external,
    )
    executable.observed_program = cache(partial(_observed, given, target, context))
    if record.is_device:
        refuse_on_device(executable)
        return executable
    executable.c_interface = _for_c(lowered, divided, kernels, external is not None, settings)
    return executable


def _lowered(
    divided: Programs, constants: ConstantTable, kernels: KernelTable, on_host: HostParts
) -> list[GraphFunction]:
    """Lower the native functions of a model."""
    lowered = [
        lower_graph_function(
            divided.module, name, constants, on_host.kernels_of(name, kernels),
            on_host.memory_of(name),
        )
        for name in divided.native
    ]  # fmt: skip
    on_host.describe(lowered)
    return lowered


def _metadata(
    divided: Programs, functions: dict[str, Any], constants: ConstantTable, target: Target
) -> dict[str, Any]:
    """Return what the runtime has to know of a model (`runtime.executable`)."""
    kernels = [v.name_hint for v, one in divided.module.items() if isinstance(one, PrimFunc)]
    metadata: dict[str, Any] = {
        "functions": functions,
        "constants": list(constants.arrays),
        "target": str(target),
        "programs": divided.entries,
        "parts": divided.parts,
        "kernels": kernels,
    }
    if back_end_of(target).is_device:
        metadata["device"] = device_name(target)
        if divided.where is not None and len(divided.where.numbers) > 1:
            metadata["device_numbers"] = divided.where.numbers
    return metadata


def _for_c(
    lowered: list[GraphFunction],
    divided: Programs,
    kernels: KernelTable,
    has_external: bool,
    settings: Callable[[], AbstractContextManager[Any]],
) -> Callable[..., list[str]]:
    """Return the function that writes a model for C programs."""
    names = {str(one.function.attrs["global_symbol"]): one for one in lowered}

    def write(*args: Any, **kwargs: Any) -> list[str]:
        from tilesmith.driver.c_interface import CInterface  # few programs ask for it

        return CInterface(
            [one for name, one in names.items() if name not in divided.parts],
            kernels,
            dict.fromkeys(divided.entries, "it is run step by step by Tilesmith's runtime"),
            has_external,
            settings,
        ).write(*args, **kwargs)

    return write


@contextmanager
def _as_built(target: Target, context: PassContext) -> Iterator[None]:
    """Enter the settings that held when a model was built; its fallbacks are known already."""
    with deep_recursion(), target, context.without_instruments(), capture_fallbacks():
        yield


def _observed(module: IRModule, target: Target, context: PassContext) -> ObservedProgram:
    """Compile a model as it was, such that observers see its kernels."""
    from tilesmith.runtime.observation import ObservedProgram

    marks = ObserverMarks()
    with _as_built(target, context):
        return ObservedProgram(build_graph(module, target, None, marks), marks.calls)


@dataclass(frozen=True)
class _Compiled:
    """Object files of a whole model; if there are none, advice on how to run its source."""

    objects: list[bytes]
    advice: str = ""
    module: Module | None = None
    """The host's module, which imports the kernels, of a model for a device."""


def _compiled(
    entries: IRModule,
    kernels: KernelTable,
    pending: KernelCompilation | None,
    target: Target,
    on_host: HostParts,
) -> _Compiled:
    """Compile the functions that call kernels and the code that they share, while workers compile
    the kernels; None for ``pending``: the back end compiles whole models.
    """
    record = back_end_of(target)
    if record.is_device:
        module = compile_for_device(kernels, entries, target, on_host)
        return _Compiled([*module.objects, *on_host.objects()], module.advice, module)
    if pending is None:
        code = part(record.generate)(_whole(entries, kernels, target), target, None)
        if code.objects is None:
            record_fallback("code", f"target '{target}'", code.advice)
            return _Compiled([], code.advice)
        return _Compiled(list(code.objects()), code.advice)
    entry = build_functions(entries, target=target)
    if not entry.objects:
        record_fallback("code", f"target '{target}'", entry.advice)
        return _Compiled([], entry.advice)
    shared = () if record.shared_objects is None else part(record.shared_objects)(target)
    with progress("compiling kernels") as report:
        objects = pending.finish(report)
    kernel_code = dict.fromkeys([objects[key] for key in kernels.jobs])
    return _Compiled([*kernel_code, *entry.objects, *shared])


def _whole(entries: IRModule, kernels: KernelTable, target: Target) -> IRModule:
    """Return a model as one lowered module: its kernels, and the functions that call them."""
    whole = lower_jobs(kernels.jobs.values(), target)
    whole.update(lower_entries(entries, target))
    return whole


def _entries(lowered: list[GraphFunction], interface: str) -> IRModule:
    """Return the functions that the runtime calls: graph functions, those that compute shapes, and
    the one whose name ties the code to its metadata.
    """
    nothing = Evaluate(const(0, "int32"))
    entries = IRModule({interface: PrimFunc((), nothing, attrs={"global_symbol": interface})})
    for one in lowered:
        for function in (one.function, one.shapes_function):
            if function is not None:
                entries[str(function.attrs["global_symbol"])] = function
    return entries
