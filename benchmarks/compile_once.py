"""Compiles one model in this process and prints, as JSON, where the time went.

    python -m benchmarks.compile_once MODEL.onnx [--threads N] [--profile]

Run as a process of its own, so that imports count and nothing is warm but the caches on disk.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import click


@click.command()
@click.argument("model", type=click.Path(exists=True, path_type=Path))
@click.option("--threads", default=0, help="0: as many as the machine has.")
@click.option("--profile", is_flag=True, help="Time by pass (of this process, not of its workers).")
def main(model: Path, threads: int, profile: bool) -> None:
    """Compile MODEL once."""
    start = time.perf_counter()
    import tilesmith

    # Resolving the names imports what they need.
    compile_model = tilesmith.compile
    pass_context = tilesmith.transform.PassContext
    imported = time.perf_counter()
    target = f"llvm -num-cores={threads}" if threads else "llvm"
    passes: dict[str, float] = {}
    if profile:
        from tilesmith.ir.instrument import PassTimingInstrument

        timing = PassTimingInstrument()
        with pass_context(opt_level=3, instruments=[timing]):
            compile_model(model, target=target)
            passes = timing.totals()
    else:
        compile_model(model, target=target)
    compiled = time.perf_counter()
    click.echo(
        json.dumps({"import": imported - start, "compile": compiled - imported, "passes": passes})
    )


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.compile_once")
