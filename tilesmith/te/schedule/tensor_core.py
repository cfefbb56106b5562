"""Answers for the automatic use of tensor cores, which classic schedules had."""

from __future__ import annotations

from typing import Any

from tilesmith.support.errors import UnsupportedError

__all__ = ["schedule_post_proc_rewrite_for_tensor_core"]


def schedule_post_proc_rewrite_for_tensor_core(stmt: Any, schedule: Any, extern_buffer: Any) -> Any:
    """Refuse to find products of matrices in loops: a schedule names them itself."""
    raise UnsupportedError(
        "loops are not rewritten for tensor cores by the pragma 'tensor_core'",
        notes=(
            "tensorize the loops over one tile with wmma intrinsics: te.decl_tensor_intrin, or "
            "tir.Schedule.tensorize with those of tir.tensor_intrin.cuda",
            'keep the tiles in the scopes "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"',
        ),
    )
