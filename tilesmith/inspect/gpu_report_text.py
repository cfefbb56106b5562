"""Shows a report on GPU kernels as tables of text."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilesmith.inspect.gpu_kernel_report import KernelReport
    from tilesmith.inspect.gpu_reports import GPUReport

__all__ = ["report_text"]

_WIDTH = 118


def report_text(report: GPUReport) -> str:
    """Return the report as text: what is wrong first, then kernel by kernel, then what was left
    out."""
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=_WIDTH, highlight=False, markup=False)
    console.print(f"GPU report on {report.machine.name} (sm_{report.machine.arch}), a model")
    _findings(console, report)
    for kernel in report.kernels:
        _kernel(console, kernel, report)
    for note in report.notes:
        console.print(f"note: {note}")
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    return "\n".join(lines)


def _findings(console: Any, report: GPUReport) -> None:
    from tilesmith.support.errors import format_span

    if report.is_clean:
        console.print(
            "No races, undefined reads, accesses out of bounds or divergent barriers found."
        )
    for name in report.not_run:
        console.print(f"✗ not checked: the kernels of {name} could not be run (see the note)")
    for finding in report.findings:
        times = f" ({finding.count} times)" if finding.count > 1 else ""
        console.print(f"✗ {finding.kind} in {finding.kernel}: {finding.message}{times}")
        shown = format_span(finding.span) if finding.span is not None else f"at {finding.place}"
        console.print("    " + "\n    ".join(shown.splitlines()))
        if finding.other is not None:
            console.print(f"    the other access: {finding.other.place}")
        console.print(f"    → {finding.advice}")
    for violation in report.violations:
        console.print(f"✗ limit: {violation.text}")
        if violation.span is not None:
            console.print("    " + "\n    ".join(format_span(violation.span).splitlines()))
        console.print(f"    → {violation.advice}")


def _kernel(console: Any, kernel: KernelReport, report: GPUReport) -> None:
    held = kernel.occupancy
    console.print()
    console.print(
        f"{kernel.name}: grid {_shape(kernel.grid)}, block {_shape(kernel.block)} = "
        f"{kernel.threads} threads; {kernel.blocks_run} of {kernel.blocks_total} blocks run"
    )
    console.print(
        f"  shared memory {kernel.static_shared} B static, {kernel.dynamic_shared} B dynamic; "
        f"{kernel.registers} registers a thread ({kernel.registers_from})"
        + (f", {kernel.spilled_bytes} B of stack" if kernel.spilled_bytes else "")
    )
    console.print(
        f"  occupancy {held.share:.0%}: {held.blocks} blocks = {held.warps} of {held.most_warps} "
        f"warps a multiprocessor, limited by {' and '.join(held.limited_by)}"
    )
    console.print(
        f"  {_number(kernel.flops)} operations, {_number(kernel.intensity)} a byte; memory at "
        f"least {_number(kernel.dram_bytes, 'B')}; L2 {_number(kernel.sector_bytes, 'B')} in "
        f"sectors for {_number(kernel.requested_bytes, 'B')} requested ({kernel.wasted:.0%} wasted)"
    )
    console.print(
        f"  shared memory: {_number(kernel.wavefronts)} wavefronts, "
        f"{_number(kernel.ideal_wavefronts)} without conflicts; {_number(kernel.barriers)} barriers"
    )
    parts = ", ".join([f"{part} {_time(seconds)}" for part, seconds in kernel.times.items()])
    console.print(
        f"  predicted at least {_time(kernel.seconds)} (limited by {kernel.limited_by}), at most "
        f"{kernel.share_of_peak:.0%} of the arithmetic peak: {parts}"
    )
    _accesses(console, kernel)
    for branch in kernel.branches:
        if branch.divergent:
            console.print(
                f"  divergent branch: {_number(branch.divergent)} of {_number(branch.warps)} warps "
                f"split at {branch.place}: {branch.statement}"
            )


def _accesses(console: Any, kernel: KernelReport) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("access")
    table.add_column("bytes", justify="right")
    table.add_column("warps", justify="right")
    table.add_column("per warp", justify="right")
    table.add_column("ideal", justify="right")
    table.add_column("", justify="right")
    table.add_column("where", overflow="fold", ratio=1)
    advice: dict[str, list[str]] = {}
    order = sorted(kernel.accesses, key=lambda one: (one.space, -one.accesses * one.transactions))
    for one in order:
        verb = {"read": "read", "write": "write"}.get(one.kind, one.kind)
        name = f"{one.space} {verb} {one.buffer}" + (" (async)" if one.is_async else "")
        unit = "sectors" if one.space == "global" else "wavefronts"
        remark = f"{one.wasted:.0%} wasted" if one.space == "global" and one.wasted >= 0.005 else ""
        if one.space == "shared" and one.degree > 1:
            remark = f"{one.degree}-way conflict"
        if one.repeated >= 0.005:
            remark += f"{', ' if remark else ''}{one.repeated:.0%} in registers"
        table.add_row(
            name, str(one.bytes_per_thread), _number(one.accesses),
            f"{one.transactions:.3g} {unit}",
            f"{one.ideal:.3g}", remark, _short(one.place),
        )  # fmt: skip
        if one.advice:
            advice.setdefault(one.advice, []).append(f"{one.buffer} ({one.kind})")
    if kernel.accesses:
        console.print(table)
    for text, names in advice.items():
        console.print(f"  → {', '.join(names)}: {text}")


def _short(place: str) -> str:
    head, colon, line = place.rpartition(":")
    return f"{head.rpartition('/')[2]}:{line}" if colon and line.isdigit() else place


def _shape(shape: tuple[int, int, int]) -> str:
    return "×".join([str(size) for size in shape])


def _number(value: float, unit: str = "") -> str:
    for limit, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


def _time(seconds: float) -> str:
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} µs"
