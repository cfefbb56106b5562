"""Lowers tensor programs to flat loops and compiles them: ``lower``, ``build``, the pipelines."""

from typing import TYPE_CHECKING

from tilesmith.lowering.functions import (
    build,
    build_to_run,
    check_scheduled,
    checking_bounds,
    lower,
    lower_entries,
)
from tilesmith.lowering.kernels import lower_kernels, symbolic_sizes
from tilesmith.lowering.pipelines import (
    CLASSIC_PHASES,
    PHASES,
    classic_passes,
    device_passes,
    host_passes,
    lower_passes,
)
from tilesmith.lowering.program_kind import ProgramKind, program_kind
from tilesmith.support.lazy import lazy_attributes
from tilesmith.te.arguments import get_binds

if TYPE_CHECKING:
    from tilesmith.lowering.te_schedules import form_irmodule, schedule_to_module

_LAZY = {
    "form_irmodule": "tilesmith.lowering.te_schedules:form_irmodule",
    "schedule_to_module": "tilesmith.lowering.te_schedules:schedule_to_module",
}

__getattr__, __dir__ = lazy_attributes(__name__, _LAZY)

__all__ = [
    "CLASSIC_PHASES", "PHASES", "ProgramKind", "build", "build_to_run", "check_scheduled",
    "checking_bounds", "classic_passes", "device_passes", "form_irmodule", "get_binds",
    "host_passes", "lower", "lower_entries", "lower_kernels", "lower_passes", "program_kind",
    "schedule_to_module", "symbolic_sizes",
]  # fmt: skip
