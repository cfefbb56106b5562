"""``relax.build``: a module at any stage → an executable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilesmith import relax
from tilesmith.codegen.llvm import thread_runtime_object
from tilesmith.driver.graph_function import ConstantTable, GraphFunction, lower_graph_function
from tilesmith.driver.kernels import KernelJob, compile_kernels, kernel_jobs
from tilesmith.driver.pipelines import get_pipeline
from tilesmith.ir import Call, GlobalVar, IRModule, Rewriter, post_order_visit
from tilesmith.lowering import build as build_functions
from tilesmith.relax import transform as graph
from tilesmith.runtime.executable import Executable
from tilesmith.support.errors import UnsupportedError
from tilesmith.support.progress import progress
from tilesmith.support.recursion import deep_recursion
from tilesmith.target import Target
from tilesmith.tir import PrimFunc

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
    """Compile a module for a target.

    ``mod`` may be at any stage: operators, ``call_tir``, private functions marked ``Primitive``,
    PrimFuncs scheduled by hand. ``params`` binds parameters of ``main`` to arrays. ``pipeline`` is
    the name of graph passes or a pass; None runs only what is needed. ``exec_mode`` ("bytecode" or
    "compiled", as users know them) makes no difference: graph functions become native code.
    """
    if exec_mode not in ("bytecode", "compiled"):
        raise UnsupportedError(f"exec_mode is 'bytecode' or 'compiled', got '{exec_mode}'")
    if system_lib:
        raise UnsupportedError(
            "relax.build: system_lib is not served; export_library gives a library"
        )
    if tir_pipeline is not None:
        raise UnsupportedError(
            "relax.build: tir_pipeline is not served; schedule the PrimFuncs before"
        )
    if isinstance(mod, relax.Function):
        mod = IRModule.from_expr(mod)
    chosen = _target(target)
    with deep_recursion(), chosen:
        module = graph_pipeline(mod, chosen, params, relax_pipeline or pipeline)
        return build_graph(module, chosen)


def _target(target: Any) -> Target:
    if target is None:
        return Target.current(allow_none=True) or Target("llvm")
    return Target(target)


def graph_pipeline(
    mod: IRModule,
    target: Target,
    params: Mapping[str, Any] | None = None,
    pipeline: Any = "default",
) -> IRModule:
    """All graph passes: the module holds calls of kernels afterwards."""
    if params:
        mod = graph.BindParams("main", dict(params))(mod)
    if pipeline is None:
        pipeline = "zero"
    passes: Callable[[IRModule], IRModule]
    passes = get_pipeline(pipeline, target=target) if isinstance(pipeline, str) else pipeline
    mod = passes(mod)
    return graph.LegalizeOps()(mod)  # nothing is left to do after a full pipeline


def public_functions(module: IRModule) -> list[GlobalVar]:
    """The graph functions that a user can name: those that are not private."""
    found = []
    for variable, function in module.items():
        if isinstance(function, relax.Function) and not function.attrs.get("Primitive"):
            if function.attrs.get("global_symbol") is not None or variable.name_hint == "main":
                found.append(variable)
    return found


def build_graph(module: IRModule, target: Target) -> Executable:
    """Compile the graph functions and kernels of a module after the graph passes."""
    constants = ConstantTable()
    lowered = [lower_graph_function(module, name, constants) for name in public_functions(module)]
    jobs = kernel_jobs(module, _called(lowered), target)
    with progress("compiling kernels") as report:
        objects = compile_kernels(jobs.values(), report)
    entry = _build_entries(lowered, jobs, target)
    kernels = {variable.name_hint: function for variable, function in module.items()}
    names = [name for name, function in kernels.items() if isinstance(function, PrimFunc)]
    metadata = {
        "functions": {str(one.function.attrs["global_symbol"]): one.metadata for one in lowered},
        "constants": list(constants.arrays),
        "target": str(target),
        "kernels": names,
    }
    kernel_code = dict.fromkeys(objects[job.key] for job in jobs.values())
    code = [*kernel_code, *entry.objects, thread_runtime_object(target)]
    sources = {"script": lambda: module.script(), "ll": lambda: entry.get_source("ll")}
    return Executable(metadata, code, constants.arrays, sources)


def _called(lowered: list[GraphFunction]) -> list[str]:
    """The kernels that graph functions call, in order of the first call."""
    found: dict[str, None] = {}

    def look(node: Any) -> None:
        if isinstance(node, Call) and isinstance(node.op, GlobalVar):
            found[node.op.name_hint] = None

    for one in lowered:
        post_order_visit(one.function.body, look)
    return list(found)


class _UseSymbols(Rewriter):
    """Lets calls name kernels by the symbols of their object code."""

    def __init__(self, jobs: Mapping[str, KernelJob]) -> None:
        self.jobs = jobs
        self.symbols: dict[str, GlobalVar] = {}

    def visit_GlobalVar(self, node: GlobalVar) -> GlobalVar:
        symbol = self.jobs[node.name_hint].symbol
        return self.symbols.setdefault(symbol, GlobalVar(symbol))


def _build_entries(
    lowered: list[GraphFunction], jobs: Mapping[str, KernelJob], target: Target
) -> Any:
    rename = _UseSymbols(jobs)
    entries = IRModule()
    for one in lowered:
        function = one.function.with_body(rename.visit(one.function.body))
        entries[str(function.attrs["global_symbol"])] = function
        if one.shapes_function is not None:
            entries[str(one.shapes_function.attrs["global_symbol"])] = one.shapes_function
    return build_functions(entries, target=target)
