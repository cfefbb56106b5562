"""Carries a case out: imports, compiles, runs and compares a model, loads an artifact, calls one.

Each function returns the record of the outcome; ``note`` is told the phase that begins, so that it
is known when the process dies. Errors go to the caller, who judges them.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

from tilesmith.testing.fuzz.models import cases
from tilesmith.testing.fuzz.models.arrays import (
    ODD_ARRAYS,
    ODD_SHAPES,
    odd_arguments,
    plain_array,
)
from tilesmith.testing.fuzz.models.artifacts import ARTIFACT_BASES
from tilesmith.testing.fuzz.models.bases import load_base
from tilesmith.testing.fuzz.models.pick import Pick
from tilesmith.testing.fuzz.models.reference import compare, is_endless
from tilesmith.testing.fuzz.models.verdict import failure, judge

__all__ = ["act", "command", "run_case", "save_artifacts"]

Note = Callable[[str], None]
Record = dict[str, Any]

_MOST_ELEMENTS = 1 << 22

command: Any = None
"""The command line, which lies on a floor above and is handed down; None: cases do without."""


def run_case(case: cases.Case, saved: Path, folder: Path, note: Note) -> Record:
    """Make the files of a case in a folder, and carry it out."""
    note("draw")
    try:
        path = _make_file(case, saved, folder)
    except Exception as error:  # a bug of the fuzzer
        return failure("broken", f"{type(error).__name__}: {error}", "draw", traceback.format_exc())
    return act(case, path, saved, note)


def _make_file(case: cases.Case, saved: Path, folder: Path) -> Path | None:
    kind = case["kind"]
    if kind == "model":
        return cases.make_model(case, folder)
    if kind == "graph":
        return cases.make_graph(case, folder)
    if kind == "artifact":
        return cases.make_artifact(case, saved, folder)
    if kind == "file":
        return cases.make_array_file(case, _odd_array(case, saved), folder)
    return None


def act(case: cases.Case, path: Path | None, saved: Path, note: Note) -> Record:
    """Carry a case out whose file is made."""
    phase = "draw"

    def begin(name: str) -> None:
        nonlocal phase
        phase = name
        note(name)

    try:
        kind = case["kind"]
        if path is None:
            return (_tensors if kind == "tensors" else _arguments)(case, saved, begin)
        if kind == "file":
            return _array_file(case, path, saved, begin)
        if case["through"] == "command":
            return _command(case, path, begin)
        return (_artifact if kind == "artifact" else _model)(case, path, begin)
    except BaseException as error:  # whatever it is, it is the outcome of the case
        record = judge(error, phase)
        if case["kind"] == "graph" and record["outcome"] == "typed":  # drawn graphs are valid
            text = f"{record['error']}: {record['message']}"
            return failure("refused", text, phase, traceback.format_exc())
        return record


def save_artifacts(folder: Path) -> None:
    """Compile the models whose artifacts are changed, in every form of file."""
    from tilesmith.driver.model import compile as compile_model

    for name in ARTIFACT_BASES:
        compiled = compile_model(load_base(name), cache=False)
        compiled.save(folder / f"{name}.tsm")
        compiled.export_library(folder / f"{name}.so")


# Models


def _inputs(executable: Any, size: int) -> list[Any] | None:
    """Return arguments for a compiled model; symbolic sizes get ``size``. None if too large."""
    found: list[numpy.ndarray] = []
    for parameter in executable["main"].signature.params:
        if parameter.kind != "tensor":
            return None
        shape = tuple([each if isinstance(each, int) else size for each in parameter.shape])
        if numpy.prod([float(each) for each in shape]) > _MOST_ELEMENTS:
            return None
        found.append(plain_array(shape, str(parameter.dtype), len(found)))
    return found


def _flat(result: Any) -> list[numpy.ndarray]:
    if isinstance(result, (list, tuple)):
        return [array for part in result for array in _flat(part)]
    return [result.numpy() if hasattr(result, "numpy") else numpy.asarray(result)]


def _model(case: cases.Case, path: Path, note: Note) -> Record:
    from tilesmith.driver.model import compile as compile_model
    from tilesmith.driver.model import import_model

    note("import")
    module = import_model(str(path))
    note("compile")
    executable = compile_model(module, cache=False)
    arguments = _inputs(executable, cases.size_of(case))
    if arguments is None:
        return {"outcome": "ok", "phase": "compile"}
    if is_endless(path):
        return {"outcome": "ok", "phase": "compile", "reason": "a loop without end"}
    note("run")
    results = _flat(executable(*arguments))
    note("compare")
    return compare(path, arguments, results)


def _command(case: cases.Case, path: Path, note: Note) -> Record:
    """Give the file to the command line."""
    words = ["run", str(path)]
    if case["kind"] == "model":
        words = ["compile", str(path), "-o", str(path.with_suffix(".tsm"))]
    return _say(words, note)


def _say(words: list[str], note: Note) -> Record:
    """Run the command line with some words; it says what is wrong on one line."""
    from click.testing import CliRunner

    assert command is not None
    note("command")
    result = CliRunner().invoke(command, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return judge(result.exception, "command")
    lines = [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]
    if result.exit_code == 0:
        return {"outcome": "ok", "phase": "command"}
    if result.exit_code == 1 and len(lines) == 1:
        return {"outcome": "typed", "phase": "command", "error": lines[0][:500]}
    text = lines[0] if lines else "nothing is said"
    signature = f"exit code {result.exit_code}: {text.partition(': ')[2][:80]}"
    return failure("untyped", signature, "command", result.output[-4000:])


# Compiled models


def _artifact(case: cases.Case, path: Path, note: Note) -> Record:
    from tilesmith.runtime.executable import load

    note("load")
    executable = load(path)
    arguments = _inputs(executable, 2)
    note("run")
    if arguments is not None:
        _flat(executable(*arguments))
    return {"outcome": "ok", "phase": "run"}


def _compiled(case: cases.Case, saved: Path) -> tuple[Any, list[Any]]:
    from tilesmith.runtime.executable import load

    executable = load(saved / f"{case['base']}.tsm")
    arguments = _inputs(executable, 3)
    assert arguments is not None
    return executable, arguments


def _odd_array(case: cases.Case, saved: Path) -> Any:
    array = _compiled(case, saved)[1][0]
    if case.get("oddity") is None:
        return array
    odd = numpy.asarray(ODD_ARRAYS[case["oddity"]](Pick(case["seed"]), array))
    return odd if odd.size <= _MOST_ELEMENTS else odd[:3]


def _arguments(case: cases.Case, saved: Path, note: Note) -> Record:
    """Call a compiled model with arguments of which some are odd. Where it accepts them, the result
    is that for plain copies.
    """
    executable, arguments = _compiled(case, saved)
    names = list(executable.input_names)
    named: dict[str, Any] = {}
    for name, seed in case["mutations"]:
        pick = Pick(seed)
        if name == "arguments":
            arguments, named = odd_arguments(pick, names, arguments)
            break
        place = pick.randrange(len(arguments))
        if _is_plain(arguments[place]):
            arguments[place] = ODD_ARRAYS[name](pick, arguments[place])
    note("call")
    found = _flat(executable(*arguments, **named))
    note("call again")
    given = [*arguments, *[named[name] for name in names if name in named]]
    again = _flat(executable(*[_plain(argument) for argument in given]))
    for one, other in zip(found, again, strict=True):
        if not numpy.array_equal(one, other, equal_nan=one.dtype.kind in "fc"):
            words = " ".join([name for name, _ in case["mutations"]])
            return failure("differs", f"the result for odd arguments: {words}", "call")
    return {"outcome": "ok", "phase": "call"}


def _is_plain(value: Any) -> bool:
    """Return whether an argument can be made odd: it is still an array of numbers."""
    return (
        type(value) is numpy.ndarray
        and value.dtype.kind in "fiub"
        and value.nbytes < _MOST_ELEMENTS
    )


def _plain(argument: Any) -> Any:
    if hasattr(argument, "numpy"):
        argument = argument.numpy()
    array = numpy.array(argument)
    return array.astype(array.dtype.newbyteorder("="))


def _tensors(case: cases.Case, saved: Path, note: Note) -> Record:
    """Make tensors of odd things, and move values between them."""
    from tilesmith.runtime import nd

    array: Any = plain_array((2, 3), Pick(case["seed"]).one(["float32", "int64", "bool"]))
    pick = Pick(0)
    for name, seed in case["mutations"]:
        pick = Pick(seed)
        if name != "arguments" and _is_plain(array):
            array = ODD_ARRAYS[name](pick, array)
    if getattr(array, "nbytes", 0) > 1 << 30:
        array = array[:2, :2]
    note("tensor")
    dtype = pick.one(["float32", "int4", "bfloat16", "nonsense", "", "float32x4", 3, None, "bool"])
    makers: list[Callable[[], Any]] = [
        lambda: nd.array(array),
        lambda: nd.from_dlpack(array),
        lambda: nd.array(array, dtype=dtype),
        lambda: nd.empty(pick.one(ODD_SHAPES), dtype),
        lambda: nd.empty((2, 3), "float32").copyfrom(array),
        lambda: nd.array(numpy.zeros((2, 3), "float32")).copyto(array),
    ]
    made = pick.one(makers)()
    if hasattr(made, "numpy"):
        _, _ = made.numpy(), repr(made)
    return {"outcome": "ok", "phase": "tensor"}


def _array_file(case: cases.Case, path: Path, saved: Path, note: Note) -> Record:
    """Run a compiled model on an array of a file, as the command does."""
    return _say(["run", str(saved / f"{case['base']}.tsm"), "--input", str(path)], note)
