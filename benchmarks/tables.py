"""Writes the tables of benchmarks/README.md from benchmarks/results/**/*.json.

python -m benchmarks.tables            # after runs with --record
python -m benchmarks.tables --check    # exit code 1 if the page says something else
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.contest import OURS, geometric_mean, means, rate
from benchmarks.report import RESULTS
from tilesmith.inspect.timing import format_seconds

PAGE = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
_ORDER = ("tilesmith", "onnxruntime", "torch", "torch.compile", "openvino", "jax", "numpy", "tvm")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _contestants(records: Mapping[str, dict[str, Any]]) -> list[str]:
    """Return who has a figure or failed in any contest, in a fixed order."""
    known = {name for one in records.values() for name in (*one["latency"], *one["failures"])}
    return [name for name in _ORDER if name in known]


def _cell(one: Mapping[str, Any], contestant: str) -> str:
    """Return a latency; of a rival also how many times as long it takes."""
    figures = one["latency"].get(contestant)
    if figures is None:
        return "failed" if contestant in one["failures"] or "all" in one["failures"] else "–"
    factor = one["times_as_fast"].get(contestant)
    text = format_seconds(figures["median_ms"] / 1e3)
    return f"{text} ({factor:.2f})" if factor else text


def table(records: Mapping[str, dict[str, Any]]) -> list[str]:
    """Return the lines of one table: a row for each contest, and the geometric means."""
    rivals = [name for name in _contestants(records) if name != OURS]
    lines = [_line(["", OURS, "rate", *rivals, "**best rival ÷ ours**", "error"])]
    lines.append("|:--|" + "--:|" * (len(rivals) + 4))
    for name, one in records.items():
        cells = [name, _cell(one, OURS), rate(one), *[_cell(one, rival) for rival in rivals]]
        best = f"**{one['best']['times_as_fast']:.2f}**" if "best" in one else "–"
        error = one["largest_error"].get(OURS)
        lines.append(_line([*cells, best, "–" if error is None else f"{error:.0e}"]))
    found = means(records)
    shown = [f"({found[rival]:.2f})" if rival in found else "–" for rival in rivals]
    best = f"**{found['best']:.2f}**" if "best" in found else "–"
    lines.append(_line(["geometric mean", "", "", *shown, best, ""]))
    return lines


def _remarks(records: Mapping[str, dict[str, Any]]) -> list[str]:
    """Return why contestants failed, each reason once with where."""
    places: dict[tuple[str, str], list[str]] = {}
    for name, one in records.items():
        for contestant, message in one["failures"].items():
            first = (message.splitlines() or ["no message"])[0]
            places.setdefault((contestant, first), []).append(name)
    return [f"- {contestant} failed ({', '.join(names)}): `{reason[:160]}`"
            for (contestant, reason), names in places.items()]  # fmt: skip


def _prediction_lines(found: Mapping[str, Any]) -> list[str]:
    lines = [_line(["kernels", "count", "rank correlation", "median of measured ÷ predicted"]),
             "|:--|--:|--:|--:|"]  # fmt: skip
    for kind, one in found["results"]["summary"].items():
        factor = f"{one['measured_to_predicted']:.2f}"
        lines.append(_line([kind, f"{one['kernels']:g}", f"{one['rank_correlation']:.3f}", factor]))
    return lines


def _gpu_lines(found: Mapping[str, Any]) -> list[str]:
    """Return what was measured beside the contests: the bandwidth that kernels can reach at most,
    launches, the compiler.
    """
    settings, records = found["settings"], found["results"]
    launches = _named(settings["launch_seconds"])
    compiling = _named(settings["compile_seconds"])
    shares = [one["share"] for one in records.values() if "share" in one]
    reached = f" Kernels that only move data reach {min(shares):.0%} to {max(shares):.0%} of it."
    return [
        f"Copies: {settings['copy_bytes_per_second'] / 1e12:.2f} TB/s.{reached if shares else ''} "
        f"A launch takes: {launches}. "
        f"The last step of the GEMM ladder is compiled in: {compiling}.",
    ]


def _named(seconds: Mapping[str, float]) -> str:
    return "; ".join([f"{name} {format_seconds(value)}" for name, value in seconds.items()])


def _machine_line(found: Mapping[str, Any]) -> str:
    machine = found["machine"]
    versions = ", ".join([f"{name} {version}" for name, version in machine["versions"].items()])
    commit = f", commit {machine['commit']}" if machine.get("commit") else ""
    cores = f"{machine['cores']} cores of {machine['cpu']} ({machine['class']})"
    load = f", load {machine['load']}" if machine.get("load") is not None else ""
    versions = f"{versions}, Python {machine['python']}"
    return f"{cores}, {machine['time'][:10]}{commit}{load}: {versions}."


def _title(found: Mapping[str, Any]) -> str:
    settings = found["settings"]
    if found["benchmark"] == "gpu":
        return f"Kernels on a GPU, {settings['device']}"
    threads = f"{settings['threads']} thread{'s' if settings['threads'] > 1 else ''}"
    if found["benchmark"] == "predictions":
        return f"Predicted against measured, {threads}"
    title = f"{found['benchmark'].capitalize()}, {settings['precision']}, {threads}"
    return f"{title}, batch {settings['batch']}" if found["benchmark"] == "models" else title


def _sections(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return what was recorded, by the machine: files lie in the folder of their CPU, those of GPUs
    outside.
    """
    sections: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")) + sorted(folder.glob("*/*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        machine = found["machine"]
        name = f"{machine['cpu']} ({machine['class']})" if path.parent != folder else "GPU"
        sections.setdefault(name, []).append(found)
    return sections


def page_part(folder: Path) -> str:
    """Return what stands between the marks: a chapter for each machine, a section for each file."""
    lines: list[str] = []
    ratios: list[str] = []
    for machine, files in _sections(folder).items():
        lines += [f"## {machine}", ""]
        for found in files:
            lines += [f"### {_title(found)}", "", _machine_line(found), ""]
            if found["benchmark"] == "predictions":
                lines += [*_prediction_lines(found), ""]
                continue
            records = found["results"]
            if found["benchmark"] == "gpu":
                lines += [*_gpu_lines(found), ""]
            lines += [*table(records), "", *_remarks(records), ""]
            factors = [one["best"]["times_as_fast"] for one in records.values() if "best" in one]
            cells = [machine, _title(found), f"{len(factors)}", f"{geometric_mean(factors):.2f}",
                     f"{sum(factor >= 1 for factor in factors)}"]  # fmt: skip
            ratios.append(_line(cells))
    names = ["", "", "contests", "best rival ÷ ours, geometric mean", "at least 1.0"]
    head = [_line(names), "|:--|:--|--:|--:|--:|", *ratios, ""]
    text = "\n".join([*(head if ratios else ["No results yet.", ""]), *lines])
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip() + "\n"


def written(page: str, part: str) -> str:
    """Return the page with another part between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise click.ClickException(f"the page has no marks {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{part}\n{END}{after}"


@click.command()
@click.option("--check", "is_check", is_flag=True, help="Write nothing; compare.")
def main(is_check: bool) -> None:
    """Write the tables of benchmarks/README.md."""
    page = PAGE.read_text(encoding="utf-8")
    new = written(page, page_part(RESULTS))
    if is_check:
        sys.exit(int(new != page))
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.tables")
