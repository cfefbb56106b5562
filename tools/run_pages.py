"""Runs the programs in Markdown pages and holds what they print against the pages.

    python tools/run_pages.py docs/schedules/*.md            # check: exit code 1 where a page lies
    python tools/run_pages.py --update docs/schedules/*.md   # write what the programs print
    python tools/run_pages.py --update --measure docs/schedules/gemm.md   # also what they measure

The ``python`` blocks of a page run from top to bottom in one namespace. A ``text`` block right
after one holds what it printed. A ``measured`` block also follows a program, which is then only run
with ``--measure``: its figures differ from machine to machine.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = re.compile(
    r"^```python\n(?P<program>.*?)^```\n(?:\n*^```(?P<kind>text|measured)\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass
class Difference:
    """A program that prints something else than its page says."""

    line: int
    expected: str
    printed: str


def run(program: str, line: int, page: Path, names: dict[str, Any]) -> str:
    """Run a program of a page and return what it printed. Errors show the line of the page."""
    printed = io.StringIO()
    code = compile("\n" * line + program, str(page), "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return "\n".join([text.rstrip() for text in printed.getvalue().rstrip().splitlines()])


def run_page(page: Path, measure: bool = False) -> tuple[str, list[Difference]]:
    """Run a page; return its text with what the programs printed, and what differs from before."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "page", "__file__": str(page)}
    differences: list[Difference] = []

    def replaced(block: re.Match[str]) -> str:
        whole, program, kind = block[0], block["program"], block["kind"]
        if kind == "measured" and not measure:
            return whole
        line = text.count("\n", 0, block.start()) + 1
        printed = run(program, line, page, names)
        if kind is None and not printed:
            return whole
        expected = (block["output"] or "").rstrip()
        if printed != expected:
            differences.append(Difference(line, expected, printed))
        return f"```python\n{program}```\n\n```{kind or 'text'}\n{printed}\n```\n"

    return BLOCK.sub(replaced, text), differences


def main() -> None:
    """Check or update pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    failed = False
    for page in options.pages:
        text, differences = run_page(page, options.measure)
        if options.update:
            page.write_text(text, encoding="utf-8")
            continue
        for one in differences:
            failed = True
            print(f"{page}:{one.line}: prints\n{one.printed}\ninstead of\n{one.expected}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
