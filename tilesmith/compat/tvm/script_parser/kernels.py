"""Refuses kernels of other compilers in a program; each message says what is missing."""

from __future__ import annotations

import importlib.util
from typing import Any, NoReturn

from tilesmith.script.tir import call_kernel
from tilesmith.support.errors import MissingDependencyError, UnsupportedError

__all__ = ["BaseKernel", "SourceKernel", "TritonKernel", "call_kernel"]


class BaseKernel:
    """A kernel of another compiler."""

    def compile_to_device_module(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise UnsupportedError: a module holds kernels that Tilesmith compiles."""
        raise UnsupportedError(
            f"{type(self).__name__}: a module has no place for device code of another compiler",
            notes=("write the kernel as a PrimFunc with thread bindings: @T.prim_func",),
        )


class SourceKernel(BaseKernel):
    """A kernel in the source text of a device's language."""

    def __init__(self, source_code: str) -> None:
        self.source_code = source_code


class TritonKernel(BaseKernel):
    """A kernel written for Triton."""

    def __init__(self, func: Any) -> None:
        if importlib.util.find_spec("triton") is None:
            raise MissingDependencyError("triton", purpose="a kernel written for Triton")
        self.func = func
