"""The options of ``PassContext(config=...)`` that passes over the functional door read."""

from __future__ import annotations

from tilesmith.ir.transform import register_config_option

__all__ = ["FUSED_CALLS", "KEEP_DTYPES", "LINK_PARAMS"]

FUSED_CALLS = register_config_option(
    "relay.FuseOps.max_depth", int, 256, "how many calls one fused function may hold"
).name
KEEP_DTYPES = register_config_option(
    "relay.ToMixedPrecision.keep_orig_output_dtype", bool, False,
    "whether the results of main keep their dtypes in mixed precision",
).name  # fmt: skip
LINK_PARAMS = register_config_option(
    "relay.FuseOps.link_params", bool, False, "whether fused functions hold their constants"
).name
register_config_option(
    "relay.fallback_device_type", int, None, "the device of what is placed on none, among several"
)
