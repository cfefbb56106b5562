"""``TILESMITH_CHECK=1``: checks every compilation while it runs.

After each pass of lowering the module has to be well-formed, and each function that the pass
changed is interpreted and has to compute the same results as before, if its loops execute at most
10^5 statements (symbolic sizes are chosen small). A larger function is compared when it is built:
its code against the code of the plainest build (no optional pass, LLVM at level 0). Functions that
cannot be compared are counted with the reason. ``summary()`` returns the counts; a process that
checked something prints them when it exits.
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy

from tilesmith.ir import BaseFunc, IRModule, Let
from tilesmith.ir.instrument import PassInstrument, instruments_of_thread, watched
from tilesmith.ir.queries import is_call, walk
from tilesmith.lowering.check_inputs import (
    argument_choices,
    calls_outside,
    copy_of_argument,
    promised_statements,
    rounds,
)
from tilesmith.support.errors import (
    MiscompileError,
    OutOfBoundsError,
    TilesmithError,
    UnknownNameError,
    UnsupportedError,
    VerifyError,
)  # fmt: skip
from tilesmith.support.knobs import knobs
from tilesmith.target import Target
from tilesmith.target.back_end import find_back_end, part
from tilesmith.tir.analysis import verify_well_formed
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import reads_memory, uses_variable
from tilesmith.tir.stmt import BlockRealize, BufferStore, For, IfThenElse, LetStmt, While

__all__ = [
    "add_counts", "check_builds", "check_same", "checked_passes", "is_checking", "summary",
    "take_counts",
]  # fmt: skip

MOST_STATEMENTS = 100_000
"""Up to how many executed statements a function is interpreted."""
MOST_BUILT = 300_000_000
"""Up to how many executed statements two builds of a function are run."""

# Passes that may change the rounding of floats. All others keep every bit, unless the function
# calls e.g. `exp`, of which numpy has two versions, for scalars and for vectors.
_ROUNDING = ("tir.LowerIntrin", "tir.BF16", "tir.FP8", "tir.LowerThreadAllreduce",
             "tir.LowerCrossThreadReduction", "tir.Legalize")  # fmt: skip
_TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "float16": 2e-2}
_TIGHT = {"float64": 1e-14, "float32": 4e-6, "float16": 4e-3}
_LOOSE = 1e-1  # dtypes of fewer bits

_counts: Counter[str] = Counter()
_lock = threading.Lock()


def is_checking() -> bool:
    """Return whether compilations are checked."""
    return bool(knobs.check)


def _count(what: str) -> None:
    with _lock:
        if not _counts:
            atexit.unregister(_print_summary)  # it may be registered since before `take_counts`
            atexit.register(_print_summary)
        _counts[what] += 1


def summary() -> dict[str, int]:
    """Return the counts of checks by this process and its workers: kind → count."""
    with _lock:
        return dict(sorted(_counts.items()))


def take_counts() -> dict[str, int]:
    """Return the counts and reset them: a worker hands them to its parent."""
    with _lock:
        taken = dict(_counts)
        _counts.clear()
    return taken


def add_counts(counts: dict[str, int]) -> None:
    """Add the counts of a worker."""
    for what, number in counts.items():
        _count(what)
        with _lock:
            _counts[what] += number - 1


def _print_summary() -> None:
    counts = summary()
    if counts:
        text = "; ".join(f"{what}: {number}" for what, number in counts.items())
        print(f"tilesmith check: {text}", file=sys.stderr)


# Comparison.


def _tolerance(dtype: numpy.dtype, rounding: bool, rounds: bool) -> float:
    if rounding:
        return _TOLERANCE.get(dtype.name, _LOOSE)
    return _TIGHT.get(dtype.name, _LOOSE) if rounds else 0.0


def _difference(got: Any, want: Any, rounding: bool, rounds: bool = False) -> str | None:
    """Describe where two results differ, if they do. ``rounding``: the step may change rounding;
    ``rounds``: the function calls operations that may be rounded differently.
    """
    if not isinstance(want, numpy.ndarray):
        return None
    if want.dtype.kind in "biu":
        wrong = got != want
        if (rounding or rounds) and wrong.any():
            return None  # a rounded value was compared or cast: either result is right
    else:
        one, other = got.astype(numpy.float64), want.astype(numpy.float64)
        finite = numpy.isfinite(other)
        scale = float(numpy.abs(other[finite]).max()) if finite.any() else 1.0
        limit = _tolerance(want.dtype, rounding, rounds) * max(scale, 1.0)
        with numpy.errstate(invalid="ignore"):
            near = (numpy.abs(one - other) <= limit) | (one == other)
        wrong = ~(near | (numpy.isnan(one) & numpy.isnan(other)))
        if rounding:
            wrong &= finite  # rounding may move an overflow or a pole
    if not wrong.any():
        return None
    place = tuple(int(index) for index in numpy.argwhere(numpy.atleast_1d(wrong))[0])
    return (
        f"{int(wrong.sum())} of {want.size} elements differ, first at {list(place)}: "
        f"{numpy.atleast_1d(got)[place]} instead of {numpy.atleast_1d(want)[place]}"
    )


def _results(
    program: Any,
    arguments: list[Any],
    entry: str | None,
    interpret: Callable[..., Any] | None = None,
) -> list[Any]:
    copies = [copy_of_argument(one) if isinstance(one, numpy.ndarray) else one for one in arguments]
    from tilesmith.tir.interpreter import Options, run  # imported only if something is checked

    if interpret is not None:
        interpret(program, *copies, entry=entry)
    else:  # between passes, barriers may be missing still
        run(program, *copies, entry=entry, options=Options())
    return copies


def _depends_on_data(function: PrimFunc) -> bool:
    """Return whether the values in buffers, or the program's own checks, decide which elements are
    accessed, so that other arguments may stay inside.
    """
    deciding: list[Any] = []
    for node in walk(function.body):
        if isinstance(node, (BufferLoad, BufferStore)):
            deciding += node.indices
        elif isinstance(node, For):
            deciding += [node.min, node.extent]
        elif isinstance(node, (IfThenElse, While)):
            deciding.append(node.condition)
        elif isinstance(node, (LetStmt, Let)):
            deciding.append(node.value)
        elif isinstance(node, BlockRealize):
            deciding += [*node.iter_values, node.predicate]
        elif is_call(node, "tir.checked"):
            return True
    scalars = [param for param in function.params if param not in function.buffer_map]
    return reads_memory(deciding) or uses_variable(deciding, set(scalars))


class _Subject:
    """One function being checked: its arguments and results, or why it is not interpreted."""

    def __init__(self, name: str, function: PrimFunc) -> None:
        self.name = name
        self.reason: str | None = None
        self.arguments: list[Any] = []
        self.expected: list[Any] = []
        self.rounds = rounds(function)
        outside = calls_outside(function)
        if outside is not None:
            self.reason = f"it calls {'another function' if outside[0] == '@' else outside}"
            return
        self._choose(function)

    def _choose(self, function: PrimFunc) -> None:
        """Choose the first arguments on which the function runs."""
        self.reason = "no arguments could be made"
        for number, (sizes, arguments) in enumerate(argument_choices(function)):
            if promised_statements(function, sizes) > MOST_STATEMENTS:
                if number:
                    continue  # keep the reason why smaller sizes failed
                self.reason = "its loops promise more than 10^5 statements"
                return
            try:
                self.expected = _results(function, arguments, None)
            except OutOfBoundsError as error:
                if not sizes and not _depends_on_data(function):
                    error.notes = (*error.notes, f"'{self.name}' leaves its buffers as it is given")
                    raise
                self.reason = "it leaves its buffers on the chosen arguments"
                continue
            except (TilesmithError, ArithmeticError, ValueError, TypeError) as error:
                kind = type(error).__name__
                self.reason = f"the original does not run on chosen arguments ({kind})"
                continue
            self.arguments, self.reason = arguments, None
            return

    def compare(self, module: IRModule, step: str) -> str | None:
        """Describe how the function's results differ now, if they do; count the outcome."""
        if self.reason is not None:
            return None
        rounding = self.rounds and step.startswith(_ROUNDING)
        entry = f"__tvm_ffi_{self.name}"
        entry = entry if entry in module else self.name
        target = module[self.name].attrs.get("target")
        interpret = None
        if entry != self.name and target is not None:
            interpret = _interpreter(Target(target))
        if entry != self.name and target is not None and interpret is None:
            self.reason = "its wrapper takes arguments on a device"
            _count(f"not comparable ({self.reason})")
            return None
        try:
            got = _results(module, self.arguments, entry, interpret)
        except (UnsupportedError, UnknownNameError) as error:
            self.reason = f"the interpreter does not run what {step} makes of it"
            _count(f"not comparable ({self.reason}: {error.message.splitlines()[0][:60]})")
            return None
        except TilesmithError as error:
            return f"then it fails: {error.message}"
        for one, other in zip(got, self.expected):
            text = _difference(one, other, rounding, self.rounds)
            if text is not None:
                return text
        self.expected = got if rounding else self.expected
        _count("interpreted after a pass")
        return None


