"""Names the storage scopes that targets know: kinds of memory, and registers of special units."""

from __future__ import annotations

__all__ = ["SCOPES_TEXT", "is_storage_scope"]

_KINDS = ("global", "shared", "local", "warp", "warpgroup", "texture", "amx")
_OTHERS = (
    "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator", "m16n8k8.matrixA", "m16n8k8.matrixB",
    "m16n8k8.matrixC", "metal.simdgroup",
)  # fmt: skip

SCOPES_TEXT = f"scopes: {', '.join(_KINDS)}, with a tag or without; {', '.join(_OTHERS)}"
"""The scopes as a refusal names them."""


def is_storage_scope(scope: str) -> bool:
    """Return whether targets know a storage scope, maybe with a tag: ``shared.dyn``,
    ``global.texture``.
    """
    return scope in _OTHERS or scope.startswith(_KINDS)
