"""What schedules know about kinds of operations: one file for each kind, one table."""

from tilesmith.te.schedule.operations import (
    compute,
    extern,
    hybrid,
    placeholder,
    scan,
    tensor_compute,
)
from tilesmith.te.schedule.operations.rules import OPERATIONS, OperationRules, Placement

__all__ = [
    "OPERATIONS", "OperationRules", "Placement", "compute", "extern", "hybrid", "placeholder",
    "scan", "tensor_compute",
]  # fmt: skip
