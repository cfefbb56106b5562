"""What compilers that call a library share: conditions on calls, the passes that partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.ir.transform import Sequential
from tilesmith.relay.expr import Call, bind, const
from tilesmith.relay.op.contrib.register import get_pattern_table
from tilesmith.relay.transform.annotate_target import AnnotateTarget
from tilesmith.relay.transform.compiler_regions import MergeCompilerRegions
from tilesmith.relay.transform.fold_constant import FoldConstant
from tilesmith.relay.transform.merge_composite import MergeComposite
from tilesmith.relay.transform.partition_graph import PartitionGraph
from tilesmith.relay.transform.types import InferType
from tilesmith.relay.ty import TensorType, is_dynamic

__all__ = ["find_call", "is_plain_convolution", "multiplies", "partition_for", "with_params"]


def multiplies(*dtypes: str, ranks: tuple[int, ...]) -> Callable[[Call], bool]:
    """Return a predicate: tensors of known sizes, all of one dtype, the result of such a rank."""

    def accepts(call: Call) -> bool:
        types = [one.checked_type for one in (*call.args, call)]
        if not all(isinstance(one, TensorType) and not is_dynamic(one) for one in types):
            return False
        found = {str(one.dtype) for one in types}
        return len(found) == 1 and found <= set(dtypes) and len(types[-1].shape) in ranks

    return accepts


def is_plain_convolution(call: Call) -> bool:
    """Return whether a convolution is of float32, NCHW by OIHW or NHWC by HWIO."""
    attrs: Any = call.attrs
    layouts = (attrs.data_layout, attrs.kernel_layout)
    if layouts not in (("NCHW", "OIHW"), ("NHWC", "HWIO")):
        return False
    return attrs.out_layout in ("", attrs.data_layout) and multiplies("float32", ranks=(4,))(call)


def find_call(expr: Any, name: str) -> Any:
    """Return the call of an operator at or below an expression, following first arguments."""
    while isinstance(expr, Call):
        if isinstance(expr.op, Op) and expr.op.name == name:
            return expr
        expr = expr.args[0] if expr.args else None
    return None


def with_params(mod: IRModule, params: Mapping[str, Any] | None) -> IRModule:
    """Return a module with parameters of ``main`` as constants."""
    if not params:
        return mod
    main: Any = mod["main"]
    by_name = {param.name_hint: param for param in main.params}
    known = {by_name[name]: const(value) for name, value in params.items() if name in by_name}
    mod = mod.shallow_copy()
    mod["main"] = bind(main, known)
    return mod


def partition_for(
    compiler: str, mod: IRModule, params: Mapping[str, Any] | None, mod_name: str
) -> IRModule:
    """Return a module whose parts for a compiler are functions of their own; ``params`` become
    constants of ``main``.
    """
    steps = [
        InferType(),
        FoldConstant(),
        MergeComposite(get_pattern_table(compiler) or []),
        AnnotateTarget([compiler]),
        MergeCompilerRegions(),
        PartitionGraph(mod_name),
    ]
    made: IRModule = Sequential(steps)(with_params(mod, params))
    return made
