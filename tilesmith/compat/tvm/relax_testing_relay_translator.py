"""``relax.testing.relay_translator``: a relay function as a relax module of calls of kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.ir.pass_context import PassContext
from tilesmith.relax import transform as relax_transform
from tilesmith.relax.expr import known_struct_info
from tilesmith.relax.op.base import call_tir
from tilesmith.relay import transform as relay_transform
from tilesmith.relay.expr import Call, bind, const
from tilesmith.relay.function import Function
from tilesmith.relay.rewriting import rewrite_typed
from tilesmith.relay.translate import to_relax
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.target import Target
from tilesmith.tir import PrimFunc

__all__ = ["from_relay"]

_PASSES = ("InferType", "SimplifyInference", "FoldConstant", "InferType")


def from_relay(
    func: Function,
    target: Target | str,
    relay_params: Mapping[str, Any] | None = None,
    *,
    opt_level: int = 3,
    pass_config: Mapping[str, Any] | None = None,
    instruments: Sequence[Any] | None = None,
    disabled_pass: Sequence[str] | None = None,
    translate_op_with_tir: Mapping[str, PrimFunc] | None = None,
    append_op_attrs: bool = False,
) -> IRModule:
    """Translate a relay function to a module of relax whose ``main`` calls a kernel for each
    operator.

    Args:
        func: the function.
        target: what the kernels are written for.
        relay_params: values of parameters, which become constants.
        opt_level, pass_config, instruments, disabled_pass: the PassContext of relay's own passes.
        translate_op_with_tir: operator → the kernel that computes it.
        append_op_attrs: is refused: kernels do not repeat the attributes of their operators.
    """
    if not isinstance(func, Function):
        raise TypeMismatchError(f"from_relay takes a relay.Function, got {type(func).__name__}")
    if append_op_attrs:
        raise UnsupportedError(
            "from_relay: kernels do not repeat the attributes of their operators (append_op_attrs)",
            notes=("relay.to_relax(mod) keeps the operators, with their attributes",),
        )
    if relay_params:
        names = {param.name_hint for param in func.params}
        func = bind(func, {one: const(v) for one, v in relay_params.items() if one in names})
    module = IRModule.from_expr(func)
    context = PassContext(
        opt_level=opt_level,
        config=dict(pass_config or {}),
        instruments=list(instruments or ()),
        disabled_pass=list(disabled_pass or ()),
    )
    with Target(target), context:
        for name in _PASSES:
            module = getattr(relay_transform, name)()(module)
        module = _with_kernels(module, translate_op_with_tir or {})
        legalized: IRModule = relax_transform.LegalizeOps()(to_relax(module))
        return legalized


def _with_kernels(module: IRModule, kernels: Mapping[str, PrimFunc]) -> IRModule:
    """Put calls of given kernels in place of calls of operators."""
    if not kernels:
        return module
    changed = module.shallow_copy()
    by_operator = {}
    for name, kernel in kernels.items():
        symbol = name.rpartition(".")[2]
        changed[symbol] = kernel
        by_operator[name.removeprefix("relay.")] = changed.get_global_var(symbol)

    def change(node: Any) -> Any:
        if isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in by_operator:
            return call_tir(by_operator[node.op.name], node.args, known_struct_info(node))
        return node

    main: Any = changed["main"]
    changed["main"] = main.with_fields(body=rewrite_typed(main.body, change))
    return changed
