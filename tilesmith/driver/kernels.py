"""Compiles kernels (PrimFunc → object code) through the cache on disk and the workers.

The unit of work is one function (with those that it calls): its JSON, the target, the options. The
key of the cache is made from the function *before* it is scheduled, without names, so that equal
kernels share one entry, within a model and across models.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilesmith.driver.pool import FEWEST_FOR_WORKERS, start_workers
from tilesmith.driver.schedule import schedule_function
from tilesmith.driver.settings import code_identity, deciding_settings
from tilesmith.ir import GlobalVar, IntImm, IRModule, post_order_visit
from tilesmith.ir.instrument import PassTimingInstrument, watched
from tilesmith.ir.pass_context import PassContext
from tilesmith.ir.serialization import load_json, save_json
from tilesmith.lowering import check_scheduled, lower_kernels
from tilesmith.lowering.checking import add_counts, take_counts
from tilesmith.support.cache import DiskCache, digest
from tilesmith.support.errors import InternalError
from tilesmith.support.fallbacks import FallbackReport, capture_fallbacks, record_fallback
from tilesmith.support.recursion import deep_recursion
from tilesmith.support.summary import collect_summary, spend, step, wants_steps
from tilesmith.support.versions import version_digest
from tilesmith.support.workers import Reply, WorkerPool
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of, part
from tilesmith.tir import Block, Call, IterVar, PrimFunc
from tilesmith.tir.queries import statements

if TYPE_CHECKING:
    from tilesmith.driver.observed import KernelMarks

__all__ = [
    "KernelCompilation", "KernelJob", "KernelTable", "compile_job", "compile_kernels", "lower_jobs",
    "scheduled_jobs",
]  # fmt: skip

KERNEL_CACHE = DiskCache("kernels")


class KernelJob:
    """One function to compile, with the functions that it calls, under unique symbols."""

    def __init__(
        self, functions: dict[str, PrimFunc], target: Target, schedule: bool = True
    ) -> None:
        self.functions = functions
        self.target = target
        self.schedule = schedule
        self.settings = deciding_settings("tir.")
        parts = [
            save_json(function.without_attr("global_symbol"), notes=False)
            for function in functions.values()
        ]
        if self.settings:
            parts.append(json.dumps(self.settings, sort_keys=True))
        self.key = digest(*parts, code_identity(target), str(schedule), version_digest())
        self.symbol = "kernel_" + self.key[:24]

    def _symbols(self) -> dict[str, str]:
        """Return the functions' names in the object code, by their names in the module."""
        return {
            name: self.symbol if k == 0 else f"{self.symbol}_{k}"
            for k, name in enumerate(self.functions)
        }

    def record(self, fallbacks: FallbackReport) -> None:
        """Record the fallbacks of this job, under the names that its functions have here."""
        names = {symbol: name for name, symbol in self._symbols().items()}
        fallbacks.renamed(names).record()

    def renamed(self) -> IRModule:
        """Return the functions as a module, the first one under the job's symbol."""
        names = self._symbols()
        module = IRModule()
        for name, function in self.functions.items():
            module[names[name]] = function.with_attr("global_symbol", names[name])
        if len(self.functions) > 1:
            module = _with_renamed_calls(module, names)
        return module


def _with_renamed_calls(module: IRModule, names: dict[str, str]) -> IRModule:
    from tilesmith.ir import Rewriter

    class Rename(Rewriter):
        def visit_GlobalVar(self, node: GlobalVar) -> GlobalVar:
            return module.get_global_var(names[node.name_hint])

    for variable, function in list(module.items()):
        module[variable] = function.with_body(Rename().visit(function.body))
    return module


