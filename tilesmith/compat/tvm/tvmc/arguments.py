"""A parser of arguments for a first look at the command line."""

from __future__ import annotations

import argparse
from typing import NoReturn


class TVMCSuppressedArgumentParser(argparse.ArgumentParser):
    """Parses what it knows and leaves messages about the rest to the parser that comes after."""

    def exit(self, status: int = 0, message: str | None = None) -> None:  # type: ignore[override]
        """Go on: the complete parser reports what is wrong."""

    def error(self, message: str) -> NoReturn:
        """Raise ArgumentError instead of ending the program."""
        raise argparse.ArgumentError(None, message)
