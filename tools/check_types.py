"""Runs mypy over the package and holds each floor to its budget of type errors.

    python tools/check_types.py             # what `make lint` runs
    python tools/check_types.py relax       # list the errors of one package, too

The packages in ``STRICT`` have none. For the others ``BUDGET`` says how many there still are: a
number may only fall, and a change that fixes some errors lowers it here.
"""

from __future__ import annotations

import sys
from collections import defaultdict

from mypy import api

STRICT = ("arith", "codegen", "compat", "error", "inspect", "ir", "runtime", "support", "tir")
BUDGET = {
    "cli": 5,
    "contrib": 1,
    "driver": 18,
    "lowering": 7,
    "relax": 395,
    "schedule_rules": 11,
    "script": 37,
    "target": 10,
    "te": 13,
    "testing": 34,
    "topi": 87,
}


def errors_by_package() -> dict[str, list[str]]:
    """Return the errors that mypy reports, by the package of the house that they are in."""
    report, failure, _ = api.run(["--config-file", "pyproject.toml", "--no-error-summary"])
    if failure:
        sys.exit(failure)
    found: dict[str, list[str]] = defaultdict(list)
    for line in report.splitlines():
        path, _, rest = line.partition(":")
        if ": error: " in rest:
            found[path.removeprefix("tilesmith/").split("/")[0].removesuffix(".py")].append(line)
    return found


def main(shown: list[str]) -> int:
    """Compare with the budgets; return 1 if some package has more or fewer errors than its
    budget.
    """
    found = errors_by_package()
    failed = False
    for package in sorted({*found, *BUDGET, *shown}):
        errors, allowed = found.get(package, []), BUDGET.get(package, 0)
        if package in shown or len(errors) > allowed:
            print(*errors, sep="\n")
        if len(errors) > allowed:
            print(f"{package}: {len(errors)} type errors, at most {allowed} may be there")
            failed = True
        elif len(errors) < allowed:
            print(f"{package}: {len(errors)} type errors; lower its budget of {allowed} to that")
            failed = True
    strict_budgets = [package for package in STRICT if package in BUDGET]
    if strict_budgets:
        print(f"strict packages have no budget: {', '.join(strict_budgets)}")
        failed = True
    if not failed:
        print(f"types: {len(STRICT)} packages strict, {sum(BUDGET.values())} errors in the others")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
