"""Builder and frames."""

from tilesmith.script.builder import Frame as IRBuilderFrame
from tilesmith.script.builder import IRBuilder

__all__ = ["IRBuilder", "IRBuilderFrame"]
