"""Registers the back end that interprets lowered functions, under the name that users know."""

from tilesmith.target.back_end import BackEnd, register_back_end

__all__ = ["STACKVM"]

STACKVM = register_back_end(
    BackEnd("stackvm", kinds=("stackvm",), generate="tilesmith.codegen.interpreted.code:generate")
)
