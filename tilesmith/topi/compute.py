"""Makes the tensors of operators, under the names of loops that published schedules rely on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith import te
from tilesmith.te import Tensor

__all__ = ["compute", "compute_several"]


def compute(
    shape: Any,
    element: Callable[..., Any],
    name: str,
    tag: str = "",
    attrs: dict[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Tensor:
    """Make a tensor as `te.compute` does; iterators that have no name of their own are called ax0,
    ax1, ...
    """
    made: Tensor = compute_several(shape, element, name, tag, attrs, varargs_names)
    return made


def compute_several(
    shape: Any,
    element: Callable[..., Any],
    name: str,
    tag: str = "",
    attrs: dict[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """Make as many tensors as ``element`` gives values; parameters as in `compute`."""
    numbered = [f"ax{k}" for k in range(len(shape))] if varargs_names is None else varargs_names
    return te.compute(shape, element, name, tag, attrs, list(numbered))
