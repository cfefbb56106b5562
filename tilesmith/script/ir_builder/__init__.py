"""Building programs in plain Python with ``with`` frames: the same words, without the parser.

from tilesmith.script.ir_builder import IRBuilder, tir as T
"""

from tilesmith.script.ir_builder import base, ir, tir
from tilesmith.script.ir_builder.base import IRBuilder, IRBuilderFrame

__all__ = ["IRBuilder", "IRBuilderFrame", "base", "ir", "tir"]
