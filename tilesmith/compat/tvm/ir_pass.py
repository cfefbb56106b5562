"""Defines ``tvm.ir_pass``, the passes as they were called until 2019: on statements.

What looks at expressions and statements is here. Any other name is the pass of that name in
``tir.transform``: on a statement, a function or a module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import IRModule, Node, PrimExpr, Var, structural_equal
from tilesmith.ir.pass_context import PassContext
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir import PrimFunc, Stmt, stmt_functor, transform
from tilesmith.tir.analysis import undefined_vars, verify_gpu_code, verify_memory, verify_ssa
from tilesmith.tir.queries import uses_variable

__all__ = [
    "AttrsEqual", "CanonicalSimplify", "Equal", "ExprUseVar", "IRTransform", "PostOrderVisit",
    "Simplify", "Substitute", "VerifyGPUCode", "VerifyMemory", "VerifySSA",
]  # fmt: skip

_CLASSES = {"Load": "tir.BufferLoad", "Store": "tir.BufferStore", "Block": "tir.SeqStmt"}
_OPTIONS = {
    "UnrollLoop": ("auto_max_step", "auto_max_depth", "auto_max_extent", "explicit_unroll"),
    "LoopPartition": ("partition_const_loop",),
    "InjectDoubleBuffer": ("split_loop",),
}
_ELSEWHERE = {
    "MakeAPI": "tvm.build makes the interfaces of functions (tir.transform.MakePackedAPI)",
    "StorageFlatten": "tvm.lower does this for schedules (tir.transform.StorageFlatten)",
    "Inline": "s[tensor].compute_inline() inlines a stage",
}


def Simplify(value: Any, vrange: Mapping[Var, Any] | None = None) -> Any:
    """Simplify an expression or a statement; ``vrange`` gives ranges of variables."""
    if isinstance(value, Stmt):
        return _applied("Simplify", value)
    analyzer = Analyzer()
    for variable, domain in (vrange or {}).items():
        analyzer.bind(variable, domain)
    return analyzer.simplify(value)


CanonicalSimplify = Simplify


def Equal(lhs: Any, rhs: Any) -> bool:
    """Return whether two nodes have the same structure."""
    return structural_equal(lhs, rhs)


AttrsEqual = Equal


def Substitute(value: Node, values: Mapping[Var, Any]) -> Any:
    """Replace variables in an expression or a statement."""
    return stmt_functor.substitute(value, dict(values))


def PostOrderVisit(value: Node, fvisit: Callable[[Any], Any]) -> None:
    """Call a function with each node, children first."""
    stmt_functor.post_order_visit(value, fvisit)


def IRTransform(
    value: Node,
    preorder: Callable[[Any], Any] | None,
    postorder: Callable[[Any], Any] | None,
    only_enable: Iterable[str] | None = None,
) -> Any:
    """Rewrite a statement with two functions; ``only_enable`` names classes without a prefix."""
    names = None
    if only_enable is not None:
        names = [_CLASSES.get(name, name if "." in name else "tir." + name) for name in only_enable]
    return stmt_functor.ir_transform(value, preorder, postorder, names)


def ExprUseVar(value: Node, variable: Var) -> bool:
    """Return whether a variable occurs in an expression or a statement."""
    return uses_variable(value, {variable})


def VerifySSA(value: Node) -> bool:
    """Return whether each variable is defined once."""
    return verify_ssa(_as_function(value))


def VerifyMemory(value: Node, device_type: int = 0) -> bool:
    """Return whether the host touches no memory of the device."""
    return verify_memory(_as_function(value))


def VerifyGPUCode(value: Node, constraints: Mapping[str, int]) -> bool:
    """Return whether a kernel keeps to the limits of a device."""
    return verify_gpu_code(_as_function(value), dict(constraints))


def _as_function(value: Any) -> PrimFunc:
    """Return a function whose parameters are all that a statement uses from outside."""
    return value if isinstance(value, PrimFunc) else PrimFunc(undefined_vars(value), value)


def _applied(name: str, value: Any, *options: Any) -> Any:
    """Run a pass of ``tir.transform`` on a statement, a function or a module."""
    config = dict(zip(_OPTIONS.get(name, ()), options))
    current = PassContext.current()
    settings = {**current.config, **({"tir." + name: config} if config else {})}
    with PassContext(current.opt_level, config=settings):
        step = getattr(transform, name)()
        if isinstance(value, IRModule):
            return step(value)
        done = step(IRModule({"main": _as_function(value)}))["main"]
    return done if isinstance(value, PrimFunc) else done.body


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise UnsupportedError(f"there is no ir_pass.{name}", notes=(_ELSEWHERE[name],))

        return refuse
    if name.startswith("_") or not hasattr(transform, name):
        raise AttributeError(f"there is no pass '{name}' (see tilesmith.tir.transform)")

    def run(value: Node, *options: Any) -> Any:
        if isinstance(value, PrimExpr):
            raise UnsupportedError(f"ir_pass.{name} rewrites statements and functions")
        return _applied(name, value, *options)

    run.__name__ = name
    return run
