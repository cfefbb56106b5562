"""Writes a page that a tool makes, or compares it with what the tool would write."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path


def write_or_check(page: Path, text: str, *, check: bool, problems: str = "") -> None:
    """Write a page; with ``check`` leave it, and end with an error where it differs or there are
    ``problems``.
    """
    if problems:
        print(problems)
    if not check:
        page.write_text(text, encoding="utf-8")
        print(page)
        return
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    if problems or old != text:
        changed = difflib.unified_diff(old.splitlines(), text.splitlines(), lineterm="", n=0)
        print("\n".join(changed))
        sys.exit(f"run: python tools/{Path(sys.argv[0]).name}")
