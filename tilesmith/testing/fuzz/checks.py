"""Checks one case: a program, a schedule, the passes, generated code, all compared.

A case is plain data: ``{"seed", "recipe", "steps": [[kind, seed], …], "only", "back_ends"}``. A
step may also say what it chooses, instead of drawing that: ``[kind, seed, [choice, …]]``. A failure
is a ``Finding``; its signature names the step that failed and how.
"""

from __future__ import annotations

import json
import random
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy

from tilesmith.codegen import build as generate_code
from tilesmith.ir import IRModule, Rewriter, Var, load_json, save_json, structural_equal
from tilesmith.ir.transform import Pass, PassContext
from tilesmith.lowering import host_passes, lower_passes
from tilesmith.lowering.check_inputs import promised_statements
from tilesmith.lowering.pipelines import classic_passes, device_passes
from tilesmith.lowering.program_kind import ProgramKind, program_kind
from tilesmith.runtime.nd import array as as_tensor
from tilesmith.runtime.nd import from_dlpack
from tilesmith.script import from_source
from tilesmith.support.errors import (
    InternalError,
    ReductionError,
    ScheduleError,
    TilesmithError,
    UnsupportedError,
    VerifyError,
)
from tilesmith.target import Target
from tilesmith.testing.fuzz import values
from tilesmith.testing.fuzz.calls import unusual_array, wrong_call
from tilesmith.testing.fuzz.chains import CHAIN_STEPS
from tilesmith.testing.fuzz.device_checks import check_code_for_devices, check_in_lockstep
from tilesmith.testing.fuzz.finding import Finding
from tilesmith.testing.fuzz.gpu_fragments import fragments
from tilesmith.testing.fuzz.gpu_schedules import GPU_STEPS
from tilesmith.testing.fuzz.layouts import copied, whole
from tilesmith.testing.fuzz.pipeline_schedules import PIPELINE_STEPS
from tilesmith.testing.fuzz.planted import check_planted
from tilesmith.testing.fuzz.query_checks import left_over, wrong_answer
from tilesmith.testing.fuzz.rules.targets import runs_here
from tilesmith.testing.fuzz.schedules import SAMPLERS
from tilesmith.testing.fuzz.steps import Nothing, Pick, Recorder
from tilesmith.testing.fuzz.sure import reduces_on_threads
from tilesmith.testing.fuzz.thread_schedules import THREAD_STEPS
from tilesmith.tir import ForKind, PrimFunc, Schedule
from tilesmith.tir import transform as passes
from tilesmith.tir.analysis import verify_well_formed
from tilesmith.tir.functor import substitute
from tilesmith.tir.interpreter import Options, run
from tilesmith.tir.queries import has_loop_of_kind
from tilesmith.tir.schedule import Trace
from tilesmith.tir.stmt import For

TEMPLATES = {
    **THREAD_STEPS, **GPU_STEPS, **PIPELINE_STEPS, **CHAIN_STEPS, "gpu: fragments": (0, fragments),
}  # fmt: skip
"""Steps that call several primitives, by name: what the fields draw besides single primitives."""

__all__ = ["PHASES", "TEMPLATES", "Checker", "Finding", "note_place", "run_steps"]

_WATCHED = Options(check_races=True, check_undefined=True)
"""Used once all barriers are placed: threads may then run in any order between barriers."""

_ROUNDING = ("tir.LowerIntrin", "tir.BF16ComputeLegalize", "tir.FP8ComputeLegalize")
"""After these passes, functions that are not exact operations may round differently."""

_MOST_STATEMENTS = 200_000
_MOST_ON_THREADS = 60_000  # more passes are compared, and threads are watched

PHASES = ("script", "rules", "primitive", "trace", "pass", "codegen", "call", "graph", "arithmetic")


def note_place(phase: str, name: str) -> None:
    """Record the current step, so that a worker can report it if the step kills the process."""


