"""Runs programs written for Apache TVM on Tilesmith.

    import tilesmith.compat.tvm
    tilesmith.compat.tvm.install()
    import tvm                          # Tilesmith's modules under the names users know

or ``python -m tilesmith.compat.tvm PROGRAM.py ARGUMENTS``. Off by default.
"""

from tilesmith.compat.tvm.install import install, uninstall

__all__ = ["install", "uninstall"]