class KernelTable:
    """The kernels that the graph functions of a module call, each with the symbol of its code."""

    def __init__(
        self,
        module: IRModule,
        target: Target,
        marks: KernelMarks | None = None,
        begin: Callable[[KernelJob], object] | None = None,
    ) -> None:
        """``begin`` is called with each new job at once."""
        if marks is None:
            from tilesmith.driver.observed import KernelMarks  # workers do without it

            marks = KernelMarks()
        self.marks = marks
        self.jobs: dict[str, KernelJob] = {}
        """Job by key, in order of the first call; equal functions share one."""
        self._module = module
        self._begin = begin
        self.target = target
        self._symbols: dict[str, GlobalVar] = {}

    @property
    def names(self) -> list[str]:
        """The names that the kernels have in the module."""
        return list(self._symbols)

    def symbol(self, kernel: GlobalVar) -> GlobalVar:
        """Return the symbol of a kernel's object code; the first call adds the kernel."""
        found = self._symbols.get(kernel.name_hint)
        if found is None:
            job = KernelJob(_with_callees(self._module, kernel.name_hint), self.target)
            if job.key not in self.jobs:
                self.jobs[job.key] = job
                if self._begin is not None:
                    self._begin(job)
            job = self.jobs[job.key]
            found = self._symbols[kernel.name_hint] = GlobalVar(job.symbol)
        return found


def _with_callees(module: IRModule, name: str) -> dict[str, PrimFunc]:
    found: dict[str, PrimFunc] = {}

    def visit(variable: str) -> None:
        function: Any = module[variable]
        found[variable] = function

        def look(node: Any) -> None:
            if isinstance(node, Call) and isinstance(node.op, GlobalVar):
                if node.op.name_hint not in found:
                    visit(node.op.name_hint)

        post_order_visit(function.body, look)

    visit(name)
    return found


def compile_job(module: IRModule, target: Target, schedule: bool = True) -> bytes:
    """Schedule, lower and compile the functions of a job; return an object file."""
    compile_kernel = back_end_of(target).kernel_object
    if compile_kernel is None:
        raise InternalError(f"the back end for '{target}' compiles whole models, not kernels")
    lowered = lower_kernels(_scheduled(module, target) if schedule else module, target)
    return part(compile_kernel)(lowered, target)


def _scheduled(module: IRModule, target: Target) -> IRModule:
    scheduled = module.shallow_copy()
    with step("scheduling kernels"):
        for variable, function in list(module.items()):
            scheduled[variable] = schedule_function(function, target)
    check_scheduled(module, scheduled, target)
    return scheduled


def lower_jobs(
    jobs: Iterable[KernelJob], target: Target, before: Callable[[IRModule], IRModule] | None = None
) -> IRModule:
    """Schedule and lower the kernels of all jobs into one module; ``before`` changes the scheduled
    ones before they are lowered.
    """
    whole = scheduled_jobs(jobs, target)
    return lower_kernels(whole if before is None else before(whole), target)


def scheduled_jobs(jobs: Iterable[KernelJob], target: Target) -> IRModule:
    """Schedule the kernels of all jobs, and return them as one module."""
    whole = IRModule()
    for job in jobs:
        module = job.renamed()
        with capture_fallbacks() as fallbacks:
            whole.update(_scheduled(module, target) if job.schedule else module)
        job.record(fallbacks)
    return whole


@deep_recursion
def handle_job(request: dict[str, Any], blobs: list[bytes]) -> tuple[Any, list[bytes]]:
    """Handle one message in a worker: compile the job that it describes."""
    module = load_json(blobs[0].decode())
    with PassContext(**request["settings"]), capture_fallbacks() as fallbacks, ExitStack() as more:
        summary = more.enter_context(collect_summary(steps=request["steps"]))
        passes = PassTimingInstrument()
        if request["steps"]:
            more.enter_context(watched(passes))
        code = compile_job(module, Target(request["target"]), request["schedule"])
    steps = {**summary.steps, **passes.totals()}
    return {"checks": take_counts(), "fallbacks": fallbacks.to_json(), "steps": steps}, [code]


@dataclass(frozen=True)
class _Compiled:
    """The object code of a kernel with the fallbacks of its compilation: one entry of the cache."""

    code: bytes
    fallbacks: FallbackReport

    def to_bytes(self) -> bytes:
        """Return the size of a JSON text, the text and the code as bytes."""
        text = json.dumps(self.fallbacks.about_code().to_json()).encode()
        return len(text).to_bytes(8, "little") + text + self.code

    @staticmethod
    def from_bytes(content: bytes) -> _Compiled:
        """Read the bytes that `to_bytes` returned."""
        end = 8 + int.from_bytes(content[:8], "little")
        return _Compiled(content[end:], FallbackReport.from_json(json.loads(content[8:end])))


