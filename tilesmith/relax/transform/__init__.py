"""Passes over the graph, under the names that users know.

A pass is found by its declaration (`ir/pass_declaration.py`); its module is imported at first use.
"""

from tilesmith.ir.pass_declaration import passes_of_package, works_on
from tilesmith.relax.transform import options as options  # declares them
from tilesmith.relax.transform.pass_classes import DataflowBlockPass, FunctionPass
from tilesmith.support.lazy import lazy_attributes

works_on("Function", FunctionPass)
works_on("DataflowBlock", DataflowBlockPass)
_PASSES = passes_of_package("", __name__, __path__)
_OTHERS = {
    "FusionPattern": "fuse_by_pattern",
    "PatternCheckContext": "fuse_by_pattern",
    "dataflowblock_pass": "pass_classes",
    "function_pass": "pass_classes",
}
__getattr__, __dir__ = lazy_attributes(
    __name__,
    {name: f"{__name__}.{module}:{name}" for name, module in _OTHERS.items()},
    finder=_PASSES,
)
