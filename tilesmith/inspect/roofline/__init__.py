"""Compares the kernels of a program with what the machine can do at most.

    report = roofline_analysis(mod, params, "llvm", tilesmith.cpu())
    print(report)           # for each kernel: operations, bytes, what bounds it, how near it comes

A kernel that does few operations for each byte that it reads cannot be faster than memory allows
("memory" bounds it), another one not faster than the arithmetic units ("compute").
"""

from tilesmith.inspect.roofline import registry, x86
from tilesmith.inspect.roofline.analysis import (
    SaveLoweredTIR,
    roofline_analysis,
    roofline_from_existing,
)

__all__ = [
    "SaveLoweredTIR", "registry", "roofline_analysis", "roofline_from_existing", "x86",
]  # fmt: skip
