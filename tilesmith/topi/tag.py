"""Defines the tags of computes, which classify operations."""

ELEMWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
COMM_REDUCE_IDX = "comm_reduce_idx"

__all__ = [
    "BROADCAST",
    "COMM_REDUCE",
    "COMM_REDUCE_IDX",
    "ELEMWISE",
    "INJECTIVE",
    "is_broadcast",
    "is_injective",
]


def is_broadcast(tag: str) -> bool:
    """Return whether a tag stands for an elementwise operation, maybe with broadcasting."""
    return tag in (ELEMWISE, BROADCAST) or tag.startswith((ELEMWISE, BROADCAST))


def is_injective(tag: str) -> bool:
    """Return whether each element comes from at most one element of each input."""
    return is_broadcast(tag) or tag.startswith(INJECTIVE)
