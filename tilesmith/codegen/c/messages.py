"""Writes the messages of failed assertions: texts and numbers, joined when the error is raised."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilesmith.codegen.c.values import Values
from tilesmith.codegen.c_family.dialect import c_string
from tilesmith.ir import PrimExpr, StringImm
from tilesmith.ir.queries import is_call
from tilesmith.tir.struct_fields import TYPE_MARK

__all__ = ["raise_error", "raise_parts"]

_KIND = re.compile(r"([A-Z][A-Za-z]*(?:Error|Exception|Interrupt)): ?(.*)\Z", re.DOTALL)


def raise_error(emit: Values, failed: str, message: PrimExpr) -> None:
    """Leave the function with an error where `failed` holds: a text, or a `tvm_tuple` of texts and
    integers.
    """
    parts = list(message.args) if is_call(message, "tir.tvm_tuple") else [message]
    raise_parts(emit, failed, parts)


def raise_parts(emit: Values, failed: str, parts: Sequence[PrimExpr]) -> None:
    """Leave the function where `failed` holds, with an error of texts and integers. A text that
    begins with an error class, like `TypeError: `, sets the kind of the error.
    """
    emit.file.uses_ffi = True
    parts = list(parts)
    kind = "ExecutionError"
    if isinstance(parts[0], StringImm):
        named = _KIND.match(parts[0].value)
        if named is not None:
            kind, text = named.groups()
            parts[0] = StringImm(text)
    if len(parts) == 1 and isinstance(parts[0], StringImm):
        text = c_string(parts[0].value)
        call = f"TVMFFIErrorSetRaisedFromCStr({c_string(kind)}, {text});"
        emit.exits.leave_if(failed, "-1", call)
    else:
        _leave_with_parts(emit, failed, kind, parts)


def _leave_with_parts(emit: Values, failed: str, kind: str, parts: list[Any]) -> None:
    """Raise an error whose message contains numbers."""
    texts: list[str] = []
    digits = []
    names_type = False
    for number, part in enumerate(parts):
        if isinstance(part, StringImm):
            names_type = part.value.endswith(TYPE_MARK)
            texts.append(c_string(part.value.removesuffix(TYPE_MARK)))
        elif names_type:
            texts.append(f"{emit.file.helper('type_name')}({emit.text(part)})")
            names_type = False
        else:
            emit.file.helper("decimal")
            digits = [f"char digits[{len(parts)}][24];"]
            texts.append(f"decimal({emit.text(part)}, digits[{number}])")
    before = (
        *digits,
        f"const char* parts[{len(parts)}] = {{{', '.join(texts)}}};",
        f"TVMFFIErrorSetRaisedFromCStrParts({c_string(kind)}, parts, {len(parts)});",
    )
    emit.exits.leave_if(failed, "-1", *before)
