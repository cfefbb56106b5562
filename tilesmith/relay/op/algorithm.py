"""``relay.op.algorithm``: sorting and searching."""

from __future__ import annotations

from typing import Any

from tilesmith.relax.attrs import Schema, boolean, dtype, integer, text
from tilesmith.relax.spec import topi
from tilesmith.relay.expr import TupleWrapper
from tilesmith.relay.op.view import computed, function, functions, make_call, same

same(
    "sort",
    "data",
    level=6,
    schema=Schema(axis=integer(-1), is_ascend=boolean(True)),
    attributes=lambda attrs: {"axis": attrs.axis, "descending": not attrs.is_ascend},
)
same(
    "argsort",
    "data",
    level=6,
    schema=Schema(axis=integer(-1), is_ascend=boolean(True), dtype=dtype("int32")),
    attributes=lambda attrs: {
        "axis": attrs.axis,
        "descending": not attrs.is_ascend,
        "dtype": attrs.dtype,
    },
)
same(
    "topk",
    "data",
    level=6,
    schema=Schema(
        k=integer(1),
        axis=integer(-1),
        ret_type=text("both"),
        is_ascend=boolean(False),
        dtype=dtype("int32"),
    ),
    attributes=lambda attrs: {
        "k": attrs.k,
        "axis": attrs.axis,
        "ret_type": attrs.ret_type,
        "largest": not attrs.is_ascend,
        "dtype": attrs.dtype,
    },
)
computed(
    "searchsorted",
    "sorted_sequence values",
    lambda attrs, sequence, values: topi.searchsorted(sequence, values, attrs.right, attrs.dtype),
    level=6,
    schema=Schema(right=boolean(False), dtype=dtype("int32")),
    description="The places at which values belong in sorted sequences.",
)


@function("topk")
def topk(
    data: Any,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: Any = "int32",
) -> Any:
    """Return the ``k`` greatest elements (the least ones with ``is_ascend``) along an axis:
    ``ret_type`` "values", "indices" or "both".
    """
    attributes = {
        "k": k,
        "axis": axis,
        "ret_type": ret_type,
        "is_ascend": is_ascend,
        "dtype": dtype,
    }
    found = make_call("topk", [data], attributes)
    return TupleWrapper(found, 2) if ret_type == "both" else found


globals().update(functions())
