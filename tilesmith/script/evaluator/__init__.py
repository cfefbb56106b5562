"""Evaluates Python expressions inside a script from the syntax tree, so that each error has its
position, ``and``, ``or``, ``not`` and chained comparisons build expressions, and the two sides of
an operator stay in the order in which they are written.
"""

from tilesmith.script.evaluator import (
    calls,
    containers,
    names,
    operators,
)
from tilesmith.script.evaluator.evaluator import Evaluator
from tilesmith.script.evaluator.explanations import elements_of, shape_note

__all__ = ["Evaluator", "elements_of", "shape_note"]
