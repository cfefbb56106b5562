"""Shows the progress of long work on a terminal, through `rich`, which is imported when it is
needed.

with progress("compiling") as report:
    for index, kernel in enumerate(kernels):
        report(index, len(kernels), kernel.name)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[..., None]


def _ignore(done: float, total: float | None = None, text: str = "") -> None:
    """Report nothing: used where there is no terminal."""


@contextmanager
def progress(title: str, enabled: bool | None = None) -> Iterator[Report]:
    """Show a progress bar on standard error within a `with` block.

    Yields `report(done, total=None, text="")`. Shown on a terminal only, unless `enabled` says
    otherwise.
    """
    if enabled is None:
        enabled = sys.stderr.isatty()
    if not enabled:
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, text="")

        def report(done: float, total: float | None = None, text: str = "") -> None:
            bar.update(task, completed=done, total=total, text=text)

        yield report


@contextmanager
def status(title: str, enabled: bool | None = None) -> Iterator[Callable[[str], None]]:
    """Show a spinner with a text that can change: yields `update(text)`."""
    if enabled is None:
        enabled = sys.stderr.isatty()
    if not enabled:
        yield lambda text: None
        return
    from rich.console import Console

    with Console(stderr=True).status(title) as shown:
        yield lambda text: shown.update(text)
