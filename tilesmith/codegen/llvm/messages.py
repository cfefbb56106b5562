"""Writes the messages of failed assertions: texts and numbers, joined when the error is raised."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilesmith.codegen.llvm.conversions import convert
from tilesmith.codegen.llvm.dtypes import register_type
from tilesmith.codegen.llvm.values import Values
from tilesmith.ir import PrimExpr, StringImm
from tilesmith.ir.queries import is_call
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.struct_fields import TYPE_MARK

__all__ = ["raise_error", "raise_parts"]

_INT64 = DataType("int64")
_KIND = re.compile(r"([A-Z][A-Za-z]*(?:Error|Exception|Interrupt)): ?(.*)\Z", re.DOTALL)
NUMBER_MARK = "\x01"
"""Stands in the text of an error for a number that `__tilesmith_raise` puts in its place. For the
type index of a value, shown by name, `TYPE_MARK` stands there."""


def raise_error(emit: Values, message: PrimExpr) -> str:
    """Set the error of an assertion: a text, or a `tvm_tuple` of texts and integers."""
    parts = list(message.args) if is_call(message, "tir.tvm_tuple") else [message]
    return raise_parts(emit, parts)


def raise_parts(emit: Values, parts: Sequence[PrimExpr], lane: str = "0") -> str:
    """Set the error whose message consists of texts and integers; of vectors, one ``lane``.

    A text that begins with an error class, like `TypeError: `, sets the kind of the error.
    """
    parts = list(parts)
    kind = "ExecutionError"
    if isinstance(parts[0], StringImm):
        named = _KIND.match(parts[0].value)
        if named is not None:
            kind, text = named.groups()
            parts[0] = StringImm(text)
    if len(parts) == 1 and isinstance(parts[0], StringImm):
        emit.exits.set_error(kind, parts[0].value)
        return "-1"
    texts = _message_text(parts)
    numbers = [part for part in parts if not isinstance(part, StringImm)]
    values = emit.exits.error_values(len(numbers))
    with emit.memo.branch():
        for number, part in enumerate(numbers):
            value = emit.value(part)
            if part.dtype.lanes > 1:
                kind_of = register_type(part.dtype)
                value = emit.define(f"extractelement {kind_of} {value}, i64 {lane}")
            value = convert(emit.out, value, part.dtype.element, _INT64)
            place = emit.define(f"getelementptr i64, ptr {values}, i64 {number}")
            emit.write(f"store i64 {value}, ptr {place}, align 8")
    size = len(texts.encode()) + 24 * len(numbers) + 1
    words = f"ptr {emit.text.constant_text(kind)}, ptr {emit.text.constant_text(texts)}"
    helper = emit.text.helper("__tilesmith_raise")
    emit.write(f"call void {helper}({words}, ptr {values}, i64 {size})")
    return "-1"


def _message_text(parts: list[PrimExpr]) -> str:
    """Return the text of a message with marks in place of the numbers."""
    text = ""
    for part in parts:
        if isinstance(part, StringImm):
            text += part.value
        elif not text.endswith(TYPE_MARK):
            text += NUMBER_MARK
    return text
