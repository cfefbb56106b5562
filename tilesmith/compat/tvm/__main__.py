"""``python -m tilesmith.compat.tvm PROGRAM.py ARGUMENTS``: run a program under the aliases."""

from __future__ import annotations

import os
import runpy
import sys

from tilesmith.compat.tvm.install import install


def main() -> int:
    """Run the program; the exit code of a wrong call is 2."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print("usage: python -m tilesmith.compat.tvm PROGRAM.py [ARGUMENTS]", file=sys.stderr)
        return 0 if len(sys.argv) > 1 else 2
    program = sys.argv[1]
    if not os.path.isfile(program):
        print(f"error: there is no file '{program}'", file=sys.stderr)
        return 2
    install()
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(program))
    runpy.run_path(program, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
