"""The options of `PassContext` that say how models run on devices."""

from __future__ import annotations

from tilesmith.ir.pass_context import register_config_option

__all__ = ["STREAMS"]

STREAMS = "relax.device_streams"

register_config_option(
    STREAMS, int, 1,
    "how many streams (queues) of a device a model may use at once: branches that do not need each "
    "other's results run on several, with events where they fork and join",
)  # fmt: skip