def _interpreter(target: Target) -> Callable[..., Any] | None:
    """Return the interpreter of a target's lowered functions, wrappers included, on host arrays."""
    record = find_back_end(target)
    return None if record is None or record.interpreter is None else part(record.interpreter)


class _CheckPasses(PassInstrument):
    """Checks the module after each pass that is not composed of others."""

    def __init__(self) -> None:
        self.subjects: dict[str, _Subject] = {}
        self.stack: list[tuple[Any, dict[str, BaseFunc], int]] = []
        self.finished = 0  # passes that have run

    def run_before_pass(self, mod: IRModule, info: Any) -> None:
        if not self.finished and not self.stack:  # functions that no pass changes count as well
            for name, function in _functions(mod).items():
                if isinstance(function, PrimFunc):
                    self.add(name, function)
        self.stack.append((info, _functions(mod), self.finished))

    def run_after_pass(self, mod: IRModule, info: Any) -> None:
        while self.stack:
            known, before, finished = self.stack.pop()
            if known is info:
                break
        else:
            return
        is_composite = self.finished != finished
        self.finished += 1
        if is_composite:  # the passes inside have been checked
            return
        self.look(before, mod, info.name)

    def add(self, name: str, function: PrimFunc) -> _Subject:
        """Run a function on chosen arguments; count the reason where that cannot be done."""
        subject = self.subjects[name] = _Subject(name, function)
        if subject.reason is not None:
            _count(f"not interpreted ({subject.reason})")
        return subject

    def look(self, before: dict[str, BaseFunc], mod: IRModule, step: str) -> None:
        after = _functions(mod)
        changed = [name for name, function in after.items() if before.get(name) is not function]
        if not changed:
            return
        for name in changed:
            self.verify(before, after, name, step)
        for name in changed:
            source = name.removeprefix("__tvm_ffi_")
            old = before.get(source)
            if source not in after or not isinstance(old, PrimFunc):
                continue
            subject = self.subjects.get(source) or self.add(source, old)
            text = subject.compare(mod, step)
            if text is not None:
                raise MiscompileError(
                    f"the pass '{step}' changed what '{source}' computes: {text}",
                    notes=_programs(before, after, [source]),
                )

    def verify(self, before: dict[str, Any], after: dict[str, Any], name: str, step: str) -> None:
        """Check that well-formed functions stay so. Callees may be linked later, so functions are
        checked one by one.
        """
        if not isinstance(after[name], PrimFunc):
            return
        try:
            verify_well_formed(after[name], strict=False)
            _count("verified after a pass")
        except VerifyError as error:
            old = before.get(name)
            if isinstance(old, PrimFunc) and not verify_well_formed(old, False, strict=False):
                _count("not verified (it was not well-formed before)")
                return
            raise VerifyError(
                f"the pass '{step}' broke '{name}': {error.message}",
                span=error.span,
                notes=(*error.notes, *_programs(before, after, [name])),
            ) from error


