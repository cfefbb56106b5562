"""The `tilesmith` command: compile, run, measure and look into models from a shell."""

from __future__ import annotations


def main() -> None:
    """Entry point of the command; ends the process with its exit code."""
    from tilesmith.cli.main import tilesmith

    tilesmith(prog_name="tilesmith")
