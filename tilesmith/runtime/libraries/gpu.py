"""Libraries of NVIDIA's GPUs: what they would need, where operators that name them are run."""

from __future__ import annotations

from typing import Any, NoReturn

from tilesmith.support.errors import UnsupportedError

__all__ = ["cublas"]


def cublas(*arguments: Any) -> NoReturn:
    """Raise UnsupportedError: cuBLAS is not called."""
    places = sorted({str(one.device) for one in arguments if hasattr(one, "device")})
    raise UnsupportedError(
        f"no library of NVIDIA's is called for tensors on {', '.join(places)}",
        notes=(
            "topi.matmul is compiled, for GPUs, too",
            "on the host, contrib.cblas.matmul has the same arguments",
        ),
    )
