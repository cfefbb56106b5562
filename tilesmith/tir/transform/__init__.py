"""Passes over TensorIR programs, under the names that users know.

The passes are grouped in folders by what they do: `blocks` (from blocks to loops), `loops`,
`storage`, `threads`, `dtypes`, `simplification`, `functions`; `intrinsics` holds the rules of
operators. The order in which they run stands in `tilesmith/lowering/pipelines.py`. A pass is found
by its declaration (`ir/pass_declaration.py`); its module is imported at first use.
"""

from tilesmith.ir.pass_declaration import passes_of_package, works_on
from tilesmith.support.lazy import lazy_attributes
from tilesmith.tir.transform import options
from tilesmith.tir.transform.function_pass import PrimFuncPass

works_on("PrimFunc", PrimFuncPass)
_PASSES = passes_of_package("tir.", __name__, __path__)
_OTHERS = {
    "CreatePrimFuncPass": "function_pass",
    "HoistedConditionals": "loops.hoist_expression",
    "HoistedLetBindings": "loops.hoist_expression",
    "prim_func_pass": "function_pass",
}
__getattr__, __dir__ = lazy_attributes(
    __name__,
    {name: f"{__name__}.{module}:{name}" for name, module in _OTHERS.items()},
    finder=_PASSES,
)
