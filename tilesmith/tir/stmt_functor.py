"""Walks and rewrites statements, under the names that users know; see ``functor``."""

from tilesmith.tir.functor import (
    ir_transform,
    post_order_visit,
    pre_order_visit,
    renew_defs,
    substitute,
)

__all__ = ["ir_transform", "post_order_visit", "pre_order_visit", "renew_defs", "substitute"]