def compile_kernels(
    jobs: Iterable[KernelJob],
    report: Callable[..., None] = lambda *_: None,
    use_cache: bool = True,
) -> dict[str, bytes]:
    """Return the object code of each job by key: from the cache, the workers, or compiled here."""
    compilation = KernelCompilation(use_cache)
    for job in jobs:
        compilation.add(job)
    return compilation.finish(report)


class KernelCompilation:
    """Kernels that are being compiled: workers begin with each that is added at once, `finish`
    waits for all.
    """

    def __init__(self, use_cache: bool = True) -> None:
        self._use_cache = use_cache
        self._can_travel = True
        self._jobs: dict[str, KernelJob] = {}
        self._done: dict[str, _Compiled] = {}
        self._missing: dict[str, KernelJob] = {}
        self._waiting: list[KernelJob] = []
        self._futures: dict[str, Future[Reply]] = {}

    def add(self, job: KernelJob) -> None:
        """Begin with a kernel, unless the cache has it or equal ones were added before."""
        if job.key in self._jobs:
            return
        self._jobs[job.key] = job
        if job.settings is None and self._can_travel:
            self._can_travel = False
            record_fallback(
                "cache",
                "kernels",
                "the PassContext holds a value that cannot be sent to another process",
            )
        may_use = self._use_cache and self._can_travel
        found = KERNEL_CACHE.get(job.key) if may_use else None
        if found is not None:
            self._done[job.key] = _Compiled.from_bytes(found)
            return
        self._missing[job.key] = job
        if not self._can_travel:
            return
        self._waiting.append(job)
        if len(self._missing) >= FEWEST_FOR_WORKERS:
            pool = start_workers(job.target)
            if pool is not None:
                self._futures.update({one.key: _submitted(one, pool) for one in self._waiting})
            self._waiting.clear()

    def finish(self, report: Callable[..., None] = lambda *_: None) -> dict[str, bytes]:
        """Return the object code of each job by key, in the order of the jobs."""
        for number, (key, job) in enumerate(self._missing.items()):
            future = self._futures.get(key)
            compiled = _compiled_here(job) if future is None else _compiled_there(future)
            self._done[key] = compiled
            if self._use_cache and self._can_travel:
                KERNEL_CACHE.put(key, compiled.to_bytes())
            report(number + 1, len(self._missing), job.symbol)
        for key, job in self._jobs.items():
            job.record(self._done[key].fallbacks)
        return {key: self._done[key].code for key in self._jobs}


def _submitted(job: KernelJob, pool: WorkerPool) -> Future[Reply]:
    """Hand a job to the workers, long ones first, so that none is left for the end."""
    text = save_json(job.renamed()).encode()
    return pool.submit(request_for(job), [text], urgency=len(text) * _weight(job))


_FEW_STEPS = 256
_UNROLLED = 3
"""Functions that unroll whole reductions take LLVM about as much longer than others."""


def _weight(job: KernelJob) -> int:
    """Return how much longer a job takes than others whose functions are as long."""
    steps: list[int] = []
    for block in statements([function.body for function in job.functions.values()]):
        if isinstance(block, Block):
            axes = [axis for axis in block.iter_vars if axis.iter_type == IterVar.CommReduce]
            sizes = [axis.dom.extent for axis in axes if axis.dom is not None]
            known = [size.value for size in sizes if isinstance(size, IntImm)]
            if sizes:
                steps.append(math.prod(known) if len(known) == len(sizes) else _FEW_STEPS + 1)
    return _UNROLLED if steps and max(steps) <= _FEW_STEPS else 1


def request_for(job: KernelJob) -> dict[str, Any]:
    """Return what a worker is told about a job besides the functions."""
    return {
        "target": str(job.target), "schedule": job.schedule, "settings": job.settings,
        "steps": wants_steps(),
    }  # fmt: skip


def _compiled_here(job: KernelJob) -> _Compiled:
    with capture_fallbacks() as fallbacks:
        code = compile_job(job.renamed(), job.target, job.schedule)
    return _Compiled(code, fallbacks)


def _compiled_there(future: Future[Reply]) -> _Compiled:
    reply, (code,) = future.result()
    add_counts(reply["checks"])
    spend(reply["steps"])
    return _Compiled(bytes(code), FallbackReport.from_json(reply["fallbacks"]))
