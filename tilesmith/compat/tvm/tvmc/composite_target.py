"""Compilers of others that may stand beside a target: ``--target "llvm, dnnl"``."""

from __future__ import annotations

from typing import Any

from tilesmith.compat.tvm.tvmc.errors import TVMCException
from tilesmith.relay.backend.contrib.cblas import partition_for_cblas
from tilesmith.relay.backend.contrib.dnnl import partition_for_dnnl

REGISTERED_CODEGEN: dict[str, dict[str, Any]] = {
    "cblas": {"config_key": None, "pass_pipeline": partition_for_cblas},
    "dnnl": {"config_key": None, "pass_pipeline": partition_for_dnnl},
}
"""Name → the option of PassContext that takes its settings, and the function that divides a
module: ``pass_pipeline(mod, params)``. A program may add its own.
"""


def get_codegen_names() -> list[str]:
    """Return the names of the compilers of others."""
    return list(REGISTERED_CODEGEN)


def get_codegen_by_target(name: str) -> dict[str, Any]:
    """Return what is registered for a name; TVMCException for an unknown one."""
    found = REGISTERED_CODEGEN.get(name)
    if found is None:
        raise TVMCException(
            f"there is no compiler '{name}' to stand beside a target",
            notes=("registered: " + ", ".join(REGISTERED_CODEGEN),),
        )
    return found
