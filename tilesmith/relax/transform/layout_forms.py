"""Forms of tensors while layouts are converted; both doors share what follows from them.

A tensor that was NCHW and now is NHWC has the `Form` ``NCHW → NHWC``: what asks for it in its old
layout gets it transformed, what can do with the new one gets it as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tilesmith import tir
from tilesmith.ir import IntImm
from tilesmith.relax.struct_info import ShapeExpr, TensorStructInfo, TupleStructInfo
from tilesmith.support.errors import ShapeError

__all__ = [
    "Form", "agrees", "check_even", "form_of", "moved", "rank", "reduced", "sizes_of", "widths",
    "without",
]  # fmt: skip


class Form(NamedTuple):
    """The layout that a tensor had, and the one that it has."""

    old: str
    new: str

    def place(self, axis: int) -> int | None:
        """Return where an axis is now; None if it is split."""
        letter = self.old[axis]
        names = list(tir.layout(self.new))
        return None if letter.lower() in names else names.index(letter)

    def places(self, axis: int) -> list[int]:
        """Return where the parts of an axis are now."""
        letter = self.old[axis]
        names = list(tir.layout(self.new))
        return [place for place, name in enumerate(names) if name.upper() == letter]


def form_of(old: str, new: str) -> Form | None:
    """Return the form of a tensor that had one layout and has another; None if they are the same or
    are not about the same axes.
    """
    if not old or not new or old == new or not old.isupper():
        return None
    axes = sorted([axis for axis in tir.layout(new) if axis.isupper()])
    return Form(old, new) if sorted(old) == axes else None


def sizes_of(info: Any) -> list[Any] | None:
    """Return the sizes of a tensor, those that are known as int; None if there are none."""
    if not isinstance(info, TensorStructInfo) or not isinstance(info.shape, ShapeExpr):
        return None
    return [one.value if isinstance(one, IntImm) else one for one in info.shape.values]


def rank(expr: Any) -> int:
    """Return the rank of a tensor, -1 if it is not known."""
    return int(getattr(expr.struct_info, "ndim", -1))


def check_even(expr: Any, source: str, target: str) -> None:
    """Refuse a transformation that would add elements: there is no way back from it. Raises
    ShapeError.
    """
    shape = sizes_of(expr.struct_info)
    whole = tir.layout(source)
    if shape is None or len(shape) != len(whole):
        raise ShapeError(f"the tensor has rank {rank(expr)}, its layout {source} another one")
    if any(name.islower() for name in whole):
        return
    for name, size in tir.layout(target).axes:
        found = shape[whole.index_of(name.upper())]
        if size and not (isinstance(found, int) and found % size == 0):
            raise ShapeError(f"{found} elements along {name.upper()} do not fit {target}")


def agrees(old: Any, new: Any, forms: Sequence[Form | None]) -> bool:
    """Return whether a result is that of a call before, but for the layouts: of the same dtype, and
    of the sizes that follow from the forms. Sizes that are not known are taken to agree.
    """
    if isinstance(old, TupleStructInfo) and isinstance(new, TupleStructInfo):
        pairs = list(zip(old.fields, new.fields, forms))
        return len(old.fields) == len(new.fields) and all(agrees(a, b, [c]) for a, b, c in pairs)
    before, now = sizes_of(old), sizes_of(new)
    if before is None or now is None or old.dtype != new.dtype:
        return before is None and now is None
    form = forms[0]
    if form is not None:
        if len(before) != len(form.old):
            return False
        way = tir.bijective_layout(form.old, form.new)
        before = [getattr(one, "value", one) for one in way.forward_shape(before)]
    if len(before) != len(now):
        return False
    return all(a == b for a, b in zip(before, now) if isinstance(a, int) and isinstance(b, int))


# Where attributes about axes point to now


def moved(form: Form, axes: Iterable[int]) -> list[int] | None:
    """Return where axes are now; None if one of them is split."""
    places = [form.place(int(axis) % len(form.old)) for axis in axes]
    found = [place for place in places if place is not None]
    return found if len(found) == len(places) else None


def without(form: Form, gone: set[str]) -> Form | None:
    """Return the form of a tensor without some axes."""
    kept = [
        (str(size) if size else "") + name
        for name, size in tir.layout(form.new).axes
        if name.upper() not in gone
    ]
    old = "".join([name for name in form.old if name not in gone])
    return form_of(old, "".join(kept))


def reduced(
    form: Form, axes: Iterable[int], keepdims: bool, finds_place: bool
) -> tuple[list[int], Form | None] | None:
    """Return the axes of a reduction as they are now and the form of its result; None if it cannot
    be taken there. ``finds_place``: the result is a place along the (only) axis.
    """
    chosen = {int(one) % len(form.old) for one in axes}
    places = sorted([place for one in chosen for place in form.places(one)])
    is_split = len(places) != len(chosen)
    if finds_place and (is_split or len(chosen) != 1):
        return None  # the place that is found would be another
    if keepdims and is_split:
        return None
    gone = set() if keepdims else {form.old[one] for one in chosen}
    return places, without(form, gone)


def widths(form: Form, given: Sequence[Any]) -> list[Any] | None:
    """Return the widths of a padding (two for each axis) as they are for the axes now; None if an
    axis that is split is padded.
    """
    found: list[Any] = [(0, 0)] * sum([len(form.places(one)) for one in range(len(form.old))])
    for axis, width in enumerate(given):
        place = form.place(axis)
        if place is not None:
            found[place] = width
        elif tuple([int(one) for one in width]) != (0, 0):
            return None
    return found
