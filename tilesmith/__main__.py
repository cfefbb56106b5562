"""`python -m tilesmith` is the `tilesmith` command."""

from tilesmith.cli import main

main()
