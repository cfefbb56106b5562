"""Building programs in plain Python with ``with`` frames: the same words, without the parser.

from tilesmith.script.ir_builder import IRBuilder, tir as T
"""

from tilesmith.script import ir, tir
from tilesmith.script.builder import Frame as IRBuilderFrame
from tilesmith.script.builder import IRBuilder

__all__ = ["IRBuilder", "IRBuilderFrame", "ir", "tir"]
