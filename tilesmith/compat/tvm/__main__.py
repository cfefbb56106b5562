"""Runs a program under the aliases: ``python -m tilesmith.compat.tvm PROGRAM.py ARGUMENTS``.

With ``-m``, a module instead of a file: ``python -m tilesmith.compat.tvm -m pytest tests``.
"""

from __future__ import annotations

import os
import runpy
import sys

from tilesmith.compat.tvm.alias import target_of
from tilesmith.compat.tvm.install import install


def main() -> int:
    """Run the program; the exit code of a wrong call is 2."""
    arguments = sys.argv[1:]
    is_module = arguments[:1] == ["-m"]
    if is_module:
        del arguments[0]
    program = arguments[0] if arguments else None
    if program is None or program in ("-h", "--help"):
        usage = "usage: python -m tilesmith.compat.tvm (PROGRAM.py | -m MODULE) [ARGUMENTS]"
        print(usage, file=sys.stderr)
        return 2 if program is None else 0
    if not is_module and not os.path.isfile(program):
        print(f"error: there is no file '{program}'", file=sys.stderr)
        return 2
    install()
    sys.argv = arguments
    if is_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(target_of(program), run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(program))
        runpy.run_path(program, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
