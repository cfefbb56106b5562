"""The `tilesmith` command: compiles, runs, measures and inspects models from a shell."""

from __future__ import annotations


def main() -> None:
    """Run the command and end the process with its exit code."""
    from tilesmith.cli.main import tilesmith

    tilesmith(prog_name="tilesmith")
