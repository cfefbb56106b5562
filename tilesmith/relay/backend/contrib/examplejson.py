"""The compiler "examplejson", an example: sums, differences and products as graphs in JSON, which
numpy computes.
"""

from __future__ import annotations

from tilesmith.ir import register_op_attr
from tilesmith.relay.backend.contrib.json_codegen import register_json_codegen
from tilesmith.relay.expr import Call
from tilesmith.relay.ty import is_dynamic

__all__ = ["supports"]


def supports(call: Call) -> bool:
    """Return whether the sizes of all values are known."""
    return not any(is_dynamic(one.checked_type) for one in (*call.args, call))


for _name in ("add", "subtract", "multiply", "nn.bias_add", "nn.relu"):
    register_op_attr(_name, "target.examplejson", supports)

register_json_codegen("examplejson")