def _place(error: BaseException) -> str:
    """Return the innermost position of the package in a traceback, without line numbers."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if "/tilesmith/" in frame.filename and "/fuzz/" not in frame.filename:
            return f"{frame.filename.rpartition('/tilesmith/')[2]}:{frame.name}"
    return "?"


def _words(error: Exception) -> str:
    """Return the message of a verifier without names, as a part of a signature."""
    if not isinstance(error, (VerifyError, InternalError)):
        return ""
    message = re.sub(r"'[^']*'|\d+", "_", error.message.splitlines()[0].rpartition("]: ")[2])
    return f" ({message[:70].strip()})"


def _detail(error: Exception) -> str:
    """Return the text of an error: first its message, then where it was raised."""
    frames = traceback.format_tb(error.__traceback__)[-4:]
    message = "\n".join(str(error).splitlines()[:6])
    return f"{type(error).__name__}: {message}\n{''.join(frames)}"


class Checker:
    """Runs one program through all checks; ``counts`` holds the number of checks by kind."""

    def __init__(
        self, program: PrimFunc | IRModule, argument_sets: list[list[dict[str, Any]]]
    ) -> None:  # fmt: skip
        self.program = program
        self.arguments = argument_sets
        self.inputs = [values.arrays(one, seed) for seed, one in enumerate(argument_sets)]
        self.counts: Counter[str] = Counter()
        self.ulps = [argument.get("ulp", 0) for argument in argument_sets[0]]
        self.nears = [argument.get("near") for argument in argument_sets[0]]
        self.begin: Trace | None = None  # what is done to the program before the steps of a case
        self.recorder: Recorder | None = None
        self.choices: list[list[int]] = []  # what the steps chose, for each step that ran
        self.extra: list[list[str]] = []  # further passes: [after which one, name]
        self.config: dict[str, Any] = {}  # options under which passes run
        self.seed = 0  # of what is drawn while checking: the arguments of further calls
        self.device: str | None = None  # the device that lowering is for; None: this CPU
        self.without: list[str] = []  # kinds of devices that code is not made for
        self.verified = True  # whether schedules check themselves after each primitive
        self.options = Options()  # what runs check besides the result
        # from which pass on results are compared; "": from the program on
        self.compared_from = ""
        self.is_planted = False  # whether faults are planted in kernels, for the checks to find
        self.scripts = False  # whether modules between passes are printed and parsed
        self.current: IRModule | None = None  # the last thing checked, for reports
        verify_well_formed(program, strict=False)
        self.expected = [self._outputs(program, arrays) for arrays in self.inputs]

    @property
    def function(self) -> PrimFunc:
        """The function that is called and scheduled."""
        main = self.program["main"] if isinstance(self.program, IRModule) else self.program
        assert isinstance(main, PrimFunc)
        return main

    def _sizes(self, arrays: list[Any]) -> dict[Var, int]:
        """Return the symbolic sizes that arguments imply."""
        found: dict[Var, int] = {}
        for param, array in zip(self.function.params, arrays):
            buffer = self.function.buffer_map.get(param)
            if buffer is None:
                found[param] = array
                continue
            for size, number in zip(buffer.shape, numpy.shape(array)):
                if isinstance(size, Var):
                    found[size] = number
        return found

    def is_too_large(self, module: IRModule) -> bool:
        """True if interpreting a module would take minutes, because recomputation in nested loops
        multiplies. Such a program is skipped, and counted.
        """
        function = module["main"]
        sizes = [self._sizes(arrays) for arrays in self.inputs]
        most = _MOST_STATEMENTS if self.device is None else _MOST_ON_THREADS
        if max(promised_statements(function, one) for one in sizes) <= most:
            return False
        self.counts["too large"] += 1
        return True

    # Comparison.

    def _outputs(self, program: Any, arrays: list[Any], entry: str | None = None) -> list[Any]:
        copies = [copied(one) if isinstance(one, numpy.ndarray) else one for one in arrays]
        given = copies
        if self.device is not None and isinstance(program, IRModule):
            given = self._by_name(program[entry or "main"], copies)
        run(program, *given, entry=entry, options=self.options)
        return copies

    def _by_name(self, function: PrimFunc, arrays: list[Any]) -> list[Any]:
        """Return the arguments of the function inside a wrapper, which has the sizes as parameters
        of its own.
        """
        if len(function.params) == len(arrays):
            return arrays
        known = self._named(arrays)
        return [known[param.name] for param in function.params]

    def by_name(self, number: int, expected: bool = False) -> dict[str, Any]:
        """Return one of the sets of arguments, or what the program made of it, by the names of its
        parameters and sizes.
        """
        return self._named((self.expected if expected else self.inputs)[number])

    def _named(self, arrays: list[Any]) -> dict[str, Any]:
        known: dict[str, Any] = {}
        for param, array in zip(self.function.params, arrays):
            buffer = self.function.buffer_map.get(param)
            known[param.name if buffer is None else buffer.name] = array
            for size, number in zip(() if buffer is None else buffer.shape, numpy.shape(array)):
                if isinstance(size, Var):
                    known[size.name] = number
        return known

    def differ(self, got: list[Any], want: list[Any], rounded: bool) -> str | None:
        """Say in which argument two results differ; None if in none."""
        for number, (one, other) in enumerate(zip(got, want)):
            if isinstance(other, numpy.ndarray):
                ulp, near = self.ulps[number] if rounded else 0, self.nears[number]
                text = values.differences(one, other, ulp, near)
                if text is None and whole(other) is not other:
                    text = values.differences(whole(one), whole(other), ulp, near)
                    text = None if text is None else f"between its elements: {text}"
                if text is not None:
                    name = self.arguments[0][number].get("name", number)
                    return f"argument '{name}': {text}"
        return None

    def compare(self, program: Any, entry: str | None = None, rounded: bool = False) -> None:
        """Check that the program computes the same as the original; else raise a Finding without a
        place.
        """
        for arrays, want in zip(self.inputs, self.expected):
            try:
                got = self._outputs(program, arrays, entry)
            except TilesmithError as error:
                kind = type(error).__name__
                raise Finding("", "", f"then running fails ({kind})", str(error)) from error
            text = self.differ(got, want, rounded)
            if text is not None:
                raise Finding("", "", "wrong result", text)

    def compare_orders(self, module: IRModule) -> None:
        """Check that parallel loops compute the same from their last iteration to their first."""
        turned = _turned(module)
        if turned is not module:
            try:
                self.compare(turned)
            except Finding as finding:
                failure = "a parallel loop depends on its order"
                raise Finding("", "", failure, f"{finding.failure}: {finding.detail}") from finding

    @contextmanager
    def guarded(self, phase: str, name: str) -> Iterator[None]:
        """Turn whatever is raised inside into a finding about this step."""
        note_place(phase, name)
        try:
            yield
        except Finding as finding:
            if not finding.phase:
                raise Finding(phase, name, finding.failure, finding.detail) from finding
            raise
        except Exception as error:
            failure = f"raises {type(error).__name__} in {_place(error)}{_words(error)}"
            raise Finding(phase, name, failure, _detail(error)) from error

    # Script and JSON.

    def check_script(self, program: Any) -> None:
        """Check that printing and parsing, and saving and loading, return an equal program."""
        self.counts["script"] += 1
        with self.guarded("script", "print and parse"):
            text = program.script()
            # rfactor over the only reduction leaves an `init` without a reduction axis, which the
            # parser takes for a mistake unless told otherwise
            again = from_source(text, check_well_formed=False)
            if not structural_equal(program, again, map_free_vars=True):
                raise Finding("", "", "the parsed program differs", text)
        with self.guarded("script", "save and load"):
            again = load_json(save_json(program))
            if not structural_equal(program, again, map_free_vars=True):
                raise Finding("", "", "the loaded program differs", program.script())

    # Schedules.

    def schedule(self) -> Schedule:
        """Return a schedule of the program, which checks itself if it is to, with its recorder."""
        mask = "all" if self.verified else "none"
        sch = Schedule(self.program, seed=1, debug_mask=mask, error_render_level="none")
        if self.begin is not None:
            self.begin.apply_to_schedule(sch, remove_postproc=False)
        self.recorder = Recorder(sch)
        return sch

    def check_steps(
        self, steps: list[list[Any]], recipe: dict[str, Any], compare: bool
    ) -> IRModule | None:
        """Apply steps and compare the program after each one. Return the scheduled module, or None
        when it became too large to go on.
        """
        sch = self.schedule()
        recorder = self.recorder
        assert recorder is not None
        for kind, seed, *given in steps:
            if recorder.is_final:
                break
            done = len(recorder.calls)
            before = sch.mod
            self.current = before
            pick = Pick(recorder, random.Random(seed), recipe, *given)
            self.choices.append(pick.choices)
            with self.guarded("primitive", kind):
                try:
                    (SAMPLERS.get(kind) or TEMPLATES[kind])[1](pick)
                except Nothing:
                    del recorder.calls[done:]
                    continue
                except ScheduleError as error:
                    self._refused(kind, sch, error)
                else:
                    self.counts[f"applied {kind}"] += 1
                    left = left_over(sch, recorder.calls[-1])
                    if left is not None:
                        raise Finding("", "", "not simplified", left)
                self.current = sch.mod
                if sch.mod is before:
                    continue
                if self.is_too_large(sch.mod):
                    return None
                if compare and not self.compared_from:
                    self.compare(sch.mod)
                    self.compare_orders(sch.mod)
        with self.guarded("primitive", "queries"):
            text = wrong_answer(sch.mod)
            if text is not None:
                raise Finding("", "", "a wrong answer", text)
        return sch.mod

    def _refused(self, kind: str, sch: Schedule, error: ScheduleError) -> None:
        """Check that a refused primitive changed nothing, and was not sure to work. Earlier calls
        of the sampler stay.
        """
        self.counts[f"refused {kind}"] += 1
        assert self.recorder is not None
        if sch.mod is not self.recorder.before:
            raise Finding("", "", "refused and changed the program", str(error))
        if self.recorder.is_sure_to_work():
            raise Finding("", "", f"{self.recorder.calls[-1][0]} is refused", str(error))
        self.recorder.calls.pop()

    def check_trace(self, result: IRModule) -> None:
        """Check that the trace, through JSON and simplified, makes an equal program again."""
        assert self.recorder is not None
        trace = self.recorder.sch.trace
        self.counts["trace"] += 1
        with self.guarded("trace", "JSON"):
            text = json.dumps(trace.as_json())
            again = Schedule(self.program, error_render_level="none")
            Trace.apply_json_to_schedule(json.loads(text), again)
            if not structural_equal(again.mod, result):
                raise Finding("", "", "the replayed program differs", again.mod.script())
        for simplify in (False, True):
            name = "simplified" if simplify else "replay"
            with self.guarded("trace", name):
                again = Schedule(self.program, error_render_level="none")
                chosen = trace.simplified(False) if simplify else trace
                chosen.apply_to_schedule(again, remove_postproc=False)
                if not structural_equal(again.mod, result):
                    raise Finding("", "", "the replayed program differs", again.mod.script())

    # Passes.

    def check_passes(self, module: IRModule, target: Target, compare: bool) -> IRModule | None:
        """Lower step by step; compare after each pass that changes something. Return None if a pass
        says that the program is not supported.
        """
        rounded, passes = False, self._passes(module, target)
        # ThreadSync runs for each kind of memory that threads share.
        missing = sum([step.info.name == "tir.ThreadSync" for step in passes])
        is_begun = not self.compared_from
        for step in passes:
            name = step.info.name
            is_begun = is_begun or name == self.compared_from
            if not PassContext.current().pass_enabled(step.info):
                continue
            self.current = module
            if name == "tir.AnnotateDeviceRegions" and compare:  # now all barriers are there
                check_in_lockstep(self, module)
                if self.is_planted:
                    check_planted(self, module)
            with self.guarded("pass", name):
                try:
                    new = step(module)
                except (UnsupportedError, ScheduleError) as error:
                    functions = module.functions.values()
                    if isinstance(error, ReductionError) and not any(
                        isinstance(one, PrimFunc) and reduces_on_threads(one) for one in functions
                    ):
                        failure = "refuses a reduction that no threads share"
                        raise Finding("", "", failure, str(error)) from error
                    self.counts[f"unsupported {name}: {error.message[:80]}"] += 1
                    return None
                self.counts[f"pass {name}"] += 1
                changed = not _same_functions(new, module)
                rounded = rounded or name in _ROUNDING
                if name == "tir.ThreadSync":
                    missing -= 1
                    if missing == 0 and self.device is not None:
                        changed, self.options = True, _WATCHED
                if changed and compare and is_begun:
                    self.current = new
                    verify_well_formed(new, strict=False)
                    # a device's wrapper asks for arrays on the device
                    packed = "__tvm_ffi_main" in new and self.device is None
                    entry = "__tvm_ffi_main" if packed else "main"
                    self.compare(new, entry, rounded)
            if changed and self.scripts:
                self.check_script(new)
            module = new
        return module

    def _passes(self, module: IRModule, target: Target) -> list[Pass]:
        steps: list[Pass] = []
        left = list(self.extra)
        kinds = {program_kind(function) for function in module.functions.values()}
        first = lower_passes(on_threads=ProgramKind.THREADS in kinds)
        if ProgramKind.CLASSIC in kinds:
            first = classic_passes()
        last = host_passes(target) if self.device is None else device_passes(target)
        for step in [*first, *last]:
            steps.append(step)
            for entry in [one for one in left if one[0] == step.info.name]:
                left.remove(entry)
                steps.append(getattr(passes, entry[1])())
        return steps

    # Code.

    def check_code(self, lowered: IRModule, target: Target) -> None:
        """Check that generated code computes what the interpreter does."""
        name = target.kind.name
        self.current = lowered
        with self.guarded("codegen", name):
            module = generate_code(lowered, target, None)
            self.counts[f"code {name}"] += 1
            if name == "llvm" and _starts_threads(module) and not _has_kind(lowered, _PARALLEL):
                raise Finding("", "", "starts threads without a parallel loop")
            if not runs_here(target):
                return
            for arrays, want in zip(self.inputs, self.expected):
                given = [_shared(one) for one in arrays]
                module["main"](*[tensor for tensor, _ in given])
                got = [tensor.numpy() if array is None else array for tensor, array in given]
                text = self.differ(got, want, rounded=True)
                if text is not None:
                    raise Finding("", "", "wrong result", text)
        with self.guarded("call", name):
            self._check_calls(module["main"])

    def _check_calls(self, call: Any) -> None:
        """Check that a compiled function takes unusual arguments, and refuses wrong ones."""
        rng = random.Random(self.seed)
        for arrays, want in zip(self.inputs, self.expected):
            given = [_shared(one) for one in arrays]
            buffers = [self.function.buffer_map.get(param) for param in self.function.params]
            unusual = [unusual_array(*pair, rng) for pair in zip(buffers, arrays)]
            if not any(one is not None for one in unusual):
                continue
            given = [
                pair if one is None else (from_dlpack(one), one)
                for pair, one in zip(given, unusual)
            ]
            call(*[tensor for tensor, _ in given])
            got = [tensor.numpy() if array is None else array for tensor, array in given]
            text = self.differ(got, want, rounded=True)
            if text is not None:
                raise Finding("", "", "wrong result with other strides of one element", text)
        for _ in range(3):
            failed = wrong_call(call, self.function, self.inputs[0], rng)
            if failed is not None:
                raise Finding("", "", *failed)

    def check_lowering(
        self, module: IRModule, back_ends: list[str], compare: bool, code: bool
    ) -> None:
        """Check the passes, then the code for each back end."""
        with PassContext(config=self.config):
            self._check_lowering(module, back_ends, compare, code)

    def _check_lowering(
        self, module: IRModule, back_ends: list[str], compare: bool, code: bool
    ) -> None:
        if self.device is not None:
            if self.counts["refused threads: rest"]:
                return  # a nest that cannot be bound to threads cannot run on a device
            lowered = self.check_passes(module, Target(self.device, host="llvm"), compare)
            if lowered is not None:
                self.counts[f"device {self.device}"] += 1
                if code:
                    check_code_for_devices(self, module, lowered)
            return
        threads = _has_kind(module, ForKind.THREAD_BINDING)
        for number, name in enumerate(back_ends or ["llvm"]):
            target = Target(name)
            lowered = self.check_passes(module, target, compare and number == 0)
            if lowered is None or threads or self.counts["applied SetAxisSeparator"]:
                return  # CPUs have neither such threads nor memory of several dimensions
            if code:
                self.check_code(lowered, target)


def _shared(value: Any) -> tuple[Any, Any]:
    """Return the argument for a compiled function and (where its memory is shared) the array behind
    it.
    """
    if not isinstance(value, numpy.ndarray):
        return value, value
    if whole(value) is value:
        return as_tensor(value), None
    value = copied(value)
    return from_dlpack(value), value


def _same_functions(one: IRModule, other: IRModule) -> bool:
    left, right = dict(one.functions), dict(other.functions)
    return left.keys() == right.keys() and all(left[key] is right[key] for key in left)


class _Turner(Rewriter):
    def visit_For(self, loop: For) -> For:
        loop = self.children(loop)
        if loop.kind is not ForKind.PARALLEL:
            return loop
        mirrored = loop.min + loop.min + loop.extent - 1 - loop.loop_var
        return loop.with_fields(body=substitute(loop.body, {loop.loop_var: mirrored}))


def _turned(module: IRModule) -> IRModule:
    """Return the module with its parallel loops reversed; the same module if it has none."""
    made = module.shallow_copy()
    changed = False
    for variable, function in module.functions.items():
        if not isinstance(function, PrimFunc):
            continue
        body = _Turner().visit(function.body)
        if body is not function.body:
            made[variable] = function.with_body(body)
            changed = True
    return made if changed else module


_PARALLEL = ForKind.PARALLEL


def _starts_threads(module: Any) -> bool:
    return "load ptr, ptr @__tilesmith_parallel_launch" in module.get_source("ll")


def _has_kind(module: IRModule, kind: ForKind) -> bool:
    """Return whether a function of a module has loops of a kind."""
    functions = [one for one in module.functions.values() if isinstance(one, PrimFunc)]
    return any(has_loop_of_kind(one.body, kind) for one in functions)


def run_steps(checker: Checker, steps: Callable[[Any], None], compare: bool = True) -> IRModule:
    """Apply a schedule written as Python, and compare everything at its end."""
    sch = checker.schedule()
    with checker.guarded("primitive", "schedule"):
        with suppress(ScheduleError):  # a refusal is a valid result
            steps(sch)
        checker.current = sch.mod
        if compare:
            checker.compare(sch.mod)
            checker.compare_orders(sch.mod)
    return sch.mod
