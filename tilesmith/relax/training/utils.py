"""Joins a loss to a model, and declares gradients of tensor expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.transform import module_pass
from tilesmith.relax.binding import copy_with_new_vars, inlined_body
from tilesmith.relax.block_builder import BlockBuilder
from tilesmith.relax.expr import (
    DataflowBlock,
    DataflowVar,
    Function,
    Tuple,
    TupleGetItem,
    Var,
    known_struct_info,
)
from tilesmith.relax.op.base import TE_GRADIENTS
from tilesmith.relax.relations import bind_sizes, substitute_sizes
from tilesmith.relax.struct_info import TupleStructInfo
from tilesmith.support.errors import TypeMismatchError, UnsupportedError

__all__ = ["AppendLoss", "register_te_gradient"]


def register_te_gradient(te_grad_name: str, te_grad_func: Callable[..., Any] | None = None) -> Any:
    """Declare the gradient that ``call_te_with_grad`` and ``call_tir_with_grad`` name; a decorator
    without ``te_grad_func``.

    It is a function of te tensors, ``gradient(output_grad, *arguments, **te_grad_kwargs)``, that
    returns a tensor for each argument. ``output_grad`` is a list where there are several results.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        return TE_GRADIENTS.register(te_grad_name, function, override=True)

    return register if te_grad_func is None else register(te_grad_func)


@module_pass(opt_level=0, name="AppendLoss")
class AppendLoss:
    """Adds a function that computes a model's result, and from it a loss.

    ``loss_function`` takes the first ``num_backbone_outputs`` results of the function ``func_name``
    and further parameters, the targets, which the new function takes after those of the model. It
    returns the loss, or a tuple of the loss and the results that the loss does not take. Its name
    is ``func_name`` + ``_loss`` if ``new_func_name`` is not given.
    """

    def __init__(
        self,
        func_name: str,
        loss_function: Function,
        num_backbone_outputs: int = 1,
        new_func_name: str | None = None,
    ) -> None:
        self.func_name = func_name
        self.loss_function = loss_function
        self.num_backbone_outputs = num_backbone_outputs
        self.new_func_name = new_func_name or f"{func_name}_loss"

    def transform_module(self, mod: IRModule, ctx: Any) -> IRModule:
        """Add the function to a module."""
        backbone = mod[self.func_name]
        if not isinstance(backbone, Function):
            raise TypeMismatchError(f"'{self.func_name}' is not a function of the graph")
        made = self._joined(copy_with_new_vars(backbone))
        changed = mod.shallow_copy()
        changed[GlobalVar(self.new_func_name)] = made
        return changed

    def _joined(self, backbone: Function) -> Function:
        builder = BlockBuilder()
        (block,) = _dataflow_blocks(backbone, self.func_name)
        count, loss = self.num_backbone_outputs, self.loss_function
        outputs = _outputs(backbone)
        if len(outputs) < count or len(loss.params) < count:
            raise TypeMismatchError(
                f"the loss takes {count} results of '{self.func_name}', which has {len(outputs)}; "
                f"its function has {len(loss.params)} parameters"
            )
        targets = _targets(loss, outputs[:count])
        name = self.new_func_name
        with builder.function(name, [*backbone.params, *targets], _other_attrs(backbone)):
            with builder.dataflow():
                for binding in block.bindings:
                    builder.emit_normalized(binding)
                taken = [builder.normalize_argument(one) for one in outputs[:count]]
                result = builder.normalize(inlined_body(loss, [*taken, *targets]))
                if not isinstance(result, Var) or isinstance(result, DataflowVar):
                    result = builder.emit_output(result)
                rest = [
                    one if isinstance(one, Var) else builder.emit_output(one)
                    for one in outputs[count:]
                ]
            builder.emit_func_output((result, *rest) if rest else result)
        made = builder.get()[name]
        assert isinstance(made, Function)
        return made


def _dataflow_blocks(function: Function, name: str) -> list[DataflowBlock]:
    blocks = [] if function.body is None else list(function.body.blocks)
    if len(blocks) != 1 or not isinstance(blocks[0], DataflowBlock):
        raise UnsupportedError(
            f"training needs '{name}' to be one dataflow block",
            notes=("run ConvertToDataflow, InlinePrivateFunctions and Normalize before",),
        )
    return [blocks[0]]


def _outputs(function: Function) -> list[Any]:
    """Return the results of a function: the fields of a tuple, or the one."""
    result: Any = function.body.body if function.body is not None else None
    info = known_struct_info(result)
    if isinstance(result, Tuple):
        return list(result.fields)
    if not isinstance(info, TupleStructInfo):
        return [result]
    bound = {one.var: one.value for block in function.body.blocks for one in block.bindings}  # type: ignore[union-attr]
    written = bound.get(result)
    if isinstance(written, Tuple):
        return list(written.fields)
    return [TupleGetItem(result, number) for number in range(len(info.fields))]


def _targets(loss: Function, taken: list[Any]) -> list[Var]:
    """Return the parameters of the joined function that are the loss's own, in the sizes of the
    model's results.
    """
    sizes: dict[Any, Any] = {}
    for param, value in zip(loss.params, taken):
        bind_sizes(known_struct_info(param), known_struct_info(value), sizes)
    return [
        Var(one.name_hint, substitute_sizes(known_struct_info(one), sizes))
        for one in loss.params[len(taken) :]
    ]


def _other_attrs(function: Function) -> dict[str, Any]:
    return {key: value for key, value in function.attrs.items() if key != "global_symbol"}
