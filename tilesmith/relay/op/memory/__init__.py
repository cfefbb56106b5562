"""``relay.op.memory``: operators that allocate what others write to."""

from tilesmith.relay.op.memory import memory
from tilesmith.relay.op.memory.memory import (
    alloc_storage,
    alloc_tensor,
    flatten_tuple_type,
    from_tuple_type,
    kill,
    to_tuple_type,
)

__all__ = [
    "alloc_storage", "alloc_tensor", "flatten_tuple_type", "from_tuple_type", "kill", "memory",
    "to_tuple_type",
]  # fmt: skip
