"""Says which operators of a model cannot be imported: all of them at once."""

from __future__ import annotations

from collections.abc import Sequence

from tilesmith.support.errors import OpNotImplemented

__all__ = ["raise_missing"]

_SHOWN = 5
"""Names of nodes that are shown for one kind of operator."""


def raise_missing(tool: str, kinds: str, missing: Sequence[tuple[str, str]], advice: str) -> None:
    """Raise OpNotImplemented for (name of a node, its operator) if there are any.

    ``advice`` is the way round that a user may go.
    """
    if not missing:
        return
    by_kind: dict[str, list[str]] = {}
    for name, kind in missing:
        by_kind.setdefault(kind, []).append(name)
    lines = []
    for kind, names in sorted(by_kind.items()):
        shown = ", ".join(f"'{name}'" for name in names[:_SHOWN])
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        lines.append(f"{kind} ({shown}{more})")
    raise OpNotImplemented(
        f"these {kinds} of the {tool} model cannot be imported: {'; '.join(lines)}",
        notes=(f"another way: {advice}",),
    )