def _functions(module: IRModule) -> dict[str, BaseFunc]:
    return {variable.name_hint: function for variable, function in module.functions.items()}


def _programs(before: dict[str, Any], after: dict[str, Any], names: list[str]) -> tuple[str, ...]:
    made = []
    for word, functions in (("before", before), ("after", after)):
        for name in names:
            if name in functions:
                made.append(f"{word} the pass:\n{_text(functions[name])}")
    return tuple(made)


def _text(function: Any) -> str:
    try:
        return function.script()
    except Exception as error:  # a failing printer must not hide the error
        return f"(cannot be printed: {error})"


@contextmanager
def checked_passes() -> Iterator[None]:
    """Check the passes that run inside, if ``TILESMITH_CHECK`` is set."""
    nested = any(isinstance(one, _CheckPasses) for one in instruments_of_thread())
    if nested or not is_checking():
        yield
        return
    with watched(_CheckPasses()):
        yield


# Whole builds.


def _is_built(function: Any, scheduled: Any) -> bool:
    """Return whether to run the function's code: it can be run, but not every step of its lowering
    can be interpreted, because the function, or its scheduled form, is too large on the first
    choice of arguments or calls machine intrinsics.
    """
    if not isinstance(function, PrimFunc) or calls_outside(function, machine=False) is not None:
        return False
    for sizes, _ in argument_choices(function):
        return any(
            promised_statements(one, sizes) > MOST_STATEMENTS or calls_outside(one) is not None
            for one in (function, scheduled)
        )
    return False


