"""``relax.op.data``: values of types of data, and references; programs of steps carry them out.

    cell = R.data.make(R.prim_value(7), x, rest)    # the number of a constructor, and its fields
    R.data.fits(cell, "[7, null, [8]]")             # a pattern: null, or a number with patterns; a
    R.data.field(cell, R.prim_value(0))             # tuple has the number -1
    place = R.data.new_reference(x)

The values themselves are objects: what is known of a field, or of the value of a reference, is said
by ``R.match_cast``.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.relax.expr import Call, PrimValue
from tilesmith.relax.op.declaration import call, define, find_function, function_of, functions
from tilesmith.relax.spec import Execution
from tilesmith.relax.struct_info import ObjectStructInfo, PrimStructInfo, TupleStructInfo
from tilesmith.runtime.program_host import HOST


def _object(call: Any) -> Any:
    return ObjectStructInfo()


def _by_runtime(word: str) -> Any:
    operation = HOST[word]
    return lambda attrs, *values: operation(*values)


def _define(name: str, arguments: str, word: str, description: str, **facts: Any) -> Any:
    return define(
        "data." + name,
        arguments,
        facts.pop("infer", _object),
        description=description,
        evaluate=_by_runtime(word),
        execution=Execution.HOST,
        host=word,
        **facts,
    )


_make = _define("make", "tag:scalar fields?", "make_data", "A value of a type of data.")
fits = _define(
    "fits",
    "value pattern:text",
    "fits",
    "Whether a value looks like a pattern.",
    infer=lambda call: PrimStructInfo("bool"),
)
field = _define("field", "value index:scalar", "field_of", "A field of a value.")
no_clause = _define(
    "no_clause", "value", "no_clause", "Raise the error: no clause fits.", is_pure=False
)
new_reference = _define(
    "new_reference", "value", "make_reference", "A place that holds a value.", is_pure=False
)
read = _define("read", "reference", "read_reference", "The value of a reference.", is_pure=False)
write = _define(
    "write",
    "reference value",
    "write_reference",
    "Replace the value of a reference.",
    infer=lambda call: TupleStructInfo(()),
    is_pure=False,
)


@function_of(_make)
def make(tag: Any, *fields: Any) -> Call:
    """Return a value of a type of data: the number of its constructor, and its fields."""
    number = PrimValue(tag) if isinstance(tag, (int, PrimExpr)) else tag
    return call(_make.op, number, *fields)


globals().update(functions("data."))


def __getattr__(name: str) -> Any:
    """Find operators that were declared later, by programs."""
    return find_function("data." + name)
