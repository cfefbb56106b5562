"""Does what some operators do, with values that are there: ``relax.op.set.numpy_unique``."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax.op import search
from tilesmith.runtime.ndarray import array

__all__ = [
    "numpy_nonzero", "numpy_unique", "relax_assert_op", "relax_print", "relax_shape_to_tensor",
    "render_object",
]  # fmt: skip


def _values(x: Any) -> Any:
    return x.numpy() if hasattr(x, "numpy") else x


def numpy_unique(
    x: Any,
    sorted: Any,
    return_index: Any,
    return_inverse: Any,
    return_counts: Any,
    axis: int | None = None,
) -> Any:
    """Return the values that occur in a tensor, and what else is asked for, as tensors."""
    found: Any = search.numpy_unique(
        _values(x),
        bool(sorted),
        bool(return_index),
        bool(return_inverse),
        bool(return_counts),
        axis,
    )
    return tuple([array(one) for one in found]) if isinstance(found, tuple) else array(found)


def numpy_nonzero(x: Any) -> Any:
    """Return the indices of the nonzero elements of a tensor, one row per axis."""
    return array(search.numpy_nonzero(_values(x)))


def render_object(val: Any) -> str:
    """Return the text of a value as ``relax.print`` shows it: tensors as their numbers."""
    return str(_values(val))


def _text(template: str, values: tuple[Any, ...]) -> str:
    shown = [render_object(one) for one in values]
    return template.format(*shown) if template else " ".join(shown)


def relax_print(format_str: str, *format_args: Any) -> None:
    """Print values by a format string; without one, with blanks between them."""
    print(_text(format_str, format_args))


def relax_assert_op(condition: Any, format_str: str, *format_args: Any) -> None:
    """Raise an AssertionError with a message if a condition does not hold."""
    if not bool(_values(condition)):
        message = _text(format_str, format_args)
        raise AssertionError(f"Assertion Failed: {message}" if message else "Assertion Failed")


def relax_shape_to_tensor(shape_tuple: Any) -> Any:
    """Return sizes as a tensor of int64."""
    return array(numpy.asarray([int(size) for size in shape_tuple], "int64"))
