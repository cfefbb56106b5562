"""Compiles one model in this process and prints, as JSON, where the time went.

    python -m benchmarks.compile_once MODEL.onnx [--threads N] [--profile]

Run as a process of its own, so that imports count and nothing is warm but the caches on disk.
"""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from pathlib import Path

import click


@click.command()
@click.argument("model", type=click.Path(exists=True, path_type=Path))
@click.option("--threads", default=0, help="0: as many as the machine has.")
@click.option("--profile", is_flag=True, help="Time by step, of this process only.")
def main(model: Path, threads: int, profile: bool) -> None:
    """Compile MODEL once."""
    start = time.perf_counter()
    import tilesmith

    # Resolving the name imports what it needs.
    compile_model = tilesmith.compile
    from tilesmith.ir.instrument import PassTimingInstrument, watched
    from tilesmith.support.summary import collect_summary

    imported = time.perf_counter()
    target = f"llvm -num-cores={threads}" if threads else "llvm"
    passes = PassTimingInstrument()
    with collect_summary(steps=profile) as summary, watched(passes) if profile else nullcontext():
        compile_model(model, target=target)
    compiled = time.perf_counter()
    click.echo(
        json.dumps(
            {
                "import": imported - start,
                "compile": compiled - imported,
                "steps": {**summary.steps, **passes.totals()},
            }
        )
    )


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.compile_once")
