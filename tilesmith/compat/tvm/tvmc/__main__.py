"""Runs the command tvmc."""

from tilesmith.compat.tvm.tvmc.main import main

if __name__ == "__main__":
    main()
