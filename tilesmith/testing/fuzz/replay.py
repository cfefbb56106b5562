"""Saves findings as files that are tests: the program as TVMScript, the schedule as Python."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import pprint
import re
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.target import Target
from tilesmith.testing.fuzz import intrinsics
from tilesmith.testing.fuzz.cases import run_case
from tilesmith.testing.fuzz.checks import Checker, Finding, run_steps
from tilesmith.testing.fuzz.rules.checks import can_be_interpreted, scheduled
from tilesmith.tir import PrimFunc

__all__ = ["check", "check_case", "file_text", "run_file", "save"]


def check(
    program: PrimFunc | IRModule,
    schedule: Callable[[Any], None],
    arguments: list[list[dict[str, Any]]],
    phase: str,
    back_ends: list[str],
    extra: list[list[str]] | None = None,
    config: dict[str, Any] | None = None,
    device: str | None = None,
    target: str | None = None,
    seed: int = 0,
    planted: bool = False,
) -> None:
    """Check a program with its schedule, up to a phase. Raises Finding where a step fails or
    changes what the program computes. A primitive may refuse. ``extra``, ``config``, ``device``,
    ``seed`` and ``planted``: further passes, options, a device to lower for, what further calls are
    drawn from, and whether faults are planted in kernels, as a case has them. With a ``target``,
    the schedule begins with what the rules for it do.
    """
    intrinsics.register()
    checker = Checker(program, arguments)
    checker.extra, checker.config, checker.device = extra or [], config or {}, device
    checker.seed, checker.is_planted = seed, planted
    is_small = True
    if target is not None:
        begun = scheduled(checker, Target(target), "rules", is_repeated=True)
        if phase == "rules":
            return
        checker.begin, is_small = begun.trace, can_be_interpreted(checker, begun.mod)
    module = run_steps(checker, schedule, is_small)
    if phase in ("trace", "script"):
        checker.check_script(module)
        checker.check_trace(module)
    if phase in ("pass", "codegen", "call"):
        is_small = target is None or can_be_interpreted(checker, module)
        checker.check_lowering(module, back_ends, is_small, phase != "pass")


def check_case(case: dict[str, Any]) -> None:
    """Do the same for a case whose program cannot be written as a script."""
    finding = run_case(case)["finding"]
    if finding is not None:
        raise Finding(finding["phase"], finding["name"], finding["failure"], finding["detail"])


_AS_CASES = ("graph", "arithmetic")
"""Programs that are no function with a schedule: a file holds the case itself."""


def slug(signature: str, seed: int) -> str:
    """Return a file name for a finding: the words of its signature, and a digest of it and the
    seed (different faults may show in the same way).
    """
    words = re.sub(r"[^a-z0-9]+", "_", signature.lower()).strip("_")[:60].strip("_")
    return f"{words}_{hashlib.blake2b(f'{signature} {seed}'.encode(), digest_size=2).hexdigest()}"


def file_text(finding: dict[str, Any]) -> str:
    """Return the file for a finding."""
    case, phase = finding["case"], finding["phase"]
    seed = f"Found by ``tilesmith fuzz tir``, seed {case['seed']}."
    head = f'"""{textwrap.fill(finding["signature"], 90)}\n\n{seed}\n"""\n\n'
    comment = _comment(finding["detail"])
    test = "\n\n\ndef test_replay():\n    replay.check"
    by_calls = finding["failure"] == "not simplified" or finding["failure"].endswith("is refused")
    if not finding["script"] or phase == "script" or by_calls or case.get("program") in _AS_CASES:
        case_text = pprint.pformat(case, width=96, compact=True, sort_dicts=False)
        imports = "from tilesmith.testing.fuzz import replay\n\n"
        return f"{head}{imports}{comment}CASE = {case_text}  # fmt: skip{test}_case(CASE)\n"
    script, imports = _with_imports(finding["script"])
    name = "Module" if "\nclass Module:\n" in script else "main"
    arguments = pprint.pformat(finding["arguments"], width=80, compact=True, sort_dicts=False)
    wanted = ("extra", "config", "device", *(["seed"] if phase == "call" else []),
              *(["planted"] if finding.get("name") == "planted faults" else []))  # fmt: skip
    rules = case.get("rules", {})
    more = "".join(f", {key}={case[key]!r}" for key in wanted if case.get(key))
    more += f", target={json.dumps(rules['target'])}" if rules else ""
    body = "".join(f"    {line}\n" for line in finding["schedule"] or ["pass"])
    return (
        f"{head}{imports}{comment}ARGUMENTS = {arguments}  # fmt: skip\n\n\n"
        f"{script}\n\n\ndef schedule(sch):\n{body.rstrip()}{test}"
        f'({name}, schedule, ARGUMENTS, "{phase}", {json.dumps(case["back_ends"])}{more})\n'
    )


def _with_imports(printed: str) -> tuple[str, str]:
    """Return a printed program without the imports that it names in comments, and these."""
    found = re.findall(r"^# (from tilesmith\.script import .*)\n", printed, re.MULTILINE)
    script = re.sub(r"^# from tilesmith\.script import .*\n", "", printed, flags=re.MULTILINE)
    lines = sorted({*found, "from tilesmith.script import tir as T"})
    lines.append("from tilesmith.testing.fuzz import replay")
    return script.strip(), "\n".join(lines) + "\n\n"


def _comment(detail: str) -> str:
    lines = [line for long in detail.strip().splitlines()[:8] for line in textwrap.wrap(long, 96)]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def save(finding: dict[str, Any], folder: Path) -> Path:
    """Write the file for a finding; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"test_{slug(finding['signature'], finding['case']['seed'])}_script.py"
    path.write_text(file_text(finding), encoding="utf-8")
    return path


def run_file(path: Path) -> str | None:
    """Run the tests of a replay file in this process; return the failure, or None."""
    spec = importlib.util.spec_from_file_location(f"replay_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        for name, test in list(vars(module).items()):
            if name.startswith("test_") and callable(test):
                test()
    except Finding as finding:
        return f"{finding.signature}\n{finding.detail}"
    except Exception:
        return traceback.format_exc()
    return None
