"""Operators that convert, reshape, repeat and reorder elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith import tir
from tilesmith.ir import PrimExpr
from tilesmith.relax import op as relax
from tilesmith.relax.attrs import (
    REQUIRED,
    Schema,
    anything,
    boolean,
    dtype,
    integer,
    integer_or_ints,
    ints,
    optional_integer,
    optional_ints,
    text,
)
from tilesmith.relax.expr import Constant, RelaxExpr, get_shape_of, known_struct_info
from tilesmith.relax.spec import topi
from tilesmith.relay.expr import TupleWrapper, const
from tilesmith.relay.op.tensor import dtype_of, tuple_of
from tilesmith.relay.op.view import (
    axis_of,
    computed,
    constant_value,
    define,
    function,
    make_call,
    name_or_empty,
    rank_of,
    same,
    sizes,
)
from tilesmith.support.errors import ShapeError, UnsupportedError

# Conversions

same("cast", "data", record="astype", level=3, schema=Schema(dtype=dtype(REQUIRED)))
define(
    "cast_like",
    "data dtype_like",
    lambda attrs, data, like: relax.astype(data, dtype_of(like)),
    level=3,
    description="The elements in the dtype of the second tensor.",
)
same("reinterpret", "data", record="reinterpret", level=3, schema=Schema(dtype=dtype(REQUIRED)))


# Shapes


def plain_sizes(value: Any, what: str) -> tuple[Any, ...]:
    """Return sizes that a user gives: integers and symbolic sizes as they are, a constant tensor as
    its elements.
    """
    if isinstance(value, Constant):
        value = numpy.atleast_1d(constant_value(value, what)).tolist()
    if isinstance(value, (int, PrimExpr)):
        value = (value,)
    if isinstance(value, RelaxExpr):
        raise UnsupportedError(
            f"{what} has to be constant here", notes=("relay.dyn has operators of computed shapes",)
        )
    return tuple([getattr(item, "value", item) for item in value])


def _shape_field() -> Any:
    field = anything(REQUIRED)
    field.description = "sizes"
    field.convert = lambda value: plain_sizes(value, "the shape")
    return field


_CODES = (0, -2, -3, -4)


class _Reshape:
    """Works out the sizes that relay's codes stand for."""

    def __init__(self, given: Sequence[Any], old: Sequence[Any], allow_zero: bool) -> None:
        self.given = list(given)
        self.old = list(old)
        self.allow_zero = allow_zero
        self.place = 0
        self.found: list[Any] = []

    def next_old(self) -> Any:
        """Return the next size of the input."""
        if self.place >= len(self.old):
            raise ShapeError(f"reshape: {tuple(self.given)} names more axes than {self.old}")
        self.place += 1
        return self.old[self.place - 1]

    def split(self, first: Any, second: Any) -> list[Any]:
        """Return two sizes made of the next one; one of them may be -1."""
        whole = self.next_old()
        known = isinstance(first, int) and isinstance(second, int) and isinstance(whole, int)
        if known and -1 in (first, second):
            other = second if first == -1 else first
            return [whole // other, other] if first == -1 else [other, whole // other]
        return [first, second]

    def run(self) -> list[Any]:
        """Return the sizes; at most one is -1."""
        codes = list(self.given)
        while codes:
            code = codes.pop(0)
            if isinstance(code, int) and code == 0 and not self.allow_zero:
                self.found.append(self.next_old())
            elif isinstance(code, int) and code == -2:
                self.found += self.old[self.place :]
                self.place = len(self.old)
            elif isinstance(code, int) and code == -3:
                self.found.append(self.next_old() * self.next_old())
            elif isinstance(code, int) and code == -4:
                self.found += self.split(codes.pop(0), codes.pop(0))
            else:
                self.found.append(code)
                self.place += 1
        return self.found


def _reshape(attrs: Any, data: Any) -> Any:
    has_code = any(isinstance(code, int) and code in _CODES for code in attrs.newshape)
    old = sizes(data) if has_code else ()
    new = _Reshape(attrs.newshape, old, attrs.allowzero).run() if has_code else attrs.newshape
    return relax.reshape(data, new)


def _reverse_reshape(attrs: Any, data: Any) -> Any:
    new = _Reshape(attrs.newshape[::-1], sizes(data)[::-1], False).run()
    return relax.reshape(data, new[::-1])


def _reshape_like(attrs: Any, data: Any, like: Any) -> Any:
    bounds = (attrs.lhs_begin, attrs.lhs_end, attrs.rhs_begin, attrs.rhs_end)
    if bounds == (0, None, 0, None):
        return relax.reshape(data, get_shape_of(like))
    old, new = sizes(data), sizes(like)
    left = slice(*slice(attrs.lhs_begin, attrs.lhs_end).indices(len(old))[:2])
    right = slice(*slice(attrs.rhs_begin, attrs.rhs_end).indices(len(new))[:2])
    return relax.reshape(data, [*old[: left.start], *new[right], *old[left.stop :]])


def _expand_dims(attrs: Any, data: Any) -> Any:
    first = axis_of(attrs.axis, rank_of(data) + 1)
    return relax.expand_dims(data, list(range(first, first + attrs.num_newaxis)))


define(
    "reshape",
    "data",
    _reshape,
    level=3,
    schema=Schema(newshape=_shape_field(), allowzero=boolean(False)),
    record=relax.reshape.op.spec,
    description=(
        "The same elements in another shape. In ``newshape``, 0 keeps a size, -1 is what remains, "
        "-2 keeps all remaining sizes, -3 multiplies two, -4 splits one into the next two."
    ),
)
define(
    "contrib_reverse_reshape",
    "data",
    _reverse_reshape,
    level=10,
    schema=Schema(newshape=_shape_field()),
    description="Like ``reshape``, with the codes read from the last axis to the first.",
)
define(
    "reshape_like",
    "data shape_like",
    _reshape_like,
    level=3,
    schema=Schema(
        lhs_begin=integer(0),
        lhs_end=optional_integer(),
        rhs_begin=integer(0),
        rhs_end=optional_integer(),
    ),
    description="The same elements; some axes take the sizes of some axes of the second tensor.",
)
define(
    "expand_dims",
    "data",
    _expand_dims,
    level=1,
    schema=Schema(axis=integer(), num_newaxis=integer(1)),
    record=relax.expand_dims.op.spec,
)
same("squeeze", "data", level=3, schema=Schema(axis=optional_ints()))
same("transpose", "data", record="permute_dims", level=3, schema=Schema(axes=optional_ints()))
computed(
    "layout_transform",
    "data",
    "topi.layout_transform",
    level=5,
    schema=Schema(src_layout=text(), dst_layout=text()),
    description='The elements in another layout: ``"NCHW"`` to ``"NCHW8c"``.',
    evaluate=lambda attrs, data: _in_layout(data, attrs.src_layout, attrs.dst_layout),
)


def _in_layout(data: Any, source: str, target: str) -> Any:
    """Return an array in another layout; an axis that is not divided evenly is filled with 0."""
    own, wanted = tir.layout(source).axes, tir.layout(target).axes
    letters = [letter for letter, size in own if not size]
    # first the axes in the order of their letters, each followed by its inner parts
    order = [at for letter in letters for at, one in enumerate(own) if one[0].upper() == letter]
    data = numpy.transpose(data, order)
    parts = [sum([one[0].upper() == letter for one in own]) for letter in letters]
    places = numpy.cumsum([0, *parts])
    whole = [numpy.prod(data.shape[a:b], dtype=int) for a, b in zip(places, places[1:])]
    data = data.reshape(whole)
    shape, names, width = [], [], []
    for letter, size in zip(letters, whole):
        inner = [one for one in wanted if one[0] == letter.lower()]
        block = int(numpy.prod([one[1] for one in inner], dtype=int))
        shape += [-(-size // block), *[one[1] for one in inner]]
        names += [letter, *[one[0] for one in inner]]
        width.append((0, -size % block))
    data = numpy.pad(data, width).reshape(shape)
    return numpy.ascontiguousarray(data.transpose([names.index(one[0]) for one in wanted]))


@function("reverse_reshape")
def reverse_reshape(data: Any, newshape: Any) -> Any:
    """Reshape with the codes of ``newshape`` read from the last axis to the first."""
    return make_call("contrib_reverse_reshape", [data], {"newshape": newshape})


# Tensors made of numbers


def _full(attrs: Any, fill_value: Any) -> Any:
    return relax.full(attrs.shape, fill_value, attrs.dtype or None)


define(
    "full",
    "fill_value:number",
    _full,
    level=3,
    schema=Schema(shape=_shape_field(), dtype=name_or_empty()),
    description="A tensor of one value.",
)
same(
    "full_like",
    "data fill_value:number",
    level=3,
    description="A tensor of one value, with shape and dtype of the first tensor.",
)


@function("full")
def full(fill_value: Any, shape: Any = (), dtype: Any = "") -> Any:
    """Return a tensor of one value (an expression of rank 0 or a number)."""
    value = fill_value if isinstance(fill_value, RelaxExpr) else const(fill_value, dtype or None)
    return make_call("full", [value], {"shape": shape, "dtype": dtype})


def _arange(attrs: Any, start: Any, stop: Any, step: Any) -> Any:
    bounds = [constant_value(one, "a bound of arange") for one in (start, stop, step)]
    return relax.arange(bounds[0], bounds[1], bounds[2], attrs.dtype)


define(
    "arange",
    "start stop step",
    _arange,
    level=3,
    schema=Schema(dtype=dtype("float32")),
    description="The numbers from start to stop, without stop.",
)


@function("arange")
def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = "float32") -> Any:
    """Return the numbers from ``start`` (0 if only one bound is given) to ``stop``, without it."""
    if stop is None:
        start, stop = 0, start
    bounds = [start, stop, 1 if step is None else step]
    made = [one if isinstance(one, RelaxExpr) else const(one, dtype) for one in bounds]
    return make_call("arange", made, {"dtype": dtype})


def _one_hot(attrs: Any, indices: Any, on_value: Any, off_value: Any) -> Any:
    on, off = constant_value(on_value, "on_value"), constant_value(off_value, "off_value")
    return relax.one_hot(indices, on, off, attrs.depth, attrs.axis, attrs.dtype)


define(
    "one_hot",
    "indices on_value off_value",
    _one_hot,
    level=10,
    schema=Schema(depth=integer(), axis=integer(-1), dtype=dtype("float32")),
    description="Vectors that have ``on_value`` at one place each, ``off_value`` elsewhere.",
)


@function("one_hot")
def one_hot(indices: Any, on_value: Any, off_value: Any, depth: Any, axis: int, dtype: Any) -> Any:
    """Return vectors along ``axis`` that have ``on_value`` at the place that an index names."""
    values = [
        one if isinstance(one, RelaxExpr) else const(one, dtype) for one in (on_value, off_value)
    ]
    return make_call("one_hot", [indices, *values], {"depth": depth, "axis": axis, "dtype": dtype})


computed(
    "meshgrid",
    "data",
    lambda attrs, data: topi.meshgrid(data, attrs.indexing),
    level=3,
    schema=Schema(indexing=text("ij")),
    description="Coordinates of a grid from vectors of coordinates.",
)


@function("meshgrid")
def meshgrid(data: Any, indexing: str = "ij") -> TupleWrapper:
    """Return the coordinates of a grid, one tensor for each vector of coordinates."""
    vectors = tuple_of(data)
    count = len(known_struct_info(vectors).fields)  # type: ignore[attr-defined]
    return TupleWrapper(make_call("meshgrid", [vectors], {"indexing": indexing}), count)


# Repetition and order

same("repeat", "data", level=3, schema=Schema(repeats=integer(), axis=optional_integer()))
same(
    "tile",
    "data",
    level=3,
    schema=Schema(reps=ints()),
    attributes=lambda attrs: {"repeats": attrs.reps},
)
same("reverse", "data", record="flip", level=3, schema=Schema(axis=integer()))
computed(
    "reverse_sequence",
    "data seq_lengths",
    "topi.reverse_sequence",
    level=3,
    schema=Schema(seq_axis=integer(1), batch_axis=integer(0)),
    description="Reverse the first elements of each sequence of a batch, as many as its length.",
)
same(
    "where",
    "condition x y",
    level=4,
    description="The elements of ``x`` where the condition holds, those of ``y`` elsewhere.",
)
same("split", "data", level=3,
     schema=Schema(indices_or_sections=integer_or_ints(), axis=integer(0)))  # fmt: skip
computed(
    "sequence_mask",
    "data valid_length",
    "topi.sequence_mask",
    level=10,
    schema=Schema(mask_value=anything(0), axis=integer(0)),
    description="Replace what lies beyond the length of each sequence of a batch.",
)
for _name in ("cumsum", "cumprod"):
    same(
        _name,
        "data",
        level=3,
        schema=Schema(axis=optional_integer(), dtype=name_or_empty(), exclusive=anything(None)),
        attributes=lambda attrs: {
            "axis": attrs.axis,
            "dtype": attrs.dtype,
            "exclusive": bool(attrs.exclusive),
        },
    )


@function("split")
def split(data: Any, indices_or_sections: Any, axis: int = 0) -> TupleWrapper:
    """Cut a tensor along an axis: into equal parts, or before given places."""
    if isinstance(indices_or_sections, (list, tuple)):
        indices_or_sections = tuple([int(place) for place in indices_or_sections])
    count = (
        indices_or_sections
        if isinstance(indices_or_sections, int)
        else len(indices_or_sections) + 1
    )
    attributes = {"indices_or_sections": indices_or_sections, "axis": axis}
    return TupleWrapper(make_call("split", [data], attributes), count)


def _trilu(attrs: Any, data: Any, k: Any) -> Any:
    triangle = relax.triu if attrs.upper else relax.tril
    return triangle(data, int(constant_value(k, "k")))


define(
    "trilu",
    "data k",
    _trilu,
    level=3,
    schema=Schema(upper=boolean(True)),
    description="The upper or lower triangle of matrices, from the diagonal k on; 0 elsewhere.",
)


@function("trilu")
def trilu(data: Any, k: Any, upper: bool = True) -> Any:
    """Return the upper or lower triangle of matrices, from diagonal ``k`` on."""
    k = k if isinstance(k, RelaxExpr) else const(k, "int32")
    return make_call("trilu", [data, k], {"upper": upper})


computed(
    "matrix_set_diag",
    "data diagonal",
    lambda attrs, data, diagonal: topi.matrix_set_diag(
        data, diagonal, (attrs.k1, attrs.k2), _alignment(attrs)
    ),
    level=10,
    schema=Schema(
        k1=integer(0),
        k2=integer(0),
        super_diag_right_align=boolean(True),
        sub_diag_right_align=boolean(False),
    ),
    description="Replace diagonals k1 to k2 of matrices.",
)


def _alignment(attrs: Any) -> str:
    sides = (attrs.super_diag_right_align, attrs.sub_diag_right_align)
    return "_".join(["RIGHT" if right else "LEFT" for right in sides])


@function("matrix_set_diag")
def matrix_set_diag(data: Any, diagonal: Any, k: Any = 0, align: str = "RIGHT_LEFT") -> Any:
    """Replace a diagonal of matrices, or those from ``k[0]`` to ``k[1]``."""
    low, high = (k, k) if isinstance(k, int) else (k[0], k[-1])
    above, _, below = align.partition("_")
    attributes = {
        "k1": low,
        "k2": high,
        "super_diag_right_align": above == "RIGHT",
        "sub_diag_right_align": below == "RIGHT",
    }
    return make_call("matrix_set_diag", [data, diagonal], attributes)


computed(
    "invert_permutation",
    "data",
    "topi.invert_permutation",
    level=1,
    description="The permutation that undoes a permutation.",
)
computed(
    "unravel_index",
    "indices shape",
    lambda attrs, indices, shape: topi.unravel_index(indices, shape),
    level=3,
    description="The coordinates of flat indices in a shape (a vector).",
)
computed(
    "sliding_window",
    "data",
    "topi.sliding_window",
    level=0,
    schema=Schema(axis=integer(), window_shape=ints(), strides=ints()),
    description="All windows of a shape, taken in steps, along the axes from ``axis`` on.",
)
