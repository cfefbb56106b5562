"""``relay.op.contrib``: which operators and patterns external compilers take."""

from tilesmith.relay.op.contrib.register import get_pattern_table, register_pattern_table
from tilesmith.support.lazy import lazy_attributes

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        name: f"tilesmith.relay.backend.contrib.{name}"
        for name in ("cblas", "ccompiler", "dnnl", "examplejson")
    },
)

__all__ = ["get_pattern_table", "register_pattern_table"]
