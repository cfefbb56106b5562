"""Prints nodes as text, for ``str``, ``script()``, ``show()`` and errors.

A package that owns node classes writes a ``printer.py`` with one function per class, registered by
``@prints(Add, Sub)`` (an expression: returns a ``Doc``) or ``@prints_lines(For)`` (a statement:
writes lines with ``printer.line``). The file is imported when a class of the package is printed for
the first time. A class without a function is printed as a skeleton of its fields, so that nothing
is ever unprintable.

``Printer`` chooses names (the user's own, with a number only where two would clash), keeps scopes,
notes which dialects are used (``printer.word("T")``), and collects large constants
(``printer.array``).
"""

from tilesmith.ir.printing.config import PrinterConfig
from tilesmith.ir.printing.doc import Doc, Level, call, joined, quoted
from tilesmith.ir.printing.entry import PrintedText, excerpt, printed, script, show, to_text
from tilesmith.ir.printing.printer import Printer, prints, prints_lines

__all__ = [
    "Doc", "Level", "PrintedText", "Printer", "PrinterConfig", "call", "excerpt", "joined",
    "printed",
    "prints", "prints_lines", "quoted", "script", "show", "to_text",
]  # fmt: skip
