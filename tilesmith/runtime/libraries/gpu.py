"""Libraries of NVIDIA's GPUs: what they would need, where operators that name them are run."""

from __future__ import annotations

from typing import Any, NoReturn

from tilesmith.support.errors import UnsupportedError

__all__ = ["cublas"]


def cublas(*arguments: Any) -> NoReturn:
    """Raise UnsupportedError: the tensors are not in the memory of a GPU."""
    places = sorted({str(one.device) for one in arguments if hasattr(one, "device")})
    raise UnsupportedError(
        f"cuBLAS multiplies in the memory of an NVIDIA GPU; the tensors are on {', '.join(places)}",
        notes=(
            "on the host, contrib.cblas.matmul has the same arguments; topi.matmul is compiled",
        ),
    )
