"""Questions about x86 targets."""

from tilesmith.topi.schedules.features import (
    get_simd_32bit_lanes,
    target_has_avx,
    target_has_avx2,
    target_has_avx512,
    target_has_sse41,
    target_has_sse42,
    target_has_vnni,
)

__all__ = [
    "get_simd_32bit_lanes", "target_has_avx", "target_has_avx2", "target_has_avx512",
    "target_has_sse41", "target_has_sse42", "target_has_vnni",
]  # fmt: skip
