"""Refuses tensors that are spread over several devices; each message says what runs instead."""

from __future__ import annotations

from typing import Any, NoReturn

from tilesmith.support.errors import UnsupportedError

__all__ = ["DTensor", "DTensorProxy", "annotate_sharding", "call_tir", "const", "redistribute"]


def _refuse(word: str) -> NoReturn:
    raise UnsupportedError(
        f"R.dist.{word}: a program runs on one device, so that a tensor is not spread over several",
        notes=("without the sharding, R.Tensor, R.const and R.call_tir describe the program",),
    )


class DTensorProxy:
    """The annotation of a tensor on several devices."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("DTensor")

    def get_symbolic_vars(self) -> NoReturn:
        """Raise UnsupportedError."""
        _refuse("DTensor")

    def as_struct_info(self, dict_globals: Any = None) -> NoReturn:
        """Raise UnsupportedError."""
        _refuse("DTensor")


def DTensor(
    shape: Any = None,
    dtype: Any = None,
    device_mesh: Any = None,
    placement: Any = "",
    *,
    ndim: int = -1,
) -> NoReturn:
    """Raise UnsupportedError: a tensor is on one device."""
    _refuse("DTensor")


def call_tir(func: Any, args: Any, out_sinfo: Any, tir_vars: Any = None) -> NoReturn:
    """Raise UnsupportedError: kernels work on the tensors of one device."""
    _refuse("call_tir")


def const(value: Any, struct_info: Any) -> NoReturn:
    """Raise UnsupportedError: a constant is on one device."""
    _refuse("const")


def annotate_sharding(value: Any, device_mesh: Any, placement: Any) -> NoReturn:
    """Raise UnsupportedError: a tensor is on one device."""
    _refuse("annotate_sharding")


def redistribute(value: Any, device_mesh: Any, placement: Any) -> NoReturn:
    """Raise UnsupportedError: a tensor is on one device."""
    _refuse("redistribute")
