"""Makes of a model the module that a `Trainer` runs."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir.transform import module_pass
from tilesmith.relax import transform
from tilesmith.relax.expr import Call, Function
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.relax.op.declaration import find_function
from tilesmith.relax.training.loss import Loss
from tilesmith.relax.training.optimizer import Optimizer
from tilesmith.relax.training.utils import AppendLoss
from tilesmith.support.errors import TypeMismatchError, UnknownNameError

__all__ = ["ADJOINT", "BACKBONE", "BACKBONE_LOSS", "PREDICT", "UPDATE_PARAMS", "SetupTrainer"]

_BATCH_NORM = find_function("nn.batch_norm").op

PREDICT = "predict"
BACKBONE = "backbone"
BACKBONE_LOSS = "backbone_loss"
ADJOINT = "backbone_loss_adjoint"
UPDATE_PARAMS = "update_params"


def _count(mod: IRModule, key: str) -> int:
    if key not in mod.attrs:
        raise UnknownNameError(
            f"the module has no attribute '{key}'",
            notes=(
                "set param_num (parameters that are trained) and state_num (values that the model "
                "itself updates): I.module_attrs or mod.with_attrs",
            ),
        )
    return int(mod.attrs[key])


class _AtInference(PyExprMutator):
    """Lets batch normalisation use the moving statistics."""

    def visit_call_(self, op: Call) -> Any:
        call = super().visit_call_(op)
        if not isinstance(call, Call) or call.op is not _BATCH_NORM:
            return call
        attrs: Any = call.attrs
        given = {**dict(attrs.items()), "training": False}
        return Call(call.op, list(call.args), given, call.sinfo_args, call.span)


@module_pass(opt_level=0, name="SetupTrainer")
class SetupTrainer:
    """Adds to a model what training needs: its loss, the gradients, and the optimizer.

    The module has a function ``backbone`` of inputs, then parameters, then states, and the
    attributes ``param_num`` and ``state_num``, their numbers. It returns the results that the loss
    takes, then the states' new values. ``loss_args`` are struct info (or variables) of the loss's
    parameters. The result has

    * ``predict``, the model at inference: batch normalisation uses the moving statistics;
    * ``backbone_loss`` and ``backbone_loss_adjoint``, which takes the model's parameters and the
      targets, and returns the loss (in a tuple with the new states, if there are any) and the
      gradients of the parameters;
    * ``update_params``, the optimizer's function;
    * the attributes ``input_num``, ``param_num``, ``state_num``, and ``optim_states``, the
      optimizer's first states.

    ``legalize`` turns operators into PrimFuncs; ``relax.build`` does so, too.
    """

    PREDICT_FUNC = PREDICT
    BACKBONE_FUNC = BACKBONE
    BACKBONE_LOSS_FUNC = BACKBONE_LOSS
    ADJOINT_FUNC = ADJOINT
    UPDATE_PARAMS_FUNC = UPDATE_PARAMS

    def __init__(
        self, loss: Loss, optimizer: Optimizer, loss_args: list[Any], legalize: bool = True
    ) -> None:
        self.loss, self.optimizer = loss, optimizer
        self.loss_args, self.legalize = list(loss_args), legalize

    def _check(self, mod: IRModule) -> tuple[Function, int, int]:
        if BACKBONE not in mod:
            raise UnknownNameError(f"the module has no function '{BACKBONE}'")
        backbone = mod[BACKBONE]
        if not isinstance(backbone, Function):
            raise TypeMismatchError(f"'{BACKBONE}' is not a function of the graph")
        params, states = _count(mod, "param_num"), _count(mod, "state_num")
        if params < 1 or states < 0 or params + states > len(backbone.params):
            raise TypeMismatchError(
                f"'{BACKBONE}' has {len(backbone.params)} parameters: {params} that are trained and"
                f" {states} states do not fit"
            )
        return backbone, params, states

    def transform_module(self, mod: IRModule, ctx: Any) -> IRModule:
        """Return the module for training."""
        backbone, params, states = self._check(mod)
        inputs = len(backbone.params) - params - states
        mod = mod.shallow_copy()
        predict = _AtInference(mod).visit_expr(backbone)
        mod[GlobalVar(PREDICT)] = predict.with_attr("global_symbol", PREDICT)
        mod = transform.DecomposeOpsForInference(PREDICT)(mod)
        loss = self.loss(*self.loss_args)
        append: Any = AppendLoss(BACKBONE, loss, self.loss.num_backbone_outputs, BACKBONE_LOSS)
        mod = append(mod)
        # batch normalisation in training has no gradient as a whole, the arithmetic has
        mod = transform.DecomposeOpsForTraining(BACKBONE_LOSS)(mod)
        joined = mod[BACKBONE_LOSS]
        assert isinstance(joined, Function)
        trained = joined.params[inputs : inputs + params]
        mod = transform.Gradient(BACKBONE_LOSS, require_grads=list(trained))(mod)
        update = self.optimizer.init(list(trained)).get_function()
        mod[GlobalVar(UPDATE_PARAMS)] = update.with_attr("global_symbol", UPDATE_PARAMS)
        if self.legalize:
            mod = transform.LegalizeOps()(mod)
        return mod.with_attrs({"input_num": inputs, "optim_states": self.optimizer.state})
