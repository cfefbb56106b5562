"""What ``tvm.parser`` has: the parser of relay's text under its first address."""

from __future__ import annotations

from typing import Any

from tilesmith import relay
from tilesmith.relay import parser

__all__ = ["SpanCheck", "fromtext", "parse", "parse_expr"]


def parse(*args: Any, **kwargs: Any) -> Any:
    """Return the module of a text, as ``relay.parse`` does."""
    return parser.parse(*args, **kwargs)


def parse_expr(*args: Any, **kwargs: Any) -> Any:
    """Return the expression of a text, as ``relay.parse_expr`` does."""
    return parser.parse_expr(*args, **kwargs)


def fromtext(*args: Any, **kwargs: Any) -> Any:
    """Return the module of a text with its version, as ``relay.fromtext`` does."""
    return parser.fromtext(*args, **kwargs)


def SpanCheck(*args: Any, **kwargs: Any) -> Any:
    """Return the pass ``relay.SpanCheck``."""
    return relay.SpanCheck(*args, **kwargs)
