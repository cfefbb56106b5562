"""Calls the functions that users register to change, or to compile, the source of kernels.

    @tilesmith.register_func("tvm_callback_cuda_postproc")
    def changed(source, target):
        return source.replace(…)

``tvm_callback_cuda_postproc`` and ``tvm_callback_opencl_postproc`` get the source and the target,
and return the source that is used. ``tvm_callback_cuda_compile`` returns a cubin, a fat binary or
PTX, which then takes the place of what NVRTC would make.
"""

from __future__ import annotations

from tilesmith.runtime.registry import get_global_func
from tilesmith.support.errors import CodegenError
from tilesmith.target import Target

__all__ = ["compiled_by_user", "source_after_user"]

_MACHINE_CODE = {b"\x7fELF": "cubin", b"\x50\xed\x55\xba": "fatbin"}
"""The first bytes of a format → its name."""


def source_after_user(source: str, target: Target) -> str:
    """Return the source of kernels as the registered function leaves it."""
    name = f"tvm_callback_{target.kind.name}_postproc"
    function = get_global_func(name, allow_missing=True)
    if function is None:
        return source
    with target:  # which compilers in contrib ask for the architecture
        changed = function(source, target)
    if not isinstance(changed, str):
        raise CodegenError(
            f"'{name}' returned {type(changed).__name__}, not the source of the kernels",
            notes=("return the text that it is given, or a changed one",),
        )
    return str(changed)


def compiled_by_user(source: str, target: Target) -> tuple[str, bytes] | None:
    """Return what the registered function compiles the source to, with its format; None where none
    is registered.
    """
    name = "tvm_callback_cuda_compile"
    function = get_global_func(name, allow_missing=True)
    if function is None:
        return None
    with target:
        made = function(source, target)
    code = made.encode() if isinstance(made, str) else made
    if not isinstance(code, bytes | bytearray):
        raise CodegenError(
            f"'{name}' returned {type(made).__name__}, not code",
            notes=("return PTX, a cubin or a fat binary: target.nvcc.compile_cuda(source, …)",),
        )
    content = bytes(code)
    return _MACHINE_CODE.get(content[:4], "ptx"), content
