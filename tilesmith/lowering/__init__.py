"""From tensor programs to lowered modules and to code: ``lower``, ``build``, and the pipelines."""

from tilesmith.lowering.functions import build, check_scheduled, lower
from tilesmith.lowering.kernels import lower_kernels, symbolic_sizes
from tilesmith.lowering.pipelines import PHASES, host_passes, lower_passes

__all__ = [
    "PHASES", "build", "check_scheduled", "host_passes", "lower", "lower_kernels", "lower_passes",
    "symbolic_sizes",
]  # fmt: skip
