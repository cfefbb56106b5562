"""Options of ``PassContext(config=...)`` that importers read."""

from __future__ import annotations

from tilesmith.ir.pass_context import PassContext
from tilesmith.ir.transform import register_config_option

__all__ = ["FILL_SPAN", "fills_spans"]

FILL_SPAN = "relay.frontend.fill_span"

register_config_option(
    FILL_SPAN, bool, True, "imported calls tell the operator of the model that they come from"
)


def fills_spans() -> bool:
    """Return whether an importer writes spans."""
    return bool(PassContext.current().get_config(FILL_SPAN, True))
