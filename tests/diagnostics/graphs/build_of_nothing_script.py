"""relax.build without a module."""

from tilesmith import relax

relax.build(None, "llvm")