def check_builds(
    original: IRModule,
    get_built: Callable[[], Any],
    plain: Callable[[IRModule], Any],
    scheduled: IRModule | None = None,
) -> None:
    """Compare code with the code of the plainest build, for functions too large to interpret.

    ``get_built()`` returns the module that the user gets, ``plain(module)`` builds the plainest
    one. ``scheduled`` holds the functions after their default schedules, if they got any. Raises
    MiscompileError where results differ.
    """
    if not is_checking():
        return
    functions = _functions(original)
    after = functions if scheduled is None else _functions(scheduled)
    large = {name: f for name, f in functions.items() if _is_built(f, after[name])}
    if not large:
        return
    built = get_built()
    if not getattr(built, "_runnable", True):
        for _ in large:
            _count("not comparable (its code is for another machine)")
        return
    for name, function in large.items():
        text = _compare_builds(name, function, built, plain)
        if text is not None:
            raise MiscompileError(
                f"'{name}': its code and that of the plainest build differ {text}",
                notes=(f"the program:\n{_text(function)}",),
            )


def _compare_builds(
    name: str, function: PrimFunc, built: Any, plain: Callable[[IRModule], Any]
) -> str | None:
    """Describe how the results of two builds differ, if they do; count the outcome."""
    sizes, arguments = next(argument_choices(function))
    if promised_statements(function, sizes) > MOST_BUILT:
        _count("not comparable (its loops promise more than 3*10^8 statements)")
        return None
    try:
        with knobs.override(check=False):
            reference = plain(IRModule({name: function}))
        want = _called(reference[name], arguments)
    except Exception as error:  # asserts of the program raise Python's exceptions
        _count(f"not comparable (the plainest build gives {type(error).__name__})")
        return None
    got = _called(built[name], arguments)
    for number, (one, other) in enumerate(zip(got, want)):
        text = _difference(one, other, True)
        if text is not None:
            return f"in argument {number}: {text}"
    _count("compared with the plainest build")
    return None


def _called(function: Any, arguments: list[Any]) -> list[Any]:
    from tilesmith.runtime.nd import array

    given = [array(one) if isinstance(one, numpy.ndarray) else one for one in arguments]
    function(*given)
    return [one.numpy() if hasattr(one, "numpy") else one for one in given]


def check_same(before: PrimFunc, after: PrimFunc, what: str) -> None:
    """Compare a function with the result of a step (a schedule), as passes are compared."""
    if not is_checking() or before is after:
        return
    name = str(before.attrs.get("global_symbol", "main"))
    subject = _Subject(name, before)
    if subject.reason is not None:
        _count(f"not interpreted ({subject.reason})")
        return
    try:
        got = _results(after, subject.arguments, None)
    except (UnsupportedError, UnknownNameError) as error:
        why = f"the interpreter does not run what {what} makes of it"
        _count(f"not comparable ({why}: {error.message.splitlines()[0][:60]})")
        return
    except TilesmithError as error:
        raise MiscompileError(
            f"{what} changed '{name}': then it fails: {error.message}",
            notes=_programs({name: before}, {name: after}, [name]),
        ) from error
    for one, other in zip(got, subject.expected):
        text = _difference(one, other, True)  # the schedule may reorder reductions
        if text is not None:
            raise MiscompileError(
                f"{what} changed what '{name}' computes: {text}",
                notes=_programs({name: before}, {name: after}, [name]),
            )
    _count("interpreted after a schedule")
