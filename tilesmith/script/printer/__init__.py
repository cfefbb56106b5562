"""Prints trees of documents as Python text, for tools that write scripts of their own.

Programs are printed by ``node.script()``; its machinery is ``tilesmith.ir.printing``.
"""

from tilesmith.script.printer import doc, doc_printer
from tilesmith.script.printer.doc_printer import to_python_script

__all__ = ["doc", "doc_printer", "to_python_script"]
