"""`python -m tilesmith` is the `tilesmith` command."""

from tilesmith.cli import main

if __name__ == "__main__":
    main()
