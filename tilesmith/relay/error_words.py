"""Errors about relax's graph in the words of relay: its operators, the user's line, its advice.

    with in_relays_words(): ...     relax.add cannot broadcast … → add cannot broadcast …

A program of relay is compiled as one of relax; what is found there names relax's operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilesmith.ir import Op
from tilesmith.relay.op.view import SAME
from tilesmith.support.errors import TilesmithError

__all__ = ["in_relays_words"]

_OPERATOR = re.compile(r"\brelax\.[a-z_0-9]+(?:\.[a-z_0-9]+)*")
_ADVICE = (
    (
        re.compile(r"bind (it|the shape that it gets) with R\.match_cast"),
        "give the variables their shapes: relay.var(name, shape=...)",
    ),
    (
        re.compile(r"give one with LegalizeOps\(\{name: function\}\)"),
        "relay.op.register_compute(name, compute) gives it one",
    ),
)


@contextmanager
def in_relays_words(span: Any = None) -> Iterator[None]:
    """Say what errors say in relay's words; those without a place get ``span``."""
    try:
        yield
    except TilesmithError as error:
        error.message = _translated(error.message)
        error.notes = tuple([_translated(note) for note in error.notes])
        error.args = (error.message, *error.args[1:])
        error.span = error.span or span
        raise


def _translated(text: str) -> str:
    text = _OPERATOR.sub(lambda found: _name(found.group()), text)
    for pattern, advice in _ADVICE:
        text = pattern.sub(advice, text)
    return text


def _name(name: str) -> str:
    """Return relay's name of an operator; that of anything else of relax stays."""
    if name in SAME:
        return SAME[name]
    return name.removeprefix("relax.") if Op.exists(name) else name
