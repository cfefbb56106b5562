"""Shows marks in a text: underlines them, numbers the lines, leaves out lines far from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["marked_text"]


def marked_text(
    lines: Sequence[str],
    marks: Mapping[int, Sequence[tuple[int, int]]],
    print_line_numbers: bool = False,
    num_context_lines: int | None = None,
) -> str:
    """Return the lines as a text with ``^^^`` below the marks.

    ``marks``: number of a line → columns where marks begin and end. ``num_context_lines``: how many
    lines are shown before and after a mark; None and -1: all.
    """
    shown = _lines_in_context(len(lines), marks, num_context_lines)
    width = len(str(len(lines)))
    result, previous = [], -1
    for number in shown:
        if number != previous + 1:
            result.append(f"(... {number - previous - 1} lines skipped ...)")
        prefix = f"{number + 1:>{width}} " if print_line_numbers else ""
        result.append(prefix + lines[number])
        if number in marks:
            marker = [" "] * max(end for _, end in marks[number])
            for start, end in marks[number]:
                marker[start:end] = "^" * (end - start)
            result.append(" " * len(prefix) + "".join(marker))
        previous = number
    if shown and shown[-1] != len(lines) - 1:
        result.append(f"(... {len(lines) - 1 - shown[-1]} lines skipped ...)")
    return "\n".join(result)


def _lines_in_context(
    count: int, marks: Mapping[int, Sequence[tuple[int, int]]], context: int | None
) -> list[int]:
    if context is None or context < 0 or not marks:
        return list(range(count))
    shown: set[int] = set()
    for number in marks:
        shown.update(range(max(0, number - context), min(count, number + context + 1)))
    alone = [n for n in range(count) if n - 1 in shown | {-1} and n + 1 in shown | {count}]
    return sorted(shown.union(alone))  # replacing a single line by (...) would save nothing
