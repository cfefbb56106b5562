"""Declares the options of `PassContext` that passes over graphs read, before any of them runs."""

from __future__ import annotations

from tilesmith.ir.pass_context import register_config_option

__all__ = ["FUSED_CALLS", "STREAMS", "TOLERANCE"]

FUSED_CALLS = "relax.FuseOps.max_depth"
STREAMS = "relax.device_streams"
TOLERANCE = "relax.winograd_tolerance"

register_config_option(FUSED_CALLS, int, 256, "how many calls one fused function may hold")
register_config_option(
    STREAMS, int, 1,
    "how many streams (queues) of a device a model may use at once: branches that do not need each "
    "other's results run on several, with events where they fork and join",
)  # fmt: skip
register_config_option(
    TOLERANCE, float, 0.0,
    "the error, relative to the greatest result, that a convolution may have beyond that of "
    "sums of products: from 5e-5 on, Winograd's tiles of 4 by 4 results are used where they pay, "
    "below 0 no tiles at all (those of 2 by 2 are as exact, but spread what is not finite)",
)  # fmt: skip
