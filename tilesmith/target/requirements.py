"""States what code for a target needs of the CPU that runs it."""

from __future__ import annotations

from tilesmith.runtime.requirements import CHOSEN_FEATURES, Requirements
from tilesmith.target.features import architecture, is_host, target_features
from tilesmith.target.host import host_cpu
from tilesmith.target.target import Target

__all__ = ["requirements_of"]


def requirements_of(target: Target) -> Requirements:
    """Return the features of the target's CPU whose instructions the code may have."""
    chosen = CHOSEN_FEATURES.get(architecture(target), {})
    return Requirements(tuple(sorted(target_features(target) & chosen.keys())), _described(target))


def _described(target: Target) -> str:
    """Return the words of a target that decide on features."""
    if is_host(target) and not target.mattr:
        return f"{target.kind.name} -mcpu={host_cpu().name}"
    options = [
        f"-{name}={target.attrs[name]}" for name in ("mtriple", "mcpu") if target.attrs.get(name)
    ]
    changes = [f"-mattr={','.join(target.mattr)}"] if target.mattr else []
    return " ".join([target.kind.name, *options, *changes])
